"""Find the records of a part of a CommitLog file, around damaged or unreadable bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.log.resync import next_proven
from rocketflow_store.log.scan_file import scan_file
from rocketflow_store.model.errors import UnreadableError
from rocketflow_store.records.decoding.decode import RecordColumns
from rocketflow_store.records.decoding.scan import Scan, ScanStop

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.log.resync import Boundaries

    Ints = npt.NDArray[np.int64]


def readable_runs(mapped: MappedFile, position: int, limit: int, boundaries: Boundaries) -> Iterator[tuple[Ints, Ints]]:
    """Yield (positions, sizes) of the records in [position, limit), run by run; CRCs are not compared.

    `position` is a record boundary. After damage, and after unreadable bytes, it continues at the next proven boundary.
    It ends with the file's blank record, or with `limit`.
    """
    while position < limit:
        scan = _scan(mapped, position, limit)
        if scan is not None:
            placed = _in_place(mapped, scan)
            if placed:
                yield scan.positions[:placed], scan.sizes[:placed]
                position = int(scan.positions[placed - 1] + scan.sizes[placed - 1])
            if position == scan.end:
                if scan.stop is ScanStop.BLANK or position >= limit:
                    return
                if scan.stop is ScanStop.LIMIT:
                    continue
        following = next_proven(mapped, position, limit, boundaries, unreadable=True)
        if following is None:
            return
        position = following


def _scan(mapped: MappedFile, position: int, limit: int) -> Scan | None:
    try:
        return scan_file(mapped, position, limit)
    except UnreadableError:
        return None


def _in_place(mapped: MappedFile, scan: Scan) -> int:
    """Return how many records of a scan come before the first with a wrong offset or inconsistent lengths."""
    if not len(scan.positions):
        return 0
    records = RecordColumns(mapped.buffer, scan.positions, scan.sizes)
    records.check_own_offset(mapped.file_from_offset)
    return min(records.faults, default=records.count)
