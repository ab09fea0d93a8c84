"""Queries for the newest messages of a topic with given TAGS, by the index if it is complete, else by queue units.

Index entries for TAGS exist since RocketMQ 5.4.0, and not for messages that an older broker stored. Each ConsumeQueue
unit has the hash of its message's TAGS, so the queues answer for the part for which the index is not known to be
complete: 20 bytes a message are read, and only the records that match.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.filters.tags import TagFilter
from rocketflow_store.format.consume_queue_unit import MAX_EXT_ADDRESS
from rocketflow_store.metadata.native.known_tag_entries import known_tag_entries
from rocketflow_store.model.errors import CorruptRecordError, InvalidFilterError
from rocketflow_store.model.java_compat import TAG_KEY_PREFIX
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC
from rocketflow_store.reading.faults import SkipFaults
from rocketflow_store.reading.queue_units import queue_units
from rocketflow_store.reading.skipped import SkippedMessages
from rocketflow_store.views.index.index_coverage import IndexCoverage, index_coverage
from rocketflow_store.views.queues.consume_queue import lost, pre_blank, written

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.model.message import ReceivedMessage
    from rocketflow_store.reading.faults import ReadFaults
    from rocketflow_store.reading.queue_table import QueueTable
    from rocketflow_store.reading.time_search import TimeSearch
    from rocketflow_store.views.index.index_service import IndexService

_UNITS_AT_ONCE: Final = 1 << 14
_MAX_LOOKS: Final = 20_000
"""The most index entries of the hashes that are read for a query."""


@dataclass(slots=True)
class TagQueryResult:
    """The newest messages that match, by physical offset; not `complete` if some may be missing."""

    messages: list[ReceivedMessage] = field(default_factory=list)
    complete: bool = True


def tag_coverage(paths: StorePaths, index: IndexService, log: CommitLogView, end: int) -> IndexCoverage:
    """Return the newest part of a log that ends at `end` in which the index names every message's TAGS.

    After an unclean stop that is empty: the system may have kept any of the index's pages.
    """
    floor, ranges = log.min_phy_offset, known_tag_entries(paths, paths.index).ranges
    begin = max(ranges[-1][0], floor) if ranges and ranges[-1][1] >= end else end
    if begin < end:
        index.refresh()
        found = index_coverage(index.files, log, end, tags=True)
        begin = max(begin, found.begin_phy_offset) if found.end_phy_offset >= end else end
    return IndexCoverage(begin, end, begin <= floor)


@dataclass(frozen=True, slots=True)
class TagQuery:
    """One query, for messages that were stored within [`begin`, `end`] ms."""

    topic: str
    tags: TagFilter
    begin: int
    end: int

    @classmethod
    def parse(cls, topic: str, tags: str, begin: int, end: int) -> TagQuery:
        """Return the query; raise InvalidFilterError for an expression that names no tag."""
        chosen = TagFilter.parse(tags)
        if chosen.matches_all or chosen.matches_none:
            raise InvalidFilterError(tags, 0, "names no tag: a query is for messages with given TAGS")
        return cls(topic, chosen, begin, end)

    def matches(self, message: ReceivedMessage) -> bool:
        """Return True if a message matches."""
        if message.topic != self.topic or not self.tags.matches_tag(message.tags):
            return False
        return self.begin <= message.store_timestamp <= self.end


class TagSearch:
    """Answers a query with messages at or after the physical offset `floor`.

    `look` returns the message at a physical offset, None if it cannot be read or returned.
    """

    def __init__(self, query: TagQuery, floor: int, look: Callable[[int], ReceivedMessage | None]) -> None:
        self._query, self._floor, self._look = query, floor, look

    def by_index(self, paths: StorePaths, index: IndexService, most: int, covered_from: int) -> TagQueryResult:
        """Return messages at or after the physical offset `covered_from`, from which on the index is complete."""
        found, before = TagQueryResult(), -1
        query = self._query

        def damaged(file: Path, number: int, why: str) -> None:
            damaged_entry(SkipFaults(), paths, file, number, why)
            found.complete = False

        walks = [
            index.walk(query.topic, TAG_KEY_PREFIX + tag, query.begin, query.end, damaged) for tag in query.tags.tags
        ]
        looks = 0
        for phy_offset in islice(heapq.merge(*walks, reverse=True), _MAX_LOOKS):
            looks += 1
            if phy_offset < max(covered_from, self._floor) or len(found.messages) >= most:
                return found
            if phy_offset != before:
                self._take(phy_offset, found)
            before = phy_offset
        found.complete = found.complete and looks < _MAX_LOOKS
        return found

    def by_units(self, queues: QueueTable, times: TimeSearch, most: int, end: int) -> TagQueryResult:
        """Return messages before the physical offset `end`."""
        found = TagQueryResult()
        for topic, queue_id in sorted(set(queues.names())):
            if topic != self._query.topic:
                continue
            in_queue = self._in_queue(queues, times, queue_id, most, end)
            found.messages += in_queue.messages
            found.complete = found.complete and in_queue.complete
        found.messages = sorted(found.messages, key=lambda one: one.physical_offset, reverse=True)[:most]
        return found

    def _in_queue(self, queues: QueueTable, times: TimeSearch, queue_id: int, most: int, end: int) -> TagQueryResult:
        query, found = self._query, TagQueryResult()
        low, high = queues.bounds(query.topic, queue_id)
        if query.begin > 0 and low < high:
            low = times.offset(query.topic, queue_id, query.begin)
        tolerant = SkipFaults()  # missing units are zeros
        for stop in range(high, low, -_UNITS_AT_ONCE):
            units = queue_units(queues, query.topic, queue_id, max(stop - _UNITS_AT_ONCE, low), stop, tolerant)
            there = written(units) & ~pre_blank(units)
            missing = lost(units) | ~written(units)
            found.complete = found.complete and not missing.any()
            wanted = there & ~missing & (units["phy_offset"] < end) & (units["phy_offset"] >= self._floor)
            if query.topic != SCHEDULE_TOPIC:  # its units say when the message is due
                codes = units["tags_code"].astype(np.int64)
                wanted &= query.tags.mask_codes(codes) | (codes <= MAX_EXT_ADDRESS)
            for phy_offset in np.unique(units["phy_offset"][wanted].astype(np.int64))[::-1].tolist():
                self._take(phy_offset, found)
                if len(found.messages) >= most:
                    return found
        return found

    def _take(self, phy_offset: int, found: TagQueryResult) -> None:
        """Add the message at an offset if it matches."""
        message = self._look(phy_offset)
        if message is None:
            found.complete = False
        elif self._query.matches(message):
            found.messages.append(message)


def damaged_entry(faults: ReadFaults, paths: StorePaths, file: Path, number: int, why: str) -> None:
    """Meet an index file that is damaged near an entry."""
    why = f"entry {number}: {why}: messages may be missing; see store verify --repair"
    faults.meet(CorruptRecordError(file, number, why))
    skipped = [SkippedMessages(-1, 1, -1, f"{file}, {why}")]
    faults.skipped(skipped, store=paths.root, place=file, offset=number, why=why)
