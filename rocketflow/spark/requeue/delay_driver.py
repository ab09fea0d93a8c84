"""Delivery of delayed messages on Spark: tasks read and encode the messages that are due, the driver commits.

    counts = deliver_due_on_spark(spark, "/data/store", until_ms=None, dry_run=False, config=None)

The driver holds the store's lock from the plan to the last commit, so that no other process delivers in between; tasks
read the store without a lock (`StoreReader`) and stage their parts in `rocketflow/staging`. A round of parts goes into
the log with one envelope, which holds the new position of every level: a driver that is killed leaves complete rounds,
and parts that the next run deletes. If another thread of the driver delivered meanwhile, the commit fails and the round
is planned again. Messages that fit into one task are delivered by the driver itself.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow.process.job_timing import timing
from rocketflow.spark.shared.shared_paths import shared_paths
from rocketflow_store import MessageStore, StoreReader
from rocketflow_store.spi.commits import ProgressMovedError
from rocketflow_store.spi.delivery import (
    DelayDelivery,
    DeliveryResult,
    Redelivery,
    preview_due,
    redeliveries,
)
from rocketflow_store.spi.staging import StagedPart, proven_chunks, stage_alike

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from rocketflow_store import StoreConfig
    from rocketflow_store.spi.records import EncodedChunk

    Progress = Callable[[int, int], None]

UNITS_A_TASK: Final = 1 << 16
TASKS_A_CORE: Final = 4


@dataclass(frozen=True, slots=True)
class DueRange:
    """Messages [start, end) of a level's queue that a task reads and stages."""

    store: str
    config: StoreConfig
    level: int
    start: int
    end: int
    until_ms: int
    staging: str


@dataclass(frozen=True, slots=True)
class StagedRange:
    """The staged output of one range: its messages without their bytes, which are in the parts."""

    found: list[Redelivery]
    parts: list[StagedPart]


def deliver_due_on_spark(
    spark: SparkSession,
    store_path: str | os.PathLike[str],
    until_ms: int | None = None,
    dry_run: bool = False,
    config: StoreConfig | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Deliver messages that are due at `until_ms` (default and maximum: now); return the counts of `DeliveryResult`.

    A dry run counts the messages that would be delivered at `until_ms`, which may be any time, and takes no lock.

    Raises:
        StoreLockedError: another process has locked the store.
        PathNotSharedError: an executor does not see the store.
    """
    if not dry_run:
        with MessageStore.open(store_path, config) as store:
            return deliver_from(spark, store, until_ms, progress)
    began = time.monotonic()
    with StoreReader(store_path, config) as reader:
        result = preview_due(reader, reader.config.clock.now_ms() if until_ms is None else until_ms)
    return {**result.as_dict(), **timing(result.rows, time.monotonic() - began)}


def deliver_from(
    spark: SparkSession, store: MessageStore, until_ms: int | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """Deliver from an open store as `deliver_due_on_spark` does."""
    began = time.monotonic()
    result = _deliver(spark, store, until_ms, progress)
    return {**result.as_dict(), **timing(result.rows, time.monotonic() - began)}


def _deliver(
    spark: SparkSession, store: MessageStore, until_ms: int | None, progress: Progress | None
) -> DeliveryResult:
    now_ms = store.config.clock.now_ms()
    result = DeliveryResult(now_ms if until_ms is None else min(until_ms, now_ms))
    delivery = DelayDelivery(store)
    at_once = max(spark.sparkContext.defaultParallelism, 1) * TASKS_A_CORE
    total = None
    while True:
        result.next_due_ms = None
        due = delivery.due(result)
        waiting = sum(end - start for start, end in due.values())
        if not waiting:
            return result
        if total is None:
            if waiting <= UNITS_A_TASK:
                return delivery.deliver(result.until_ms, progress)
            total = waiting
        if not _round(spark, delivery, store, due, result, at_once):
            return result
        if progress is not None:
            progress(result.rows, total)


def _round(
    spark: SparkSession,
    delivery: DelayDelivery,
    store: MessageStore,
    due: dict[int, tuple[int, int]],
    result: DeliveryResult,
    most_tasks: int,
) -> bool:
    """Stage the next ranges and commit them together; return False if none of them was due after all."""
    staging, batch_id = delivery.staging()
    directory = staging.directory(batch_id)
    ranges = [
        (level, at, min(at + UNITS_A_TASK, end))
        for level, (start, end) in due.items()
        for at in range(start, end, UNITS_A_TASK)
    ]
    tasks = [
        DueRange(str(store.path), store.config, level, start, end, result.until_ms, str(directory))
        for level, start, end in ranges[:most_tasks]
    ]
    try:
        found, parts = _in_order(run_tasks(spark, tasks), result)
        chunks = proven_chunks(parts, store.config, redelivered=True)
        moved = delivery.commit(found, chunks)
    except ProgressMovedError:
        delivery.forget_positions()
        return True
    finally:
        staging.clear(batch_id)
    staging.sweep(batch_id)
    if moved:
        result.commits += 1
        for one in found:
            result.add(one)
    return moved


def _in_order(staged: Sequence[StagedRange], result: DeliveryResult) -> tuple[list[Redelivery], list[StagedPart]]:
    """Return the messages and parts of a round, each level up to its first message that is not due."""
    found: list[Redelivery] = []
    parts: list[StagedPart] = []
    waiting: set[int] = set()
    for one in staged:
        if one.found and one.found[0].level not in waiting:
            found += one.found
            parts += one.parts
            result.wait_for(one.found[-1].next_due_ms)
            if one.found[-1].next_due_ms is not None:
                waiting.add(one.found[-1].level)
    return found, parts


def run_tasks(spark: SparkSession, tasks: Sequence[DueRange]) -> list[StagedRange]:
    """Stage each range on an executor; return the results in order."""
    context = spark.sparkContext
    context.setJobDescription(f"rocketflow requeue: {sum(one.end - one.start for one in tasks)} delayed messages")
    try:
        return context.parallelize(tasks, len(tasks)).map(stage_there).collect()
    finally:
        context.setJobDescription(None)  # type: ignore[arg-type]


def stage_there(task: DueRange) -> StagedRange:
    """Stage one range on an executor, as one Spark task."""
    with shared_paths():
        return stage_range(task)


def stage_range(task: DueRange) -> StagedRange:
    """Read a range and stage it, in queue order."""
    found: list[Redelivery] = []
    with StoreReader(task.store, task.config) as reader:
        due = redeliveries(reader, task.config, task.level, task.start, task.end, task.until_ms)

        def chunks() -> Iterator[EncodedChunk]:
            for one in due:
                found.append(replace(one, chunk=None))
                if one.chunk is not None:
                    yield one.chunk

        parts = stage_alike(chunks(), Path(task.staging), f"l{task.level}-{task.start}")
    return StagedRange(found, parts)
