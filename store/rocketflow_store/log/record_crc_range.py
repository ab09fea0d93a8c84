"""The part of a CommitLog in which every record ends with a CRC of itself, for readers beside a writer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.metadata.native.confirm import read_confirm
from rocketflow_store.metadata.native.stop_record import StopRecord, checkpoint_crc

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.metadata.native.confirm import Confirmed


FAR: Final = 1 << 62
"""A physical offset after every record."""


class RecordCrcRange:
    """Physical offsets in which a record without that CRC is damaged.

    `look` returns them as [from, to), `mark` returns a number that changes with every start and stop of a writer, for
    `refresh`. The cached range may be outdated. Before a record is refused the range is looked up again, since a writer
    may have begun to append records without CRC.
    """

    def __init__(self, look: Callable[[], tuple[int, int]], mark: Callable[[], int]) -> None:
        self._look, self._mark = look, mark
        self._range, self._marked = (0, 0), -1

    def refresh(self) -> None:
        """Look up the range again if a writer started or stopped since."""
        marked = self._mark()
        if marked != self._marked:
            self._range, self._marked = self._look(), marked

    def covers(self, phy_offset: int) -> bool:
        """Return True if an offset is in the range."""
        start, stop = self._range
        if not start <= phy_offset < stop:
            return False
        start, stop = self._range = self._look()
        return start <= phy_offset < stop

    def covering(self, phy_offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
        """Return the indices of the offsets that are in the range."""
        inside = self._inside(phy_offsets)
        if len(inside):
            self._range = self._look()
            inside = self._inside(phy_offsets)
        return inside

    def touches(self, first: int, last: int) -> bool:
        """Return True if offsets of [first, last] may be in the range."""
        start, stop = self._range
        return first < stop and last >= start

    def _inside(self, phy_offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
        start, stop = self._range
        return np.flatnonzero((phy_offsets >= start) & (phy_offsets < stop))


def writer_crc_from(confirmed: Confirmed | None) -> int:
    """Return the offset from which on the last writer's records have that CRC (also if it was killed); FAR if none."""
    return confirmed.record_crc_from if confirmed is not None and confirmed.record_crc_from >= 0 else FAR


def crc_from_at_stop(paths: StorePaths, log_end: int, began: int | None, *, record_crc: bool) -> int:
    """Return the offset from which on each record before `log_end` has that CRC at an orderly stop; -1 for none.

    The stopping writer wrote from `began` on (None: it wrote nothing), with `record_crc` in every record.
    """
    before = StopRecord.load(paths)
    found = before.record_crc_from if before is not None else -1
    if began is None:
        if before is not None and log_end > before.end_phy_offset:
            # a killed RocketFlow writer appended them; records of other writers have no such CRC
            return record_crc_range(paths)[0] if writer_crc_from(read_confirm(paths)) < FAR else -1
        return found
    if not record_crc:
        return -1
    return began if before is None or before.end_phy_offset != began or found < 0 else found


def record_crc_range(paths: StorePaths) -> tuple[int, int]:
    """Return the known physical offsets [from, to) in which every record ends with a CRC of itself."""
    confirmed, record = read_confirm(paths), StopRecord.load(paths)
    start = writer_crc_from(confirmed)
    if confirmed is not None and start < FAR:
        if record is not None and record.end_phy_offset == start and record.record_crc_from >= 0:
            start = record.record_crc_from
        return start, confirmed.synced_offset
    if record is None or record.record_crc_from < 0:
        return 0, 0
    if paths.abort.exists() or record.checkpoint != checkpoint_crc(paths):
        return 0, 0  # another writer ran since: its records begin at RocketFlow's last blank record, or even before
    return record.record_crc_from, record.end_phy_offset


def readable_range(paths: StorePaths) -> RecordCrcRange:
    """Return the range of `record_crc_range`, extended by what the last writer did not sync."""

    def look() -> tuple[int, int]:
        is_protected = writer_crc_from(read_confirm(paths)) < FAR
        start, stop = record_crc_range(paths)
        return start, FAR if is_protected else stop

    return RecordCrcRange(look, paths.writer_mark)
