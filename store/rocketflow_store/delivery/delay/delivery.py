"""Delivery of delayed messages: due messages are stored in their topics, in one commit with the level positions.

    with MessageStore.open(path) as store:
        result = deliver_due(store)                   # everything that is due now
    result = preview_due(reader, until_ms)            # a dry run: takes no lock, writes nothing

Each commit has at most COMMIT_BYTES, so that a burst takes bounded memory. After a kill between two commits the next
run continues after the first one. `config/delayOffset.json` is written after each commit, in RocketMQ's format, for the
broker that may serve the store next (`positions` says how far RocketFlow trusts it).
"""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.commits.batch_commit import last_commit
from rocketflow_store.commits.progress_commit import ProgressBatch, ProgressMovedError, commit_progress
from rocketflow_store.commits.staging_area import StagingArea
from rocketflow_store.delivery.delay.positions import Positions, file_lags, find_positions
from rocketflow_store.delivery.delay.redelivery import HALF, Redelivery, Skipped, due_units, levels_of, redeliveries
from rocketflow_store.metadata.config_files.delay_offsets import DelayOffsetsFile
from rocketflow_store.model.topic_names import RETRY_PREFIX, SCHEDULE_TOPIC
from rocketflow_store.telemetry import events
from rocketflow_store.views.index.index_coverage import IndexCoverage, index_coverage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rocketflow_store.engine.message_store import MessageStore
    from rocketflow_store.reading.store_reader import StoreReader
    from rocketflow_store.records.encoding.encode import EncodedChunk

    Progress = Callable[[int, int], None]
    """Called with (messages delivered, messages that were due at the begin)."""

SINK_ID: Final = "rmq_sys_schedule"
"""Sink id of these commits."""
COMMIT_BYTES: Final = 64 << 20
_RETRY_QUEUES: Final = 1
_SKIPPED_BYTES: Final = 512
"""Memory of a skipped message."""


@dataclass(slots=True)
class LevelCounts:
    """Counts of one level's messages that were (or, in a dry run, would be) delivered; `skipped` by kind."""

    delivered: int = 0
    retries: int = 0
    skipped: Counter[str] = field(default_factory=Counter)

    def as_dict(self) -> dict[str, Any]:
        return {"delivered": self.delivered, "retries": self.retries, "skipped": dict(self.skipped)}


@dataclass(slots=True)
class DeliveryResult:
    """Counts of a delivery. `next_due_ms` is when the first of the waiting messages is due, None without one."""

    until_ms: int
    dry_run: bool = False
    commits: int = 0
    bytes: int = 0
    levels: dict[int, LevelCounts] = field(default_factory=dict)
    next_due_ms: int | None = None

    @property
    def rows(self) -> int:
        return sum(level.delivered for level in self.levels.values())

    @property
    def retries(self) -> int:
        """Rows that went to %RETRY% topics."""
        return sum(level.retries for level in self.levels.values())

    @property
    def skipped(self) -> int:
        return sum(sum(level.skipped.values()) for level in self.levels.values())

    def add(self, one: Redelivery) -> None:
        """Count these messages."""
        if one.rows or one.skipped:
            level = self.levels.setdefault(one.level, LevelCounts())
            level.delivered += one.rows
            level.retries += one.retries
            level.skipped.update(skipped.kind for skipped in one.skipped)
            self.bytes += one.bytes

    def wait_for(self, due_ms: int | None) -> None:
        """Note that a waiting message is due at `due_ms`."""
        if due_ms is not None and (self.next_due_ms is None or due_ms < self.next_due_ms):
            self.next_due_ms = due_ms

    def as_dict(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "retries": self.retries,
            "skipped": self.skipped,
            "batches": self.commits,
            "bytes": self.bytes,
            "untilMs": self.until_ms,
            "nextDueMs": self.next_due_ms,
            "dryRun": self.dry_run,
            "levels": {str(level): counts.as_dict() for level, counts in sorted(self.levels.items())},
        }


@dataclass(frozen=True, slots=True)
class DueDelays:
    """Number of due delayed messages, when the next one is due, and whether delayOffset.json is outdated."""

    messages: int = 0
    next_due_ms: int | None = None
    file_lags: bool = False


class DelayDelivery:
    """Delivers from one open store; keeps the position of every level in memory. Not thread-safe.

    Another delivery from the same store may run beside it: the one that commits second plans again.
    """

    def __init__(self, store: MessageStore, run_id: str | None = None, commit_bytes: int = COMMIT_BYTES) -> None:
        self._store, self._commit_bytes = store, commit_bytes
        self.run_id = run_id or uuid.uuid4().hex
        self.delivered = self.skipped = 0
        """Messages since this object was created."""
        self._positions: Positions | None = None

    def deliver(self, until_ms: int | None = None, progress: Progress | None = None) -> DeliveryResult:
        """Deliver what is due at `until_ms`, by default (and at the latest) now by the store's clock.

        Raises:
            StoreClosedError: the store is closed.
        """
        self._store.check_open()
        now_ms = self._store.config.clock.now_ms()
        result = DeliveryResult(now_ms if until_ms is None else min(until_ms, now_ms))
        while True:
            try:
                self._round(result, progress)
            except ProgressMovedError:
                self.forget_positions()
                continue
            return result

    def forget_positions(self) -> None:
        """Forget the position of every level: another process delivered."""
        self._positions = None

    @property
    def known_positions(self) -> dict[int, int]:
        """Next queue offset by level as the last delivery has left it, empty before the first; does not block."""
        return {} if self._positions is None else dict(self._positions.by_level)

    @property
    def positions(self) -> Positions:
        """Positions from which every level continues."""
        if self._positions is None:
            store = self._store
            self._positions = find_positions(
                store,
                last_commit(store, SINK_ID),
                store.config_files.delay_offsets.offsets(),
                store.config.clock.now_ms(),
                lambda: index_coverage(store.index.files, store.log, store.max_phy_offset),
            )
            self._write_file(self._positions)
        return self._positions

    def due(self, result: DeliveryResult) -> dict[int, tuple[int, int]]:
        """Return [start, end) of each level's due messages at `result.until_ms`; set the result's `next_due_ms`."""
        return due_by_level(self._store, self.positions, result)

    def staging(self) -> tuple[StagingArea, int]:
        """Return the staging area of the next commit's parts, and the number of its batch."""
        after = self.positions.after
        return StagingArea(self._store.path, SINK_ID), 0 if after is None else after.batch_id + 1

    def commit(self, found: Sequence[Redelivery], chunks: Sequence[EncodedChunk]) -> bool:
        """Commit these messages, the next ones of their levels, encoded as `chunks`. Return False if nothing moved.

        Raises:
            ProgressMovedError: another delivery committed since, and nothing was written; call `forget_positions`.
        """
        before = self.positions
        moved = {one.level: one.next_offset for one in found if one.next_offset > before.by_level.get(one.level, 0)}
        if not moved:
            return False
        with self._store.one_topic_write():
            for topic in {topic for chunk in chunks for topic in chunk.topics if topic.startswith(RETRY_PREFIX)}:
                self._store.ensure_topic(topic, _RETRY_QUEUES)
        rows = sum(one.rows for one in found)
        progress = before.progress(moved)
        commit_progress(self._store, ProgressBatch(SINK_ID, self.run_id, before.after, progress, rows, chunks))
        self.delivered += rows
        self.skipped += sum(len(one.skipped) for one in found)
        self._positions = Positions(last_commit(self._store, SINK_ID), {**before.by_level, **moved})
        _report_skipped(self._store, (skipped for one in found for skipped in one.skipped))
        self._write_file(self._positions)
        return True

    def _round(self, result: DeliveryResult, progress: Progress | None) -> None:
        result.next_due_ms = None
        due = self.due(result)
        total = result.rows + sum(end - start for start, end in due.values())
        for some in _together(self._due(due, result), self._commit_bytes):
            if not self.commit(some, [one.chunk for one in some if one.chunk is not None]):
                continue
            result.commits += 1
            for one in some:
                result.add(one)
            if progress is not None:
                progress(result.rows, total)

    def _due(self, due: dict[int, tuple[int, int]], result: DeliveryResult) -> Iterator[Redelivery]:
        for level, (start, end) in due.items():
            for one in redeliveries(self._store, self._store.config, level, start, end, result.until_ms):
                result.wait_for(one.next_due_ms)
                yield one

    def _write_file(self, positions: Positions) -> None:
        file = self._store.config_files.delay_offsets
        known = file.offsets()
        changed = {level: offset for level, offset in positions.by_level.items() if known.get(level, 0) != offset}
        if changed:
            file.commit(changed)


def deliver_due(
    store: MessageStore, until_ms: int | None = None, *, progress: Progress | None = None, run_id: str | None = None
) -> DeliveryResult:
    """Deliver once what is due at `until_ms`, by default and at the latest now; a repeated call delivers the rest only.

    Raises StoreClosedError, and what a commit of the store raises; messages of earlier commits are delivered and are
    not delivered again.
    """
    return DelayDelivery(store, run_id).deliver(until_ms, progress)


def preview_due(reader: StoreReader, until_ms: int) -> DeliveryResult:
    """Return the counts that `deliver_due` would have at `until_ms`, any time; write nothing and take no lock."""
    result = DeliveryResult(until_ms, dry_run=True)
    positions, _ = positions_seen(reader, until_ms)
    for level, (start, end) in due_by_level(reader, positions, result).items():
        for one in redeliveries(reader, reader.config, level, start, end, until_ms, encode=False):
            result.add(one)
            result.wait_for(one.next_due_ms)
    return result


def positions_seen(reader: StoreReader, now_ms: int) -> tuple[Positions, bool]:
    """Return (positions of all levels, whether delayOffset.json is outdated), as far as a reader can see.

    After an unclean stop the index may lack entries: then more messages look due than are, never fewer. A delivery,
    which repairs the index first, decides again.
    """

    def coverage() -> IndexCoverage:
        reader.index.refresh()
        return index_coverage(reader.index.files, reader.log, reader.max_phy_offset)

    after, claimed = last_commit(reader, SINK_ID), DelayOffsetsFile(reader.paths.config).offsets()
    return find_positions(reader, after, claimed, now_ms, coverage), file_lags(after, claimed)


def look_for_due(reader: StoreReader, until_ms: int) -> DueDelays:
    """Return what a delivery at `until_ms`, at the latest now, would find; take no lock and write nothing."""
    now_ms = reader.config.clock.now_ms()
    result = DeliveryResult(min(until_ms, now_ms))
    positions, lags = positions_seen(reader, now_ms)
    waiting = sum(end - start for start, end in due_by_level(reader, positions, result).values())
    return DueDelays(waiting, result.next_due_ms, lags)


def due_by_level(
    reads: MessageStore | StoreReader, positions: Positions, result: DeliveryResult
) -> dict[int, tuple[int, int]]:
    """Return [start, end) of the due messages of each level at `result.until_ms`; set the result's `next_due_ms`."""
    found = {}
    for level in levels_of(reads):
        low, _ = reads.bounds(SCHEDULE_TOPIC, level - 1)
        start = max(positions.by_level.get(level, 0), low)
        end, next_due_ms = due_units(reads, level, start, result.until_ms)
        result.wait_for(next_due_ms)
        if end > start:
            found[level] = (start, end)
    return found


def _report_skipped(store: MessageStore, skipped: Iterable[Skipped]) -> None:
    """Report messages that are never delivered (except halves of transactions), once for each cause and place."""
    reported = [one for one in skipped if one.kind != HALF]
    for (place, why), some in groupby(reported, lambda one: (one.place, one.why)):
        offsets = [one.queue_offset for one in some]
        text = f"delayed messages from queue offset {offsets[0]} on are not delivered: {why}"
        events.report(events.SKIPPED, store.path, place, text, offset=offsets[0], count=len(offsets))


def _together(found: Iterable[Redelivery], most_bytes: int) -> Iterator[list[Redelivery]]:
    """Yield groups of consecutive redeliveries of at most `most_bytes`; a single one may have more."""
    some: list[Redelivery] = []
    size = 0
    for one in found:
        needs = one.bytes + _SKIPPED_BYTES * len(one.skipped)
        if some and size + needs > most_bytes:
            yield some
            some, size = [], 0
        some.append(one)
        size += needs
    if some:
        yield some
