"""Determine the end of a damaged CommitLog record, as far as its own fields still prove it.

A body holds arbitrary bytes of its sender, possibly complete records with their true physical offsets. So bytes of a
body must never decide where a record ends. The store wrote the lengths, the body CRC, the magic code and the physical
offset. A record with a single wrong field among these proves its own size: the fields that agree with each other
outvote the one that does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.format.record import (
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_SIZE,
    PROPERTY_CRC_NAME,
    PROPERTY_CRC_SIZE,
    SIZE_AND_MAGIC,
)
from rocketflow_store.model.java_compat import crc32
from rocketflow_store.model.system_flags import BORN_HOST_V6_FLAG, STORE_HOST_V6_FLAG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rocketflow_store.files.mapped.mapped_file import MappedFile

_HEAD: Final = 88
"""Bytes before the body if both hosts are IPv4."""
_V6_EXTRA: Final = 12
_MAX_PROPERTIES: Final = (1 << 15) - 1
_HOST_FLAGS: Final = (BORN_HOST_V6_FLAG, STORE_HOST_V6_FLAG, BORN_HOST_V6_FLAG | STORE_HOST_V6_FLAG)
_BYTE_CHANGES: Final = np.array([value << shift for shift in (0, 8, 16, 24) for value in range(1, 256)], np.int64)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Positions of the parts of a record according to its lengths."""

    body_start: int
    body_end: int
    topic_end: int
    end: int


@dataclass(frozen=True, slots=True)
class _Explanation:
    """A field whose change would make the record sound: it would end at `end`, its body at `body_end`."""

    end: int
    body_end: int
    field_at: int
    value: bytes


class DamagedRecord:
    """The record at position `start` of `mapped`, which is known to begin there and is damaged.

    No record reaches beyond `limit`. Raises UnreadableError if bytes that must be checked cannot be read.
    """

    def __init__(self, mapped: MappedFile, start: int, limit: int) -> None:
        self._mapped, self._start, self._limit = mapped, start, limit
        self._is_long_enough = start + MIN_RECORD_SIZE <= limit
        if not self._is_long_enough:
            return
        self._view = memoryview(mapped.populate(start, min(start + _HEAD + 2 * _V6_EXTRA, limit)))
        size, magic = SIZE_AND_MAGIC.unpack_from(self._view, start)
        self._size, self._magic = int(size), int(magic)
        self._has_place = self._int(28, 8) == mapped.file_from_offset + start
        self._has_magic = self._magic in (MAGIC_V1, MAGIC_V2)

    def proven_end(self, follows: Callable[[int], bool], begins: Callable[[int], bool]) -> int | None:
        """Return the position where the record ends, or None if its fields do not prove one.

        `follows(position)` returns True if a record, an end mark or unwritten space is there; `begins` excludes
        unwritten space, which proves little.
        """
        if not self._is_long_enough:
            return None
        claimed = self._start + self._size if MIN_RECORD_SIZE <= self._size <= self._limit - self._start else None
        if claimed is not None and (self._has_magic or self._has_place) and self._adds_up(claimed):
            return claimed  # the damaged field is no length
        if not (self._has_magic and self._has_place):
            return None
        found = list(self._explanations(claimed))
        if not found:
            # the size disagrees with several fields: it is accepted if a record begins at its end
            return claimed if claimed is not None and begins(claimed) else None
        if len({one.end for one in found}) == 1:
            return found[0].end
        confirmed = {one.end for one in found if self._is_confirmed(one)}
        if len(confirmed) == 1:
            return confirmed.pop()
        if len({one.body_end for one in found}) > 1:
            return None  # a sender may have forged one of them
        ends = [end for end in {one.end for one in found} if follows(end)]
        return ends[0] if len(ends) == 1 else None

    def _adds_up(self, claimed: int) -> bool:
        magics = (self._magic,) if self._has_magic else (MAGIC_V1, MAGIC_V2)
        return any((parts := self._parts(magic)) is not None and parts.end == claimed for magic in magics)

    def _explanations(self, claimed: int | None) -> Iterator[_Explanation]:
        """Yield each correction of one length that makes lengths and body CRC agree."""
        parts = self._parts(self._magic)
        if parts is not None and self._is_body(parts.body_start, parts.body_end):
            yield _Explanation(parts.end, parts.body_end, 0, (parts.end - self._start).to_bytes(4, "big"))
        if claimed is None:
            return
        yield from self._other_hosts(claimed)
        yield from self._other_tail(claimed)
        yield from self._other_body_length(claimed)

    def _other_hosts(self, claimed: int) -> Iterator[_Explanation]:
        flags = self._int(36, 4)
        for change in _HOST_FLAGS:
            parts = self._parts(self._magic, flags ^ change)
            if parts is not None and parts.end == claimed and self._is_body(parts.body_start, parts.body_end):
                yield _Explanation(claimed, parts.body_end, 36, (flags ^ change).to_bytes(4, "big", signed=True))

    def _other_tail(self, claimed: int) -> Iterator[_Explanation]:
        """Yield the corrections of the lengths of the topic and of the properties."""
        start, body_end = self._body()
        width = self._topic_width(self._magic)
        if body_end is None or body_end + width + 2 > claimed or not self._is_body(start, body_end):
            return
        self._mapped.populate(body_end, min(body_end + width + 2 + (1 << 8 * width), claimed))
        topic_at = body_end - self._start
        topic_size = self._int(topic_at, width)
        properties_size = claimed - (body_end + width + topic_size + 2)
        if topic_size >= 0 and 0 <= properties_size <= _MAX_PROPERTIES:
            at = topic_at + width + topic_size
            yield _Explanation(claimed, body_end, at, properties_size.to_bytes(2, "big"))
        sizes = range(1 << 7) if width == 1 else (topic_size ^ 1 << bit for bit in range(15))
        for other in sizes:
            end = body_end + width + other
            if other != topic_size and other >= 0 and end + 2 <= claimed:
                size = self._int(topic_at + width + other, 2)
                if size >= 0 and end + 2 + size == claimed:
                    yield _Explanation(claimed, body_end, topic_at, other.to_bytes(width, "big"))

    def _other_body_length(self, claimed: int) -> Iterator[_Explanation]:
        """Yield the corrections of the length of the body in one byte."""
        start, _ = self._body()
        width = self._topic_width(self._magic)
        at = start - 4 - self._start
        lengths = (self._int(at, 4) & 0xFFFFFFFF) ^ _BYTE_CHANGES
        lengths = lengths[start + lengths + width + 2 <= claimed]
        if not len(lengths):
            return
        self._mapped.populate(self._start, claimed)
        octets = np.frombuffer(self._view, np.uint8)
        topics = start + lengths
        sizes = octets[topics].astype(np.int64)
        if width == 2:
            sizes = sizes << 8 | octets[topics + 1]
        tails = topics + width + sizes
        fits = (tails + 2 <= claimed) & (sizes < 1 << 8 * width - 1)
        lengths, tails = lengths[fits], tails[fits]
        sizes = octets[tails].astype(np.int64) << 8 | octets[tails + 1]
        for length in lengths[tails + 2 + sizes == claimed].tolist():
            if self._is_body(start, start + length):
                yield _Explanation(claimed, start + length, at, length.to_bytes(4, "big"))

    def _body(self) -> tuple[int, int | None]:
        """Return the begin of the body, and its end if its length is possible."""
        flags = self._int(36, 4)
        hosts = _V6_EXTRA * (bool(flags & BORN_HOST_V6_FLAG) + bool(flags & STORE_HOST_V6_FLAG))
        start = self._start + _HEAD + hosts
        if start > self._limit:
            return start, None
        length = self._int(start - 4 - self._start, 4)
        return start, start + length if 0 <= length <= self._limit - start else None

    def _parts(self, magic: int, flags: int | None = None) -> _Parts | None:
        """Return the positions of the parts by their lengths; None if they are impossible."""
        flags = self._int(36, 4) if flags is None else flags
        hosts = _V6_EXTRA * (bool(flags & BORN_HOST_V6_FLAG) + bool(flags & STORE_HOST_V6_FLAG))
        start = self._start + _HEAD + hosts
        if start > self._limit:
            return None
        length, width = self._int(start - 4 - self._start, 4), self._topic_width(magic)
        body_end = start + length
        if length < 0 or body_end + width + 2 > self._limit:
            return None
        self._mapped.populate(body_end, body_end + width)
        size = self._int(body_end - self._start, width)
        topic_end = body_end + width + size
        if size < 0 or topic_end + 2 > self._limit:
            return None
        self._mapped.populate(topic_end, topic_end + 2)
        size = self._int(topic_end - self._start, 2)
        end = topic_end + 2 + size
        return _Parts(start, body_end, topic_end, end) if size >= 0 and end <= self._limit else None

    def _is_body(self, start: int, end: int) -> bool:
        """Return True if [start, end) has the record's body CRC."""
        self._mapped.populate(start, end)
        return crc32(self._view[start:end]) == self._int(8, 4)

    def _is_confirmed(self, explanation: _Explanation) -> bool:
        """Return True if the corrected record matches the CRC of itself that it ends with."""
        end = explanation.end
        self._mapped.populate(self._start, end)
        tail = bytes(self._view[end - PROPERTY_CRC_SIZE : end])
        digits = tail[len(PROPERTY_CRC_NAME) : -1]
        if not tail.startswith(PROPERTY_CRC_NAME) or tail[-1] != 2 or not digits.isdigit():
            return False
        record = bytearray(self._view[self._start : end - PROPERTY_CRC_SIZE])
        at = explanation.field_at
        if at + len(explanation.value) > len(record):
            return False
        record[at : at + len(explanation.value)] = explanation.value
        return crc32(bytes(record)) == int(digits[::-1])

    def _topic_width(self, magic: int) -> int:
        return 2 if magic == MAGIC_V2 else 1

    def _int(self, offset: int, width: int) -> int:
        at = self._start + offset
        return int.from_bytes(self._view[at : at + width], "big", signed=width > 1)
