"""Verify a store, rebuild missing or damaged queues and index, verify again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import Asset, CronTriggerTimetable, Metadata, Param, dag, get_current_context, task
from rocketflow_dag_parts import DEFAULT_ARGS, START, connection_param, deadline

DERIVED_FILES = Asset("rocketflow_derived_files")


@dag(
    schedule=CronTriggerTimetable("30 2 * * *", timezone="UTC"),
    start_date=START,
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    dagrun_timeout=timedelta(hours=12),
    deadline=deadline(timedelta(hours=6)),
    tags=["rocketflow", "store"],
    params={
        "conn_id": connection_param(),
        "engine": Param(
            "local",
            type="string",
            enum=["local", "spark"],
            title="Engine",
            description="local: processes of the worker; spark: a Spark session on the worker.",
        ),
        "dry_run": Param(False, type="boolean", title="Dry run", description="Only report what would be rebuilt."),
    },
    doc_md="""
### Rebuild the missing or damaged queues and index of a store

`verify` compares every queue unit and index entry with the log. For a clean store the run ends there. Otherwise only
the damaged topics (and the index) are rebuilt from the log: beside the store, checked, then swapped in atomically. A
killed task leaves either the old files or the new ones; a run repeated for the same date finds nothing to do. If the
store is locked by another process, the task is retried for about an hour.

Damage of the log itself is reported only: the damaged records cannot be rebuilt. `rocketflow_store_audit` fails for it.
""",
)
def rocketflow_index_rebuild() -> None:
    @task(doc_md="`rocketflow store verify`: only reads, also beside a writer. XCom: counts, and a plan.")
    def verify() -> dict[str, Any]:
        from rocketflow.airflow.hook import RocketFlowStoreHook
        from rocketflow.airflow.rebuild_plan import plan_rebuild, summarise

        result = RocketFlowStoreHook(get_current_context()["params"]["conn_id"]).verify()
        return {"summary": summarise(result), "selections": plan_rebuild(result).selections()}

    @task.short_circuit(doc_md="Ends the run if no queue unit and no index entry is missing or wrong.")
    def needs_rebuild(found: dict[str, Any]) -> bool:
        return bool(found["selections"])

    @task(
        doc_md="`rocketflow store rebuild` of the damaged files. Needs the store's lock: 75 (locked) is retried.",
    )
    def rebuild(found: dict[str, Any]) -> list[dict[str, Any]]:
        from rocketflow.airflow.hook import RocketFlowStoreHook

        params = get_current_context()["params"]
        hook = RocketFlowStoreHook(params["conn_id"])
        return [
            hook.rebuild(selection, engine=params["engine"], dry_run=params["dry_run"])
            for selection in found["selections"]
        ]

    @task(
        outlets=[DERIVED_FILES],
        doc_md="Fails if queues or index still differ from the log. Otherwise updates the asset.",
    )
    def verify_again(made: list[dict[str, Any]]) -> Any:
        from airflow.sdk.exceptions import AirflowFailException

        from rocketflow.airflow.hook import RocketFlowStoreHook
        from rocketflow.airflow.rebuild_plan import plan_rebuild, summarise

        params = get_current_context()["params"]
        hook = RocketFlowStoreHook(params["conn_id"])
        result = hook.verify()
        left = plan_rebuild(result)
        if left and not params["dry_run"]:
            raise AirflowFailException(
                f"store {hook.store.path} (connection {hook.conn_id}): after `rocketflow store rebuild` queues or "
                f"index still differ from the log: {summarise(result)}"
            )
        swapped = sum(one["changedFiles"] for one in made if one["swapped"])
        yield Metadata(DERIVED_FILES, {"store": hook.store.path, "files": swapped})
        return summarise(result)

    found = verify()
    made = rebuild(found)
    needs_rebuild(found) >> made
    verify_again(made)


rocketflow_index_rebuild()
