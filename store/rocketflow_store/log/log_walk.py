"""Going through the sound records of a CommitLog, around damage that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.columnar.decode import RecordColumns
from rocketflow_store.log.scan_file import scan_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocketflow_store.mapped_files.mapped_file import MappedFile


def sound_records(
    files: Sequence[MappedFile], end: int, damage: Sequence[tuple[int, int]]
) -> Iterator[tuple[MappedFile, RecordColumns]]:
    """Runs of records below physical offset `end`; `damage` (ranges of physical offsets, ascending) is stepped over.

    Nothing is checked: the damage has to be all there is.
    """
    for mapped in files:
        base = mapped.file_from_offset
        position, limit = 0, min(mapped.file_size, end - base)
        mine = [(start - base, stop - base) for start, stop in damage if start < base + limit and stop > base]
        while position < limit:
            inside = [stop for start, stop in mine if start <= position < stop]
            if inside:
                position = max(inside)
                continue
            stop = min((start for start, _ in mine if start > position), default=limit)
            scan = scan_file(mapped, position, stop)
            if len(scan.positions) == 0:
                if stop == limit:
                    break
                position = stop
                continue
            yield mapped, RecordColumns(mapped.buffer, scan.positions, scan.sizes)
            position = scan.end
