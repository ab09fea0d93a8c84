"""Check the orders of the last hour, then copy the paid ones to the topic `paid`.

A killed command and a store locked by another writer are tried again; any other failure ends the task at once.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import CronDataIntervalTimetable, dag, get_current_context, task

HOME = Path(__file__).resolve().parents[1]
CONNECTION = "rocketflow_default"


@dag(
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(seconds=30), "execution_timeout": timedelta(hours=1)},
    tags=["rocketflow"],
)
def orders_pipeline() -> None:
    @task
    def check() -> dict[str, Any]:
        from airflow.sdk.exceptions import AirflowFailException

        from rocketflow.airflow.hook import RocketFlowStoreHook

        context = get_current_context()
        begin, end = (int(context[name].timestamp() * 1000) for name in ("data_interval_start", "data_interval_end"))
        suite = str(HOME / "expectations" / "orders.json")
        found = RocketFlowStoreHook(CONNECTION).quality_check("orders", suite, begin, end)
        if found["failed"]:
            raise AirflowFailException(f"orders do not pass {suite}: {'; '.join(found['failed'])}")
        return found

    @task
    def copy_paid_orders() -> dict[str, Any]:
        from rocketflow.airflow.hook import RocketFlowStoreHook

        job, checkpoint = HOME / "jobs" / "paid_orders.py", HOME / "data" / "paid-orders"
        return RocketFlowStoreHook(CONNECTION).submit(str(job), ["--checkpoint", str(checkpoint)])

    check() >> copy_paid_orders()


orders_pipeline()
