"""Contents of the log, as the checks of its files report them: records, damage, claims to queues, keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.format.batch_unit import BATCH_UNIT_SIZE
from rocketflow_store.fsck.findings import Damage, Findings, RangeSet
from rocketflow_store.fsck.unit_ranges import UnitRanges
from rocketflow_store.views.queues.claimed_places import ClaimedQueues

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from rocketflow_store.files.mapped.mapped_file import MappedFile

    Units = npt.NDArray[np.void]
    Queue = tuple[str, int]

_WORDS: Final = -(-BATCH_UNIT_SIZE // 8)
_FACTORS: Final = np.array([0x9E3779B97F4A7C15 * (2 * n + 1) % (1 << 64) | 1 for n in range(_WORDS)], np.uint64)


@dataclass(slots=True)
class BatchSum:
    """Number of units, a sum over their bytes that does not depend on their order, and the end of the queue."""

    count: int = 0
    total: int = 0
    next_offset: int = 0

    def add(self, units: Units) -> None:
        """Add units."""
        if len(units):
            octets = np.zeros((len(units), _WORDS * 8), np.uint8)
            octets[:, :BATCH_UNIT_SIZE] = np.ascontiguousarray(units).view(np.uint8).reshape(len(units), -1)
            mixed = (octets.view(np.uint64) * _FACTORS).sum(axis=1, dtype=np.uint64)
            mixed = (mixed ^ (mixed >> np.uint64(32))) * _FACTORS[0]
            self.count += len(units)
            self.total = (self.total + int(mixed.sum(dtype=np.uint64))) % (1 << 64)
            self.next_offset = max(self.next_offset, int((units["msg_base_offset"] + units["batch_size"]).max()))

    def subtract(self, units: Units) -> None:
        """Subtract units that were added."""
        other = BatchSum()
        other.add(units)
        self.count -= other.count
        self.total = (self.total - other.total) % (1 << 64)

    def update(self, other: BatchSum) -> None:
        """Add the units of `other`."""
        self.count += other.count
        self.total = (self.total + other.total) % (1 << 64)
        self.next_offset = max(self.next_offset, other.next_offset)


@dataclass(slots=True)
class QueueReport:
    """Claims of the log's records to one queue (queue offsets)."""

    matched: int = 0
    next_offset: int = 0
    units: UnitRanges = field(default_factory=UnitRanges)
    unserved: int = 0
    """Records of the queue if it has no unit at all and nothing proves that it must."""
    right: RangeSet = field(default_factory=RangeSet)
    """For LMQs only: a record names other queues than its own."""

    def update(self, other: QueueReport) -> None:
        self.matched += other.matched
        self.next_offset = max(self.next_offset, other.next_offset)
        self.units.missing.update(other.units.missing)
        self.units.wrong.update(other.units.wrong)
        self.right.update(other.right)
        self.unserved += other.unserved


@dataclass(slots=True)
class UnitsReport:
    """Claims of the log's records to all queues."""

    queues: dict[Queue, QueueReport] = field(default_factory=dict)
    batches: dict[Queue, BatchSum] = field(default_factory=dict)
    heads: list[Damage] = field(default_factory=list)
    """Records with a valid body and an impossible head."""
    claims: ClaimedQueues = field(default_factory=ClaimedQueues)
    """Queue offsets that the valid records claim."""
    impossible: list[Damage] = field(default_factory=list)
    """Records with an impossible queue offset."""

    def update(self, other: UnitsReport) -> None:
        """Add the report of the file after this one."""
        for key, one in other.queues.items():
            self.queues.setdefault(key, QueueReport()).update(one)
        for key, batch in other.batches.items():
            self.batches.setdefault(key, BatchSum()).update(batch)
        self.heads += other.heads
        self.claims.update(other.claims)
        self.impossible += other.impossible


@dataclass(slots=True)
class Compared:
    """Result of one stretch of the log: wrong entries (file number, entry number, phy offset), keys without entry."""

    wrong: list[tuple[int, int, int]] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    keys: int = 0
    more: int = 0


@dataclass(slots=True)
class LogFileReport:
    """Contents of one file. `end` is the position after its last valid record; the end blank belongs to the file."""

    records: int = 0
    bytes: int = 0
    end: int = 0
    mark: int = 0
    """Position of the end mark in a file that has one."""
    without_record_crc: int = 0
    keyed: bool = False
    """True if a message has a key."""
    max_store_timestamp: int = 0
    dispatched_phy_offset: int = 0
    """Physical offset of the last valid record that has a ConsumeQueue unit."""
    damage: list[Damage] = field(default_factory=list)
    bad_bodies: Findings = field(default_factory=Findings)
    units: UnitsReport = field(default_factory=UnitsReport)
    index: Compared = field(default_factory=Compared)


@dataclass(frozen=True, slots=True)
class LogReport:
    """Contents of all files of the log, oldest first; `units` has the claims of their records to queues."""

    files: Sequence[tuple[MappedFile, LogFileReport]]
    units: UnitsReport

    @property
    def reports(self) -> list[LogFileReport]:
        """The reports of the files."""
        return [report for _, report in self.files]

    @property
    def records(self) -> int:
        """Number of valid records, which includes those of `units.heads`."""
        return sum(one.records for one in self.reports)

    @property
    def unused(self) -> list[tuple[int, int]]:
        """Physical offsets [start, end) of the bytes from a file's end mark on, where no record should be."""
        ends = [(mapped, report.mark) for mapped, report in self.files if report.end == mapped.file_size]
        return [(mapped.file_from_offset + mark, mapped.end_offset) for mapped, mark in ends]
