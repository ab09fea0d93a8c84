"""Runs in Airflow's environment: reads requests as JSON lines from stdin, runs DAGs by `dag.test()`, answers as JSON.

Airflow's own output goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import datetime, timedelta
from typing import Any

NOT_AT_PARSE_TIME = ("pyspark", "rocketflow", "rocketflow_store", "great_expectations", "pyarrow", "pandas")
PROVIDER = ("rocketflow", "rocketflow.airflow", "rocketflow.airflow.provider")
"""Modules that Airflow itself imports of every installed provider."""


def imported(folder: str) -> dict[str, Any]:
    """Parse the DAGs of a folder; return their facts, the seconds per file, and the heavy modules that were loaded."""
    from airflow.dag_processing.dagbag import DagBag

    sys.path.append(folder)
    started = time.monotonic()
    bag = DagBag(folder)
    return {
        "dags": {dag_id: _facts(dag) for dag_id, dag in bag.dags.items()},
        "errors": bag.import_errors,
        "seconds": {one.file: one.duration.total_seconds() for one in bag.dagbag_stats},
        "total": time.monotonic() - started,
        "loaded": sorted(
            name for name in sys.modules if name.partition(".")[0] in NOT_AT_PARSE_TIME and name not in PROVIDER
        ),
    }


def _facts(dag: Any) -> dict[str, Any]:
    return {
        "tags": sorted(dag.tags),
        "catchup": dag.catchup,
        "max_active_runs": dag.max_active_runs,
        "doc": bool(dag.doc_md),
        "undocumented": [one.task_id for one in dag.tasks if not one.doc_md],
        "params": dict(dag.params),
        "tasks": [one.task_id for one in dag.tasks],
        "deadline": dag.deadline is not None,
        "retries": {one.task_id: one.retries for one in dag.tasks},
    }


def provider() -> dict[str, Any]:
    """Return what Airflow's provider manager knows about the connection type."""
    from airflow.providers_manager import ProvidersManager

    manager = ProvidersManager()
    hook = manager.hooks["rocketflow"]
    fields = [name for name in manager.connection_form_widgets if name.startswith("extra__rocketflow__")]
    return {"hook": hook.hook_class_name if hook else None, "name": hook.hook_name if hook else None, "fields": fields}


def test_connection(conn_id: str) -> dict[str, Any]:
    """Test a connection like the button of the connection form."""
    from rocketflow.airflow.hook import RocketFlowStoreHook

    ok, message = RocketFlowStoreHook(conn_id).test_connection()
    return {"ok": ok, "message": message}


def run(folder: str, dag_id: str, date: str | None, conf: dict[str, Any], retry_delay: float) -> dict[str, Any]:
    """Run a DAG to its end; return the states, attempts and XComs of its tasks."""
    from airflow.dag_processing.dagbag import DagBag

    if folder not in sys.path:
        sys.path.append(folder)
    dag = DagBag(folder).dags[dag_id]
    dag.deadline = None  # `dag.test()` of 3.3.2 raises at the successful end of a DAG with a deadline
    for one in dag.tasks:
        one.retry_delay = timedelta(seconds=retry_delay)
        one.retry_exponential_backoff = 0
    started = time.monotonic()
    logical_date = None if date is None else datetime.fromisoformat(date)
    done = dag.test(logical_date=logical_date, run_conf=conf)
    return {
        "state": str(done.state),
        "tasks": {one.task_id: {"state": str(one.state), "tries": one.try_number} for one in done.get_task_instances()},
        "xcoms": {one.task_id: one.xcom_pull(task_ids=one.task_id) for one in done.get_task_instances()},
        "seconds": time.monotonic() - started,
    }


def main() -> None:
    """Answer requests until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    does = {"imported": imported, "provider": provider, "test_connection": test_connection, "run": run}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = does[request.pop("do")](**request)
        except Exception as error:  # reported to the test
            answer = {"raised": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer, default=str), file=answers, flush=True)


if __name__ == "__main__":
    main()
