"""Follow the records of a log file whose pages may be unreadable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow_store.files.mapped.mapped_file import PAGE_BYTES
from rocketflow_store.format.record import BLANK_SIZE, MAGIC_V1, MAGIC_V2, MIN_RECORD_SIZE, SIZE_AND_MAGIC
from rocketflow_store.model.errors import UnreadableError
from rocketflow_store.records.decoding.scan import Scan, ScanStop, scan_records

if TYPE_CHECKING:
    from rocketflow_store.files.mapped.mapped_file import MappedFile

_WINDOW: Final = 8 << 20
_OF_EACH: Final = 4096
"""Bytes that are populated for each requested record."""
_MOST_RECORDS: Final = 1 << 14
_AFTER_A_FAULT: Final = 1 << 5


class RunLength:
    """The number of records to judge at once: few after a fault, since the rest of its run is judged again."""

    def __init__(self) -> None:
        self.records = _MOST_RECORDS

    def judged(self, *, sound: bool) -> None:
        """Adapt to a run that was judged; `sound` if it had no fault."""
        self.records = min(2 * self.records, _MOST_RECORDS) if sound else _AFTER_A_FAULT


def scan_file(mapped: MappedFile, position: int, limit: int, max_records: int = _MOST_RECORDS) -> Scan:
    """Scan as `scan_records`, a bounded part of the file at a time; the found records are readable.

    Raises UnreadableError if the record that should begin at `position` cannot be read; a later one ends the scan.
    """
    stop = min(position + min(max_records * _OF_EACH, _WINDOW), limit)
    try:
        mapped.populate(position, stop)
    except UnreadableError:
        stop = _readable_end(mapped, position, stop)
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
    """Return the end of the readable part of [start, stop), which is not completely readable."""
    mapped.populate(start, min(start + 1, stop))  # raises if it begins with an unreadable page
    low, high = start // PAGE_BYTES + 1, -(-stop // PAGE_BYTES)
    while high - low > 1:  # all pages below `low` can be read, not all below `high`
        middle = (low + high) // 2
        try:
            mapped.populate(start, middle * PAGE_BYTES)
            low = middle
        except UnreadableError:
            high = middle
    return min(low * PAGE_BYTES, stop)
