"""The records of a part of a CommitLog file, past what is damaged or cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.columnar.scan import Scan, ScanStop
from rocketflow_store.errors import UnreadableError
from rocketflow_store.log.resync import next_sound
from rocketflow_store.log.scan_file import scan_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from rocketflow_store.mapped_files.mapped_file import MappedFile

    Ints = npt.NDArray[np.int64]


def readable_runs(mapped: MappedFile, position: int, limit: int) -> Iterator[tuple[Ints, Ints]]:
    """(positions, sizes) of records in [position, limit) that follow each other, run by run; CRCs are not compared.

    Behind damage, and behind bytes that cannot be read, the next sound record is looked for. Ends with the file's
    blank record, or with `limit`.
    """
    while position < limit:
        scan = _scan(mapped, position, limit)
        if scan is not None:
            if len(scan.positions):
                yield scan.positions, scan.sizes
                position = scan.end
            if scan.stop is ScanStop.BLANK or position >= limit:
                return
            if scan.stop is ScanStop.LIMIT:
                continue
        following = next_sound(mapped, position, limit, unreadable=True)
        if following is None:
            return
        position = following


def _scan(mapped: MappedFile, position: int, limit: int) -> Scan | None:
    try:
        return scan_file(mapped, position, limit)
    except UnreadableError:
        return None
