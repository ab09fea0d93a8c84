"""Delivery of what is due, all kinds in one job: delay levels with the retries that wait in them, then timer messages.

A look at the store says first whether anything is due; where nothing is, no lock is taken and no JVM begun. Few
messages are delivered right here, many by tasks of Spark (`--engine` decides otherwise).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocketflow.spark.store_opening import open_when_free, when_free
from rocketflow_store.config_files.delay_offsets import DelayOffsetsFile
from rocketflow_store.schedule.delivery import SINK_ID as DELAY_SINK_ID
from rocketflow_store.schedule.delivery import DeliveryResult, deliver_due, due_by_level, preview_due
from rocketflow_store.schedule.positions import find_positions
from rocketflow_store.sink.sink_commit import last_commit
from rocketflow_store.store_reader import StoreReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from rocketflow.spark.requeue_arguments import RequeueJob

    Told = tuple[dict[str, Any], int]

_LEVEL_KINDS = frozenset({"delay", "retry"})
FEW = 1 << 16
"""So many messages one process delivers sooner than a JVM is begun."""


@dataclass(frozen=True, slots=True)
class Due:
    """What a look found: messages that are due now, and when the next one of the levels is."""

    delayed: int
    timers: int
    next_due_ms: int | None


def deliver_locally(job: RequeueJob) -> Told | None:
    """Deliver, or say what is due, without Spark; None where Spark is to do it."""
    if job.dry_run:
        return _previewed(job)
    due = look(job)
    if not due.delayed and not due.timers:
        return _told(job, None, None, due.next_due_ms, "none"), 0
    if job.engine == "spark" or (job.engine == "auto" and due.delayed > FEW):
        return None
    delayed: dict[str, Any] | None = None
    with open_when_free(job.store, job.store_config(), wait=job.wait) as store:
        if due.delayed:
            delayed = deliver_due(store, job.until_ms, progress=_progress("delayed messages")).as_dict()
    timers = _deliver_timers(job) if due.timers else None
    return _told(job, delayed, timers, due.next_due_ms, "local"), 0


def deliver_on_spark(spark: SparkSession, job: RequeueJob) -> Told:
    """Deliver, with what is delayed read and encoded by the executors of `spark`."""
    from rocketflow.spark.delay_driver import deliver_due_on_spark

    delayed: dict[str, Any] | None = None
    if job.kinds & _LEVEL_KINDS:
        progress = _progress("delayed messages")
        delayed = when_free(
            lambda: deliver_due_on_spark(spark, job.store, job.until_ms, False, job.store_config(), progress),
            wait=job.wait,
        )
    timers = _deliver_timers(job) if "timer" in job.kinds else None
    return _told(job, delayed, timers, None, "spark"), 0


def look(job: RequeueJob) -> Due:
    """How much is due, by queue units and the log alone: no lock, nothing written."""
    with StoreReader(job.store, job.store_config()) as reader:
        now_ms = reader.config.clock.now_ms()
        result = DeliveryResult(min(job.until_ms, now_ms))
        delayed = 0
        if job.kinds & _LEVEL_KINDS:
            positions = find_positions(
                reader,
                last_commit(reader, DELAY_SINK_ID),
                DelayOffsetsFile(reader.paths.config).offsets(),
                now_ms,
                reader.index_coverage,
            )
            delayed = sum(end - start for start, end in due_by_level(reader, positions, result).values())
        timers = 0
        return Due(delayed, timers, result.next_due_ms)


def _previewed(job: RequeueJob) -> Told:
    delayed = timers = None
    with StoreReader(job.store, job.store_config()) as reader:
        if job.kinds & _LEVEL_KINDS:
            delayed = preview_due(reader, job.until_ms).as_dict()
    return _told(job, delayed, timers, None, "none"), 0


def _deliver_timers(job: RequeueJob) -> dict[str, Any] | None:
    raise NotImplementedError


def _told(
    job: RequeueJob,
    delayed: dict[str, Any] | None,
    timers: dict[str, Any] | None,
    next_due_ms: int | None,
    engine: str,
) -> dict[str, Any]:
    """What the job's last line says. Retries wait in the level queues: they are counted apart, not moved apart."""
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


def _progress(what: str) -> Callable[[int, int], None]:
    def step(done: int, total: int) -> None:
        print(f"{done:,} of {total:,} {what}", file=sys.stderr, flush=True)

    return step
