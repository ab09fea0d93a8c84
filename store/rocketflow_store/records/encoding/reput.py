"""Encode stored records as an EncodedChunk of the same messages for other queues, many at a time, for redelivery.

    chunk = reput(records, TargetQueues(topics, topic_of, queue_ids), config,
                  set_properties={"TIMER_DEQUEUE_MS": times}, drop_properties=("DELAY",))

`records` are sound (RecordColumns without faults, contents judged); row i is stored again under `topics[topic_of[i]]`
and `queue_ids[i]`. Body (compressed or not), flag, sysFlag, bornTimestamp, bornHost, storeHost and reconsumeTimes are
kept; preparedTransactionOffset becomes 0; offsets and storeTimestamp come with the place (`relocate`). Properties keep
their bytes, except that:

* names of `set_properties` (string arrays, one value a record, null: none) move to the end with their new value;
* names of `drop_properties`, and INNER_MULTI_QUEUE_OFFSET, which belongs to the old place, are removed;
* the CRC of the whole record (`__CRC32#`, the last 20 bytes) is removed, and recalculated if the store appends one.

Tags codes and index entries are those that dispatch derives from the new records: the kernel reads them there if it
takes all records of a chunk and none is for the schedule topic, else they come from the pairs. Rows ascend in
`records`' buffer, as those of a queue do; limit a chunk to a few MB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketflow_store.format.properties import MAX_PROPERTIES_SIZE
from rocketflow_store.format.record import MAGIC_V1, MAGIC_V2, MAX_V1_TOPIC_SIZE, PROPERTY_CRC_SIZE
from rocketflow_store.model.errors import MessageRejectedError
from rocketflow_store.model.property_names import (
    PROPERTY_DELAY,
    PROPERTY_INNER_MULTI_QUEUE_OFFSET,
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
)
from rocketflow_store.model.status import PutMessageStatus
from rocketflow_store.model.system_flags import INNER_BATCH_FLAG, TRANSACTION_COMMIT, TRANSACTION_MASK
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC
from rocketflow_store.records.arrow.arrays import binary_array, bool_array, fixed_width, join, taken
from rocketflow_store.records.arrow.gather import gather, windows_at
from rocketflow_store.records.arrow.hashing import string_hashes
from rocketflow_store.records.decoding.dispatch_rows import sound_rows, tags_codes_of
from rocketflow_store.records.decoding.index_entries import IndexEntries, index_entries
from rocketflow_store.records.decoding.properties import split_properties
from rocketflow_store.records.decoding.record_crc import with_record_crc
from rocketflow_store.records.encoding.encode import EncodedChunk, unlike_crcs
from rocketflow_store.records.encoding.lmq_offsets import with_room

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import numpy.typing as npt

    from rocketflow_store.records.decoding.decode import RecordColumns
    from rocketflow_store.records.decoding.properties import PropertySegments
    from rocketflow_store.settings.store_config import StoreConfig

    Ints = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

_CLOSE, _NOTHING = binary_array([b"\x02", b""])


def reputtable(records: RecordColumns) -> npt.NDArray[np.bool_]:
    """Return a mask of the records that can be stored again: not halves of transactions, not inner batches."""
    kinds = records.sys_flag & TRANSACTION_MASK
    fine: npt.NDArray[np.bool_] = ((kinds == 0) | (kinds == TRANSACTION_COMMIT)) & (
        records.sys_flag & INNER_BATCH_FLAG == 0
    )
    return fine


@dataclass(frozen=True, slots=True)
class TargetQueues:
    """The new queues of rows: row i goes to queue `queue_ids[i]` of `topics[topic_of[i]]`."""

    topics: Sequence[str]
    topic_of: npt.NDArray[np.int32]
    queue_ids: npt.NDArray[np.int32]


def reput(
    records: RecordColumns,
    targets: TargetQueues,
    config: StoreConfig,
    *,
    set_properties: Mapping[str, pa.Array] | None = None,
    drop_properties: Collection[str] = (),
    reconsume_times: npt.NDArray[np.int32] | None = None,
) -> EncodedChunk:
    """Encode the messages for other queues: see the module.

    Topic names are the caller's to check. MessageRejectedError names the row that is not `reputtable`, or whose
    properties are invalid: a new value holds a separator or makes them too long. If the CRC of a record does not fit,
    no record of the chunk has one (`property_crc` is False).
    """
    assert not records.faults
    assert len(targets.topic_of) == len(targets.queue_ids) == records.count
    odd = ~reputtable(records)
    if odd.any():
        raise _rejected("half of a transaction, or an inner batch, cannot be redelivered", odd)
    set_properties = set_properties or {}
    kept, segments = _properties(records, set_properties, {*drop_properties, *set_properties})
    properties, lmqs = kept, None
    if config.enable_lmq:
        properties, lmqs = with_room(properties, targets.topics, targets.topic_of)
    tail = _tail(properties, with_crc=config.append_prop_crc)
    topic_parts = [_topic_part(topic) for topic in targets.topics]
    heads = _heads(records, targets, topic_parts, tail.sizes, reconsume_times)
    data = _patched(_joined(records, targets, topic_parts, tail), records, heads)
    facts = _compiled_facts(data, heads, targets, config)
    if facts is None:
        facts = _facts(split_properties(kept) if segments is None else segments, targets, config)
    return EncodedChunk(
        data=data,
        starts=heads.starts,
        sizes=heads.sizes,
        topics=list(targets.topics),
        topic_codes=targets.topic_of,
        queue_ids=targets.queue_ids,
        tags_codes=facts.tags_codes,
        entries=facts.entries,
        delay_levels=facts.delay_levels,
        delay_levels_ms=config.delay_levels_ms,
        property_crc=tail.has_crc,
        lmqs=None if lmqs is None else lmqs.in_records(heads.sizes - PROPERTY_CRC_SIZE * tail.has_crc),
    )


class _Facts(NamedTuple):
    """Facts that dispatch derives from the new records, as attributes of EncodedChunk."""

    tags_codes: Ints
    entries: IndexEntries
    delay_levels: npt.NDArray[np.int32] | None


def _compiled_facts(data: pa.Buffer, heads: _Heads, targets: TargetQueues, config: StoreConfig) -> _Facts | None:
    """Return the facts as the kernel reads them in the new records; None if it leaves any record over."""
    if SCHEDULE_TOPIC in targets.topics:  # tags codes depend on the time of storing there
        return None
    found = sound_rows((data, heads.starts, heads.sizes), 0, config.delay_levels_ms, None)
    if found is None:
        return None
    return _Facts(
        found.rows.tags_codes, found.rows.entries if config.message_index_enable else IndexEntries.none(), None
    )


def _facts(segments: PropertySegments, targets: TargetQueues, config: StoreConfig) -> _Facts:
    """Return the facts of records with these pairs of properties."""
    tags, entries = string_hashes(segments.column(PROPERTY_TAGS)), IndexEntries.none()
    if config.message_index_enable:
        keys, uniq_keys = segments.column(PROPERTY_KEYS), segments.column(PROPERTY_UNIQ_KEY)
        entries = index_entries(targets.topics, targets.topic_of, uniq_keys, keys, tags)
    levels = delay_levels_of(targets.topics, targets.topic_of, segments, len(config.delay_levels_ms))
    return _Facts(tags_codes_of(tags), entries, levels)


@dataclass(frozen=True, slots=True)
class _Tail:
    """The part after the length of a record's properties: `pieces` of every row, `sizes` bytes together."""

    pieces: Sequence[pa.Array]
    sizes: Ints
    has_crc: bool = False
    """True if the last piece is reserved for the record's CRC."""


def _tail(properties: pa.Array, *, with_crc: bool) -> _Tail:
    """Return the properties, `with_crc` if that fits into all; raise MessageRejectedError if they are too long."""
    sizes = _lengths(properties)
    if sizes.max(initial=0) > MAX_PROPERTIES_SIZE:
        raise _rejected("properties are too long", sizes > MAX_PROPERTIES_SIZE, too_long=True)
    if with_crc:
        closed = _closed(properties)
        closed_sizes = _lengths(closed) + PROPERTY_CRC_SIZE
        if closed_sizes.max(initial=0) <= MAX_PROPERTIES_SIZE:
            room = fixed_width(np.zeros((len(properties), PROPERTY_CRC_SIZE), np.uint8))
            return _Tail([closed, room], closed_sizes, has_crc=True)
    properties = unlike_crcs(properties)
    return _Tail([properties], _lengths(properties))


@dataclass(frozen=True, slots=True)
class _Heads:
    """Positions of the new records, and the fields of their heads that change."""

    starts: Ints
    sizes: Ints
    magic: Ints
    queue_ids: npt.NDArray[np.int32]
    reconsume_times: npt.NDArray[np.int32] | None


def _heads(
    records: RecordColumns,
    targets: TargetQueues,
    topic_parts: list[bytes],
    tail_sizes: Ints,
    reconsume_times: npt.NDArray[np.int32] | None,
) -> _Heads:
    topic_sizes = np.array([len(part) for part in topic_parts], np.int64)[targets.topic_of]
    sizes = records.body_ends - records.positions + topic_sizes + 2 + tail_sizes
    magic = np.array([MAGIC_V1 if len(one) <= MAX_V1_TOPIC_SIZE + 1 else MAGIC_V2 for one in topic_parts], np.int64)
    return _Heads(np.cumsum(sizes) - sizes, sizes, magic[targets.topic_of], targets.queue_ids, reconsume_times)


def _joined(records: RecordColumns, targets: TargetQueues, topic_parts: list[bytes], tail: _Tail) -> pa.Array:
    """Return the records with their previous heads."""
    until_topic = gather(records.buffer, records.positions, records.body_ends)
    lengths = fixed_width(tail.sizes.astype(">i2").view(np.uint8).reshape(records.count, 2))
    parts = taken(topic_parts, targets.topic_of) if topic_parts else until_topic
    return join(until_topic, parts, lengths, *tail.pieces)


def _properties(
    records: RecordColumns, new: Mapping[str, pa.Array], dropped: Collection[str]
) -> tuple[pa.Array, PropertySegments | None]:
    """Return the properties of the new records, without a CRC, and the pairs in them, None if they are not known."""
    ends = records.properties_ends - PROPERTY_CRC_SIZE * with_record_crc(records)
    stored = gather(records.buffer, records.properties_starts, ends)
    segments = records.property_segments()  # with the pair of the old CRC, which is not used
    dropped = {*dropped, PROPERTY_INNER_MULTI_QUEUE_OFFSET}
    if not new and not named(segments, dropped).any():
        return stored, segments
    closed = _closed(stored)
    kept, touched = _without(closed, split_properties(closed), dropped)
    if new:
        kept = join(kept, *(_segment(name, values) for name, values in new.items()))
    elif closed is not stored:
        kept = pc.if_else(bool_array(touched), kept, stored)
    return kept, None


def named(segments: PropertySegments, names: Collection[str]) -> Mask:
    """Return a mask of the pairs that have one of these names."""
    found, lengths = np.zeros(len(segments.rows), bool), segments.name_ends - segments.name_starts
    for name in names:
        raw = np.frombuffer(name.encode(), np.uint8)
        at = np.flatnonzero(lengths == len(raw))
        at = at[segments.octets[segments.name_starts[at]] == raw[0]]
        if len(at):
            found[at] |= (windows_at(segments.octets, len(raw), segments.name_starts[at]) == raw).all(axis=1)
    return found


def _without(closed: pa.Array, segments: PropertySegments, dropped: Collection[str]) -> tuple[pa.Array, Mask]:
    """Return (property strings without the pairs of some names, a mask of changed rows); each ends with a separator."""
    count, hit = len(closed), named(segments, dropped)
    touched = np.zeros(count, bool)
    touched[segments.rows[hit]] = True
    if not hit.any():
        return closed, touched
    offsets = np.frombuffer(closed.buffers()[1], np.int32, count + 1, closed.offset * 4).astype(np.int64)
    kept, unchanged = np.flatnonzero(~hit & touched[segments.rows]), np.flatnonzero(~touched)
    rows = np.concatenate([segments.rows[kept], unchanged])
    order = np.argsort(rows, kind="stable")
    starts = np.concatenate([segments.name_starts[kept], offsets[:-1][unchanged]])[order]
    ends = np.concatenate([segments.value_ends[kept] + 1, offsets[1:][unchanged]])[order]
    pieces = gather(closed.buffers()[2], starts, ends)
    piece_ends = np.frombuffer(pieces.buffers()[1], np.int32, len(pieces) + 1, pieces.offset * 4)
    row_offsets = piece_ends[np.append(0, np.cumsum(np.bincount(rows, minlength=count)))]
    result = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(row_offsets), pieces.buffers()[2]])
    return result, touched


def _segment(name: str, values: pa.Array) -> pa.Array:
    """Return `name 0x01 value 0x02` by row, null if the value is; raise MessageRejectedError for a separator in it."""
    values = values.cast(pa.binary())
    odd = pc.match_substring_regex(values, "[\x01\x02]").fill_null(False)
    if pc.any(odd).as_py():
        raise _rejected(f"a value of property {name} holds a separator", np.asarray(odd))
    return pc.binary_join_element_wise(binary_array([f"{name}\x01".encode()])[0], values, _CLOSE, _NOTHING)


def _closed(properties: pa.Array) -> pa.Array:
    """Return the property strings, each with a final separator unless it is empty."""
    count = len(properties)
    offsets = np.frombuffer(properties.buffers()[1], np.int32, count + 1, properties.offset * 4)
    octets = np.frombuffer(properties.buffers()[2] or b"", np.uint8)
    starts, ends = offsets[:-1], offsets[1:]
    open_rows = ends > starts
    open_rows[open_rows] = octets[ends[open_rows] - 1] != 2
    if not open_rows.any():
        return properties
    return join(properties, pc.if_else(bool_array(open_rows), _CLOSE, None))


def _patched(encoded: pa.Array, records: RecordColumns, heads: _Heads) -> pa.Buffer:
    """Return the records' bytes with the changed fields of their heads."""
    data = encoded.buffers()[2] or pa.py_buffer(b"")
    starts = heads.starts
    if not len(starts):
        return data
    octets = np.asarray(memoryview(data)).view(np.uint8) if data.is_mutable else np.frombuffer(data, np.uint8).copy()
    narrow: npt.NDArray[Any] = np.ndarray((len(octets) - 3,), ">i4", buffer=octets, strides=(1,))
    wide: npt.NDArray[Any] = np.ndarray((len(octets) - 7,), ">i8", buffer=octets, strides=(1,))
    narrow[starts], narrow[starts + 4], narrow[starts + 12] = heads.sizes, heads.magic, heads.queue_ids
    # the body's length, 4 bytes, ends where the body begins; before it prepared offset (8) and reconsumeTimes (4)
    tails = starts + (records.body_starts - records.positions)
    wide[tails - 12] = 0
    if heads.reconsume_times is not None:
        narrow[tails - 16] = heads.reconsume_times
    return data if data.is_mutable else pa.py_buffer(octets)


def delay_levels_of(
    topics: Sequence[str], topic_of: npt.NDArray[np.int32], segments: PropertySegments, most: int
) -> npt.NDArray[np.int32] | None:
    """Return the delay levels of rows of the schedule topic, 0 for others; None if no row is delayed."""
    if SCHEDULE_TOPIC not in topics:
        return None
    scheduled = topic_of == topics.index(SCHEDULE_TOPIC)
    encoded = pc.dictionary_encode(segments.column(PROPERTY_DELAY).fill_null("0"))
    levels = np.array([min(max(_integer(text), 0), most) for text in encoded.dictionary.to_pylist()], np.int32)
    found: npt.NDArray[np.int32] = np.where(scheduled, levels[np.asarray(encoded.indices)], 0).astype(np.int32)
    return found if found.any() else None


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return 0


def _topic_part(topic: str) -> bytes:
    raw = topic.encode()
    return len(raw).to_bytes(1 if len(raw) <= MAX_V1_TOPIC_SIZE else 2, "big") + raw


def _lengths(values: pa.Array) -> Ints:
    return np.diff(np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4)).astype(np.int64)


def _rejected(why: str, rows: Mask, *, too_long: bool = False) -> MessageRejectedError:
    status = PutMessageStatus.PROPERTIES_SIZE_EXCEEDED if too_long else PutMessageStatus.MESSAGE_ILLEGAL
    return MessageRejectedError(status, why, int(np.flatnonzero(rows)[0]))
