"""Findings of `verify`: byte ranges of files, a bounded number of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

_MAX_RANGES: Final = 10_000
_MAX_LISTED: Final = 1_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem: `offset` and `length` are bytes within `file`."""

    kind: str
    file: str
    offset: int
    length: int
    detail: str

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "file": self.file,
            "offset": self.offset,
            "length": self.length,
            "detail": self.detail,
        }


@dataclass(slots=True)
class Damage:
    """Bytes of the log, [phy_offset, phy_offset + length), without a valid record; `claims` units point there."""

    phy_offset: int
    length: int
    file: str
    position: int
    why: str
    claims: int = 0
    gap: bool = False
    """True if no file has the bytes."""
    blank: bool = False
    """True if this can be a file's unused rest, which never had a record."""
    replaced: bool = False
    """True if the file is another one than at the last orderly stop."""
    other_head: bool = False
    """True for a record with a valid body and the head of another record."""

    @property
    def end(self) -> int:
        return self.phy_offset + self.length

    @property
    def lost(self) -> int:
        """Number of records that were here, as far as it is known."""
        return self.claims if self.gap else max(self.claims, 1)


class RangeSet:
    """Integers as ranges; beyond a bounded number of ranges, the gaps between the last ones are filled up."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

    def __bool__(self) -> bool:
        return bool(self._ranges)

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The ranges as (start, end), ascending and disjoint."""
        return list(self._ranges)

    def add(self, start: int, stop: int) -> None:
        """Add [start, stop)."""
        low = bisect_left(self._ranges, start, key=lambda one: one[1])
        high = bisect_right(self._ranges, stop, key=lambda one: one[0])
        if low < high:
            start, stop = min(start, self._ranges[low][0]), max(stop, self._ranges[high - 1][1])
        self._ranges[low:high] = [(start, stop)]
        if len(self._ranges) > _MAX_RANGES:
            self._ranges[-2:] = [(self._ranges[-2][0], self._ranges[-1][1])]

    def add_numbers(self, numbers: npt.NDArray[np.integer[Any]]) -> None:
        """Add single numbers (ascending)."""
        if len(numbers) == 0:
            return
        cuts = np.flatnonzero(np.diff(numbers) != 1) + 1
        starts, stops = numbers[np.append(0, cuts)], numbers[np.append(cuts - 1, len(numbers) - 1)] + 1
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            self.add(start, stop)

    def update(self, other: RangeSet) -> None:
        """Add the ranges of `other`."""
        for start, stop in other._ranges:
            self.add(start, stop)

    def remove(self, number: int) -> None:
        """Remove one number."""
        for at, (start, stop) in enumerate(self._ranges):
            if start <= number < stop:
                parts = [(start, number), (number + 1, stop)]
                self._ranges[at : at + 1] = [one for one in parts if one[0] < one[1]]
                return

    def subtract(self, other: RangeSet) -> None:
        """Remove the ranges of `other`."""
        kept: list[tuple[int, int]] = []
        for start, stop in self._ranges:
            for low, high in other._ranges[bisect_right(other._ranges, start, key=lambda one: one[1]) :]:
                if low >= stop:
                    break
                if start < low:
                    kept.append((start, low))
                start = max(start, high)
            if start < stop:
                kept.append((start, stop))
        self._ranges = kept

    def contains(self, numbers: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.bool_]:
        """Return the mask of `numbers` that are in the set."""
        if not self._ranges:
            return np.zeros(len(numbers), bool)
        bounds = np.array(self._ranges, np.int64)
        at = np.searchsorted(bounds[:, 0], numbers, side="right") - 1
        inside: npt.NDArray[np.bool_] = (at >= 0) & (numbers < bounds[at, 1])
        return inside


class Findings:
    """Findings in the order they were added; a bounded number of each kind and file is listed, the rest counted."""

    def __init__(self) -> None:
        self.listed: list[Finding] = []
        self.unlisted = 0
        self.lost_records = 0
        self._counts: dict[tuple[str, str], int] = {}

    def add(self, kind: str, file: Path | str, offset: int, length: int, detail: str) -> None:
        key = kind, str(file)
        self._counts[key] = self._counts.get(key, 0) + 1
        if self._counts[key] > _MAX_LISTED:
            self.unlisted += 1
        else:
            self.listed.append(Finding(kind, str(file), offset, length, detail))

    def update(self, other: Findings) -> None:
        """Add the findings of `other`, whose kinds and files are others."""
        self.listed += other.listed
        self.unlisted += other.unlisted


@dataclass(slots=True)
class VerifyResult:
    """Counts and findings of a verification; a repair starts from `damage` and the fields after it."""

    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)
    unlisted: int = 0
    lost_records: int = 0
    without_record_crc: int = 0
    damage: list[Damage] = field(default_factory=list)
    queues: set[tuple[str, int]] = field(default_factory=set)
    """Queues whose units must be rebuilt."""
    batch_queues: set[tuple[str, int]] = field(default_factory=set)
    """Queues of BatchCQ topics that must be rebuilt."""
    queue_ends: dict[tuple[str, int], int] = field(default_factory=dict)
    strays: dict[tuple[str, int], list[tuple[int, int]]] = field(default_factory=dict)
    """Queue offsets whose unit belongs to no record."""
    end: int = 0
    """Physical offset up to which the log was checked."""
    index_damaged: bool = False
    max_store_timestamp: int = 0
    dispatched_phy_offset: int = 0
    """Physical offset of the last valid record that has a ConsumeQueue unit."""

    @property
    def clean(self) -> bool:
        return not self.findings

    @property
    def exit_code(self) -> int:
        """0 clean, 1 everything can be rebuilt, 3 messages are lost."""
        return 3 if self.lost_records else int(not self.clean)

    def as_dict(self) -> dict[str, Any]:
        return {
            "records": self.records,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "findings": [one.as_dict() for one in self.findings],
            "unlistedFindings": self.unlisted,
            "lostRecords": self.lost_records,
            "recordsWithoutRecordCrc": self.without_record_crc,
        }
