"""Delivery of messages that are due, all kinds in one job: delay levels, with the retries in them, then timer messages.

The job first looks at the store without a lock; if nothing is due, it takes no lock and starts no JVM. Few messages are
delivered by this process, many by Spark tasks (`--engine` overrides this). Timer messages are always delivered by this
process, because a timer wheel has one writer. While timers wait, each run takes the lock briefly to advance the wheel.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocketflow.spark.shared.store_when_free import open_when_free, when_free
from rocketflow_store import StoreReader
from rocketflow_store.spi.delivery import (
    UNREADABLE,
    DueDelays,
    deliver_due,
    deliver_due_timers,
    look_for_due,
    preview_due,
    timers_wait,
    waiting_queues_are_lost,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rocketflow.spark.requeue.requeue_arguments import RequeueJob
    from rocketflow_store.spi.delivery import TimerRun

    Outcome = tuple[dict[str, Any], int]

_LEVEL_KINDS = frozenset({"delay", "retry"})
FEW = 1 << 16
"""Messages that one process delivers in less time than a JVM takes to start."""


@dataclass(frozen=True, slots=True)
class Due:
    """The result of a look: delayed messages that are due, when the next one is due, and whether timers wait.

    `file_lags` is True if delayOffset.json does not yet contain the last deliveries.
    """

    delayed: int
    timers_wait: bool
    next_due_ms: int | None
    file_lags: bool = False


def deliver_locally(job: RequeueJob) -> Outcome | None:
    """Deliver, or preview, without Spark; return None if the job needs Spark."""
    if job.dry_run:
        return _previewed(job)
    with StoreReader(job.store, job.store_config()) as reader:
        lost = waiting_queues_are_lost(reader)
    if lost:
        print("queues of waiting messages are missing: rebuilding them from the log", file=sys.stderr, flush=True)
        with open_when_free(job.store, job.store_config(), wait=job.wait):
            pass
    due = look(job)
    if not due.delayed and not due.timers_wait and not due.file_lags:
        return _fields(job, None, None, due.next_due_ms, "none"), 0
    if due.delayed and (job.engine == "spark" or (job.engine == "auto" and due.delayed > FEW)):
        return None
    delayed = timers = None
    with open_when_free(job.store, job.store_config(), wait=job.wait) as store:
        if due.delayed or due.file_lags:
            delayed = deliver_due(store, job.until_ms, progress=_progress).as_dict()
        if due.timers_wait:
            timers = _timers_of(deliver_due_timers(store, job.until_ms, progress=_timer_progress))
    return _fields(job, delayed, timers, None if due.delayed else due.next_due_ms, "local"), _exit_code(delayed, timers)


def deliver_on_spark(spark: SparkSession, job: RequeueJob) -> Outcome:
    """Deliver; the executors of `spark` read and encode the delayed messages."""
    from rocketflow.spark.requeue.delay_driver import deliver_due_on_spark

    delayed: dict[str, Any] | None = None
    if job.kinds & _LEVEL_KINDS:
        delayed = when_free(
            lambda: deliver_due_on_spark(spark, job.store, job.until_ms, False, job.store_config(), _progress),
            wait=job.wait,
        )
    timers = None
    if "timer" in job.kinds:
        with open_when_free(job.store, job.store_config(), wait=job.wait) as store:
            timers = _timers_of(deliver_due_timers(store, job.until_ms, progress=_timer_progress))
    return _fields(job, delayed, timers, None, "spark"), _exit_code(delayed, timers)


def look(job: RequeueJob) -> Due:
    """Count what is due from queue units and the log alone, without a lock and without writing."""
    with StoreReader(job.store, job.store_config()) as reader:
        found = look_for_due(reader, job.until_ms) if job.kinds & _LEVEL_KINDS else DueDelays()
        timers = "timer" in job.kinds and timers_wait(reader)
        return Due(found.messages, timers, found.next_due_ms, found.file_lags)


def _previewed(job: RequeueJob) -> Outcome:
    delayed = timers = None
    with StoreReader(job.store, job.store_config()) as reader:
        if job.kinds & _LEVEL_KINDS:
            delayed = preview_due(reader, job.until_ms).as_dict()
        if "timer" in job.kinds:
            timers = _timers_of(deliver_due_timers(reader, job.until_ms, dry_run=True))
    return _fields(job, delayed, timers, None, "none"), 0


def _exit_code(delayed: dict[str, Any] | None, timers: dict[str, Any] | None) -> int:
    """Return 3 if messages stay undelivered because they cannot be read, else 0."""
    levels = (delayed or {}).get("levels", {}).values()
    unread = any(level["skipped"].get(UNREADABLE) for level in levels) or (timers or {}).get("skipped")
    return 3 if unread else 0


def _timers_of(run: TimerRun) -> dict[str, Any]:
    fields = {
        "rows": run.delivered,
        "batches": run.commits,
        "rolled": run.rolled,
        "deleted": run.deleted,
        "alreadyDelivered": run.already_delivered,
        "skipped": run.skipped,
        "bytes": run.bytes,
        "pending": run.pending,
        "nextDueMs": run.next_due_ms,
    }
    sample = [
        {"toTopic": one.topic, "queueOffset": one.queue_offset, "dueMs": one.due_ms, "uniqKey": one.uniq_key}
        for one in run.samples
    ]
    return {**fields, "sample": sample} if run.dry_run else fields


def _fields(
    job: RequeueJob,
    delayed: dict[str, Any] | None,
    timers: dict[str, Any] | None,
    next_due_ms: int | None,
    engine: str,
) -> dict[str, Any]:
    """Return the fields of the job's last line; retries wait in the level queues and are only counted separately."""
    delayed, timers = delayed or {}, timers or {}
    retries = int(delayed.get("retries", 0))
    by_kind = {"delay": int(delayed.get("rows", 0)) - retries, "retry": retries, "timer": int(timers.get("rows", 0))}
    waits = [one for one in (next_due_ms, delayed.get("nextDueMs"), timers.get("nextDueMs")) if one is not None]
    return {
        "kind": "due",
        "kinds": sorted(job.kinds),
        "rows": sum(by_kind.values()),
        "batches": int(delayed.get("batches", 0)) + int(timers.get("batches", 0)),
        "byKind": by_kind,
        "skipped": int(delayed.get("skipped", 0)) + int(timers.get("skipped", 0)),
        "untilMs": job.until_ms,
        "nextDueMs": min(waits, default=None),
        "engine": engine,
        "dryRun": job.dry_run,
        **({"levels": delayed["levels"]} if delayed.get("levels") else {}),
        **({"timers": timers} if timers else {}),
    }


def _progress(done: int, total: int) -> None:
    print(f"{done:,} of {total:,} delayed messages", file=sys.stderr, flush=True)


def _timer_progress(run: TimerRun) -> None:
    print(f"{run.delivered:,} timer messages", file=sys.stderr, flush=True)
