"""Move messages of a store: what `jobs/requeue.py` runs. Deliver messages that are due, or requeue rows by hand.

The job first looks at the store without Spark, and starts a JVM only if Spark has work to do.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow.environment import DEBUG
from rocketflow.process.job_timing import TIMING_FIELDS, timing
from rocketflow.process.printable import printable
from rocketflow.spark.requeue.requeue_arguments import RequeueJob, parse_arguments
from rocketflow.store_writes import COMMITS_TAKE_S, find_broker
from rocketflow_store import StoreLockedError, StoreReader
from rocketflow_store.spi.places import check_directory, check_unlocked
from rocketflow_store.spi.writing import when_free

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from rocketflow_store.spi.requeue import RequeueRequest


_REQUEUE_END: Final = {**TIMING_FIELDS, "dryRun": "whether nothing was written"}
_SAMPLE: Final = {"sample": "with --dry-run: some of the messages"}
_TIMERS: Final = {
    "rows": "messages that were delivered",
    "batches": "commits",
    "rolled": "messages that were copied into the timer topic, because they are due later than the wheel reaches",
    "deleted": "messages that were recalled",
    "alreadyDelivered": "messages that a broker had delivered",
    "skipped": "messages that cannot be delivered",
    "bytes": "bytes of the delivered records",
    "pending": "messages that wait",
    "nextDueMs": "about when the first of them is due, ms; null if none waits",
    **_SAMPLE,
    "sample.toTopic": "topic it goes to",
    "sample.queueOffset": "queue offset in the timer topic",
    "sample.dueMs": "time at which it is due, ms",
    "sample.uniqKey": "id that the producer gave (UNIQ_KEY)",
}
FIELDS: Final[dict[str, dict[str, str]]] = {
    "submit requeue": {
        "job": "requeue",
        "kind": "due",
        "kinds": "the kinds asked for: delay, retry, timer",
        "rows": "messages that were (with --dry-run: would be) delivered",
        "batches": "commits",
        "byKind": "messages by kind",
        "byKind.delay": "delayed messages",
        "byKind.retry": "retries, which wait in the queues of delayed messages",
        "byKind.timer": "timer messages",
        "skipped": "messages that cannot be delivered",
        "untilMs": "time up to which messages count as due, ms",
        "nextDueMs": "when the next message is due, ms; null if none waits",
        "engine": "local (this process), spark, broker, or none: nothing was due, or a dry run",
        **_REQUEUE_END,
        "levels": "delay levels with due messages; missing if there are none",
        "levels.*.delivered": "messages of the level",
        "levels.*.retries": "those of them that are retries",
        "levels.*.skipped": "messages that cannot be delivered, by reason",
        "timers": "the timer messages; missing if none wait or they are not asked for",
        **{f"timers.{name}": about for name, about in _TIMERS.items()},
    },
    "submit requeue --from-topic": {
        "job": "requeue",
        "kind": "requeue",
        "runId": "id of the run, to repeat it",
        "from": "topic that the messages come from",
        "to": "moved messages by topic",
        "rows": "messages that this job moved (with --dry-run: would move)",
        "batches": "commits of this job that moved messages",
        "totalRows": "messages that the complete run moved",
        "alreadyRequeued": "messages that other runs had moved, whether moved again or skipped",
        "skipped": "messages that were not moved, because other runs had moved them (--skip-requeued)",
        "missing": "queue offsets that retention removed before the run reached them",
        "finished": "whether the run is complete",
        **_REQUEUE_END,
        **_SAMPLE,
        "sample.queueId": "queue of the message",
        "sample.queueOffset": "its queue offset",
        "sample.msgId": "its offset message id",
        "sample.keys": "its keys; null if there are none",
        "sample.tags": "its tags; null if there are none",
        "sample.reconsumeTimes": "how often a consumer sent it back",
        "sample.storeTimestamp": "time at which it was stored, ms",
        "sample.toTopic": "topic that it would go to",
    },
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


def preflight(job: RequeueJob) -> None:
    """Check, before anything starts, that the path is a store, and free or served by a broker."""
    path, config = Path(job.store), job.store_config()
    check_directory(path, must_exist=True)
    with StoreReader(path, config):
        pass
    if job.dry_run or job.wait:
        return

    def look() -> None:
        try:
            check_unlocked(path, config)
        except StoreLockedError:
            if find_broker(path, config) is None:
                raise

    when_free(look, COMMITS_TAKE_S)  # a commit of another process ends soon


def run_without_spark(job: RequeueJob) -> tuple[dict[str, Any], int] | None:
    """Return (the result, the exit code), or None if the job needs Spark."""
    if job.manual is not None:
        return _finished_before(job, job.manual)
    from rocketflow.spark.requeue.requeue_due import deliver_locally

    return deliver_locally(job)


def run_with_spark(spark: SparkSession, job: RequeueJob) -> tuple[dict[str, Any], int]:
    """Run the job with encoding on the executors of `spark`; return (the result, the exit code)."""
    if job.manual is not None:
        from rocketflow.spark.requeue.manual_requeue import requeue_on_spark

        result = requeue_on_spark(spark, job, job.manual)
        return result.as_dict(), result.exit_code
    from rocketflow.spark.requeue.requeue_due import deliver_on_spark

    return deliver_on_spark(spark, job)


def run_in_own_session(job: RequeueJob) -> tuple[dict[str, Any], int]:
    """Run the job without Spark if it can, else in a session that is started and stopped for it."""
    if job.manual is not None:
        print(f"run id {job.manual.run_id}", file=sys.stderr, flush=True)
    preflight(job)
    done = run_without_spark(job)
    if done is not None:
        return done
    from rocketflow.spark.session import build_session

    spark = build_session("rocketflow-requeue", fast_start=True)
    try:
        if not DEBUG.text():
            spark.sparkContext.setLogLevel("FATAL")  # the job prints a failure as one line
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


def last_line(result: dict[str, Any], seconds: float) -> str:
    """Return the JSON line that ends a job."""
    rows = int(result.get("rows", 0))
    timed = timing(0 if result.get("dryRun") else rows, seconds)
    return json.dumps({"job": "requeue", "rows": rows, "batches": 0, **result, **timed}, ensure_ascii=False)


def _print_dry_run(result: dict[str, Any]) -> None:
    """Print on stderr what a dry run would move."""
    print(f"dry run: {result['rows']} rows would be moved", file=sys.stderr)
    for name, count in {**result.get("byKind", {}), **result.get("to", {})}.items():
        print(f"  {count} {'to ' if 'to' in result else ''}{name}", file=sys.stderr)
    for row in result.get("sample", ()):
        place = f"queue {row['queueId']} offset {row['queueOffset']}"
        line = f"{place} -> {row['toTopic']}  {row['msgId']}  tags={row['tags']} keys={row['keys']}"
        print(f"  {printable(line)}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments, run the job and print its result; return one of the exit codes in the README."""
    code = _ended(list(sys.argv[1:] if arguments is None else arguments), run_in_own_session)
    assert code is not None
    return code


def main_without_spark(arguments: Sequence[str]) -> int | None:
    """Run `main` if the job needs no Spark; return None, with nothing done, if it does."""
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
    result, code = done
    if result.get("dryRun"):
        _print_dry_run(result)
    print(last_line(result, time.monotonic() - began), flush=True)
    return code
