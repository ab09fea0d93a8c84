"""Commits of timer messages: due chunks become one commit each, with the progress after it.

The last commit of the sink `rmq_sys_timer` stores which messages were delivered and the progress of delivery
(`commits.progress_commit`). Messages are committed in the order of ticks, within a tick in the order of the log; the
last commit of a step states that every message before the clock's tick is done.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.commits.batch_commit import last_commit
from rocketflow_store.commits.progress_commit import ProgressBatch, commit_progress
from rocketflow_store.delivery.timer.broker_deliveries import broker_deliveries
from rocketflow_store.delivery.timer.due_messages import Selection, blocks_of
from rocketflow_store.delivery.timer.placement import TimerProgress, is_passed
from rocketflow_store.delivery.timer.timer_chunks import delivered_chunk, rolled_chunk
from rocketflow_store.delivery.timer.timer_commits import TIMER_SINK_ID, TimerCounts, precisions, progress_of
from rocketflow_store.delivery.timer.timer_rows import TimerRows, born_timestamps, identities
from rocketflow_store.model.topic_names import TIMER_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketflow_store.delivery.timer.due_messages import DueMessages
    from rocketflow_store.engine.message_store import MessageStore
    from rocketflow_store.records.encoding.encode import EncodedChunk

COMMIT_ROWS: Final = 1 << 17
COMMIT_BYTES: Final = 64 << 20
_MAX_UNRECORDED_SEARCH: Final = 64 << 20
"""Bytes of the log searched for a broker's deliveries after which a commit records that there were none."""


@dataclass(frozen=True, slots=True)
class TimerWork:
    """Messages that one step handles; `off_wheel` are messages that wait although delivery passed their tick."""

    due: DueMessages
    rolls: TimerRows
    off_wheel: TimerRows
    tick: int
    """Tick (ms) of the clock; the step delivers messages due before it."""
    queue_end: int
    """End offset of the timer topic's queue."""


class TimerCommitter:
    """Commits the messages of timer deliveries of one store, and the progress of the last commit; not thread-safe."""

    def __init__(self, store: MessageStore, run_id: str) -> None:
        self._store, self._run_id = store, run_id
        self.counts = TimerCounts()
        self.last_commit = last_commit(store, TIMER_SINK_ID)
        self.progress, self._search_from = progress_of(store, self.last_commit)
        self.precision_ms, self.step_ms = precisions(self.progress, store.config.timer_precision_ms)
        self._searched_to = store.max_phy_offset
        delivered = broker_deliveries(store, self._search_from, self._searched_to, TIMER_SINK_ID)
        self.selection = Selection(self.precision_ms, delivered)
        self.roll_copies: Counter[str] = Counter()
        """Rolled copies (by `identities` of their originals) that were committed and not taken in yet."""

    def reload(self) -> None:
        """Read the last commit and its progress again, after a step that raised."""
        self.last_commit = last_commit(self._store, TIMER_SINK_ID)
        self.progress, _ = progress_of(self._store, self.last_commit)

    def needs_anchor(self, queue_end: int) -> bool:
        """Return True if a commit without messages is to be written: the first one, or after a long search."""
        is_first = self.last_commit is None and queue_end > 0
        return is_first or self._searched_to - self._search_from > _MAX_UNRECORDED_SEARCH

    def commit_all(self, work: TimerWork, now_ms: int, committed: Callable[[TimerCounts], None] | None) -> None:
        """Commit `work` in commits of bounded size; call `committed` after each of them."""
        chunks: list[EncodedChunk] = []
        due = work.due
        count = len(due.ticks)
        last_late = int(np.flatnonzero(due.late)[-1]) + 1 if due.late.any() else 0
        bytes_before = np.append(0, np.cumsum(due.sizes))
        start = 0
        while start < count:
            stop = int(np.searchsorted(bytes_before, bytes_before[start] + COMMIT_BYTES, side="right")) - 1
            stop = min(max(stop, start + 1, last_late), max(start + COMMIT_ROWS, last_late), count)
            chunks = self._final_chunks(due, start, stop, now_ms)
            if stop < count:
                self._commit(chunks, self._progress_at(int(due.ticks[stop]), int(due.phy_offsets[stop]), work))
                self._count(chunks, committed)
                chunks = []
            start = stop
        rolled = self._rolled_chunks(work.rolls, now_ms)
        self._commit([*chunks, *rolled], self._progress_at(work.tick, 0, work))
        self.counts.rolled += sum(len(one.sizes) for one in rolled)
        self._count(chunks, committed)

    def _count(self, chunks: list[EncodedChunk], committed: Callable[[TimerCounts], None] | None) -> None:
        counts, selection = self.counts, self.selection
        counts.delivered += sum(len(one.sizes) for one in chunks)
        counts.bytes += sum(int(one.sizes.sum()) for one in chunks)
        counts.deleted, counts.already_delivered = selection.deleted, selection.already_delivered
        counts.commits += 1
        if committed is not None:
            committed(replace(counts))

    def _progress_at(self, read_ms: int, done_below: int, work: TimerWork) -> TimerProgress:
        """Return the progress once every message before this place is done; it never goes back."""
        before = self.progress
        if (read_ms, done_below) < (before.read_ms, before.done_below):
            read_ms, done_below = before.read_ms, before.done_below
        following = TimerProgress(read_ms, done_below, self.precision_ms, work.queue_end)
        off_wheel = work.off_wheel
        if len(off_wheel):
            passed = is_passed(following, off_wheel.due, off_wheel.phy_offsets)
            following = replace(following, held=tuple(off_wheel.queue_offsets[passed].tolist()))
        waiting_from = int(off_wheel.due.min()) if len(off_wheel) else read_ms
        self.selection.forget_delivered_before(min(read_ms, waiting_from))
        return replace(following, search_from=self._search_from if self.selection.broker_delivered else -1)

    def _commit(self, chunks: list[EncodedChunk], following: TimerProgress) -> None:
        rows = sum(len(one.sizes) for one in chunks)
        if any(TIMER_TOPIC in one.topics for one in chunks):
            self._store.ensure_topic(TIMER_TOPIC, 1)
        batch = ProgressBatch(TIMER_SINK_ID, self._run_id, self.last_commit, following.encode(), rows, chunks)
        commit_progress(self._store, batch)
        self.last_commit = last_commit(self._store, TIMER_SINK_ID)
        self.progress = following
        if following.search_from < 0:
            self._search_from = self._searched_to

    def _final_chunks(self, due: DueMessages, start: int, stop: int, now_ms: int) -> list[EncodedChunk]:
        """Encode the messages `[start, stop)` of `due` that are wanted for their real topics and queues."""
        chunks = []
        late_at = due.phy_offsets[start:stop][due.late[start:stop]]
        self.counts.skipped += stop - start
        for rows, records in blocks_of(self._store, due.phy_offsets[start:stop], due.sizes[start:stop], bodies=True):
            self.counts.skipped -= len(rows)
            wanted = self.selection.wanted(rows, records, records.property_segments())
            if wanted.any():
                if not wanted.all():
                    rows, records = rows.take(wanted), records.keep(np.flatnonzero(wanted))
                late = np.isin(rows.phy_offsets, late_at)
                chunks.append(delivered_chunk(rows, records, late, now_ms, self._store.config))
        return chunks

    def _rolled_chunks(self, rolls: TimerRows, now_ms: int) -> list[EncodedChunk]:
        """Encode copies of `rolls` for the timer topic, and note them in `roll_copies`."""
        chunks = []
        self.counts.skipped += len(rolls)
        order = np.argsort(rolls.phy_offsets, kind="stable")
        for rows, records in blocks_of(self._store, rolls.phy_offsets[order], rolls.sizes[order], bodies=True):
            self.counts.skipped -= len(rows)
            names = identities(records.property_segments(), born_timestamps(records), rows.rolls)
            self.roll_copies.update(names.to_pylist())
            chunks.append(rolled_chunk(rows, records, now_ms, self._store.config))
        return chunks
