"""The positions from which each delay level is still to be delivered.

The envelope of RocketFlow's last delivery has them, and the log has both or neither. `delayOffset.json`, which
RocketMQ's broker reads and writes, is a cache beside that: it may be missing, outdated (a kill, a backup) or ahead. It
is rightly ahead if a broker delivered after RocketFlow; wrongly if it was damaged or belongs to another log. So its
claims and omissions are checked against the log: a delivered message exists there a second time, under its own topic.

    file      evidence of the log                     start
    missing   nothing delivered after the envelope    the envelope's position (the queue's begin without one)
    outdated  the same                                the same
    ahead     its last message was delivered          the file's position
    ahead     its last message was not delivered      after the last delivered message (reported: RF-CLAMP)
    any       more delivered (a broker was killed     after the last delivered message
              before it wrote the file)

Delivery of a level follows its queue, so a binary search finds the last one. Without evidence (no UNIQ_KEY, no index
for that part of the log) the file is trusted as far as messages were due. Positions before the queue's begin
(retention) move there; one after its end belongs to another queue, and the search starts at the begin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from rocketflow_store.delivery.delay.redelivery import ScheduleReads, due_units, levels_of, why_not
from rocketflow_store.files.json_fields import offset_map
from rocketflow_store.model.errors import CorruptRecordError, StoreError
from rocketflow_store.model.property_names import PROPERTY_DELAY, PROPERTY_REAL_QUEUE_ID, PROPERTY_REAL_TOPIC
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC
from rocketflow_store.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rocketflow_store.metadata.native.commit_envelope import CommitEnvelope
    from rocketflow_store.model.message import ReceivedMessage
    from rocketflow_store.views.index.index_coverage import IndexCoverage

_PROBES: Final = 16
"""The most messages that are tried beside one without evidence."""
_MANY: Final = 64
"""An answer with this many messages may be incomplete."""


class PositionReads(ScheduleReads, Protocol):
    """Reads that the search for delivered messages needs."""

    @property
    def path(self) -> Path: ...

    @property
    def max_phy_offset(self) -> int: ...

    def look_message_by_offset(self, phy_offset: int) -> ReceivedMessage | None: ...

    def query_message(self, topic: str, key: str, max_count: int = ...) -> list[ReceivedMessage]: ...


@dataclass(frozen=True, slots=True)
class Positions:
    """Next queue offset by level, and the commit that has them."""

    after: CommitEnvelope | None
    by_level: Mapping[int, int]

    def progress(self, moved: Mapping[int, int]) -> dict[str, Any]:
        """Return the progress of the next envelope: these positions, with those that `moved`."""
        merged = {**self.by_level, **moved}
        return {str(level): merged[level] for level in sorted(merged)}


def delivered_of(after: CommitEnvelope | None) -> dict[int, int]:
    """Return the positions by level in an envelope; raise CorruptRecordError if it has none."""
    if after is None:
        return {}
    try:
        return offset_map(dict(after.progress), "progress")
    except ValueError as error:
        raise CorruptRecordError(
            SCHEDULE_TOPIC, after.begin_offset, f"an envelope without positions: {error}"
        ) from error


def file_lags(after: CommitEnvelope | None, claimed: Mapping[int, int]) -> bool:
    """Return True if delayOffset.json has less than was delivered: a delivery was killed before it wrote the file.

    A broker that starts now would deliver again; any delivery, also of nothing, writes the file.
    """
    return any(claimed.get(level, 0) < offset for level, offset in delivered_of(after).items())


def find_positions(
    reads: PositionReads,
    after: CommitEnvelope | None,
    claimed: Mapping[int, int],
    now_ms: int,
    coverage: Callable[[], IndexCoverage],
) -> Positions:
    """Return the start of every level: see the table above. `claimed` is the content of delayOffset.json.

    `coverage` returns the part of the log that the index covers; it is called only if a message must be looked for.
    """
    committed, found = delivered_of(after), {}
    evidence = _Evidence(reads, coverage)
    for level in levels_of(reads):
        low, high = reads.bounds(SCHEDULE_TOPIC, level - 1)
        known = committed.get(level, 0)
        start = low if known > high else max(known, low)
        claim = claimed.get(level, 0)
        if claim > start:
            start = evidence.confirmed(level, start, min(claim, high), claim, now_ms)
        found[level] = evidence.after_delivered(level, start, high)
    # a level whose queue is missing for now keeps its position
    return Positions(after, {**committed, **found})


class _Evidence:
    """Evidence whether a message of a level exists in the log a second time, as a delivery leaves it."""

    def __init__(self, reads: PositionReads, coverage: Callable[[], IndexCoverage]) -> None:
        self._reads, self._ask = reads, coverage
        self._end = reads.max_phy_offset
        self._coverage: IndexCoverage | None = None

    def confirmed(self, level: int, start: int, end: int, claim: int, now_ms: int) -> int:
        """Return how far the log confirms the file's claim that [start, end) is delivered."""
        shown = self.nearest(level, range(end - 1, max(start, end - _PROBES) - 1, -1))
        if shown is None:
            believed = min(end, due_units(self._reads, level, start, now_ms)[0])
        elif shown[1]:
            believed = end
        else:
            believed = self.search(level, start, shown[0])
        if believed < claim:
            file, count = "delayOffset.json", claim - believed
            why = f"{file} says {claim} of delay level {level}, the log shows no more than {believed} delivered"
            events.report(events.CLAMPED, self._reads.path, file, why, offset=believed, count=count)
        return believed

    def after_delivered(self, level: int, start: int, high: int) -> int:
        """Return the offset after the last delivered message of [start, high), `start` without one."""
        step, low = 1, start
        while low < high:
            shown = self.nearest(level, range(min(low + step, high) - 1, min(low + step + _PROBES, high)))
            if shown is None or not shown[1]:
                break
            low, step = shown[0] + 1, step * 2
        if step == 1:
            return start
        return self.search(level, low, min(low + step, high))

    def search(self, level: int, low: int, high: int) -> int:
        """Return the offset after the last delivered message of [low, high); all before `low` are delivered."""
        while low < high:
            middle = (low + high) // 2
            shown = self.nearest(level, range(middle, high))
            if shown is not None and shown[1]:
                low = shown[0] + 1
            else:
                high = middle
        return low

    def nearest(self, level: int, offsets: range) -> tuple[int, bool] | None:
        """Return (queue offset, delivered?) of the first of these with evidence; None if the first few have none."""
        for offset in offsets[:_PROBES]:
            shown = self._delivered(level, offset)
            if shown is not None:
                return offset, shown
        return None

    def _delivered(self, level: int, offset: int) -> bool | None:
        try:
            units = self._reads.read_units(SCHEDULE_TOPIC, level - 1, offset, offset + 1)
        except StoreError:
            return None
        waiting = self._reads.look_message_by_offset(int(units["phy_offset"][0])) if len(units) else None
        if waiting is None or waiting.topic != SCHEDULE_TOPIC or not waiting.uniq_key:
            return None
        topic, key = waiting.properties.get(PROPERTY_REAL_TOPIC, ""), waiting.uniq_key
        if why_not(topic):
            return None
        copies = self._reads.query_message(topic, key, _MANY)
        made = sum(_same(one, waiting, topic) for one in copies)
        if made == 0:
            return False if self._is_indexed_from(waiting.physical_offset) and len(copies) < _MANY else None
        # a message that was sent twice waits twice: each needs its own copy
        twins = self._reads.query_message(SCHEDULE_TOPIC, key, _MANY)
        rank = sum(
            one.physical_offset <= waiting.physical_offset and _same(one, waiting, SCHEDULE_TOPIC) for one in twins
        )
        return made >= max(rank, 1)

    def _is_indexed_from(self, phy_offset: int) -> bool:
        """Return True if the index covers the log from `phy_offset` to its end."""
        if self._coverage is None:
            self._coverage = self._ask()
        return self._coverage.begin_phy_offset <= phy_offset and self._coverage.end_phy_offset >= self._end


def _same(one: ReceivedMessage, waiting: ReceivedMessage, topic: str) -> bool:
    """Return True if `one` is `waiting` stored under `topic`: a retry of it differs in level or in reconsumeTimes."""
    names = (PROPERTY_DELAY, PROPERTY_REAL_TOPIC, PROPERTY_REAL_QUEUE_ID)
    queue = waiting.queue_id if topic == SCHEDULE_TOPIC else waiting.properties.get(PROPERTY_REAL_QUEUE_ID)
    return (
        str(one.queue_id) == str(queue)
        and one.uniq_key == waiting.uniq_key
        and one.reconsume_times == waiting.reconsume_times
        and one.born_timestamp == waiting.born_timestamp
        and all(one.properties.get(name) == waiting.properties.get(name) for name in names)
    )
