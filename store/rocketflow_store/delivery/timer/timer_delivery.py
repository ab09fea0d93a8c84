"""Timer messages are taken in, wait, and are put where they belong: each once, and not before its time.

What was delivered and how far that is stands in one commit of the log (`sink.progress_commit`). The wheel and its log
only tell sooner what the log says: they are made anew where they cannot be believed, so nothing hangs on when a run
was stopped. A step looks at what came in, takes what is due from the wheel, and commits it, in the order of ticks and
within a tick in the order of the queue; the last commit of a step says that everything before the clock's tick is done.
"""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from isal.isal_zlib import crc32

from rocketflow_store.commits.batch_commit import last_commit
from rocketflow_store.commits.progress_commit import ProgressBatch, commit_progress
from rocketflow_store.delivery.timer.due_messages import Selection, blocks_of, copies_among, superseded
from rocketflow_store.delivery.timer.foreign_deliveries import foreign_deliveries
from rocketflow_store.delivery.timer.placement import TimerProgress, is_done, is_passed, placed, tick_of
from rocketflow_store.delivery.timer.timer_checkpoint import read_timer_checkpoint
from rocketflow_store.delivery.timer.timer_chunks import delivered_chunk, rolled_chunk
from rocketflow_store.delivery.timer.timer_commits import (
    TIMER_SINK_ID,
    TimerCounts,
    commit_mark,
    precisions,
    progress_of,
)
from rocketflow_store.delivery.timer.timer_files import TimerFiles
from rocketflow_store.delivery.timer.timer_rows import (
    TIMER_QUEUE_ID,
    TimerRows,
    born_timestamps,
    identities,
    read_timer_rows,
)
from rocketflow_store.format.timer_layout import DELETE, ROLL
from rocketflow_store.model.errors import CorruptRecordError, StoreError
from rocketflow_store.model.topic_names import TIMER_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from rocketflow_store.engine.message_store import MessageStore
    from rocketflow_store.records.encoding.encode import EncodedChunk

    Ints = npt.NDArray[np.int64]

COMMIT_ROWS: Final = 1 << 17
COMMIT_BYTES: Final = 64 << 20
_SEARCHED_FOR_NOTHING: Final = 64 << 20
"""So many bytes of the log are searched for other writers' deliveries before a commit notes that there were none."""


@dataclass(frozen=True, slots=True)
class _Due:
    """Places of messages to be delivered, in order; `late` ones came in behind their time."""

    ticks: Ints
    phy_offsets: Ints
    sizes: Ints
    late: npt.NDArray[np.bool_]


class TimerDelivery:
    """Delivers from one open store; one thread at a time. `counts` is of all steps so far."""

    def __init__(self, store: MessageStore, run_id: str = "") -> None:
        self._store, self._run_id = store, run_id or uuid.uuid4().hex
        self.counts = TimerCounts()
        self._after = last_commit(store, TIMER_SINK_ID)
        self._progress, self._foreign_from = progress_of(store, self._after)
        self._precision_ms, self._step_ms = precisions(self._progress, store.config.timer_precision_ms)
        self._searched_to = store.max_phy_offset
        foreign = foreign_deliveries(store, self._foreign_from, self._searched_to, TIMER_SINK_ID)
        self._selection = Selection(self._precision_ms, foreign)
        self._files = TimerFiles(store.paths, store.config, self._precision_ms)
        self._aside = TimerRows.together([])
        """Messages that wait and cannot be on the wheel: their tick was gone through, and then the clock went back."""
        self._copies: Counter[str] = Counter()
        self._own_copies: Counter[str] = Counter()
        """Copies that were put on their way, and did not come in yet."""
        self._anew = not self._files.believed or not self._files_fit()
        if not self._anew and self._progress.held:
            self._aside = self._rows_at(self._progress.held)
        self._failed = False
        self._changed = self._anew

    def _files_fit(self) -> bool:
        """Whether the newest message and the last commit that the files know are those that the log has."""
        (commits, commit), now = self._files.commit, commit_mark(self._after)
        if commits > now[0] or (commits == now[0] and commit != now[1]):
            return False
        known, (low, high) = self._files.queue_offset, self._store.bounds(TIMER_TOPIC, TIMER_QUEUE_ID)
        if known > high:
            return False
        return known <= low or self._mark(known) == self._files.newest

    def _mark(self, queue_offset: int) -> int:
        """A number that tells the message before `queue_offset` from any other at its place."""
        unit = self._store.read_units(TIMER_TOPIC, TIMER_QUEUE_ID, queue_offset - 1, queue_offset)
        try:
            for _, mapped in self._store.log.by_file(unit["phy_offset"].astype(np.int64)):
                at = int(unit["phy_offset"][0]) - mapped.file_from_offset
                return crc32(mapped.bytes_of(at, at + int(unit["msg_size"][0])), crc32(unit.tobytes()))
        except StoreError:  # it cannot be read: the unit alone tells
            pass
        return crc32(unit.tobytes())

    def _rows_at(self, queue_offsets: tuple[int, ...]) -> TimerRows:
        low, high = self._store.bounds(TIMER_TOPIC, TIMER_QUEUE_ID)
        parts = [
            rows for one in queue_offsets if low <= one < high for rows, _ in read_timer_rows(self._store, one, one + 1)
        ]
        return TimerRows.together(parts)

    # -- a step

    def step(self, until_ms: int | None = None, committed: Callable[[TimerCounts], None] | None = None) -> bool:
        """Deliver what is due now, or at `until_ms` where that is earlier; whether anything was committed.

        Where it raises, the next step begins from what the log says.
        """
        now_ms = self._store.config.clock.now_ms()
        wanted = tick_of(now_ms if until_ms is None else min(until_ms, now_ms), self._step_ms)
        if self._failed:
            self._after = last_commit(self._store, TIMER_SINK_ID)
            self._progress, _ = progress_of(self._store, self._after)
            self._anew, self._failed = True, False
        self._failed = True
        done = self._step(wanted, now_ms, committed)
        self._failed = False
        return done

    def _step(self, tick: int, now_ms: int, committed: Callable[[TimerCounts], None] | None) -> bool:
        low, high = self._store.bounds(TIMER_TOPIC, TIMER_QUEUE_ID)
        waiting = None
        try:
            if not self._anew:
                taken = self._take_in(tick, low, high)
                waiting = self._from_wheel(tick)
        except CorruptRecordError:
            if self._anew:
                raise
        if waiting is None:
            taken = self._begin_anew(tick, low, high)
            waiting = self._from_wheel(tick)
        (due, deletes, rolls), (more, more_deletes, more_rolls) = taken, waiting
        self._selection.deletes.clear()
        self._selection.note_deletes(self._store, deletes)
        self._selection.note_deletes(self._store, more_deletes)
        ready = _in_order([due, more])
        self._changed |= high != self._files.queue_offset
        rolls = TimerRows.together([rolls, more_rolls])
        self._files.queue_offset = high
        anchor = self._after is None and high > 0
        anchor |= self._searched_to - self._foreign_from > _SEARCHED_FOR_NOTHING
        done = False
        if len(ready.ticks) or len(rolls) or anchor:
            self._commit_all(ready, rolls, tick, high, now_ms, committed)
            self._changed = done = True
        self._files.read_ms = max(self._files.read_ms, tick)
        return done

    def _begin_anew(self, tick: int, low: int, high: int) -> Any:
        """As `_take_in`, of the whole queue, with an empty wheel."""
        self._files.begin_anew(max(tick, self._progress.read_ms))
        self._files.queue_offset, self._aside = low, TimerRows.together([])
        self._own_copies.clear()
        self._anew, self._changed = False, True
        return self._take_in(tick, low, high)

    def _take_in(self, tick: int, low: int, high: int) -> tuple[_Due, TimerRows, TimerRows]:
        """Put what came in on the wheel; (what is due of it, what of that deletes, what is to be rolled)."""
        start = min(max(self._files.queue_offset, low), high)
        parts, copies = [], Counter[str]()
        for block, records in read_timer_rows(self._store, start, high):
            parts.append(block)
            copies.update(copies_among(block, records))
        self.counts.skipped += high - start - sum(len(one) for one in parts)
        known = copies & self._own_copies
        self._own_copies -= known
        self._copies = copies - known
        rows = TimerRows.together([self._aside, *parts])
        rows = rows.take(~is_done(self._progress, rows) | _spent_deletes(self._progress, rows))
        rows = rows.take(~superseded(self._store, rows, self._copies))
        is_due = rows.due < tick
        waiting = rows.take(~is_due)
        places, _, rolled = placed(
            waiting.due, waiting.stored, self._precision_ms, self._store.config.timer_roll_window_slot
        )
        overdue = rolled & (places < tick)
        gone_through = ~overdue & (places // self._precision_ms * self._precision_ms < self._files.read_ms)
        self._aside = waiting.take(gone_through)
        self._files.add(waiting.take(~overdue & ~gone_through))
        found = rows.take(is_due)
        finals = found.take(~found.deletes)
        late = is_passed(self._progress, finals.due, finals.phy_offsets)
        ticks = finals.due // self._precision_ms * self._precision_ms
        due = _Due(ticks, finals.phy_offsets, finals.sizes, late)
        return due, found.take(found.deletes), waiting.take(overdue)

    def _from_wheel(self, tick: int) -> tuple[_Due, TimerRows, TimerRows]:
        """(what is due of what waits, what of that deletes, what is to be rolled)."""
        found = [(at, units) for at, units in self._files.due_ticks(tick) if len(units)]
        if not found:
            return _nothing_due(), TimerRows.together([]), TimerRows.together([])
        units = np.concatenate([one for _, one in found])
        ticks = np.repeat(np.array([at for at, _ in found], np.int64), [len(one) for _, one in found])
        phy_offsets, sizes = units["phy_offset"].astype(np.int64), units["msg_size"].astype(np.int64)
        magic = units["magic"].astype(np.int64)
        rolled = magic & ROLL != 0
        finals = ~rolled & (magic & DELETE == 0)
        finals &= ~is_passed(self._progress, ticks, phy_offsets)
        deletes = self._rows_of(phy_offsets, sizes, ~rolled & (magic & DELETE != 0))
        rolls = self._rows_of(phy_offsets, sizes, rolled)
        rolls = rolls.take(~is_done(self._progress, rolls))
        rolls = rolls.take(~superseded(self._store, rolls, self._copies))
        over = rolls.take(rolls.due < tick)  # nobody looked for longer than the window
        deletes = TimerRows.together([deletes, over.take(over.deletes)])
        over = over.take(~over.deletes)
        over_ticks = over.due // self._precision_ms * self._precision_ms
        due = _Due(
            np.concatenate([ticks[finals], over_ticks]),
            np.concatenate([phy_offsets[finals], over.phy_offsets]),
            np.concatenate([sizes[finals], over.sizes]),
            np.zeros(int(finals.sum()) + len(over), bool),
        )
        return due, deletes, rolls.take(rolls.due >= tick)

    def _rows_of(self, phy_offsets: Ints, sizes: Ints, mask: npt.NDArray[np.bool_]) -> TimerRows:
        found = blocks_of(self._store, phy_offsets[mask], sizes[mask], bodies=False)
        return TimerRows.together([rows for rows, _ in found])

    # -- commits

    def _commit_all(
        self,
        due: _Due,
        rolls: TimerRows,
        tick: int,
        high: int,
        now_ms: int,
        committed: Callable[[TimerCounts], None] | None,
    ) -> None:
        chunks: list[EncodedChunk] = []
        count = len(due.ticks)
        last_late = int(np.flatnonzero(due.late)[-1]) + 1 if due.late.any() else 0
        bytes_before = np.append(0, np.cumsum(due.sizes))
        start = 0
        while start < count:
            stop = int(np.searchsorted(bytes_before, bytes_before[start] + COMMIT_BYTES, side="right")) - 1
            stop = min(max(stop, start + 1, last_late), max(start + COMMIT_ROWS, last_late), count)
            chunks = self._final_chunks(due, start, stop, now_ms)
            if stop < count:
                self._commit(chunks, self._cursor(int(due.ticks[stop]), int(due.phy_offsets[stop]), high))
                self._told(chunks, committed)
                chunks = []
            start = stop
        rolled = self._rolled_chunks(rolls, now_ms)
        self._commit([*chunks, *rolled], self._cursor(tick, 0, high))
        self.counts.rolled += sum(len(one.sizes) for one in rolled)
        self._told(chunks, committed)

    def _told(self, chunks: list[EncodedChunk], committed: Callable[[TimerCounts], None] | None) -> None:
        counts, selection = self.counts, self._selection
        counts.delivered += sum(len(one.sizes) for one in chunks)
        counts.bytes += sum(int(one.sizes.sum()) for one in chunks)
        counts.deleted, counts.already_delivered = selection.deleted, selection.already_delivered
        counts.commits += 1
        if committed is not None:
            committed(replace(counts))

    def _cursor(self, read_ms: int, done_below: int, high: int) -> TimerProgress:
        """The progress when everything before this place is done; it never goes back."""
        before = self._progress
        if (read_ms, done_below) < (before.read_ms, before.done_below):
            read_ms, done_below = before.read_ms, before.done_below
        following = TimerProgress(read_ms, done_below, self._precision_ms, high)
        if len(self._aside):
            passed = is_passed(following, self._aside.due, self._aside.phy_offsets)
            following = replace(following, held=tuple(self._aside.queue_offsets[passed].tolist()))
        waiting_from = int(self._aside.due.min()) if len(self._aside) else read_ms
        self._selection.forget_foreign_before(min(read_ms, waiting_from))
        return replace(following, foreign_from=self._foreign_from if self._selection.foreign else -1)

    def _commit(self, chunks: list[EncodedChunk], following: TimerProgress) -> None:
        rows = sum(len(one.sizes) for one in chunks)
        if any(TIMER_TOPIC in one.topics for one in chunks):
            self._store.ensure_topic(TIMER_TOPIC, 1)
        batch = ProgressBatch(TIMER_SINK_ID, self._run_id, self._after, following.encode(), rows, chunks)
        commit_progress(self._store, batch)
        self._after = last_commit(self._store, TIMER_SINK_ID)
        self._progress = following
        if following.foreign_from < 0:
            self._foreign_from = self._searched_to

    def _final_chunks(self, due: _Due, start: int, stop: int, now_ms: int) -> list[EncodedChunk]:
        chunks = []
        late_at = due.phy_offsets[start:stop][due.late[start:stop]]
        self.counts.skipped += stop - start
        for rows, records in blocks_of(self._store, due.phy_offsets[start:stop], due.sizes[start:stop], bodies=True):
            self.counts.skipped -= len(rows)
            wanted = self._selection.wanted(rows, records, records.property_segments())
            if wanted.any():
                if not wanted.all():
                    rows, records = rows.take(wanted), records.keep(np.flatnonzero(wanted))
                late = np.isin(rows.phy_offsets, late_at)
                chunks.append(delivered_chunk(rows, records, late, now_ms, self._store.config))
        return chunks

    def _rolled_chunks(self, rolls: TimerRows, now_ms: int) -> list[EncodedChunk]:
        chunks = []
        self.counts.skipped += len(rolls)
        order = np.argsort(rolls.phy_offsets, kind="stable")
        for rows, records in blocks_of(self._store, rolls.phy_offsets[order], rolls.sizes[order], bodies=True):
            self.counts.skipped -= len(rows)
            names = identities(records.property_segments(), born_timestamps(records), rows.rolls)
            self._own_copies.update(names.to_pylist())
            chunks.append(rolled_chunk(rows, records, now_ms, self._store.config))
        return chunks

    # -- the end

    def remake(self) -> bool:
        """Make the files anew and deliver nothing, for whoever is next; whether it is known how far delivery is.

        Our last commit tells it, or where we never delivered `timercheck`. What only looks due is left to be taken in.
        """
        read_ms, known = self._progress.read_ms, self._progress.queue_offset
        if self._after is None:
            try:
                check = read_timer_checkpoint(self._store.paths.timer_check)
            except StoreError:
                return False
            read_ms, known = check.last_read_time_ms, check.last_timer_queue_offset
        low, high = self._store.bounds(TIMER_TOPIC, TIMER_QUEUE_ID)
        if read_ms <= 0 or not low < known <= high:
            return False
        self._begin_anew(read_ms // self._precision_ms * self._precision_ms, low, known)
        self._files.queue_offset = known
        return self._flush() is not None

    def flush(self) -> None:
        """Write the timer's files, so that whoever is next, a broker of RocketMQ too, goes on where we are."""
        if not self._failed and not self._anew:
            self._flush()

    def leave(self) -> None:
        """As `flush`; then say that the files can be believed. Not behind a step that raised."""
        if self._failed or self._anew or not self._changed:
            return
        check = self._flush()
        if check is None or self._anew:
            return
        low, _ = self._store.bounds(TIMER_TOPIC, TIMER_QUEUE_ID)  # retention may have taken the newest message
        newest = self._mark(self._files.queue_offset) if self._files.queue_offset > low else 0
        self._files.leave(check, newest, commit_mark(self._after))

    def _flush(self) -> Any:
        low, _ = self._store.bounds(TIMER_TOPIC, TIMER_QUEUE_ID)
        known = self._files.queue_offset
        if known == 0 and not self._store.paths.timer_check.exists():
            return None
        self._store.flush()  # the files say what is done: that may not be lost behind them
        if len(self._aside):
            self._lower_to(int(self._aside.due.min()) // self._precision_ms * self._precision_ms, low)
        if low < known and self._files.last_logged < known - 1:
            unit = self._store.read_units(TIMER_TOPIC, TIMER_QUEUE_ID, known - 1, known)
            self._files.add_mark(known - 1, int(unit["phy_offset"][0]), int(unit["msg_size"][0]))
        self._files.expire(self._store.min_phy_offset)
        return self._files.flush(self._files.read_ms, known)

    def _lower_to(self, read_ms: int, low: int) -> None:
        """Make the files anew with a wheel on which what is set aside has a place: for a broker, not for us."""
        high = self._files.queue_offset
        self._files.begin_anew(read_ms)
        self._files.queue_offset, self._aside = low, TimerRows.together([])
        self._own_copies.clear()
        self._take_in(read_ms, low, high)
        self._files.queue_offset, self._anew = high, True

    def waiting_at(self, timestamp_ms: int) -> int:
        """How many messages the wheel has in the tick of a time; any thread may ask."""
        return self._files.wheel.count_at(timestamp_ms)

    def pending(self) -> tuple[int, int | None]:
        """(how many messages wait, the first tick (ms) at which something is to be done)."""
        count, first = self._files.pending()
        if len(self._aside):
            soonest = int(self._aside.due.min())
            return count + len(self._aside), soonest if first is None else min(first, soonest)
        return count, first

    def close(self) -> None:
        """Let go of the files."""
        self._files.close()


def _nothing_due() -> _Due:
    empty = np.zeros(0, np.int64)
    return _Due(empty, empty, empty, np.zeros(0, bool))


def _in_order(parts: list[_Due]) -> _Due:
    ticks, phy_offsets, sizes, late = (
        np.concatenate([getattr(one, name) for one in parts]) for name in ("ticks", "phy_offsets", "sizes", "late")
    )
    order = np.lexsort((phy_offsets, ticks))
    return _Due(ticks[order], phy_offsets[order], sizes[order], late[order])


def _spent_deletes(progress: TimerProgress, rows: TimerRows) -> npt.NDArray[np.bool_]:
    """Messages that delete, and have done so for a part of the tick that is not finished yet."""
    spent: npt.NDArray[np.bool_] = rows.deletes & (rows.due >= progress.read_ms)
    return spent
