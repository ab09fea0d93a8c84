"""Read the CommitLog by physical offset: for the store that writes it and for readers beside a writer."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.format.record import (
    BLANK_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_SIZE,
    SIZE_AND_MAGIC,
    content_fault,
    decode_record,
    frame_record,
    has_record_crc,
)
from rocketflow_store.kernel import COMPILED
from rocketflow_store.log.scan_file import scan_file
from rocketflow_store.model.errors import CorruptRecordError, StoreAccessError, StoreError, UnreadableError
from rocketflow_store.records.decoding.checked_columns import checked_columns
from rocketflow_store.records.decoding.decode import QueueIdentity, RecordColumns
from rocketflow_store.records.decoding.record_crc import LACKS_CRC, content_faults, judge_contents
from rocketflow_store.records.decoding.scan import ScanStop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    import numpy.typing as npt

    from rocketflow_store.files.mapped.file_map import FileMap
    from rocketflow_store.files.mapped.mapped_file import FileHold, MappedFile
    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
    from rocketflow_store.format.record import RecordFrame
    from rocketflow_store.log.record_crc_range import RecordCrcRange
    from rocketflow_store.model.message import ReceivedMessage
    from rocketflow_store.records.decoding.checked_columns import CheckedColumns

    Units = npt.NDArray[np.void]


_RUN_RECORDS: Final = 1024
_NEAR: Final = 1 << 16
"""Records this close to each other are populated together, with the bytes between them."""


class CommitLogView:
    """Records of a CommitLog by physical offset.

    In the range `with_crc`, in which every record has a CRC of itself, a record without one is refused.
    """

    def __init__(self, files: MappedFileQueue, with_crc: RecordCrcRange | None = None) -> None:
        self._files, self._with_crc = files, with_crc

    @property
    def min_phy_offset(self) -> int:
        """First byte of the oldest file."""
        first = self._files.first
        return first.file_from_offset if first else 0

    def message_at(self, phy_offset: int, size: int | None = None, check_crc: bool = True) -> ReceivedMessage:
        """Return the message whose record begins at `phy_offset`; raise CorruptRecordError if none does."""
        mapped = self._files.find(phy_offset)
        file_map = None if mapped is None else mapped.opened_map()
        if mapped is None or file_map is None:  # retention may have removed it just now
            raise CorruptRecordError(self._files.directory, phy_offset, "no CommitLog file holds this offset")
        view, position = memoryview(file_map.buffer), phy_offset - mapped.file_from_offset
        _populate_record(file_map, mapped.file_size, position)
        frame = frame_record(view, position, mapped.path)
        if frame.phy_offset != phy_offset:
            raise CorruptRecordError(mapped.path, phy_offset, f"the record says it is at {frame.phy_offset}")
        if size is not None and frame.size != size:
            raise CorruptRecordError(mapped.path, phy_offset, f"record of {frame.size} bytes, unit says {size}")
        if check_crc:
            if self._with_crc is not None:
                self._with_crc.refresh()
            self._check_content(view, frame, phy_offset, mapped.path)
        return decode_record(view, position, mapped.path, check_crc=False)

    def store_timestamp_at(self, phy_offset: int) -> int | None:
        """Return the store time (ms) of the record at `phy_offset`, None if none can be read.

        Raises StoreAccessError if another file that is needed to judge the record cannot be read: that may be
        temporary.
        """
        try:
            return self.message_at(phy_offset).store_timestamp
        except UnreadableError:
            return None
        except StoreAccessError:
            raise
        except StoreError:
            return None

    @property
    def file_size(self) -> int:
        """Bytes of each file."""
        return self._files.file_size

    def file_at(self, phy_offset: int) -> MappedFile | None:
        """Return the file that holds `phy_offset`, None if there is none."""
        return self._files.find(phy_offset)

    def hold(self, phy_offset: int) -> FileHold | None:
        """Hold the file of `phy_offset`; return None if it no longer exists."""
        mapped = self._files.find(phy_offset)
        if self._with_crc is not None:
            self._with_crc.refresh()
        return None if mapped is None else mapped.hold()

    def frame_in(self, held: FileHold, phy_offset: int, size: int) -> RecordFrame:
        """Locate the parts of the record at `phy_offset` in `held.view`, and check its CRC or its body's.

        Raises CorruptRecordError, or TruncatedRecordError, if there is no valid record of `size` bytes.
        """
        position = phy_offset - held.file_from_offset
        held.populate(position, position + max(size, BLANK_SIZE))
        frame = frame_record(held.view[: position + max(size, 0)], position, held.path)
        if frame.phy_offset != phy_offset:
            raise CorruptRecordError(held.path, phy_offset, f"the record says it is at {frame.phy_offset}")
        if frame.size != size:
            raise CorruptRecordError(held.path, phy_offset, f"record of {frame.size} bytes, unit says {size}")
        self._check_content(held.view, frame, phy_offset, held.path)
        return frame

    def check_copy(self, view: memoryview, position: int, phy_offset: int) -> RecordFrame:
        """Return the parts of the record at `position` of a copy, which was read from `phy_offset`.

        CorruptRecordError or TruncatedRecordError if it is not a complete record, or its CRC or its body's differs.
        """
        path = self._files.directory
        frame = frame_record(view, position, path)
        if frame.phy_offset != phy_offset:
            raise CorruptRecordError(path, phy_offset, f"the record says it is at {frame.phy_offset}")
        if self._with_crc is not None:
            self._with_crc.refresh()
        self._check_content(view, frame, phy_offset, path)
        return frame

    def may_require_record_crc(self, first: int, last: int) -> bool:
        """Return True if a record at physical offsets [first, last] may need a CRC of itself; `check_copy` decides."""
        if self._with_crc is None:
            return False
        self._with_crc.refresh()
        return self._with_crc.touches(first, last)

    def _check_content(self, view: memoryview, frame: RecordFrame, phy_offset: int, path: Path) -> None:
        fault = content_fault(view, frame)
        if fault is None and self._with_crc is not None and not has_record_crc(view, frame):
            fault = LACKS_CRC if self._with_crc.covers(phy_offset) else None
        if fault is not None:
            raise CorruptRecordError(path, phy_offset, fault)

    def faults(self, records: RecordColumns, mapped: MappedFile, *, bodies: bool) -> dict[int, str]:
        """Return the faults of records of `mapped` and of their contents, by row; with `bodies` also of bodies."""
        faults, judged, rows = records.faults, records, np.arange(records.count)
        if faults:
            rows = np.setdiff1d(rows, list(faults))
            judged = records.keep(rows)
        found, protected = judge_contents(judged, bodies=bodies)
        if self._with_crc is not None and not protected.all():
            bare = np.flatnonzero(~protected)
            self._with_crc.refresh()
            lacking = self._with_crc.covering(judged.positions[bare] + mapped.file_from_offset)
            for row in bare[lacking].tolist():
                found.setdefault(row, LACKS_CRC)
        return faults | {int(rows[at]): why for at, why in found.items()} if found else faults

    def holds(self, phy_offset: int, size: int, place: tuple[str, int, int]) -> bool:
        """Return True if the record of `size` bytes at `phy_offset` is (topic, queue id, queue offset); no CRC."""
        mapped = self._files.find(phy_offset)
        if mapped is None:
            return False
        position = phy_offset - mapped.file_from_offset
        if position < 0 or not MIN_RECORD_SIZE <= size <= mapped.file_size - position:
            return False
        try:
            view = memoryview(mapped.populate(position, position + size))
            if SIZE_AND_MAGIC.unpack_from(view, position)[0] != size:
                return False
            frame = frame_record(view, position, mapped.path)
        except StoreError:
            return False
        if (frame.phy_offset, frame.size) != (phy_offset, size):
            return False
        topic = bytes(view[frame.topic_start : frame.topic_end]).decode("utf-8", "replace")
        return (topic, frame.queue_id, frame.queue_offset) == place

    def record_size_at(self, phy_offset: int) -> int | None:
        """Return the size of the record at `phy_offset`, None if none begins there."""
        mapped = self._files.find(phy_offset)
        position = 0 if mapped is None else phy_offset - mapped.file_from_offset
        if mapped is None or position + MIN_RECORD_SIZE > mapped.file_size:
            return None
        file_map = mapped.opened_map()
        if file_map is None:
            return None
        file_map.populate(position, position + BLANK_SIZE)
        size, magic = SIZE_AND_MAGIC.unpack_from(file_map.buffer, position)
        return size if magic in (MAGIC_V1, MAGIC_V2) and size >= MIN_RECORD_SIZE else None

    def store_timestamps(
        self, units: Units, queue_offsets: npt.NDArray[np.int64] | None = None, identity: QueueIdentity | None = None
    ) -> npt.NDArray[np.int64]:
        """Return the store times (ms) of the records of units; -1 if there is none, or it cannot be read.

        With `queue_offsets` and `identity` a record that is not the message of its unit counts as none.
        """
        out = np.full(len(units), -1, np.int64)
        places = units["phy_offset"].astype(np.int64)
        for run, mapped in self.by_file(places):
            records, readable, _ = self.readable_columns(mapped, units[run])
            rows = np.arange(len(units))[run][readable]
            if identity is not None and queue_offsets is not None:
                records.check_place(places[rows], queue_offsets[rows], identity)
            times = records.after_born_host(">i8", 56).astype(np.int64)
            faults = self.faults(records, mapped, bodies=False)
            if faults:
                times[list(faults)] = -1
            out[rows] = times
        return out

    def matches(
        self, units: Units, first_queue_offset: int, identity: QueueIdentity, *, unreadable: bool = False
    ) -> npt.NDArray[np.bool_]:
        """Return a mask of the units whose record is that message (no CRC is calculated).

        Raises UnreadableError if a record cannot be read; with `unreadable` such units are False.
        """
        good = np.zeros(len(units), bool)
        for run, mapped in self.by_file(units["phy_offset"].astype(np.int64)):
            rows = np.arange(len(units))[run]
            if unreadable:
                records, readable, _ = self.readable_columns(mapped, units[rows])
                rows = rows[readable]
            else:
                records = self.columns(mapped, units[rows])
            records.check_place(units["phy_offset"][rows].astype(np.int64), first_queue_offset + rows, identity)
            good[rows] = True
            good[rows[list(records.faults)]] = False
        return good

    def columns(self, mapped: MappedFile, units: Units) -> RecordColumns:
        """Return field views of the records of `units` in `mapped`; raise UnreadableError if one cannot be read."""
        positions = units["phy_offset"].astype(np.int64) - mapped.file_from_offset
        sizes = units["msg_size"].astype(np.int64)
        _populate_runs(mapped, positions, positions + sizes)
        return RecordColumns(mapped.buffer, positions, sizes)

    def checked_columns(
        self,
        mapped: MappedFile,
        units: Units,
        queue_offsets: npt.NDArray[np.int64],
        identity: QueueIdentity,
        columns: Iterable[str],
        contents: int,
    ) -> CheckedColumns | None:
        """Return columns of the records of `units` in `mapped` if all of them are usual and have no fault, else None.

        `contents` is that of `checked_columns`. Raises UnreadableError if a record cannot be read.
        """
        if COMPILED is None:
            return None
        places = units["phy_offset"].astype(np.int64)
        positions, sizes = places - mapped.file_from_offset, units["msg_size"].astype(np.int64)
        _populate_runs(mapped, positions, positions + sizes)
        records = mapped.buffer, positions, sizes
        found = checked_columns(records, (queue_offsets, places), identity, columns, contents)
        if found is None or found.bare is None or self._with_crc is None:
            return found
        self._with_crc.refresh()
        return None if self._with_crc.touches(*found.bare) else found

    def readable_columns(self, mapped: MappedFile, units: Units) -> tuple[RecordColumns, npt.NDArray[np.intp], str]:
        """Return the readable records of `units` in `mapped`, their rows, and the error of the others."""
        try:
            return self.columns(mapped, units), np.arange(len(units)), ""
        except UnreadableError as error:
            rows = self.readable(mapped, units)
            return self.columns(mapped, units[rows]), rows, error.why

    def readable(self, mapped: MappedFile, units: Units) -> npt.NDArray[np.intp]:
        """Return the rows of `units`, all in `mapped`, whose bytes can be read."""
        return np.array([row for row in range(len(units)) if self._can_read(mapped, units[row])], np.intp)

    def _can_read(self, mapped: MappedFile, unit: np.void) -> bool:
        position = int(unit["phy_offset"]) - mapped.file_from_offset
        try:
            mapped.populate(position, position + int(unit["msg_size"]))
        except UnreadableError:
            return False
        return True

    def by_file(self, phy_offsets: npt.NDArray[np.int64]) -> list[tuple[slice, MappedFile]]:
        """Return runs of consecutive rows that are in one file; rows without a file are skipped."""
        if len(phy_offsets) == 0:
            return []
        numbers = phy_offsets // self._files.file_size
        cuts = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(numbers)]
        runs: list[tuple[slice, MappedFile]] = []
        for start, stop in pairwise(cuts):
            mapped = self._files.find(int(phy_offsets[start]))
            if mapped is not None:
                runs.append((slice(start, stop), mapped))
        return runs

    def end_from(self, phy_offset: int) -> int:
        """Return the end of the log, found record by record from `phy_offset` (a record boundary)."""
        offset = phy_offset
        while True:
            mapped = self._files.find(offset)
            if mapped is None:
                return offset
            scan = scan_file(mapped, offset - mapped.file_from_offset, mapped.file_size)
            if len(scan.positions):
                records = RecordColumns(mapped.buffer, scan.positions, scan.sizes)
                records.check_own_offset(mapped.file_from_offset)
                faults = records.faults | content_faults(records.before_faults())
                if faults:
                    return mapped.file_from_offset + int(scan.positions[min(faults)])
            offset = mapped.file_from_offset + scan.end
            if scan.stop is ScanStop.BLANK and self._files.find(mapped.end_offset) is not None:
                offset = mapped.end_offset
            elif scan.stop is not ScanStop.LIMIT:
                return offset

    def first_where(
        self, start: int, stop: int, wanted: Callable[[RecordColumns], npt.NDArray[np.bool_]]
    ) -> int | None:
        """Return the physical offset of the first record of [start, stop) that is `wanted`.

        `start` is a record boundary. If a record cannot be read, its offset is returned: it may be a wanted one.
        """
        offset = start
        while offset < stop:
            mapped = self._files.find(offset)
            if mapped is None:
                return offset
            begin = mapped.file_from_offset
            scan = scan_file(mapped, offset - begin, min(stop - begin, mapped.file_size), _RUN_RECORDS)
            if len(scan.positions):
                records = RecordColumns(mapped.buffer, scan.positions, scan.sizes)
                sound = records.before_faults()
                rows = np.flatnonzero(wanted(sound))
                if len(rows) or records.faults:
                    return begin + int(scan.positions[rows[0] if len(rows) else sound.count])
            following = mapped.end_offset if scan.stop is ScanStop.BLANK else begin + scan.end
            if following == offset:
                return offset
            offset = following
        return None


def _populate_record(file_map: FileMap, file_size: int, position: int) -> None:
    """Make the record at `position` readable, by its claimed size."""
    if not 0 <= position <= file_size - MIN_RECORD_SIZE:
        return
    file_map.populate(position, position + MIN_RECORD_SIZE)
    size = SIZE_AND_MAGIC.unpack_from(file_map.buffer, position)[0]
    if size > MIN_RECORD_SIZE:
        file_map.populate(position, position + size)


def _populate_runs(mapped: MappedFile, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> None:
    """Make ranges of a file readable."""
    if len(starts) == 0:
        return
    if ((starts < 0) | (ends > mapped.file_size) | (ends < starts)).any():
        mapped.populate(0, MIN_RECORD_SIZE)  # impossible records are read from there
        starts, ends = (np.clip(one, 0, mapped.file_size) for one in (starts, ends))
    if (starts[1:] < starts[:-1]).any():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], np.maximum.accumulate(ends[order])
    cuts = [0, *(np.flatnonzero(starts[1:] - ends[:-1] > _NEAR) + 1).tolist(), len(starts)]
    try:
        for first, stop in pairwise(cuts):
            mapped.populate(int(starts[first]), int(ends[stop - 1]))
    except UnreadableError:  # the unreadable page may be between the records
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            mapped.populate(start, end)
