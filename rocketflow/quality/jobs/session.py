"""The session of a job that checks: the project's own, with GX and PySpark kept from talking on stderr."""

from __future__ import annotations

import logging
import os
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def quality_session(name: str, master: str | None = None, *, fast_start: bool = False) -> SparkSession:
    """A session; what fails is told in one line by whoever asked for it, unless ROCKETFLOW_DEBUG is set."""
    from rocketflow.spark.session import build_session

    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    spark = build_session(name, master, fast_start=fast_start)
    if "ROCKETFLOW_DEBUG" not in os.environ:
        spark.sparkContext.setLogLevel("FATAL")
        quiet()
    return spark


def quiet() -> None:
    """Errors that are told anyway are not told twice, and GX's hints stay where they are."""
    for logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "great_expectations"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", module=r"great_expectations(\..*)?")
