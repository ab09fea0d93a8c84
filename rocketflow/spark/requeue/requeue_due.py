"""Delivery of messages that are due, all kinds in one job: delay levels, with the retries in them, then timer messages.

The job first looks at the store without a lock; if nothing is due, it takes no lock and starts no JVM. Few messages are
delivered by this process, many by Spark tasks (`--engine` overrides this). Timer messages are always delivered by this
process, because a timer wheel has one writer. While timers wait, each run takes the lock briefly to advance the wheel.
While a broker serves the store, it delivers at the job's request (its own services deliver all the time).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocketflow.store_writes import Patience, find_broker, write
from rocketflow_store import StoreReader
from rocketflow_store.spi.delivery import (
    UNREADABLE,
    DueDelays,
    TimerRun,
    deliver_due,
    deliver_due_timers,
    look_for_due,
    preview_due,
    timers_wait,
    waiting_queues_are_lost,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from rocketflow.spark.requeue.requeue_arguments import RequeueJob
    from rocketflow.store_writes import BrokerWrites
    from rocketflow_store import MessageStore

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
        write(job.store, job.store_config(), lambda store: None, lambda broker: None, Patience(wait=job.wait))
    due = look(job)
    if not due.delayed and not due.timers_wait and not due.file_lags:
        return _fields(job, None, None, due.next_due_ms, "none"), 0
    many = due.delayed and (job.engine == "spark" or (job.engine == "auto" and due.delayed > FEW))
    if many and find_broker(job.store, job.store_config()) is None:
        return None
    levels = bool(due.delayed or due.file_lags)

    def deliver(store: MessageStore) -> dict[str, Any]:
        return deliver_due(store, job.until_ms, progress=_progress).as_dict()

    waits_until = None if due.delayed else due.next_due_ms
    return _delivered(job, deliver, "local", waits_until, levels=levels, timers=due.timers_wait)


def deliver_on_spark(spark: SparkSession, job: RequeueJob) -> Outcome:
    """Deliver; the executors of `spark` read and encode the delayed messages."""
    from rocketflow.spark.requeue.delay_driver import deliver_from

    def deliver(store: MessageStore) -> dict[str, Any]:
        return deliver_from(spark, store, job.until_ms, _progress)

    return _delivered(job, deliver, "spark", None, levels=bool(job.kinds & _LEVEL_KINDS), timers="timer" in job.kinds)


def _delivered(
    job: RequeueJob,
    deliver: Callable[[MessageStore], dict[str, Any]],
    engine: str,
    next_due_ms: int | None,
    *,
    levels: bool,
    timers: bool,
) -> Outcome:
    """Deliver delayed messages by `deliver`, and timer messages; a broker that serves the store does both itself."""

    def directly(store: MessageStore) -> Outcome:
        delayed = deliver(store) if levels else None
        timed = deliver_due_timers(store, job.until_ms, progress=_timer_progress) if timers else None
        return outcome(delayed, timed, engine)

    def through(broker: BrokerWrites) -> Outcome:
        done = broker.deliver_due(job.until_ms, levels=levels, timers=timers)
        return outcome(done.levels, None if done.timers is None else TimerRun(**done.timers), "broker")

    def outcome(delayed: dict[str, Any] | None, run: TimerRun | None, by: str) -> Outcome:
        timed = None if run is None else _timers_of(run)
        return _fields(job, delayed, timed, next_due_ms, by), _exit_code(delayed, timed)

    return write(job.store, job.store_config(), directly, through, Patience(wait=job.wait))


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
