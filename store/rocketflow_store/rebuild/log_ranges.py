"""A CommitLog cut into ranges that can be scanned at the same time.

A file begins at a record, so ranges are files, or pieces of files that begin where a whole record stands. Whether that
was a record, and no message's body that looks like one, shows when the range before it ends: only where it ends exactly
there the cut was right (`joined`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from rocketflow_store.log.resync import is_end_blank, next_sound

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rocketflow_store.files.mapped.mapped_file import MappedFile

LEAST_RANGE: Final = 8 << 20
MOST_RANGE: Final = 96 << 20
_RANGES_A_WORKER: Final = 6
_LAST_PIECES: Final = 4
"""The last range of every worker is cut into so many: nobody waits for a whole one when the others are done."""


@dataclass(frozen=True, slots=True)
class LogRange:
    """Records that begin at positions [start, stop) of the file at `path`; no record reaches behind `limit`."""

    path: str
    file_from_offset: int
    start: int
    stop: int
    limit: int

    @property
    def phy_offset(self) -> int:
        """Where it begins in the log."""
        return self.file_from_offset + self.start


@dataclass(frozen=True, slots=True)
class CutPlan:
    """How a log is cut: ranges of about `size` bytes, and of `last_size` what lies behind physical offset `last`."""

    size: int
    last: int
    last_size: int

    @classmethod
    def of(cls, log_bytes: int, end: int, workers: int) -> CutPlan:
        """For a log of so many bytes up to `end`: several ranges for every worker, none that needs much memory."""
        size = min(max(log_bytes // (workers * _RANGES_A_WORKER), LEAST_RANGE), MOST_RANGE)
        if workers == 1:
            return cls(size, end, size)
        return cls(size, end - workers * size, max(size // _LAST_PIECES, LEAST_RANGE))

    def cuts(self, file_from_offset: int, limit: int) -> list[int]:
        """Where a file of `limit` bytes is to be cut (positions in it), and `limit`."""
        turn = min(max(self.last - file_from_offset, 0), limit)
        found = []
        for start, stop, size in ((0, turn, self.size), (turn, limit, self.last_size)):
            pieces = max((stop - start) // size, 1) if stop > start else 0
            found += [start + (stop - start) * piece // pieces for piece in range(1, pieces + 1)]
        return found


def cut_ranges(files: Iterable[MappedFile], end: int, plan: CutPlan) -> list[LogRange]:
    """Ranges of everything below physical offset `end`, each from one record to another."""
    found: list[LogRange] = []
    for mapped in files:
        limit = min(mapped.file_size, end - mapped.file_from_offset)
        start = 0
        for wanted in plan.cuts(mapped.file_from_offset, limit):
            stop = limit
            if wanted < limit:
                sound = next_sound(mapped, max(wanted, start + 1), limit, unreadable=True)
                stop = limit if sound is None or is_end_blank(mapped, sound) else sound
            if start < stop:
                found.append(LogRange(str(mapped.path), mapped.file_from_offset, start, stop, limit))
            start = stop
    return found


def joined(ranges: Sequence[LogRange], ends: Sequence[int]) -> list[int]:
    """Numbers of ranges that ended elsewhere than where the next one of their file begins (positions in the file)."""
    return [
        number
        for number, (one, following) in enumerate(pairwise(ranges))
        if one.file_from_offset == following.file_from_offset and ends[number] != following.start
    ]


def merged(one: LogRange, following: LogRange) -> LogRange:
    """Both as one."""
    return replace(one, stop=following.stop)
