"""Delivery of timer messages: each message is taken in, waits on the wheel, and is delivered once, never early.

The commits of the log decide (`timer_committer`). Wheel and timer log are caches of the log and are rebuilt if they
cannot be trusted, so a run may be stopped at any point. A step takes in the new messages of the timer topic, collects
the due messages from the wheel, and commits them.
"""

from __future__ import annotations

import uuid
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from isal.isal_zlib import crc32

from rocketflow_store.delivery.timer.due_messages import DueMessages, blocks_of, copies_among, superseded
from rocketflow_store.delivery.timer.placement import is_done, is_passed, placed, tick_of
from rocketflow_store.delivery.timer.timer_checkpoint import read_timer_checkpoint
from rocketflow_store.delivery.timer.timer_commits import commit_mark
from rocketflow_store.delivery.timer.timer_committer import TimerCommitter, TimerWork
from rocketflow_store.delivery.timer.timer_files import TimerFiles
from rocketflow_store.delivery.timer.timer_rows import TIMER_QUEUE_ID, TimerRows, read_timer_rows
from rocketflow_store.format.timer_layout import DELETE, ROLL
from rocketflow_store.model.errors import CorruptRecordError, StoreError
from rocketflow_store.model.topic_names import TIMER_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from rocketflow_store.delivery.timer.placement import TimerProgress
    from rocketflow_store.delivery.timer.timer_commits import TimerCounts
    from rocketflow_store.engine.message_store import MessageStore
    from rocketflow_store.format.timer_checkpoint_layout import TimerCheckpoint

    Ints = npt.NDArray[np.int64]


class _Found(NamedTuple):
    """Messages that a step has to handle: `due` is delivered, `deletes` recall others, `rolls` get a copy."""

    due: DueMessages
    deletes: TimerRows
    rolls: TimerRows


class TimerDelivery:
    """Delivers the timer messages of one open store; not thread-safe."""

    def __init__(self, store: MessageStore, run_id: str = "") -> None:
        self._store = store
        self._committer = TimerCommitter(store, run_id or uuid.uuid4().hex)
        self._files = TimerFiles(store.paths, store.config, self._committer.precision_ms)
        self._off_wheel = TimerRows.concatenate([])
        """Messages that wait and cannot be on the wheel: delivery passed their tick, and then the clock went back."""
        self._roll_copies: Counter[str] = Counter()
        """Copies of rolled messages that were taken in and whose originals were not seen yet."""
        self._needs_rebuild = not self._files.are_trusted or not self._files_match_log()
        progress = self._committer.progress
        if not self._needs_rebuild and progress.held:
            self._off_wheel = self._rows_at(progress.held)
        self._failed = False
        self._is_changed = self._needs_rebuild
        self._taken_to = progress.queue_offset if self._needs_rebuild else self._files.queue_offset

    @property
    def counts(self) -> TimerCounts:
        """Counts of all steps so far."""
        return self._committer.counts

    def _files_match_log(self) -> bool:
        """Return True if the newest message and the last commit that the files record are those of the log."""
        (commits, commit), now = self._files.commit, commit_mark(self._committer.last_commit)
        if commits > now[0] or (commits == now[0] and commit != now[1]):
            return False
        known, (low, high) = self._files.queue_offset, self._store.bounds(TIMER_TOPIC, TIMER_QUEUE_ID)
        if known > high:
            return False
        return known <= low or self._mark(known) == self._files.newest

    def _mark(self, queue_offset: int) -> int:
        """Return a CRC that distinguishes the message before `queue_offset` from any other at its place."""
        unit = self._store.read_units(TIMER_TOPIC, TIMER_QUEUE_ID, queue_offset - 1, queue_offset)
        try:
            for _, mapped in self._store.log.by_file(unit["phy_offset"].astype(np.int64)):
                at = int(unit["phy_offset"][0]) - mapped.file_from_offset
                return crc32(mapped.bytes_of(at, at + int(unit["msg_size"][0])), crc32(unit.tobytes()))
        except StoreError:  # the record cannot be read: the unit alone has to do
            pass
        return crc32(unit.tobytes())

    def _rows_at(self, queue_offsets: tuple[int, ...]) -> TimerRows:
        low, high = self._store.bounds(TIMER_TOPIC, TIMER_QUEUE_ID)
        parts = [
            rows for one in queue_offsets if low <= one < high for rows, _ in read_timer_rows(self._store, one, one + 1)
        ]
        return TimerRows.concatenate(parts)

    # -- a step

    def step(self, until_ms: int | None = None, committed: Callable[[TimerCounts], None] | None = None) -> bool:
        """Deliver the messages due before the earlier of now and `until_ms`; return True if anything was committed.

        `committed` is called after each commit. After a step that raised, the next step starts from the log.
        """
        now_ms = self._store.config.clock.now_ms()
        tick = tick_of(now_ms if until_ms is None else min(until_ms, now_ms), self._committer.step_ms)
        if self._failed:
            self._committer.reload()
            self._needs_rebuild, self._failed = True, False
        self._failed = True
        done = self._step(tick, now_ms, committed)
        self._failed = False
        return done

    def _step(self, tick: int, now_ms: int, committed: Callable[[TimerCounts], None] | None) -> bool:
        low, high = self._store.bounds(TIMER_TOPIC, TIMER_QUEUE_ID)
        waiting = None
        try:
            if not self._needs_rebuild:
                new = self._take_in(tick, low, high)
                waiting = self._from_wheel(tick)
        except CorruptRecordError:
            if self._needs_rebuild:
                raise
        if waiting is None:
            new = self._rebuild(tick, low, high)
            waiting = self._from_wheel(tick)
        selection = self._committer.selection
        selection.deletes.clear()
        selection.note_deletes(self._store, new.deletes)
        selection.note_deletes(self._store, waiting.deletes)
        due = DueMessages.merge([new.due, waiting.due])
        rolls = TimerRows.concatenate([new.rolls, waiting.rolls])
        self._is_changed |= high != self._files.queue_offset
        self._files.queue_offset = high
        self.counts.taken += max(high - self._taken_to, 0)
        self._taken_to = max(high, self._taken_to)
        done = False
        if len(due.ticks) or len(rolls) or self._committer.needs_anchor(high):
            work = TimerWork(due, rolls, self._off_wheel, tick, high)
            self._committer.commit_all(work, now_ms, committed)
            self._is_changed = done = True
        self._files.read_ms = max(self._files.read_ms, tick)
        return done

    def _rebuild(self, tick: int, low: int, high: int) -> _Found:
        """Take in the messages `[low, high)` of the queue on an empty wheel."""
        self._files.start_rebuild(max(tick, self._committer.progress.read_ms))
        self._files.queue_offset, self._off_wheel = low, TimerRows.concatenate([])
        self._committer.roll_copies.clear()
        self._needs_rebuild, self._is_changed = False, True
        return self._take_in(tick, low, high)

    def _take_in(self, tick: int, low: int, high: int) -> _Found:
        """Put the new messages of the queue on the wheel; return those of them that are due before `tick`."""
        precision_ms, progress = self._committer.precision_ms, self._committer.progress
        start = min(max(self._files.queue_offset, low), high)
        parts, copies = [], Counter[str]()
        for block, records in read_timer_rows(self._store, start, high):
            parts.append(block)
            copies.update(copies_among(block, records))
        self.counts.skipped += high - start - sum(len(one) for one in parts)
        known = copies & self._committer.roll_copies
        self._committer.roll_copies -= known
        self._roll_copies = copies - known
        rows = TimerRows.concatenate([self._off_wheel, *parts])
        rows = rows.take(~is_done(progress, rows) | _are_spent_deletes(progress, rows))
        rows = rows.take(~superseded(self._store, rows, self._roll_copies))
        is_due = rows.due < tick
        waiting = rows.take(~is_due)
        places, _, rolled = placed(waiting.due, waiting.stored, precision_ms, self._store.config.timer_roll_window_slot)
        overdue = rolled & (places < tick)
        is_passed_tick = ~overdue & (places // precision_ms * precision_ms < self._files.read_ms)
        self._off_wheel = waiting.take(is_passed_tick)
        self._files.add(waiting.take(~overdue & ~is_passed_tick))
        found = rows.take(is_due)
        finals = found.take(~found.deletes)
        late = is_passed(progress, finals.due, finals.phy_offsets)
        ticks = finals.due // precision_ms * precision_ms
        due = DueMessages(ticks, finals.phy_offsets, finals.sizes, late)
        return _Found(due, found.take(found.deletes), waiting.take(overdue))

    def _from_wheel(self, tick: int) -> _Found:
        """Return the messages on the wheel that are due, or to be rolled, before `tick`."""
        found = [(at, units) for at, units in self._files.due_ticks(tick) if len(units)]
        if not found:
            return _Found(DueMessages.empty(), TimerRows.concatenate([]), TimerRows.concatenate([]))
        precision_ms, progress = self._committer.precision_ms, self._committer.progress
        units = np.concatenate([one for _, one in found])
        ticks = np.repeat(np.array([at for at, _ in found], np.int64), [len(one) for _, one in found])
        phy_offsets, sizes = units["phy_offset"].astype(np.int64), units["msg_size"].astype(np.int64)
        magic = units["magic"].astype(np.int64)
        rolled = magic & ROLL != 0
        finals = ~rolled & (magic & DELETE == 0)
        finals &= ~is_passed(progress, ticks, phy_offsets)
        deletes = self._rows_of(phy_offsets, sizes, ~rolled & (magic & DELETE != 0))
        rolls = self._rows_of(phy_offsets, sizes, rolled)
        rolls = rolls.take(~is_done(progress, rolls))
        rolls = rolls.take(~superseded(self._store, rolls, self._roll_copies))
        over = rolls.take(rolls.due < tick)  # no delivery ran for longer than the roll window
        deletes = TimerRows.concatenate([deletes, over.take(over.deletes)])
        over = over.take(~over.deletes)
        over_ticks = over.due // precision_ms * precision_ms
        due = DueMessages(
            np.concatenate([ticks[finals], over_ticks]),
            np.concatenate([phy_offsets[finals], over.phy_offsets]),
            np.concatenate([sizes[finals], over.sizes]),
            np.zeros(int(finals.sum()) + len(over), bool),
        )
        return _Found(due, deletes, rolls.take(rolls.due >= tick))

    def _rows_of(self, phy_offsets: Ints, sizes: Ints, mask: npt.NDArray[np.bool_]) -> TimerRows:
        found = blocks_of(self._store, phy_offsets[mask], sizes[mask], bodies=False)
        return TimerRows.concatenate([rows for rows, _ in found])

    # -- the end

    def rebuild_files(self) -> bool:
        """Rebuild the timer's files and deliver nothing; return False if the progress of delivery is unknown.

        The progress is that of RocketFlow's last commit, or of `timercheck` if RocketFlow never delivered. Messages
        after that progress are taken in by the next delivery.
        """
        read_ms, known = self._committer.progress.read_ms, self._committer.progress.queue_offset
        if self._committer.last_commit is None:
            try:
                check = read_timer_checkpoint(self._store.paths.timer_check)
            except StoreError:
                return False
            read_ms, known = check.last_read_time_ms, check.last_timer_queue_offset
        low, high = self._store.bounds(TIMER_TOPIC, TIMER_QUEUE_ID)
        if read_ms <= 0 or not low < known <= high:
            return False
        self._rebuild(tick_of(read_ms, self._committer.precision_ms), low, known)
        self._files.queue_offset = known
        return self._flush() is not None

    def flush(self) -> None:
        """Write the timer's files, so that the next writer (RocketFlow or a broker of RocketMQ) continues from them."""
        if not self._failed and not self._needs_rebuild:
            self._flush()

    def finish(self) -> None:
        """Flush, then record that the files can be trusted; do nothing after a step that raised."""
        if self._failed or self._needs_rebuild or not self._is_changed:
            return
        check = self._flush()
        if check is None or self._needs_rebuild:
            return
        low, _ = self._store.bounds(TIMER_TOPIC, TIMER_QUEUE_ID)  # retention may have deleted the newest message
        newest = self._mark(self._files.queue_offset) if self._files.queue_offset > low else 0
        self._files.mark_trusted(check, newest, commit_mark(self._committer.last_commit))

    def _flush(self) -> TimerCheckpoint | None:
        low, _ = self._store.bounds(TIMER_TOPIC, TIMER_QUEUE_ID)
        known = self._files.queue_offset
        if known == 0 and not self._store.paths.timer_check.exists():
            return None
        self._store.flush()  # the files record what is done: the log must not lose it after them
        if len(self._off_wheel):
            self._rebuild_for_broker(tick_of(int(self._off_wheel.due.min()), self._committer.precision_ms), low)
        if low < known and self._files.last_logged < known - 1:
            unit = self._store.read_units(TIMER_TOPIC, TIMER_QUEUE_ID, known - 1, known)
            self._files.add_mark(known - 1, int(unit["phy_offset"][0]), int(unit["msg_size"][0]))
        self._files.expire(self._store.min_phy_offset)
        return self._files.flush(self._files.read_ms, known)

    def _rebuild_for_broker(self, read_ms: int, low: int) -> None:
        """Rebuild the files with a wheel that starts early enough to hold the messages of `_off_wheel`.

        A broker continues from these files; the next step of RocketFlow rebuilds them.
        """
        high = self._files.queue_offset
        self._files.start_rebuild(read_ms)
        self._files.queue_offset, self._off_wheel = low, TimerRows.concatenate([])
        self._committer.roll_copies.clear()
        self._take_in(read_ms, low, high)
        self._files.queue_offset, self._needs_rebuild = high, True

    def waiting_at(self, timestamp_ms: int) -> int:
        """Return how many messages the wheel holds in the tick of `timestamp_ms`; any thread may call it."""
        return self._files.wheel.count_at(timestamp_ms)

    def waiting(self) -> tuple[Ints, Ints]:
        """Return (times in ms, how many of the messages taken in wait until each); any thread may call it."""
        off_wheel = self._off_wheel.due
        ticks, counts = self._files.waiting()
        return np.append(ticks, off_wheel), np.append(counts, np.ones(len(off_wheel), np.int64))

    def pending(self) -> tuple[int, int | None]:
        """Return (number of messages that wait, first tick (ms) that has work)."""
        times, counts = self.waiting()
        return int(counts.sum()), int(times.min()) if len(times) else None

    @property
    def position(self) -> tuple[int, int]:
        """First tick (ms) that is not delivered, 0 before the first step; queue offset after the messages taken in."""
        return self._files.read_ms, self._files.queue_offset

    def close(self) -> None:
        """Close the timer's files."""
        self._files.close()


def _are_spent_deletes(progress: TimerProgress, rows: TimerRows) -> npt.NDArray[np.bool_]:
    """Return the mask of deletes that took effect in a part of the tick that is not finished yet."""
    spent: npt.NDArray[np.bool_] = rows.deletes & (rows.due >= progress.read_ms)
    return spent
