"""One run of timer delivery over an open store, or a dry run of it: for jobs and commands."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.commits.batch_commit import last_commit
from rocketflow_store.delivery.timer.broker_deliveries import broker_deliveries
from rocketflow_store.delivery.timer.due_messages import Selection, blocks_of, copies_among, superseded
from rocketflow_store.delivery.timer.placement import is_done, tick_of
from rocketflow_store.delivery.timer.shared_delivery import exclusive_delivery
from rocketflow_store.delivery.timer.timer_commits import TIMER_SINK_ID, TimerCounts, precisions, progress_of
from rocketflow_store.delivery.timer.timer_rows import TIMER_QUEUE_ID, TimerRows, read_timer_rows, real_places
from rocketflow_store.engine.message_store import MessageStore
from rocketflow_store.model.errors import StoreConfigError
from rocketflow_store.model.property_names import PROPERTY_UNIQ_KEY
from rocketflow_store.model.topic_names import TIMER_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from rocketflow_store.delivery.timer.placement import TimerProgress
    from rocketflow_store.delivery.timer.timer_rows import TimerReads
    from rocketflow_store.records.decoding.properties import PropertySegments

_MOST_STEPS: Final = 1_000


def timers_wait(reader: TimerReads) -> bool:
    """Return True if the store holds timer messages."""
    low, high = reader.bounds(TIMER_TOPIC, TIMER_QUEUE_ID)
    return low < high


@dataclass(frozen=True, slots=True)
class TimerSample:
    """One due message: the topic and queue it goes to, its due time (ms), and the place where it waits."""

    topic: str
    queue_id: int
    due_ms: int
    queue_offset: int
    physical_offset: int
    uniq_key: str


@dataclass(frozen=True, slots=True)
class TimerRun:
    """Counts of the messages that a run handled, or would handle (`dry_run`): those due before `until_ms`.

    `deleted` messages were recalled, `already_delivered` ones had been delivered by a broker, `rolled` ones were copied
    into the timer topic. `skipped` messages cannot be read, or have no due time or no real topic and queue; they are
    read once. `pending` messages wait, the first of them until about `next_due_ms` (None if none waits).
    """

    until_ms: int
    dry_run: bool = False
    delivered: int = 0
    rolled: int = 0
    deleted: int = 0
    already_delivered: int = 0
    skipped: int = 0
    bytes: int = 0
    commits: int = 0
    pending: int = 0
    next_due_ms: int | None = None
    samples: tuple[TimerSample, ...] = ()


def deliver_due_timers(
    store: MessageStore | TimerReads,
    until_ms: int | None = None,
    *,
    run_id: str = "",
    dry_run: bool = False,
    progress: Callable[[TimerRun], None] | None = None,
    sample: int = 10,
) -> TimerRun:
    """Deliver every timer message that is due before the earlier of now (the store's clock) and `until_ms`.

    Each message is delivered once, even if runs are killed, repeated or concurrent. `progress` is called after every
    commit. With `dry_run` nothing is written, and a StoreReader is enough; `sample` limits the samples returned.

    Raises:
        StoreClosedError: the store is closed.
        StoreConfigError: `store` is not open for writing, and not `dry_run`.
    """
    store.check_open()
    if dry_run:
        return _dry_run(store, until_ms, sample)
    if not isinstance(store, MessageStore):
        raise StoreConfigError(
            "store", type(store).__name__, "is not open for writing, which delivery needs; pass a MessageStore"
        )
    with exclusive_delivery(store, run_id) as delivery:
        now_ms = store.config.clock.now_ms()
        until = tick_of(now_ms if until_ms is None else min(until_ms, now_ms), store.config.timer_precision_ms)
        before = replace(delivery.counts)

        def report(counts: TimerCounts) -> None:
            if progress is not None:
                progress(_run(until, counts.since(before)))

        for _ in range(_MOST_STEPS):  # rolled messages are taken in again
            if not delivery.step(until, report):
                break
        return _run(until, delivery.counts.since(before), *delivery.pending())


def _run(until_ms: int, counts: TimerCounts, pending: int = 0, next_due_ms: int | None = None) -> TimerRun:
    return TimerRun(
        until_ms,
        delivered=counts.delivered,
        rolled=counts.rolled,
        deleted=counts.deleted,
        already_delivered=counts.already_delivered,
        skipped=counts.skipped,
        bytes=counts.bytes,
        commits=counts.commits,
        pending=pending,
        next_due_ms=next_due_ms,
    )


def _dry_run(reads: TimerReads, until_ms: int | None, sample: int) -> TimerRun:
    """Return the counts of a run that reads the log alone and writes nothing."""
    last = last_commit(reads, TIMER_SINK_ID)
    now_ms = reads.config.clock.now_ms()
    done, search_from = progress_of(reads, last)
    precision_ms, step_ms = precisions(done, reads.config.timer_precision_ms)
    until = tick_of(now_ms if until_ms is None else until_ms, step_ms)
    rows, skipped = _rows_to_do(reads, done)
    due, waiting = rows.take(rows.due < until), rows.take(rows.due >= until)
    selection = Selection(precision_ms, broker_deliveries(reads, search_from, reads.max_phy_offset, TIMER_SINK_ID))
    selection.note_deletes(reads, due.take(due.deletes))
    finals = due.take(~due.deletes)
    order = np.lexsort((finals.phy_offsets, finals.due))
    delivered = size = 0
    unread = len(finals)
    samples: list[TimerSample] = []
    for block, records in blocks_of(reads, finals.phy_offsets[order], finals.sizes[order], bodies=True):
        unread -= len(block)
        segments = records.property_segments()
        wanted = selection.wanted(block, records, segments)
        delivered, size = delivered + int(wanted.sum()), size + int(block.sizes[wanted].sum())
        if len(samples) < sample and wanted.any():
            samples += _samples(block, segments, np.flatnonzero(wanted)[: sample - len(samples)])
    still = waiting.take(~waiting.deletes)
    return TimerRun(
        until,
        dry_run=True,
        delivered=delivered,
        deleted=selection.deleted,
        already_delivered=selection.already_delivered,
        skipped=skipped + unread,
        bytes=size,
        pending=len(still),
        next_due_ms=int(still.due.min()) if len(still) else None,
        samples=tuple(samples),
    )


def _rows_to_do(reads: TimerReads, done: TimerProgress) -> tuple[TimerRows, int]:
    """Return (timer messages that are not done, number of messages that cannot be read)."""
    low, high = reads.bounds(TIMER_TOPIC, TIMER_QUEUE_ID)
    parts, copies = [], Counter[str]()
    for block, records in read_timer_rows(reads, low, high):
        parts.append(block)
        copies.update(copies_among(block, records))
    rows = TimerRows.concatenate(parts)
    skipped = high - low - len(rows)
    spent = rows.deletes & (rows.due >= done.read_ms)
    rows = rows.take(~is_done(done, rows) | spent)
    return rows.take(~superseded(reads, rows, copies)), skipped


def _samples(block: TimerRows, segments: PropertySegments, rows: npt.NDArray[np.intp]) -> list[TimerSample]:
    topics, topic_of, queue_ids = real_places(segments)
    keys = segments.column(PROPERTY_UNIQ_KEY)
    return [
        TimerSample(
            topics[int(topic_of[row])],
            int(queue_ids[row]),
            int(block.due[row]),
            int(block.queue_offsets[row]),
            int(block.phy_offsets[row]),
            keys[row].as_py() or "",
        )
        for row in rows.tolist()
    ]
