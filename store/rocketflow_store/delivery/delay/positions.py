"""From where on each delay level is still to be delivered.

The envelope of our last delivery says it, and the log has both or neither. `delayOffset.json`, which RocketMQ's broker
reads and writes, is a cache beside that: it may be missing, behind (a kill, a backup) or ahead. It is ahead rightly
where a broker delivered after us; wrongly where it was damaged or belongs to another log. So what the file claims, or
omits, is held against the log: a delivered message stands there a second time, under its own topic.

    file      log shows                               begin at
    missing   nothing delivered behind the envelope   the envelope's position (the queue's begin without one)
    behind    the same                                the same
    ahead     the last one that it claims, delivered  the file's position
    ahead     not that one                            behind the last one that was delivered (told: RF-CLAMP)
    any       more delivered (a broker was killed     behind the last one that was delivered
              before it wrote the file)

Delivery of a level follows its queue, so a binary search finds the last one. Where nothing can be told (no UNIQ_KEY,
no index for that part of the log) the file is believed as far as messages were due. Positions in front of the queue's
begin (retention) move there; one behind its end is of another queue, and the search begins anew.
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
    from rocketflow_store.model.message import MessageExt
    from rocketflow_store.views.index.index_coverage import IndexCoverage

_PROBES: Final = 16
"""So many messages beside one that tells nothing are asked instead."""
_MANY: Final = 64
"""An answer of so many messages may have been cut off."""


class PositionReads(ScheduleReads, Protocol):
    """What is needed to look for delivered messages."""

    @property
    def path(self) -> Path: ...

    @property
    def max_phy_offset(self) -> int: ...

    def look_message_by_offset(self, phy_offset: int) -> MessageExt | None: ...

    def query_message(self, topic: str, key: str, max_count: int = ...) -> list[MessageExt]: ...


@dataclass(frozen=True, slots=True)
class Positions:
    """Next queue offset by level, and the commit that it follows on."""

    after: CommitEnvelope | None
    by_level: Mapping[int, int]

    def progress(self, moved: Mapping[int, int]) -> dict[str, Any]:
        """What the next envelope says: these positions, with those that `moved`."""
        merged = {**self.by_level, **moved}
        return {str(level): merged[level] for level in sorted(merged)}


def delivered_of(after: CommitEnvelope | None) -> dict[int, int]:
    """Positions by level in an envelope; CorruptRecordError where they are none."""
    if after is None:
        return {}
    try:
        return offset_map(dict(after.progress), "progress")
    except ValueError as error:
        raise CorruptRecordError(
            SCHEDULE_TOPIC, after.begin_offset, f"an envelope without positions: {error}"
        ) from error


def file_lags(after: CommitEnvelope | None, claimed: Mapping[int, int]) -> bool:
    """Whether delayOffset.json says less than was delivered: a delivery was killed before it wrote the file.

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
    """Where every level goes on: see the table above. `claimed` is what delayOffset.json says.

    `coverage` tells for which part of the log the index speaks; it is asked only where a message has to be looked for.
    """
    ours, found = delivered_of(after), {}
    evidence = _Evidence(reads, coverage)
    for level in levels_of(reads):
        low, high = reads.bounds(SCHEDULE_TOPIC, level - 1)
        known = ours.get(level, 0)
        start = low if known > high else max(known, low)
        claim = claimed.get(level, 0)
        if claim > start:
            start = _believed(reads, evidence, level, start, min(claim, high), claim, now_ms)
        found[level] = evidence.behind_delivered(level, start, high)
    # a level whose queue is gone for now keeps its position
    return Positions(after, {**ours, **found})


def _believed(
    reads: PositionReads, evidence: _Evidence, level: int, start: int, end: int, claim: int, now_ms: int
) -> int:
    """How far the file's claim that [start, end) is delivered agrees with the log."""
    shown = evidence.nearest(level, range(end - 1, max(start, end - _PROBES) - 1, -1))
    if shown is None:
        believed = min(end, due_units(reads, level, start, now_ms)[0])
    elif shown[1]:
        believed = end
    else:
        believed = evidence.search(level, start, shown[0])
    if believed < claim:
        why = f"delayOffset.json says {claim} of delay level {level}, the log shows no more than {believed} delivered"
        events.report(events.CLAMPED, reads.path, "delayOffset.json", why, offset=believed, count=claim - believed)
    return believed


class _Evidence:
    """Whether a message of a level stands in the log a second time, as a delivery leaves it."""

    def __init__(self, reads: PositionReads, coverage: Callable[[], IndexCoverage]) -> None:
        self._reads, self._ask = reads, coverage
        self._end = reads.max_phy_offset
        self._coverage: IndexCoverage | None = None

    def behind_delivered(self, level: int, start: int, high: int) -> int:
        """Behind the last delivered message of [start, high), `start` where none is."""
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
        """Behind the last delivered message of [low, high); everything in front of `low` is delivered."""
        while low < high:
            middle = (low + high) // 2
            shown = self.nearest(level, range(middle, high))
            if shown is not None and shown[1]:
                low = shown[0] + 1
            else:
                high = middle
        return low

    def nearest(self, level: int, offsets: range) -> tuple[int, bool] | None:
        """(queue offset, delivered?) of the first of these that tells; None where a few in a row do not."""
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
            return False if self._speaks_for(waiting.phy_offset) and len(copies) < _MANY else None
        # who sent the same message twice has it waiting twice: each needs its own copy
        twins = self._reads.query_message(SCHEDULE_TOPIC, key, _MANY)
        rank = sum(one.phy_offset <= waiting.phy_offset and _same(one, waiting, SCHEDULE_TOPIC) for one in twins)
        return made >= max(rank, 1)

    def _speaks_for(self, phy_offset: int) -> bool:
        """Whether the index names everything from there on."""
        if self._coverage is None:
            self._coverage = self._ask()
        return self._coverage.begin_phy_offset <= phy_offset and self._coverage.end_phy_offset >= self._end


def _same(one: MessageExt, waiting: MessageExt, topic: str) -> bool:
    """Whether `one` is `waiting` stored under `topic`: a retry of it differs in level or in reconsumeTimes."""
    names = (PROPERTY_DELAY, PROPERTY_REAL_TOPIC, PROPERTY_REAL_QUEUE_ID)
    queue = waiting.queue_id if topic == SCHEDULE_TOPIC else waiting.properties.get(PROPERTY_REAL_QUEUE_ID)
    return (
        str(one.queue_id) == str(queue)
        and one.uniq_key == waiting.uniq_key
        and one.reconsume_times == waiting.reconsume_times
        and one.born_timestamp == waiting.born_timestamp
        and all(one.properties.get(name) == waiting.properties.get(name) for name in names)
    )
