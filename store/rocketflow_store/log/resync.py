"""Find the next record after damage in a CommitLog file.

A message's body may hold complete records that name their true physical offsets. So a sound record is no proof:
a record boundary must be proven by something that no client can write. `next_proven` tries, in this order,

1. the damaged record's own fields (`damaged_record`),
2. boundaries that are recorded outside of the log: ConsumeQueue units (`Boundaries`),
3. records with a CRC of themselves that follow each other, further than any body reaches: the last one that a sender
   can forge ends before the damaged record does, whose topic and properties follow the body.

If none of them proves a boundary, no record before `limit` is accepted: the bytes are not changed, and the caller
reports them.

`next_sound` finds anything that looks like a record. It decides whether bytes are worth keeping, and where a range of
the log may begin until the range before it confirms that; it is never a reason to serve a message.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa

from rocketflow_store.files.mapped.mapped_file import PAGE_BYTES
from rocketflow_store.format.record import (
    BLANK_MAGIC,
    BLANK_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_SIZE,
    SIZE_AND_MAGIC,
    whole_by_record_crc,
)
from rocketflow_store.log.damaged_record import DamagedRecord
from rocketflow_store.log.scan_file import scan_file
from rocketflow_store.model.errors import UnreadableError
from rocketflow_store.records.decoding.decode import RecordColumns
from rocketflow_store.records.decoding.record_crc import content_faults, with_record_crc

if TYPE_CHECKING:
    import numpy.typing as npt

    from rocketflow_store.files.mapped.mapped_file import MappedFile

_MAX_BODY: Final = 4 << 20
"""The largest body (RocketMQ's `maxMessageSize`), and so the largest extent of a record whose lengths are lost."""
_CHAINED: Final = 64
_FIRST_WINDOW: Final = 1 << 14
_WINDOW: Final = 1 << 20
_OFFSET: Final = struct.Struct(">q")
_OWN_OFFSET_AT: Final = 28


class Boundaries(Protocol):
    """Record boundaries that are known from outside of the log, and the largest size of a message."""

    max_message_size: int

    def next_position(self, mapped: MappedFile, start: int, limit: int) -> int | None:
        """Return the first position of `mapped` in (start, limit) where a record is known to begin, or None."""
        ...

    def end_of(self, mapped: MappedFile, start: int) -> int | None:
        """Return where the record at position `start` is known to end, or None."""
        ...


def next_proven(
    mapped: MappedFile, start: int, limit: int, boundaries: Boundaries | None, *, unreadable: bool = False
) -> int | None:
    """Return the first position in (start, limit] where a record is proven to begin or the log to end, or None.

    `start` is a record boundary with damage. The record at the result may be damaged too. If nothing is proven, no
    record before `limit` may be served.

    Raises UnreadableError if deciding bytes cannot be read; with `unreadable` they prove nothing.
    """

    def begins(position: int) -> bool:
        return position == limit or _begins(mapped, position, limit, unreadable=unreadable)

    def follows(position: int) -> bool:
        return begins(position) or _is_unwritten(mapped, position, limit, unreadable=unreadable)

    end: int | None = None
    try:
        end = DamagedRecord(mapped, start, limit).proven_end(follows, begins)
        if end is None:
            size = unknown_record_size(mapped, start)
            end = start + size if size else None
    except UnreadableError:
        if not unreadable:
            raise
    if end is None and boundaries is not None:
        end = boundaries.end_of(mapped, start)
        if end is None or not start < end <= limit or not follows(end):
            end = boundaries.next_position(mapped, start, limit)
    if end is None:
        most = max(_MAX_BODY, 0 if boundaries is None else boundaries.max_message_size)
        end = _chain_with_crcs(mapped, start, limit, most, unreadable=unreadable)
    return end


def _chain_with_crcs(mapped: MappedFile, start: int, limit: int, most: int, *, unreadable: bool) -> int | None:
    """Return the begin of the first chain of records with record CRCs that no body of a record at `start` can hold.

    A body has up to `most` bytes.
    """
    far = min(start + most, limit)
    dead: set[int] = set()
    at = start
    while at < far:
        found = next_sound(mapped, at, far, unreadable=unreadable)
        if found is None:
            return far if far == limit and at == start else None
        at = found
        if at not in dead and _reaches(mapped, at, far, limit, dead, unreadable=unreadable):
            return at
    return None


def _reaches(mapped: MappedFile, start: int, far: int, limit: int, seen: set[int], *, unreadable: bool) -> bool:
    """Return True if sound records with record CRCs follow each other from `start` to `far`, or to the file's end."""
    at = start
    while at < far:
        if at in seen:
            return False
        seen.add(at)
        try:
            scan = scan_file(mapped, at, limit, _CHAINED)
            if not len(scan.positions):
                return at > start and (_is_last_blank(mapped, at) or _is_zeros(mapped, at, limit))
        except UnreadableError:
            if not unreadable:
                raise
            return False
        records = RecordColumns(mapped.buffer, scan.positions, scan.sizes)
        records.check_own_offset(mapped.file_from_offset)
        if records.faults or content_faults(records) or not with_record_crc(records).all():
            return False
        seen.update(scan.positions.tolist())
        at = scan.end
    return True


def _begins(mapped: MappedFile, position: int, limit: int, *, unreadable: bool) -> bool:
    """Return True if `position` has a sound record, or a blank record that ends the written part of the file."""
    try:
        return is_complete(mapped, position, limit) or _is_last_blank(mapped, position)
    except UnreadableError:
        if not unreadable:
            raise
        return False


def _is_last_blank(mapped: MappedFile, position: int) -> bool:
    """Return True if there is a blank record at `position` and only zeros follow.

    In a body, topic and properties follow.
    """
    if not is_end_blank(mapped, position):
        return False
    return _is_zeros(mapped, position + BLANK_SIZE, mapped.file_size)


def _is_zeros(mapped: MappedFile, start: int, limit: int) -> bool:
    """Return True if [start, limit) is unwritten."""
    for at in range(start, limit, _WINDOW):
        if np.frombuffer(mapped.bytes_of(at, min(at + _WINDOW, limit)), np.uint8).any():
            return False
    return True


def _is_unwritten(mapped: MappedFile, position: int, limit: int, *, unreadable: bool) -> bool:
    """Return True if [position, limit) begins with as many zeros as the head of a record has bytes."""
    try:
        head = mapped.bytes_of(position, min(position + MIN_RECORD_SIZE, limit))
    except UnreadableError:
        if not unreadable:
            raise
        return False
    return not np.frombuffer(head, np.uint8).any()


def next_sound(mapped: MappedFile, start: int, limit: int, *, unreadable: bool = False) -> int | None:
    """Return the next position after `start` (and below `limit`) that looks like a record or end mark, or None.

    It may lie in a message's body. Raises UnreadableError if bytes that may hold one cannot be read; with `unreadable`
    those are skipped.
    """
    octets = np.frombuffer(mapped.buffer, np.uint8)
    at, step = start + 1, _FIRST_WINDOW  # usually it is near
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


def next_complete_offset(mapped: MappedFile, start: int) -> int | None:
    """Return the physical offset of the next valid record of a file after position `start`, None if there is none."""
    found = next_sound(mapped, start, mapped.file_size)
    if found is None or is_end_blank(mapped, found):
        return None
    return mapped.file_from_offset + found


def is_end_blank(mapped: MappedFile, position: int) -> bool:
    """Return True if there is a blank record at `position` that reaches to the file's end, as it must."""
    if position + BLANK_SIZE > mapped.file_size:
        return False
    size, magic = SIZE_AND_MAGIC.unpack_from(mapped.populate(position, position + BLANK_SIZE), position)
    return bool(magic == BLANK_MAGIC and position + size == mapped.file_size)


def is_complete(mapped: MappedFile, position: int, limit: int) -> bool:
    """Return True if the record at `position` is valid: bounds, magic, lengths, offset and CRC."""
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
    """Return the physical offset of a file's first record, if that record is valid except for its place."""
    if mapped.file_size < MIN_RECORD_SIZE:
        return None
    size, magic = SIZE_AND_MAGIC.unpack_from(mapped.populate(0, MIN_RECORD_SIZE), 0)
    if magic not in (MAGIC_V1, MAGIC_V2) or not MIN_RECORD_SIZE <= size <= mapped.file_size:
        return None
    (named,) = _OFFSET.unpack_from(mapped.buffer, _OWN_OFFSET_AT)
    if named < 0 or named % mapped.file_size:
        return None  # no file begins there: the record is torn or damaged
    if named == mapped.file_from_offset:
        return int(named)
    if next_complete_offset(mapped, 0) is not None:
        return None  # the next record is in its place: only the begin is damaged
    following_end = min(size + _OWN_OFFSET_AT + _OFFSET.size, mapped.file_size)
    record = RecordColumns(mapped.populate(0, following_end), np.array([0], np.int64), np.array([size], np.int64))
    if record.faults or content_faults(record):
        return None
    if with_record_crc(record)[0]:
        return int(named)
    # without a CRC over it, one record may be damaged: its neighbour must name the offset after it
    if size + _OWN_OFFSET_AT + _OFFSET.size > mapped.file_size:
        return None
    (following,) = _OFFSET.unpack_from(mapped.buffer, size + _OWN_OFFSET_AT)
    return int(named) if following == named + size else None


def unknown_record_size(mapped: MappedFile, position: int) -> int:
    """Return the size of a record at `position` of a kind that this version does not know; 0 if there is none.

    Such a record names its own offset and is valid: by the CRC of the whole record, or, under an unknown magic code, by
    all checks of a record of a known one.
    """
    if position + MIN_RECORD_SIZE > mapped.file_size:
        return 0
    size, magic = SIZE_AND_MAGIC.unpack_from(mapped.populate(position, position + MIN_RECORD_SIZE), position)
    (named,) = _OFFSET.unpack_from(mapped.buffer, position + _OWN_OFFSET_AT)
    if named != mapped.file_from_offset + position or not MIN_RECORD_SIZE <= size <= mapped.file_size - position:
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
        return is_end_blank(mapped, position) or is_complete(mapped, position, limit)
    except UnreadableError:
        if not unreadable:
            raise
        return False
