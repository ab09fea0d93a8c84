"""A CommitLog cut into ranges that can be scanned at the same time.

A file begins at a record, so ranges are files, or pieces of files that begin where a complete record seems to begin.
The end of the range before it shows whether that was a record or only a body that looks like one: the cut was right if
that range ends exactly there (`joined`).
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
"""The last range of every worker is cut into this many pieces, so that workers end at about the same time."""


@dataclass(frozen=True, slots=True)
class LogRange:
    """Records that begin at positions [start, stop) of the file at `path`; no record reaches past `limit`."""

    path: str
    file_from_offset: int
    start: int
    stop: int
    limit: int

    @property
    def phy_offset(self) -> int:
        """Physical offset of the first record."""
        return self.file_from_offset + self.start


@dataclass(frozen=True, slots=True)
class CutPlan:
    """Sizes of ranges, in bytes: about `size` before physical offset `last`, about `last_size` after it."""

    size: int
    last: int
    last_size: int

    @classmethod
    def of(cls, log_bytes: int, end: int, workers: int) -> CutPlan:
        """Plan ranges of a log of `log_bytes` that ends at `end`: several for every worker, none large in memory."""
        size = min(max(log_bytes // (workers * _RANGES_A_WORKER), LEAST_RANGE), MOST_RANGE)
        if workers == 1:
            return cls(size, end, size)
        return cls(size, end - workers * size, max(size // _LAST_PIECES, LEAST_RANGE))

    def cuts(self, file_from_offset: int, limit: int) -> list[int]:
        """Return the positions at which to cut a file of `limit` bytes, ascending; `limit` is the last one."""
        turn = min(max(self.last - file_from_offset, 0), limit)
        found = []
        for start, stop, size in ((0, turn, self.size), (turn, limit, self.last_size)):
            pieces = max((stop - start) // size, 1) if stop > start else 0
            found += [start + (stop - start) * piece // pieces for piece in range(1, pieces + 1)]
        return found


def cut_ranges(files: Iterable[MappedFile], end: int, plan: CutPlan) -> list[LogRange]:
    """Return ranges of everything before physical offset `end`, each from one record to another."""
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
    """Return the numbers of ranges that did not end where the next range of their file begins.

    `ends` are positions in the file.
    """
    return [
        number
        for number, (one, following) in enumerate(pairwise(ranges))
        if one.file_from_offset == following.file_from_offset and ends[number] != following.start
    ]


def merged(one: LogRange, following: LogRange) -> LogRange:
    """Return two adjacent ranges as one."""
    return replace(one, stop=following.stop)
