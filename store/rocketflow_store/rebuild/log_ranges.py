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

    from rocketflow_store.mapped_files.mapped_file import MappedFile

_LEAST_RANGE: Final = 8 << 20
_MOST_RANGE: Final = 96 << 20
_RANGES_A_WORKER: Final = 6


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


def range_size(log_bytes: int, workers: int) -> int:
    """Bytes of log for one task: several tasks for every worker, none that needs much memory."""
    return min(max(log_bytes // (workers * _RANGES_A_WORKER), _LEAST_RANGE), _MOST_RANGE)


def cut_ranges(files: Iterable[MappedFile], end: int, size: int) -> list[LogRange]:
    """Ranges of about `size` bytes of everything below physical offset `end`."""
    found: list[LogRange] = []
    for mapped in files:
        limit = min(mapped.file_size, end - mapped.file_from_offset)
        start, pieces = 0, max(limit // size, 1)
        for piece in range(1, pieces + 1):
            stop = limit
            if piece < pieces:
                sound = next_sound(mapped, max(limit * piece // pieces, start + 1), limit, unreadable=True)
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
