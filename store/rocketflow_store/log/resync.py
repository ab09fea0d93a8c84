"""Finding the next record behind damage in a CommitLog file.

The damaged record's own size is believed where a whole record (or the file's end) stands behind it: what its body
holds is then never looked at, so that no client can smuggle a record in. Else the next bytes that are a whole record
at the very place that they name are taken: magic code, lengths, physical offset and CRC.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from rocketflow_store.columnar.decode import RecordColumns
from rocketflow_store.columnar.record_crc import content_faults, with_record_crc
from rocketflow_store.errors import UnreadableError
from rocketflow_store.format.record import (
    BLANK_MAGIC,
    BLANK_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_SIZE,
    SIZE_AND_MAGIC,
    whole_by_record_crc,
)
from rocketflow_store.mapped_files.mapped_file import PAGE_BYTES

if TYPE_CHECKING:
    import numpy.typing as npt

    from rocketflow_store.mapped_files.mapped_file import MappedFile

_FIRST_WINDOW: Final = 1 << 14
_WINDOW: Final = 1 << 20
_OFFSET: Final = struct.Struct(">q")
_OWN_OFFSET_AT: Final = 28


def next_sound(mapped: MappedFile, start: int, limit: int, *, unreadable: bool = False) -> int | None:
    """Position (behind `start`, below `limit`) of the next whole or blank record; None where there is none.

    UnreadableError where bytes cannot be read in which it may be; with `unreadable` those are passed by.
    """
    if start + 4 <= limit:
        try:
            size = int.from_bytes(mapped.bytes_of(start, start + 4), "big", signed=True)
            if size >= MIN_RECORD_SIZE and start + size < limit and _sound(mapped, start + size, limit):
                return start + size
        except UnreadableError:
            if not unreadable:
                raise
    octets = np.frombuffer(mapped.buffer, np.uint8)
    at, step = start + 1, _FIRST_WINDOW  # most often it is near
    while at + BLANK_SIZE <= limit:
        stop = min(at - at % step + step, limit - BLANK_SIZE + 1)
        try:
            mapped.populate(at, stop + BLANK_SIZE - 1)
        except UnreadableError:
            if not unreadable:
                raise
            if step == PAGE_BYTES:
                at = stop
            step = PAGE_BYTES
            continue
        window: npt.NDArray[Any] = np.ndarray((stop - at,), ">i4", buffer=octets[at + 4 :], strides=(1,))
        hits = np.flatnonzero((window == MAGIC_V1) | (window == MAGIC_V2) | (window == BLANK_MAGIC))
        for hit in hits.tolist():
            if _sound(mapped, at + hit, limit, unreadable=unreadable):
                return at + hit
        at, step = stop, min(step * 4, _WINDOW)
    return None


def next_whole_offset(mapped: MappedFile, start: int) -> int | None:
    """Physical offset of the next whole record of a file behind position `start`, None where there is none."""
    found = next_sound(mapped, start, mapped.file_size)
    if found is None or is_end_blank(mapped, found):
        return None
    return mapped.file_from_offset + found


def is_end_blank(mapped: MappedFile, position: int) -> bool:
    """Whether a blank record stands at `position` that reaches to the file's end, as it must."""
    if position + BLANK_SIZE > mapped.file_size:
        return False
    size, magic = SIZE_AND_MAGIC.unpack_from(mapped.populate(position, position + BLANK_SIZE), position)
    return bool(magic == BLANK_MAGIC and position + size == mapped.file_size)


def is_whole(mapped: MappedFile, position: int, limit: int) -> bool:
    """Whether all that a record has to be is right at `position`: bounds, magic, lengths, place and CRC."""
    if position < 0 or position + MIN_RECORD_SIZE > limit:
        return False
    size, magic = SIZE_AND_MAGIC.unpack_from(mapped.populate(position, position + BLANK_SIZE), position)
    if magic not in (MAGIC_V1, MAGIC_V2) or not MIN_RECORD_SIZE <= size <= limit - position:
        return False
    record = RecordColumns(
        mapped.populate(position, position + size), np.array([position], np.int64), np.array([size], np.int64)
    )
    record.check_own_offset(mapped.file_from_offset)
    return not record.faults and not content_faults(record)


def next_own_offset(mapped: MappedFile) -> int | None:
    """The physical offset that a file's first record names, where that record is whole but for its place."""
    if mapped.file_size < MIN_RECORD_SIZE:
        return None
    size, magic = SIZE_AND_MAGIC.unpack_from(mapped.populate(0, MIN_RECORD_SIZE), 0)
    if magic not in (MAGIC_V1, MAGIC_V2) or not MIN_RECORD_SIZE <= size <= mapped.file_size:
        return None
    (told,) = _OFFSET.unpack_from(mapped.buffer, _OWN_OFFSET_AT)
    if told < 0 or told % mapped.file_size:
        return None  # no file begins there: the record is torn or damaged
    if told == mapped.file_from_offset:
        return int(told)
    if next_whole_offset(mapped, 0) is not None:
        return None  # what follows is in its place: only the begin is damaged
    following_end = min(size + _OWN_OFFSET_AT + _OFFSET.size, mapped.file_size)
    record = RecordColumns(mapped.populate(0, following_end), np.array([0], np.int64), np.array([size], np.int64))
    if record.faults or content_faults(record):
        return None
    if with_record_crc(record)[0]:
        return int(told)
    # without a CRC over it, one record may be damaged: its neighbour has to name the place behind it
    if size + _OWN_OFFSET_AT + _OFFSET.size > mapped.file_size:
        return None
    (following,) = _OFFSET.unpack_from(mapped.buffer, size + _OWN_OFFSET_AT)
    return int(told) if following == told + size else None


def unknown_record_size(mapped: MappedFile, position: int) -> int:
    """Size of a record at `position` of a kind that this version does not know; 0 where there is none.

    It tells its own place and is whole: by the CRC of the whole record, or, under an unknown magic code, by all that a
    record of a known one has to be.
    """
    if position + MIN_RECORD_SIZE > mapped.file_size:
        return 0
    size, magic = SIZE_AND_MAGIC.unpack_from(mapped.populate(position, position + MIN_RECORD_SIZE), position)
    (told,) = _OFFSET.unpack_from(mapped.buffer, position + _OWN_OFFSET_AT)
    if told != mapped.file_from_offset + position or not MIN_RECORD_SIZE <= size <= mapped.file_size - position:
        return 0
    raw = mapped.bytes_of(position, position + size).to_pybytes()
    if whole_by_record_crc(raw):
        return int(size)
    if magic in (MAGIC_V1, MAGIC_V2, BLANK_MAGIC):
        return 0
    for known in (MAGIC_V1, MAGIC_V2):
        as_known = pa.py_buffer(raw[:4] + known.to_bytes(4, "big", signed=known < 0) + raw[8:])
        record = RecordColumns(as_known, np.zeros(1, np.int64), np.array([size], np.int64))
        if not record.faults and not content_faults(record):
            return int(size)
    return 0


def _sound(mapped: MappedFile, position: int, limit: int, *, unreadable: bool = False) -> bool:
    try:
        return is_end_blank(mapped, position) or is_whole(mapped, position, limit)
    except UnreadableError:
        if not unreadable:
            raise
        return False
