"""Following the records of a log file whose pages may be unreadable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow_store.columnar.scan import Scan, ScanStop, scan_records
from rocketflow_store.errors import UnreadableError
from rocketflow_store.format.record import BLANK_SIZE, MAGIC_V1, MAGIC_V2, MIN_RECORD_SIZE, SIZE_AND_MAGIC
from rocketflow_store.mapped_files.mapped_file import PAGE_BYTES

if TYPE_CHECKING:
    from rocketflow_store.mapped_files.mapped_file import MappedFile

_WINDOW: Final = 8 << 20


def scan_file(mapped: MappedFile, position: int, limit: int, max_records: int = 1 << 13) -> Scan:
    """As `scan_records`, a bounded part of the file at a time: what is found is in memory and can be looked at.

    UnreadableError where the record that should begin at `position` cannot be read; one further on ends the scan.
    """
    stop = _readable_end(mapped, position, min(position + _WINDOW, limit))
    scan = scan_records(mapped.buffer, position, stop, max_records)
    if scan.stop is not ScanStop.END or stop == limit:
        return scan
    if len(scan.positions):  # the rest is for the next scan, which begins there
        return Scan(scan.positions, scan.sizes, scan.end, ScanStop.LIMIT)
    mapped.populate(position, min(position + BLANK_SIZE, limit))
    size, magic = SIZE_AND_MAGIC.unpack_from(mapped.buffer, position)
    if magic not in (MAGIC_V1, MAGIC_V2) or not MIN_RECORD_SIZE <= size <= limit - position:
        return scan
    mapped.populate(position, position + size)
    return scan_records(mapped.buffer, position, position + size, 1)


def _readable_end(mapped: MappedFile, start: int, stop: int) -> int:
    """How far [start, stop) can be read."""
    try:
        mapped.populate(start, stop)
    except UnreadableError:
        mapped.populate(start, min(start + 1, stop))  # raises where it begins with what cannot be read
        low, high = (
            start // PAGE_BYTES + 1,
            -(-stop // PAGE_BYTES),
        )  # all pages below `low` can be read, not all below `high`
        while high - low > 1:
            middle = (low + high) // 2
            try:
                mapped.populate(start, middle * PAGE_BYTES)
                low = middle
            except UnreadableError:
                high = middle
        return min(low * PAGE_BYTES, stop)
    return stop
