"""Decode Kafka's record batches (message format 2) into columns, many batches at once.

    record:  length varint | attributes int8 | timestampDelta varlong | offsetDelta varint
             | keyLength varint, key | valueLength varint, value | headerCount varint, headers
    header:  nameLength varint, name | valueLength varint, value             (length -1: null)

Only the record lengths are read one by one; every other field is read for all records at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from rocketflow.kafka.client.partition_rows import HeaderRows, KafkaRows
from rocketflow_store.spi.arrow import gather, int_array, with_validity

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

_PADDING: Final = bytes(16)
_MAX_VARINT: Final = 10


class BrokenBatchError(ValueError):
    """A batch has a correct CRC but malformed records."""


@dataclass(frozen=True, slots=True)
class RawBatch:
    """The decompressed records of one batch, of which `[first_offset, offset]` are wanted.

    `offset` is the batch's last offset unless it was split.
    """

    base_offset: int
    offset: int
    first_timestamp: int
    max_timestamp: int
    log_append: bool
    count: int
    records: bytes | bytearray | memoryview
    first_offset: int

    @property
    def size(self) -> int:
        return len(self.records)

    @property
    def most_rows(self) -> int:
        """The most rows that can be wanted (a compacted batch has fewer)."""
        return min(self.count, self.offset + 1 - max(self.base_offset, self.first_offset))

    def split(self, rows: int) -> tuple[RawBatch, RawBatch]:
        """Return two views of the batch: its first `rows` wanted offsets, and the others."""
        middle = max(self.base_offset, self.first_offset) + rows
        return replace(self, offset=middle - 1), replace(self, first_offset=middle)


def decode_batches(topic: str, partition: int, batches: Sequence[RawBatch]) -> KafkaRows:
    """Return the wanted rows of consecutive batches of one partition. Raise BrokenBatchError for a malformed batch."""
    data = b"".join([*(one.records for one in batches), _PADDING])
    octets = np.frombuffer(data, np.uint8)
    starts, end = _record_starts(data, batches)
    counts = np.array([one.count for one in batches], np.int64)
    ends = np.append(starts[1:], end) if len(starts) else starts
    _, at = _varints(octets, starts)  # the record length
    stamp, at = _varints(octets, at + 1)
    delta, at = _varints(octets, at)
    keys, at = _nullable(data, octets, at, ends)
    values, at = _nullable(data, octets, at, ends)
    header_counts, at = _varints(octets, at)
    headers, at = _headers(data, octets, at, ends, header_counts)
    if bool((at != ends).any()) or bool((header_counts < 0).any()):
        raise BrokenBatchError(
            f"{topic}-{partition} from offset {batches[0].base_offset}: a record's fields do not match its length"
        )
    log_append = np.repeat(np.array([one.log_append for one in batches], np.bool_), counts)
    newest = np.repeat(np.array([one.max_timestamp for one in batches], np.int64), counts)
    stamp = stamp + np.repeat(np.array([one.first_timestamp for one in batches], np.int64), counts)
    offsets = delta + np.repeat(np.array([one.base_offset for one in batches], np.int64), counts)
    rows = KafkaRows(topic, partition, offsets, np.where(log_append, newest, stamp), log_append, keys, values, headers)
    wanted = offsets >= np.repeat(np.array([one.first_offset for one in batches], np.int64), counts)
    wanted &= offsets <= np.repeat(np.array([one.offset for one in batches], np.int64), counts)
    return rows if wanted.all() else rows.take(np.flatnonzero(wanted))


def _record_starts(data: bytes, batches: Sequence[RawBatch]) -> tuple[Ints, int]:
    """Return the position of every record's length field, and the end of the last record."""
    starts: list[int] = []
    note = starts.append
    at = 0
    for batch in batches:
        end = at + len(batch.records)
        for _ in range(batch.count):
            note(at)
            octet = data[at]
            if octet < 0x80:
                at += 1 + (octet >> 1)
                continue
            value, shift, at = octet & 0x7F, 7, at + 1
            while True:
                octet = data[at] if at < end and shift < 35 else 0x100
                if octet == 0x100:
                    raise BrokenBatchError(f"batch at offset {batch.base_offset}: a record's length is cut off")
                value |= (octet & 0x7F) << shift
                shift, at = shift + 7, at + 1
                if octet < 0x80:
                    break
            at += value >> 1
            if at > end:
                break
        if at != end:
            raise BrokenBatchError(f"batch at offset {batch.base_offset}: records end at {at}, the batch at {end}")
    return np.array(starts, np.int64), at


def _varints(octets: npt.NDArray[np.uint8], at: Ints) -> tuple[Ints, Ints]:
    """Return the zigzag varints that start at positions `at`, and the end of each."""
    if len(at) and int(at.max()) >= len(octets):
        raise BrokenBatchError("a record extends past its batch")
    octet = octets[at]
    value = (octet & 0x7F).astype(np.uint64)
    end = at + 1
    more = np.flatnonzero(octet >= 0x80)
    shift = 7
    while len(more):
        places = end[more]
        if shift >= 7 * _MAX_VARINT or int(places.max()) >= len(octets):
            raise BrokenBatchError("a varint in a record is cut off")
        octet = octets[places]
        value[more] |= (octet & 0x7F).astype(np.uint64) << np.uint64(shift)
        end[more] += 1
        more = more[octet >= 0x80]
        shift += 7
    return (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64), end


def _nullable(data: bytes, octets: npt.NDArray[np.uint8], at: Ints, ends: Ints) -> tuple[pa.Array, Ints]:
    """Return length-prefixed byte strings (null for length -1), and the end of each."""
    lengths, at = _varints(octets, at)
    present = lengths >= 0
    stop = at + np.maximum(lengths, 0)
    if bool((lengths < -1).any()) or bool((stop > ends).any()):
        raise BrokenBatchError("a key, value or header is longer than its record")
    found = gather(pa.py_buffer(data), at, stop)
    return (found if present.all() else with_validity(found, present)), stop


def _headers(
    data: bytes, octets: npt.NDArray[np.uint8], at: Ints, ends: Ints, counts: Ints
) -> tuple[HeaderRows | None, Ints]:
    """Return all headers in row order, and the end of each row. Reads header 1 of all rows, then header 2, etc."""
    most = int(counts.max()) if len(counts) else 0
    if most <= 0:
        return None, at
    at = at.copy()
    rows, names, values = [], [], []
    for number in range(most):
        some = np.flatnonzero(counts > number)
        name, end = _nullable(data, octets, at[some], ends[some])
        if name.null_count:
            raise BrokenBatchError("a header without a name")
        value, at[some] = _nullable(data, octets, end, ends[some])
        rows.append(some)
        names.append(name)
        values.append(value)
    every = np.concatenate(rows).astype(np.int64)
    order = np.argsort(every, kind="stable")
    wanted = int_array(order, pa.int64())
    return HeaderRows(every[order], pa.concat_arrays(names).take(wanted), pa.concat_arrays(values).take(wanted)), at
