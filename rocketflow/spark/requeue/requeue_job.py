"""Move messages of a store: what `jobs/requeue.py` runs. Deliver what is due, or requeue rows of a topic by hand.

A JVM is started only where there is something for Spark to do: a look at the store says so first.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocketflow.process.job_timing import timing
from rocketflow.process.printable import printable
from rocketflow.spark.requeue.requeue_arguments import RequeueJob, parse_arguments
from rocketflow.spark.shared.store_when_free import COMMITS_TAKE_S
from rocketflow_store import StoreLockedError, StoreReader
from rocketflow_store.spi.places import check_directory, store_holder
from rocketflow_store.spi.writing import when_free

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from rocketflow_store.spi.requeue import RequeueRequest


def preflight(job: RequeueJob) -> None:
    """Find before anything starts what can be found: the path is a store, and nobody keeps it for writing."""
    path, config = Path(job.store), job.store_config()
    check_directory(path, must_exist=True)
    with StoreReader(path, config):
        pass
    if job.dry_run or job.wait:
        return

    def look() -> None:
        if (holder := store_holder(path, config)) is not None:
            raise StoreLockedError(path, holder)

    when_free(look, COMMITS_TAKE_S)  # a commit of somebody else is soon over


def run_without_spark(job: RequeueJob) -> tuple[dict[str, Any], int] | None:
    """(the result, exit code) of a job that needs no Spark; None where it does."""
    if job.manual is not None:
        return _finished_before(job, job.manual)
    from rocketflow.spark.requeue.requeue_due import deliver_locally

    return deliver_locally(job)


def run_with_spark(spark: SparkSession, job: RequeueJob) -> tuple[dict[str, Any], int]:
    """(the result, exit code), with encoding on the executors of `spark`."""
    if job.manual is not None:
        from rocketflow.spark.requeue.manual_requeue import requeue_on_spark

        result = requeue_on_spark(spark, job, job.manual)
        return result.as_dict(), result.exit_code
    from rocketflow.spark.requeue.requeue_due import deliver_on_spark

    return deliver_on_spark(spark, job)


def run_in_own_session(job: RequeueJob) -> tuple[dict[str, Any], int]:
    """As `run_without_spark`, or in a session that is begun for it, and ended."""
    if job.manual is not None:
        print(f"run id {job.manual.run_id}", file=sys.stderr, flush=True)
    preflight(job)
    done = run_without_spark(job)
    if done is not None:
        return done
    from rocketflow.spark.session import build_session

    spark = build_session("rocketflow-requeue", fast_start=True)
    try:
        if "ROCKETFLOW_DEBUG" not in os.environ:
            spark.sparkContext.setLogLevel("FATAL")  # a failure is told in one line
        return run_with_spark(spark, job)
    finally:
        spark.stop()


def _finished_before(job: RequeueJob, request: RequeueRequest) -> tuple[dict[str, Any], int] | None:
    from rocketflow.spark.requeue.manual_requeue import ManualResult, look

    run, _ = look(job, request)
    if run is None or not run.finished:
        return None
    result = ManualResult(request, total_rows=run.rows, finished=True, dry_run=job.dry_run)
    print(f"run {request.run_id} is done already: {run.rows} rows", file=sys.stderr, flush=True)
    return result.as_dict(), result.exit_code


def last_line(told: dict[str, Any], seconds: float) -> str:
    """The one line that ends a job."""
    rows = int(told.get("rows", 0))
    timed = timing(0 if told.get("dryRun") else rows, seconds)
    return json.dumps({"job": "requeue", "rows": rows, "batches": 0, **told, **timed}, ensure_ascii=False)


def _print_dry_run(told: dict[str, Any]) -> None:
    """What a dry run found, for people."""
    print(f"dry run: {told['rows']} rows would be moved", file=sys.stderr)
    for name, count in {**told.get("byKind", {}), **told.get("to", {})}.items():
        print(f"  {count} {'to ' if 'to' in told else ''}{name}", file=sys.stderr)
    for row in told.get("sample", ()):
        place = f"queue {row['queueId']} offset {row['queueOffset']}"
        told_of = f"{place} -> {row['toTopic']}  {row['msgId']}  tags={row['tags']} keys={row['keys']}"
        print(f"  {printable(told_of)}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, look, run; the exit code is one of README's table."""
    code = _ended(list(sys.argv[1:] if arguments is None else arguments), run_in_own_session)
    assert code is not None
    return code


def main_without_spark(arguments: Sequence[str]) -> int | None:
    """As `main` where no Spark is needed, None where it is: then nothing was done."""
    named = any(one.partition("=")[0] == "--run-id" for one in arguments)

    def run(job: RequeueJob) -> tuple[dict[str, Any], int] | None:
        if job.manual is not None and not named:  # a new run needs Spark, and gets its id there
            return None
        preflight(job)
        return run_without_spark(job)

    return _ended(arguments, run)


def _ended(arguments: Sequence[str], run: Callable[[RequeueJob], tuple[dict[str, Any], int] | None]) -> int | None:
    began, job = time.monotonic(), None
    try:
        job = parse_arguments(arguments)
        done = run(job)
    except KeyboardInterrupt:
        again = f"; repeat it with --run-id {job.manual.run_id}" if job is not None and job.manual is not None else ""
        print(f"interrupted: what is committed stays{again}", file=sys.stderr)
        return 130
    if done is None:
        return None
    told, code = done
    if told.get("dryRun"):
        _print_dry_run(told)
    print(last_line(told, time.monotonic() - began), flush=True)
    return code
