"""The damaged bytes of the log: noted file by file, then completed by gaps between files and by claims of units."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from rocketflow_store.fsck.findings import Damage
from rocketflow_store.model.errors import UnreadableError
from rocketflow_store.views.queues.claimed_places import DamagedBytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.fsck.findings import Findings
    from rocketflow_store.fsck.log_report import LogReport
    from rocketflow_store.fsck.observation import Observation

    Ints = npt.NDArray[np.int64]


class LogDamage:
    """The damage of one log, and how many units claim a record in it."""

    def __init__(self, damage: Iterable[Damage] = ()) -> None:
        self._listed = list(damage)

    @property
    def listed(self) -> Sequence[Damage]:
        """Every damage."""
        return self._listed

    @property
    def other_heads(self) -> int:
        """Number of records with a valid body and a damaged head: they were counted as valid."""
        return sum(one.other_head for one in self._listed)

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Physical offsets [start, end), ascending."""
        return sorted((one.phy_offset, one.end) for one in self._listed)

    @property
    def damaged_bytes(self) -> DamagedBytes:
        """The ranges in the form that the judge of claims expects."""
        return DamagedBytes(self.ranges)

    def add(self, damage: Damage) -> None:
        """Note more damage."""
        self._listed.append(damage)

    def remove(self, damage: Damage) -> None:
        """Remove an entry that is not damage after all."""
        self._listed.remove(damage)

    def contains(self, phy_offsets: Ints) -> npt.NDArray[np.bool_]:
        """Return the mask of offsets that are in damaged bytes."""
        return self._look_up(phy_offsets)[0]

    def claim(self, phy_offsets: Ints) -> npt.NDArray[np.bool_]:
        """Return the mask like `contains`, and count a lost record for every offset in damaged bytes."""
        inside, at = self._look_up(phy_offsets)
        for number in at[inside].tolist():
            self._listed[number].claims += 1
        return inside

    def _look_up(self, phy_offsets: Ints) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.intp]]:
        if not self._listed:
            return np.zeros(len(phy_offsets), bool), np.zeros(len(phy_offsets), np.intp)
        self._listed.sort(key=lambda one: one.phy_offset)
        starts = np.array([one.phy_offset for one in self._listed], np.int64)
        ends = np.array([one.end for one in self._listed], np.int64)
        at = np.searchsorted(starts, phy_offsets, side="right") - 1
        return (at >= 0) & (phy_offsets < ends[at]), at

    def report(self, found: Findings) -> None:
        """Add the findings after every unit was checked: a blank is damage only if units claim records in it."""
        for one in [one for one in self._listed if one.blank and not one.claims]:
            self.remove(one)
            found.add("blank", one.file, one.position, one.length, "the file's end mark is damaged")
        for one in self._listed:
            if not one.gap:
                found.add("record", one.file, one.position, one.length, one.why)
            found.lost_records += one.lost
        if any(one.kind == "missing-file" for one in found.listed):
            found.lost_records = max(found.lost_records, 1)


def damage_of_log(seen: Observation, log: LogReport, found: Findings) -> LogDamage:
    """Return the damage of all files and between them; bytes that an unclean stop left become a finding instead."""
    damage = LogDamage(one for report in log.reports for one in report.damage)
    for gap in _gaps(seen, [mapped for mapped, _ in log.files]):
        damage.add(gap)
    _judge_ends(seen, log, damage, found)
    _announce_cut(seen, damage)
    for head in log.units.heads:
        damage.add(head)
    return damage


def _gaps(seen: Observation, files: Sequence[MappedFile]) -> Iterable[Damage]:
    """Yield the gaps: CommitLog files that are missing between others, and the missing ends of short ones."""
    for one, following in pairwise(files):
        if one.end_offset < following.file_from_offset:
            gap = following.file_from_offset - one.end_offset
            where = str(one.path if gap < seen.log_file_size else seen.reader.paths.commit_log)
            yield Damage(one.end_offset, gap, where, one.file_size, "missing", gap=True)


def _judge_ends(seen: Observation, log: LogReport, damage: LogDamage, found: Findings) -> None:
    """Judge damage at the ends of files: it may be a missing end mark, or bytes that an unclean stop left."""
    for at, (mapped, report) in enumerate(log.files):
        if not report.damage:
            continue
        last = report.damage[-1]
        limit = min(mapped.file_size, seen.limit - mapped.file_from_offset)
        if last.replaced or last.position + last.length < limit:
            continue
        if at + 1 < len(log.files):
            last.blank = _is_blank(mapped, last.position + 8, last.position + last.length)
        elif last.phy_offset >= (seen.log_settled or 0) or not _is_claimed(seen, last.phy_offset):
            # nothing proves that this ever was a complete record
            damage.remove(last)
            found.add("torn-tail", mapped.path, last.position, last.length, last.why)


def _announce_cut(seen: Observation, damage: LogDamage) -> None:
    """Add to the first damage that an open would take for a torn tail that the log is cut there."""
    if seen.state == "unclean" and seen.log_settled is not None:
        torn = [one for one in damage.listed if one.phy_offset >= seen.log_settled and not one.gap]
        for one in sorted(torn, key=lambda one: one.phy_offset)[:1]:
            one.why += f"; an open cuts the log here, since it is not known to be synced after {seen.log_settled}"


def _is_claimed(seen: Observation, phy_offset: int) -> bool:
    """Return True if a queue's last unit points at `phy_offset`."""
    for topic, queue_id in seen.bounds:
        queue = seen.reader.find(topic, queue_id)
        if queue is not None:
            end = queue.scan_end()
            unit = queue.units(max(end - 1, queue.first_unit), end)
            if len(unit) and int(unit["phy_offset"][-1]) == phy_offset:
                return True
    return False


def _is_blank(mapped: MappedFile, start: int, stop: int) -> bool:
    """Return True if bytes of a log file can be read, and are zeros."""
    try:
        return not np.frombuffer(mapped.bytes_of(min(start, stop), stop), np.uint8).any()
    except UnreadableError:
        return False
