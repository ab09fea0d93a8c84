"""`rocketflow submit`: spark-submit with this project's settings and this Python."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rocketflow.errors import UsageError
from rocketflow.process.child_process import run_child
from rocketflow.process.stderr import with_stderr
from rocketflow_store.spi.setting_rows import nearest_name

if TYPE_CHECKING:
    from collections.abc import Sequence


def jobs_directory() -> Path:
    """Return the directory of the jobs, in the repository or in the installed package."""
    here = Path(__file__).parents[1]
    packaged = here / "_jobs"
    return packaged if packaged.is_dir() else here.parent / "jobs"


def find_job(job: str) -> Path:
    """Find the file of a job given as a path or by its name; raise UsageError if there is none."""
    name = job if job.endswith(".py") else f"{job}.py"
    for candidate in (Path(name), jobs_directory() / Path(name).name):
        if candidate.is_file():
            return candidate
    nearest = nearest_name(job, job_names())
    hint = f"did you mean '{nearest}'? Give" if nearest else "give"
    raise UsageError(f"no job {job!r}: {hint} a path, or one of {', '.join(job_names())}")


def asks_for_help(arguments: Sequence[str]) -> bool:
    """Return True if a job's own arguments, those before `--`, ask for its help."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--help" in own or "-h" in own


def job_names() -> list[str]:
    """Return the names of the jobs that come with RocketFlow."""
    return sorted(path.stem for path in jobs_directory().glob("[!_]*.py"))


def print_job_help(job: str) -> int:
    """Print the help of one of RocketFlow's jobs, which needs no Spark; return the job's exit code."""
    import runpy

    path = find_job(job)
    sys.argv = [str(path), "--help"]
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    return 0


def submit_command(job: str, arguments: Sequence[str], *, fast_start: bool = False) -> list[str]:
    """Return the spark-submit command line; arguments after `--` are Spark's. `fast_start` is for short jobs."""
    from rocketflow.spark.session import local_settings, prepare_environment, stream_settings

    path = find_job(job)
    prepare_environment()
    own, spark = list(arguments), []
    if "--" in own:
        at = own.index("--")
        own, spark = own[:at], own[at + 1 :]
    settings = stream_settings()
    master = _master(spark)
    if master is None:
        spark = ["--master", "local[*]", *spark]
    if master is None or master.startswith("local"):
        settings |= local_settings(fast_start=fast_start)
    given = {one.partition("=")[0] for one in spark if "=" in one}
    conf = [part for key, value in settings.items() if key not in given for part in ("--conf", f"{key}={value}")]
    import pyspark

    binary = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    return [str(binary), *conf, *spark, str(path), *own]


def _master(spark: Sequence[str]) -> str | None:
    """Return the master that Spark's arguments set, or None."""
    for at, one in enumerate(spark):
        if one == "--master":
            return spark[at + 1] if at + 1 < len(spark) else None
        if one.startswith("--master="):
            return one.removeprefix("--master=")
    return None


def submit_job(job: str, arguments: Sequence[str]) -> int:
    """Run a job, wait for it and return its exit code. No JVM starts if the job needs none."""
    if asks_for_help(arguments) and find_job(job).resolve().parent == jobs_directory().resolve():
        return print_job_help(job)
    if "--" not in arguments and find_job(job).resolve() == (jobs_directory() / "requeue.py").resolve():
        from rocketflow.spark.requeue.requeue_job import main_without_spark

        code = main_without_spark(arguments)
        if code is not None:
            return code
    command = submit_command(job, arguments)
    print("starting Spark", file=sys.stderr, flush=True)
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return run_child(command, with_stderr(environment)).returncode
