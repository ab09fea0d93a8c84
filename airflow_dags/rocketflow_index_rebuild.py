"""verify -> make again what is missing or damaged -> verify."""

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
        "dry_run": Param(False, type="boolean", title="Dry run", description="Only say what would be made."),
    },
    doc_md="""
### Queues and index of a store, made again where they are missing or damaged

`verify` holds every queue unit and index entry against the log. A clean store ends the run there. Else only the topics
(and the index) that were hit are made again, from the log alone: beside the store, checked, swapped in at once. A task
that is killed leaves the store as it was, or as it was to be; a run that is repeated for the same date finds nothing to
do. A store that is in use is tried again for about an hour.

Damage of the log itself is reported, and costs what it hit: nothing can make that again. `rocketflow_store_audit`
raises the alarm for it.
""",
)
def rocketflow_index_rebuild() -> None:
    @task(doc_md="`rocketflow store verify`: changes not a byte, and runs beside a writer. XCom: counts, and a plan.")
    def verify() -> dict[str, Any]:
        from rocketflow.airflow.hook import RocketFlowStoreHook
        from rocketflow.airflow.rebuild_plan import plan_rebuild, summarise

        result = RocketFlowStoreHook(get_current_context()["params"]["conn_id"]).verify()
        return {"summary": summarise(result), "selections": plan_rebuild(result).selections()}

    @task.short_circuit(doc_md="Ends the run where no queue and no index entry is missing or wrong.")
    def needs_rebuild(found: dict[str, Any]) -> bool:
        return bool(found["selections"])

    @task(
        doc_md="`rocketflow store rebuild` for what was hit. Takes the store's lock: 75 (in use) is tried again.",
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
        doc_md="Fails where queues or index still disagree with the log. Behind it the asset is new.",
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
                f"store {hook.store.path} (connection {hook.conn_id}): behind `rocketflow store rebuild` queues or "
                f"index still disagree with the log: {summarise(result)}"
            )
        swapped = sum(one["changedFiles"] for one in made if one["swapped"])
        yield Metadata(DERIVED_FILES, {"store": hook.store.path, "files": swapped})
        return summarise(result)

    found = verify()
    made = rebuild(found)
    needs_rebuild(found) >> made
    verify_again(made)


rocketflow_index_rebuild()
