"""Encode client batches as CommitLog records, many batches at once: one record for each entry, in order.

As in the sink's chunks (`encode`), the records have no offsets yet: `relocate` writes them. Batches are checked before
(`message_encoder.MessageEncoder.check_batch`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketflow_store.format.batch_body import BODY_AT, BODY_SIZE_AT, FLAG_AT
from rocketflow_store.format.record import FIXED_SIZE, MAGIC_V1, MAGIC_V2, MAX_V1_TOPIC_SIZE, PROPERTY_CRC_SIZE
from rocketflow_store.model.system_flags import BORN_HOST_V6_FLAG, STORE_HOST_V6_FLAG
from rocketflow_store.records.arrow.arrays import (
    EMPTY,
    binary_array,
    bool_array,
    fixed_width,
    join,
    new_uniq_keys,
    taken,
)
from rocketflow_store.records.arrow.crc import crc32_column
from rocketflow_store.records.arrow.gather import fixed_width_at, gather
from rocketflow_store.records.encoding.record_heads import AFTER_HOSTS, BEFORE_HOSTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

UNIQ_KEY_PATTERN: Final = "(^|\x02)UNIQ_KEY\x01"
"""A property string that holds a UNIQ_KEY."""
_HEAD: Final = np.dtype(BEFORE_HOSTS)
_TAIL: Final = np.dtype(AFTER_HOSTS)


@dataclass(frozen=True, slots=True)
class CheckedBatch:
    """A batch that can be stored. `suffix` is the part that its own properties add to every message's string."""

    topic: str
    queue_id: int
    body: bytes
    positions: Sequence[int] | Ints
    suffix: bytes
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    reconsume_times: int


@dataclass(frozen=True, slots=True)
class BatchRecords:
    """Encoded records; those of batch i are the `counts[i]` from `firsts[i]` on."""

    octets: npt.NDArray[np.uint8]
    starts: Ints
    sizes: Ints
    firsts: Ints
    counts: Ints


def encode_batches(batches: Sequence[CheckedBatch], store_host: bytes, *, property_crc: bool) -> BatchRecords:
    """Return the records of all entries. Entries without a UNIQ_KEY get one."""
    counts = np.array([len(batch.positions) for batch in batches], np.int64)
    count, of_batch = int(counts.sum()), np.repeat(np.arange(len(batches), dtype=np.int32), counts)
    blob = batches[0].body if len(batches) == 1 else b"".join([batch.body for batch in batches])
    bases = np.cumsum([0, *(len(batch.body) for batch in batches[:-1])])
    at = np.concatenate([np.array(batch.positions, np.int64) for batch in batches]) + bases[of_batch]
    buffer, octets = pa.py_buffer(blob), np.frombuffer(blob, np.uint8)

    body_sizes = fixed_width_at(octets, ">i4", at + BODY_SIZE_AT).astype(np.int64)
    body_ends = at + BODY_AT + body_sizes
    own_sizes = fixed_width_at(octets, ">i2", body_ends).astype(np.int64)
    bodies = gather(buffer, at + BODY_AT, body_ends)
    own = gather(buffer, body_ends + 2, body_ends + 2 + own_sizes)
    properties, property_sizes = _properties(octets, own, own_sizes, body_ends + 2, batches, of_batch, property_crc)

    topics = [batch.topic.encode() for batch in batches]
    topic_parts = [len(raw).to_bytes(1 if len(raw) <= MAX_V1_TOPIC_SIZE else 2, "big") + raw for raw in topics]
    topic_sizes = np.array([len(part) for part in topic_parts], np.int64)[of_batch]
    host_sizes = np.array([len(batch.born_host) for batch in batches], np.int64)[of_batch] + len(store_host)
    sizes = FIXED_SIZE + host_sizes + body_sizes + topic_sizes + property_sizes

    heads = np.zeros(count, _HEAD)
    heads["total_size"], heads["body_crc"] = sizes, crc32_column(bodies) & 0x7FFFFFFF
    heads["flag"] = fixed_width_at(octets, ">i4", at + FLAG_AT)
    for name, values in (
        ("magic_code", [MAGIC_V1 if len(raw) <= MAX_V1_TOPIC_SIZE else MAGIC_V2 for raw in topics]),
        ("queue_id", [batch.queue_id for batch in batches]),
        ("sys_flag", [_sys_flag(batch, store_host) for batch in batches]),
        ("born_timestamp", [batch.born_timestamp for batch in batches]),
    ):
        heads[name] = np.array(values, np.int64)[of_batch]
    tails = np.zeros(count, _TAIL)
    tails["reconsume_times"] = np.array([batch.reconsume_times for batch in batches])[of_batch]
    tails["body_size"] = body_sizes

    hosts = _of_batch([batch.born_host + bytes(8) + store_host for batch in batches], of_batch)
    pieces = [
        fixed_width(heads.view(np.uint8).reshape(count, _HEAD.itemsize)),
        hosts,
        fixed_width(tails.view(np.uint8).reshape(count, _TAIL.itemsize)),
        bodies,
        _of_batch(topic_parts, of_batch),
        fixed_width(property_sizes.astype(">i2").view(np.uint8).reshape(count, 2)),
        *properties,
    ]
    if property_crc:
        pieces.append(fixed_width(np.zeros((count, PROPERTY_CRC_SIZE), np.uint8)))
    records = join(*pieces)
    ends = np.frombuffer(records.buffers()[1], np.int32, count + 1, records.offset * 4).astype(np.int64)
    data = records.buffers()[2]
    writable = np.asarray(memoryview(data)).view(np.uint8) if data.is_mutable else np.frombuffer(data, np.uint8).copy()
    return BatchRecords(writable, ends[:-1], sizes, np.cumsum(counts) - counts, counts)


def _properties(
    octets: npt.NDArray[np.uint8],
    own: pa.Array,
    own_sizes: Ints,
    own_starts: Ints,
    batches: Sequence[CheckedBatch],
    of_batch: npt.NDArray[np.int32],
    property_crc: bool,
) -> tuple[list[pa.Array], Ints]:
    """Return the pieces of every row's property string (without the CRC), and its size with the CRC."""
    sizes = own_sizes.copy()
    pieces = [own]
    without_key = ~np.asarray(pc.match_substring_regex(own, pattern=UNIQ_KEY_PATTERN))
    more = bool(without_key.any()) or property_crc or any(batch.suffix for batch in batches)
    # writers before 5.2 omit the last separator
    unclosed = np.flatnonzero(own_sizes)
    unclosed = unclosed[octets[own_starts[unclosed] + own_sizes[unclosed] - 1] != 2]
    if more and len(unclosed):
        mask = np.zeros(len(sizes), bool)
        mask[unclosed] = True
        pieces.append(taken([b"", b"\x02"], mask.astype(np.int32)))
        sizes += mask
    if without_key.any():
        _, keys = new_uniq_keys(len(sizes))
        width = len(keys[0].as_py())
        pieces.append(pc.if_else(bool_array(without_key), keys, EMPTY))
        sizes += np.where(without_key, width, 0)
    if any(batch.suffix for batch in batches):
        pieces.append(_of_batch([batch.suffix for batch in batches], of_batch))
        sizes += np.array([len(batch.suffix) for batch in batches], np.int64)[of_batch]
    return pieces, sizes + (PROPERTY_CRC_SIZE if property_crc else 0)


def _sys_flag(batch: CheckedBatch, store_host: bytes) -> int:
    flag = batch.sys_flag & ~(BORN_HOST_V6_FLAG | STORE_HOST_V6_FLAG)
    return (
        flag
        | (BORN_HOST_V6_FLAG if len(batch.born_host) == 20 else 0)
        | (STORE_HOST_V6_FLAG if len(store_host) == 20 else 0)
    )


def _of_batch(parts: list[bytes], of_batch: npt.NDArray[np.int32]) -> pa.Array:
    """Return `parts[of_batch[i]]` for every row; a scalar if all are equal."""
    if all(part == parts[0] for part in parts):
        return binary_array(parts[:1])[0]
    return taken(parts, of_batch)
