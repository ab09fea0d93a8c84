"""A user's DAG: a job submitted by Airflow's own Spark operator."""

from __future__ import annotations

import os

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Param, dag


@dag(schedule=None, catchup=False, params={"job": Param("", type="string"), "store": Param("", type="string")})
def on_a_cluster() -> None:
    SparkSubmitOperator(
        task_id="rebuild",
        conn_id="spark_default",
        application="{{ params.job }}",
        application_args=["--store", "{{ params.store }}"],
        env_vars={"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", "python3")},
    )


on_a_cluster()
