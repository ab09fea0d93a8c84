"""Wrong units of one queue, as ranges of their numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocketflow_store.fsck.findings import RangeSet

if TYPE_CHECKING:
    from pathlib import Path

    from rocketflow_store.fsck.findings import Findings


@dataclass(slots=True)
class UnitRanges:
    """Numbers of wrong units."""

    missing: RangeSet = field(default_factory=RangeSet)
    wrong: RangeSet = field(default_factory=RangeSet)
    stray: RangeSet = field(default_factory=RangeSet)

    def __bool__(self) -> bool:
        return bool(self.missing or self.wrong or self.stray)


@dataclass(frozen=True, slots=True)
class UnitPlaces:
    """Files of `file_size` bytes in `directory` that hold a queue's units; `name` describes the number of a unit."""

    directory: Path
    file_size: int
    unit_size: int
    name: str

    def report(self, ranges: UnitRanges, found: Findings) -> None:
        """Add a finding for every range of every file."""
        for kind in ("missing", "wrong", "stray"):
            for first, stop in getattr(ranges, kind).ranges:
                self._report_range(f"{kind}-unit", first, stop, found)

    def _report_range(self, kind: str, first: int, stop: int, found: Findings) -> None:
        position, end = first * self.unit_size, stop * self.unit_size
        while position < end:
            base = position - position % self.file_size
            length = min(end, base + self.file_size) - position
            what = f"{self.name} {position // self.unit_size}"
            if length > self.unit_size:
                what += f" to {(position + length) // self.unit_size - 1}"
            found.add(kind, self.directory / f"{base:020d}", position - base, length, what)
            position += length
