"""Deliver due delayed messages, timer messages and retries every minute."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import CronTriggerTimetable, Param, dag, get_current_context, task
from rocketflow_dag_parts import DEFAULT_ARGS, START, connection_param, deadline


@dag(
    schedule=CronTriggerTimetable("* * * * *", timezone="UTC"),
    start_date=START,
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS
    | {
        "retries": 3,
        "retry_delay": timedelta(seconds=5),
        "max_retry_delay": timedelta(seconds=30),
        "execution_timeout": timedelta(minutes=30),
    },
    dagrun_timeout=timedelta(hours=1),
    deadline=deadline(timedelta(minutes=10)),
    tags=["rocketflow", "messages"],
    params={
        "conn_id": connection_param(),
        "kinds": Param(
            ["delay", "timer", "retry"],
            type="array",
            items={"type": "string", "enum": ["delay", "timer", "retry"]},
            minItems=1,
            uniqueItems=True,
            title="Kinds",
            description="Kinds of messages to deliver.",
        ),
    },
    doc_md="""
### Deliver due messages

One Spark batch job, `rocketflow submit requeue`, for stores without a running broker: a broker delivers messages itself
and holds the lock, so that these runs would only find the store locked. Delivery and progress are one commit: each
message is delivered once and never early, even if runs are killed, repeated or concurrent. A late run delivers
everything that has become due meanwhile, so missed minutes need no catch-up.
""",
)
def rocketflow_requeue() -> None:
    @task(doc_md="`rocketflow submit requeue --until now`. XCom: the job's JSON line. 75 (store locked) is retried.")
    def requeue() -> dict[str, Any]:
        from rocketflow.airflow.hook import RocketFlowStoreHook

        params = get_current_context()["params"]
        kinds = ",".join(params["kinds"])
        return RocketFlowStoreHook(params["conn_id"]).submit("requeue", ["--kinds", kinds, "--until", "now"])

    requeue()


rocketflow_requeue()
