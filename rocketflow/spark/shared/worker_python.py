"""The Python that Spark's workers run: without RocketFlow in it, every query fails with a ModuleNotFoundError."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketflow.errors import RocketFlowError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHECK: Final = "import importlib.util as u; raise SystemExit(any(u.find_spec(n) is None for n in {names}))"
_NEEDED: Final = ("rocketflow", "rocketflow_store", "pyspark", "pyarrow")
_TIMEOUT_S: Final = 30


class WorkerPythonError(RocketFlowError):
    """The Python of Spark's workers lacks RocketFlow."""

    exit_code = 2


def check_worker_python(spark: SparkSession) -> None:
    """Raise WorkerPythonError if the Python workers of `spark` on this machine cannot import RocketFlow.

    Spark plans reads and writes in such a worker on the driver's machine, on a cluster too. Workers of Spark Connect
    run elsewhere and are not checked.
    """
    try:
        command = spark.sparkContext.pythonExec
    except Exception:  # Spark Connect has no context
        return
    found = shutil.which(command)
    if found is not None and (Path(found) == Path(sys.executable) or _has_rocketflow(found)):
        return
    raise WorkerPythonError(
        f"Spark's Python workers run {command} ({found or 'not found'}), which cannot import rocketflow: "
        f"set PYSPARK_PYTHON={sys.executable} before the session starts, or activate the environment"
    )


def _has_rocketflow(python: str) -> bool:
    done = subprocess.run([python, "-c", _CHECK.format(names=_NEEDED)], capture_output=True, timeout=_TIMEOUT_S)
    return done.returncode == 0
