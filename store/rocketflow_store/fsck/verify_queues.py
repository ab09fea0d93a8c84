"""Verification of ConsumeQueues: units without a record, queue by queue, a block of units at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.format.consume_queue_unit import UNIT_SIZE
from rocketflow_store.fsck.findings import Damage, RangeSet
from rocketflow_store.fsck.log_report import QueueReport
from rocketflow_store.fsck.unit_ranges import UnitPlaces
from rocketflow_store.model.errors import StoreError
from rocketflow_store.model.topic_names import LMQ_PREFIX
from rocketflow_store.views.queues.claimed_places import LostMessages
from rocketflow_store.views.queues.consume_queue import lost as lost_units
from rocketflow_store.views.queues.consume_queue import pre_blank, written

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from rocketflow_store.fsck.findings import Findings
    from rocketflow_store.fsck.log_damage import LogDamage
    from rocketflow_store.fsck.log_report import LogReport
    from rocketflow_store.fsck.observation import Observation
    from rocketflow_store.fsck.verify_claims import JudgedQueues
    from rocketflow_store.model.message import ReceivedMessage
    from rocketflow_store.views.queues.claimed_places import RefutedClaim
    from rocketflow_store.views.queues.consume_queue import ConsumeQueue

    Units = npt.NDArray[np.void]
    Queue = tuple[str, int]

_BLOCK: Final = 1 << 16
_MAX_ODD: Final = 1000
"""The most units of a block that are checked one by one."""


class QueuesCheck:
    """The check of all ConsumeQueues, from the claims of the log's records; it changes their reports."""

    def __init__(self, seen: Observation, log: LogReport, judged: JudgedQueues, damage: LogDamage) -> None:
        self._seen, self._judged, self._damage = seen, judged, damage
        self._reports = log.units.queues
        self._unused = log.unused
        self._beyond_log = 0

    def run(self, found: Findings) -> dict[Queue, list[LostMessages]]:
        """Check the units of every queue; return the messages that units mark as lost."""
        lost: dict[Queue, list[LostMessages]] = {}
        for key in sorted(self._seen.bounds.keys() | self._reports.keys()):
            report = self._reports.setdefault(key, QueueReport())
            if key[0].startswith(LMQ_PREFIX):
                # messages took the same offset while no units were written: the last one has it
                report.units.wrong.subtract(report.right)
            queue = self._seen.reader.find(*key)
            if queue is not None and (stop := self._checked_end(queue, report)) is not None:
                messages = self._check(queue, report, stop)
                if messages:
                    lost[key] = messages
        found.lost_records += self._beyond_log
        return lost

    def _checked_end(self, queue: ConsumeQueue, report: QueueReport) -> int | None:
        """Return the end of the units to check; None if the records of the log have accounted for all units."""
        key = queue.topic, queue.queue_id
        low, high = self._seen.bounds.get(key, (0, 0))
        reached = queue.scan_end() if self._seen.settled else high
        if key in self._judged.refuted:
            self._forgive(queue, report, self._judged.refuted[key])
        elif report.matched == high - low == max(reached, report.next_offset) - low and not report.units.wrong:
            return None
        return max(reached, report.next_offset if self._seen.is_clean else 0, high)

    def _check(self, queue: ConsumeQueue, report: QueueReport, stop: int) -> list[LostMessages]:
        """Find units before `stop` that are missing, stray, or of a record with a damaged header."""
        light, lost_messages = queue.topic.startswith(LMQ_PREFIX), []
        low, high = self._seen.bounds.get((queue.topic, queue.queue_id), (0, 0))
        for first in range(max(queue.first_unit, low), stop, _BLOCK):
            units = queue.units_or_zeros(first, min(first + _BLOCK, stop))
            there = written(units)
            if not light:
                lost_messages += self._lost_messages(queue, first, units, high)
            if self._seen.settled:
                empty = np.flatnonzero(~there) + first
                report.units.missing.add_numbers(empty[empty < report.next_offset])
            real = there & ~(pre_blank(units) | lost_units(units))
            if light:
                self._check_lmq(report, first, units, real)
            else:
                self._check_plain(queue, report, first, units, real)
        return lost_messages

    def _check_lmq(self, report: QueueReport, first: int, units: Units, real: npt.NDArray[np.bool_]) -> None:
        match = real & report.right.contains(np.arange(first, first + len(units)))
        at = np.flatnonzero(real)
        match[at[self._damage.contains(units["phy_offset"][at].astype(np.int64))]] = True
        odd = np.flatnonzero(real & ~match)
        odd = odd[~report.units.wrong.contains(odd + first)]
        phy_offsets = units["phy_offset"][odd].astype(np.int64)
        odd = odd[(phy_offsets >= self._seen.reader.min_phy_offset) & (phy_offsets < self._seen.settled_units)]
        report.units.stray.add_numbers(odd + first)

    def _check_plain(
        self, queue: ConsumeQueue, report: QueueReport, first: int, units: Units, real: npt.NDArray[np.bool_]
    ) -> None:
        match = real & self._seen.reader.units_match(queue.topic, queue.queue_id, first, units)
        at = np.flatnonzero(real)
        match[at[self._damage.claim(units["phy_offset"][at].astype(np.int64))]] = True
        odd = np.flatnonzero(real & ~match)
        odd = odd[~report.units.wrong.contains(odd + first)]
        for row in odd[:_MAX_ODD].tolist():
            self._judge_mismatch(queue, first + row, int(units["phy_offset"][row]), int(units["msg_size"][row]))
        report.units.stray.add_numbers(odd[_MAX_ODD:] + first)

    def _forgive(self, queue: ConsumeQueue, report: QueueReport, refuted: Sequence[RefutedClaim]) -> None:
        """Report units at refuted claims only if they point at those records, or not at the right message."""
        key = queue.topic, queue.queue_id
        report.next_offset = min(report.next_offset, self._judged.last_claim(key)[0])
        for claim in refuted:
            for number in range(claim.first, min(claim.stop, claim.first + _MAX_ODD)):
                unit = queue.units(number, number + 1) if number >= queue.first_unit else queue.units(0, 0)
                report.units.missing.remove(number)
                report.units.wrong.remove(number)
                if not len(unit) or not written(unit)[0]:
                    continue
                place = int(unit["phy_offset"][0])
                if any(one.begin <= place <= one.end and one.first <= number < one.stop for one in refuted):
                    if not lost_units(unit)[0]:
                        report.units.wrong.add(number, number + 1)
                elif not lost_units(unit)[0] and not self._seen.reader.units_match(*key, number, unit)[0]:
                    report.units.wrong.add(number, number + 1)

    def _lost_messages(self, queue: ConsumeQueue, first: int, units: Units, high: int) -> list[LostMessages]:
        """Return the messages after the last record of a queue that units mark as lost."""
        at, begin = self._judged.last_claim((queue.topic, queue.queue_id))
        lost = lost_units(units) & ~self._damage.contains(units["phy_offset"].astype(np.int64))
        numbers = np.flatnonzero(lost) + first
        numbers = numbers[(numbers >= at) & (numbers < high)]
        ranges = RangeSet()
        ranges.add_numbers(numbers)
        return [LostMessages(*one, begin, self._seen.end) for one in ranges.ranges]

    # -- units that point at another record

    def _judge_mismatch(self, queue: ConsumeQueue, number: int, phy_offset: int, size: int) -> None:
        """Decide whether the unit or the record is wrong if they do not match."""
        low = self._seen.bounds.get((queue.topic, queue.queue_id), (0, 0))[0]
        if phy_offset < self._seen.reader.min_phy_offset and number <= low:
            return
        if self._header_is_damaged(queue, number, phy_offset, size):
            return
        follows = _follows(queue, number, phy_offset)
        if follows and any(start <= phy_offset < stop for start, stop in self._unused):
            why = "the file's end mark is before it"
            self._damage.add(self._damaged_record(phy_offset, size, why, claims=1))
            return
        self._reports[queue.topic, queue.queue_id].units.stray.add(number, number + 1)
        if self._seen.is_clean and phy_offset >= self._seen.limit and follows:
            self._beyond_log += 1  # the end of the log is missing

    def _header_is_damaged(self, queue: ConsumeQueue, number: int, phy_offset: int, size: int) -> bool:
        """Return True if the record is wrong: it exists, but claims a place that no queue confirms."""
        if self._seen.reader.record_size_at(phy_offset) != size or not _follows(queue, number, phy_offset):
            return False
        message = self._message_at(phy_offset, size)
        if message is None or self._has_unit(message, phy_offset, size) or self._is_displaced(queue, number, message):
            return False
        claimed = message.topic, message.queue_id
        if claimed in self._reports:
            units = self._reports[claimed].units
            units.missing.remove(message.queue_offset)
            units.wrong.remove(message.queue_offset)
        why = f"says it is {message.topic} queue {message.queue_id} offset {message.queue_offset}, "
        why += f"which {queue.topic} queue {queue.queue_id} offset {number} points at"
        self._damage.add(self._damaged_record(phy_offset, size, why, other_head=True))
        return True

    def _damaged_record(
        self, phy_offset: int, size: int, why: str, *, claims: int = 0, other_head: bool = False
    ) -> Damage:
        mapped = self._seen.log_file(phy_offset)
        position = phy_offset - mapped.file_from_offset
        return Damage(phy_offset, size, str(mapped.path), position, why, claims=claims, other_head=other_head)

    def _has_unit(self, message: ReceivedMessage, phy_offset: int, size: int) -> bool:
        """Return True if the queue that a record claims points at the record."""
        claimed, at = (message.topic, message.queue_id), message.queue_offset
        queue = self._seen.reader.find(*claimed) if claimed in self._seen.bounds else None
        if queue is None or at < queue.first_unit:
            return False
        unit = queue.units(at, at + 1)
        return len(unit) > 0 and (int(unit["phy_offset"][0]), int(unit["msg_size"][0])) == (phy_offset, size)

    def _is_displaced(self, queue: ConsumeQueue, number: int, message: ReceivedMessage) -> bool:
        """Return True if a neighbour of a unit is displaced by the same distance: then the queue file is wrong."""
        for step in (-1, 1):
            unit = queue.units(max(number + step, queue.first_unit), number + step + 1)
            if not len(unit) or not written(unit)[0] or pre_blank(unit)[0]:
                continue
            beside = self._message_at(int(unit["phy_offset"][0]), int(unit["msg_size"][0]))
            claimed = message.topic, message.queue_id, message.queue_offset + step
            if beside is not None and (beside.topic, beside.queue_id, beside.queue_offset) == claimed:
                return True
        return False

    def _message_at(self, phy_offset: int, size: int) -> ReceivedMessage | None:
        try:
            return self._seen.reader.log.message_at(phy_offset, size)
        except StoreError:
            return None

    # -- results of the check

    def report(self, found: Findings) -> None:
        """Add the findings of all queues, one for each range of units."""
        reader = self._seen.reader
        size = reader.config.mapped_file_size_consume_queue
        for (topic, queue_id), report in self._reports.items():
            directory = reader.paths.consume_queue / topic / str(queue_id)
            UnitPlaces(directory, size, UNIT_SIZE, "queue offset").report(report.units, found)

    def report_absent(self, records: int, found: Findings) -> None:
        """Report completely missing queues of a store that was not stopped in order; its log has `records` records."""
        directory = self._seen.reader.paths.consume_queue
        if records and not self._seen.bounds:
            why = "no queue is there, and the log has messages; the next open makes them again"
            found.add("missing-unit", directory, 0, 0, why)
            return
        for (topic, queue_id), report in sorted(self._reports.items()):
            if report.unserved:
                why = f"it is not there, and the log has {report.unserved} messages of it; the next open makes it again"
                found.add("missing-unit", directory / topic / str(queue_id) / f"{0:020d}", 0, 0, why)

    @property
    def wrong(self) -> set[Queue]:
        """Queues whose units have to be rebuilt."""
        return {key for key, one in self._reports.items() if one.units}

    @property
    def strays(self) -> dict[Queue, list[tuple[int, int]]]:
        """Queue offsets whose unit belongs to no record."""
        return {key: one.units.stray.ranges for key, one in self._reports.items() if one.units.stray}

    @property
    def ends(self) -> dict[Queue, int]:
        """The queue offset after the last message, by queue."""
        bounds = self._seen.bounds
        return {key: max(bounds.get(key, (0, 0))[1], one.next_offset) for key, one in self._reports.items()}


def _follows(queue: ConsumeQueue, number: int, phy_offset: int) -> bool:
    """Return True if a unit points after the record of the unit before it, and before that of the unit after it."""
    before, following = queue.units(max(number - 1, queue.first_unit), number), queue.units(number + 1, number + 2)
    if len(before) and not pre_blank(before)[0] and int(before["phy_offset"][0]) >= phy_offset:
        return False
    return not (len(following) and written(following)[0] and int(following["phy_offset"][0]) <= phy_offset)
