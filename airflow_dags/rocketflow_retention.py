"""Delete expired files, as a broker does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import CronTriggerTimetable, Param, dag, get_current_context, task
from rocketflow_dag_parts import DEFAULT_ARGS, START, connection_param, deadline


@dag(
    schedule=CronTriggerTimetable("0 4 * * *", timezone="UTC"),
    start_date=START,
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS | {"execution_timeout": timedelta(hours=1)},
    dagrun_timeout=timedelta(hours=3),
    deadline=deadline(timedelta(hours=2)),
    tags=["rocketflow", "store"],
    params={
        "conn_id": connection_param(),
        "reserved_hours": Param(
            None,
            type=["null", "integer"],
            minimum=0,
            title="Reserved hours",
            description="Overrides the store's fileReservedTime (72, or the value in its broker.conf).",
        ),
        "dry_run": Param(
            False, type="boolean", title="Dry run", description="Only list the files that would be deleted."
        ),
    },
    doc_md="""
### Retention

`rocketflow store clean` deletes expired log files, oldest first, then the queue and index files that only point to
deleted records. It is for stores without a running broker; a broker does this itself at its `deleteWhen`. The newest
file of each kind stays. A repeated run deletes what has expired since, usually nothing.
""",
)
def rocketflow_retention() -> None:
    @task(doc_md="`rocketflow store clean`. XCom: the deleted (dry run: expired) files, and the log's first offset.")
    def clean() -> dict[str, Any]:
        from rocketflow.airflow.hook import RocketFlowStoreHook

        params = get_current_context()["params"]
        return RocketFlowStoreHook(params["conn_id"]).clean(params["reserved_hours"], dry_run=params["dry_run"])

    clean()


rocketflow_retention()
