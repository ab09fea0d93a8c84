"""A user's DAG: waits for an offset and for a lag, then runs `store info`."""

from __future__ import annotations

from airflow.sdk import dag

from rocketflow.airflow.operators import RocketFlowStoreOperator
from rocketflow.airflow.sensor import RocketFlowTopicSensor


@dag(schedule=None, catchup=False)
def waiting() -> None:
    offset = RocketFlowTopicSensor(task_id="offset", topic="orders", offset=15_000)
    lag = RocketFlowTopicSensor(task_id="lag", topic="orders", group="billing", lag_below=10, poke_interval=0.5)
    offset >> lag >> RocketFlowStoreOperator(task_id="info", verb="info")


waiting()
