"""The session of a job that checks: the project's own, with logs and warnings of GX and PySpark off."""

from __future__ import annotations

import logging
import os
import warnings
from typing import TYPE_CHECKING

from rocketflow.environment import DEBUG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def quality_session(name: str, master: str | None = None, *, fast_start: bool = False) -> SparkSession:
    """Return a session; the caller prints errors as one line, unless ROCKETFLOW_DEBUG is set."""
    from rocketflow.spark.session import build_session

    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    spark = build_session(name, master, fast_start=fast_start)
    if not DEBUG.text():
        spark.sparkContext.setLogLevel("FATAL")
        quiet()
    return spark


def quiet() -> None:
    """Turn off logs of errors that are raised anyway, and GX's warnings."""
    for logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "great_expectations"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", module=r"great_expectations(\..*)?")
