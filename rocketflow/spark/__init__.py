"""RocketMQ stores as Spark sources and sinks: `format("rocketflow")`.

    from rocketflow.spark import register
    register(spark)

If the wheel is installed, Spark finds the format without this call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make `format("rocketflow")` known to `spark`.

    Raises:
        WorkerPythonError: the Python workers of `spark` cannot import RocketFlow.
    """
    from rocketflow.spark.data_source import RocketFlowDataSource
    from rocketflow.spark.shared.worker_python import check_worker_python
    from rocketflow.spark.sink.mode_notes import note_modes

    check_worker_python(spark)
    note_modes()
    spark.dataSource.register(RocketFlowDataSource)
