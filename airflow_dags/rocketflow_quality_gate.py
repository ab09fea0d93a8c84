"""Check yesterday's messages of a topic against its expectations; downstream tasks and DAGs wait for the verdict."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import Asset, CronDataIntervalTimetable, Metadata, Param, dag, get_current_context, task
from rocketflow_dag_parts import DEFAULT_ARGS, START, connection_param, deadline, interval_of

CHECKED = Asset("rocketflow_checked_messages")


@dag(
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
    start_date=START,
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    dagrun_timeout=timedelta(hours=12),
    deadline=deadline(timedelta(hours=6)),
    tags=["rocketflow", "quality"],
    params={
        "conn_id": connection_param(),
        "topic": Param("flights", type="string", minLength=1, title="Topic"),
        "suite": Param(
            None,
            type=["null", "string"],
            title="Suite",
            description="File as the workers see it; default: TOPIC.json in the connection's expectations_dir.",
        ),
        "when_empty": Param(
            "skip",
            type="string",
            enum=["pass", "skip", "fail"],
            title="When empty",
            description="The verdict on a day without messages.",
        ),
    },
    doc_md="""
### Check a day's messages before others use them

`rocketflow quality check` reads the messages stored in the run's data interval (yesterday, UTC) and checks them against
the topic's Great Expectations suite on Spark. It writes nothing; only the stream job `jobs/quality.py` quarantines bad
rows. A day that passes updates the asset `rocketflow_checked_messages` with topic, interval and counts: give your DAG
`schedule=[Asset("rocketflow_checked_messages")]`, or put its tasks downstream of `gate`. A repeated run checks the same
interval.
""",
)
def rocketflow_quality_gate() -> None:
    @task(doc_md="`rocketflow quality check`. XCom: counts, what failed, and the interval in ms.")
    def check() -> dict[str, Any]:
        from rocketflow.airflow.hook import RocketFlowStoreHook

        context = get_current_context()
        params = context["params"]
        hook = RocketFlowStoreHook(params["conn_id"])
        begin, end = (int(one.timestamp() * 1000) for one in interval_of(context))
        found = hook.quality_check(params["topic"], params["suite"], begin, end)
        return {**found, "store": hook.store.path, "topic": params["topic"], "fromMs": begin, "toMs": end}

    @task(
        outlets=[CHECKED],
        doc_md="Fails if an expectation failed (warnings pass) or a body was unreadable. Otherwise updates the asset.",
    )
    def gate(found: dict[str, Any]) -> Any:
        from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

        where = f"store {found['store']}, topic {found['topic']}, {found['fromMs']} to {found['toMs']} ms"
        when_empty = get_current_context()["params"]["when_empty"]
        if found["failed"]:
            raise AirflowFailException(f"{where}: `rocketflow quality check`: {'; '.join(found['failed'])}")
        if not found["rows"] and when_empty != "pass":
            kind = AirflowFailException if when_empty == "fail" else AirflowSkipException
            raise kind(f"{where}: no messages were stored")
        checked = {name: found[name] for name in ("store", "topic", "fromMs", "toMs", "rows", "quarantined")}
        yield Metadata(CHECKED, checked)
        return checked

    gate(check())


rocketflow_quality_gate()
