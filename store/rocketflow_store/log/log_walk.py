"""Iterate over the sound records of a CommitLog, around known damage."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

import numpy as np

from rocketflow_store.log.scan_file import scan_file
from rocketflow_store.records.decoding.decode import RecordColumns

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping, Sequence

    import numpy.typing as npt

    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.records.decoding.scan import Scan


def sound_records(
    files: Sequence[MappedFile],
    end: int,
    damage: Sequence[tuple[int, int]],
    *,
    start: int = 0,
    scans: MutableMapping[int, Scan] | None = None,
) -> Iterator[tuple[MappedFile, RecordColumns]]:
    """Yield runs of records of physical offsets [start, end) outside of `damage` (ascending ranges).

    Nothing is checked: `damage` must be complete. `scans` holds the results of an earlier pass, by their begin; those
    that are used are removed.
    """
    begins = [one for one, _ in damage]
    for mapped in files:
        base = mapped.file_from_offset
        position, limit = max(start - base, 0), min(mapped.file_size, end - base)
        while position < limit:
            at = bisect_right(begins, base + position)
            if at and damage[at - 1][1] > base + position:
                position = damage[at - 1][1] - base
                continue
            known = scans.pop(base + position, None) if scans else None
            scan = known or scan_file(mapped, position, limit)
            in_it = damage[at : bisect_left(begins, base + scan.end)]
            fine, following = _rows_outside(scan, [(start - base, stop - base) for start, stop in in_it], limit)
            if len(fine):
                first, last = int(fine[0]), int(fine[-1])
                mapped.populate(int(scan.positions[first]), int(scan.positions[last] + scan.sizes[last]))
                yield mapped, RecordColumns(mapped.buffer, scan.positions[fine], scan.sizes[fine])
            if following == position:
                if at == len(damage) or damage[at][0] >= base + limit:
                    break  # the file's end mark, or unwritten space
                following = damage[at][0] - base
            position = following


def _rows_outside(scan: Scan, damage: Sequence[tuple[int, int]], limit: int) -> tuple[npt.NDArray[np.intp], int]:
    """Return the rows of a scan outside of `damage` (ascending positions, within it) and before `limit`, and their end.

    Results of the scan after damage are used only if the damage begins and ends with one of its records.
    """
    count = int(scan.positions.searchsorted(limit))
    ends = np.append(scan.positions, scan.end)
    outside = np.ones(count, bool)
    for start, stop in damage:
        first, after = int(ends.searchsorted(start)), int(ends.searchsorted(stop))
        if first >= count:
            break
        if ends[first] != start or after > count or ends[after] != stop:
            return np.flatnonzero(outside[:first]), start
        outside[first:after] = False
    return np.flatnonzero(outside), int(ends[count])
