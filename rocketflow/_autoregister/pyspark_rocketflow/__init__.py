"""Found by Spark through its name: `format("rocketflow")` works wherever RocketFlow is installed.

Spark imports every top-level package called `pyspark_*` at its first look-up of an unknown format; one that fails to
import hides all of them, so there is nothing here that could.
"""

from rocketflow.spark.data_source import RocketFlowDataSource as DefaultSource

__all__ = ["DefaultSource"]
