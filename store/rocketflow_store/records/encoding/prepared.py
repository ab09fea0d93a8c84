"""Judge prepared records: bytes that another process encoded are the records that their columns claim, or are refused.

Everything that enters the log and was not encoded by the process that appends it passes `first_fault`: a sink's rows,
redelivered messages and a bridge's rows that a job has staged. A record that no walk accepts would end the log for a
recovery, with the acknowledged messages after it; one with another queue, flag or hash would be lost for readers.

Only what the append itself writes is not judged: the offsets, the store timestamp, the CRC of the whole record.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketflow_store.format.record import BLANK_SIZE, BODY_DIFFERS, PROPERTY_CRC_SIZE, check_fits_a_file
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.errors import MessageRejectedError
from rocketflow_store.model.property_names import (
    PROPERTY_CRC32,
    PROPERTY_INNER_BASE,
    PROPERTY_INNER_MULTI_DISPATCH,
    PROPERTY_INNER_MULTI_QUEUE_OFFSET,
    PROPERTY_KEYS,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TAGS,
    PROPERTY_TIMER_OUT_MS,
    PROPERTY_UNIQ_KEY,
    TRANSIENT_PROPERTY_PREFIX,
)
from rocketflow_store.model.system_flags import BORN_HOST_V6_FLAG, STORE_HOST_V6_FLAG
from rocketflow_store.model.topic_names import (
    CHECK_RESULTS_TOPIC,
    MAX_QUEUE_NUMS,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    check_send_topic,
)
from rocketflow_store.records.arrow.crc import crc32_slices
from rocketflow_store.records.arrow.gather import gather, windows_at
from rocketflow_store.records.arrow.hashing import string_hashes
from rocketflow_store.records.decoding.decode import RecordColumns
from rocketflow_store.records.decoding.dispatch_rows import tags_codes_of
from rocketflow_store.records.decoding.index_entries import index_entries
from rocketflow_store.records.decoding.properties import integers, split_properties
from rocketflow_store.records.decoding.record_crc import with_record_crc, zero_properties
from rocketflow_store.records.encoding.compiled_rows import topic_columns
from rocketflow_store.records.encoding.lmq_offsets import offsets_of
from rocketflow_store.records.encoding.reput import delay_levels_of, named, reputtable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rocketflow_store.records.decoding.index_entries import Hashes, IndexEntries
    from rocketflow_store.records.decoding.properties import PropertySegments
    from rocketflow_store.records.encoding.encode import EncodedChunk
    from rocketflow_store.settings.store_config import StoreConfig

    Mask = npt.NDArray[np.bool_]
    Ints = npt.NDArray[np.int64]

_HOST_FLAGS: Final = BORN_HOST_V6_FLAG | STORE_HOST_V6_FLAG
_WAITING_TOPICS: Final = (SCHEDULE_TOPIC, TIMER_TOPIC)
"""The store's topics that rows are stored under until they are due."""
_ASSIGNED: Final = (PROPERTY_CRC32, PROPERTY_INNER_BASE)
_TRANSIENT: Final = TRANSIENT_PROPERTY_PREFIX.encode()
_SIZE_DIFFERS: Final = "the bytes are no record of their own size"
_FAULTS: Final = {
    "size differs from the queue unit's": _SIZE_DIFFERS,
    "record reaches outside of the file": "the bytes are too few for a record",
}
"""Faults of `RecordColumns`, in the words of a part."""


def why_not_prepared(topic: str, *, redelivered: bool) -> str:
    """Return why no prepared row may be stored under a topic, "" if it may be."""
    if topic in _WAITING_TOPICS or (redelivered and topic == CHECK_RESULTS_TOPIC):
        return ""
    try:
        check_send_topic(topic)
    except MessageRejectedError as error:
        return error.why
    return ""


def first_fault(chunk: EncodedChunk, config: StoreConfig, *, redelivered: bool) -> tuple[int, str] | None:
    """Return the first row found that is not the record that its columns claim, and why; None if all are.

    `redelivered` allows what messages have that were stored before: compressed bodies, the flag of a finished
    transaction, failed attempts, bodies and properties that older settings and writers accepted.
    """
    if not redelivered and _are_usual(chunk, config):
        return None
    records = RecordColumns(chunk.data, chunk.starts, chunk.sizes)
    if records.faults:
        row = min(records.faults)
        return row, _FAULTS.get(records.faults[row], records.faults[row])
    for wrong, why in _checks(records, chunk, config, redelivered=redelivered):
        if wrong.any():
            return int(np.flatnonzero(wrong)[0]), why
    return None


def _are_usual(chunk: EncodedChunk, config: StoreConfig) -> bool:
    """Return True if the compiled kernel finds that all rows are usual and as their columns claim."""
    if COMPILED is None or chunk.delay_levels is not None or chunk.lmqs is not None:
        return False
    if not len(chunk.sizes) or not set(chunk.topics).isdisjoint(_WAITING_TOPICS):
        return False
    entries = chunk.entries
    usual: bool = COMPILED.are_prepared(
        *(np.frombuffer(chunk.data, np.uint8), chunk.starts, chunk.sizes, *topic_columns(chunk.topics)),
        *(chunk.topic_codes, chunk.queue_ids, chunk.tags_codes),
        *(entries.hashes, np.ascontiguousarray(entries.of_row, np.int64), entries.of_tag.view(np.uint8)),
        *(chunk.property_crc, config.max_message_size, config.mapped_file_size_commit_log - BLANK_SIZE, MAX_QUEUE_NUMS),
    )
    return usual


def _checks(
    records: RecordColumns, chunk: EncodedChunk, config: StoreConfig, *, redelivered: bool
) -> Iterator[tuple[Mask, str]]:
    """Yield masks of wrong rows; each check relies on those before it."""
    yield ~_of_topics(records, chunk), "the record is of another topic than its column"
    yield records.field(">i4", 12) != chunk.queue_ids, "the record is of another queue than its column"
    yield (chunk.queue_ids < 0) | (chunk.queue_ids >= MAX_QUEUE_NUMS), f"a topic has queues 0 to {MAX_QUEUE_NUMS - 1}"
    check_fits_a_file(int(chunk.sizes.max()), config.mapped_file_size_commit_log)
    yield ~reputtable(records), "sysFlag is that of a half message, a rollback or an inner batch"
    yield records.after_hosts(">i8", 76) != 0, "preparedTransactionOffset is not 0"
    if not redelivered:
        yield (records.sys_flag & ~_HOST_FLAGS) != 0, "sysFlag has flags that no row gets"
        yield records.after_hosts(">i4", 72) != 0, "reconsumeTimes is not 0"
        most = config.max_message_size
        yield records.body_ends - records.body_starts > most, f"the body is larger than maxMessageSize ({most})"
    crcs = crc32_slices(records.buffer, records.body_starts, records.body_ends) & 0x7FFFFFFF
    yield crcs != records.field(">i4", 8), BODY_DIFFERS
    yield from _tail_checks(records, chunk)
    reserved = PROPERTY_CRC_SIZE if chunk.property_crc else 0
    properties = gather(records.buffer, records.properties_starts, records.properties_ends - reserved)
    segments = split_properties(properties)
    if not redelivered:
        yield from _property_checks(properties, segments)
    yield from _dispatch_checks(chunk, segments, config)
    yield from _waiting_checks(chunk, segments)
    yield from _lmq_checks(chunk, properties, segments, config)


def _of_topics(records: RecordColumns, chunk: EncodedChunk) -> Mask:
    used = np.unique(chunk.topic_codes)
    if len(used) == 1:
        return records.of_topic(chunk.topics[int(used[0])].encode())
    same = np.zeros(records.count, bool)
    for code in used.tolist():
        rows = np.flatnonzero(chunk.topic_codes == code)
        same[rows] = records.keep(rows).of_topic(chunk.topics[code].encode())
    return same


def _tail_checks(records: RecordColumns, chunk: EncodedChunk) -> Iterator[tuple[Mask, str]]:
    """Yield checks of the end of the properties: zeros for the CRC to come, or what is not taken for one."""
    if not chunk.property_crc:
        yield with_record_crc(records), "the properties end as the CRC of a record does"
        wrong = np.zeros(records.count, bool)
        wrong[list(zero_properties(records))] = True
        yield wrong, "the properties are zeros"
        return
    ends, starts = records.properties_ends - PROPERTY_CRC_SIZE, records.properties_starts
    yield np.less(ends, starts), "the properties have no room for the record's CRC"
    room = windows_at(records.octets, PROPERTY_CRC_SIZE, ends)
    used = np.zeros(records.count, bool)
    if room.any():
        used |= room.any(axis=1)
    yield used, "the room for the record's CRC is used"
    yield (ends > starts) & (records.octets[ends - 1] != 2), "the properties before the record's CRC are not closed"


def _property_checks(properties: pa.Array, segments: PropertySegments) -> Iterator[tuple[Mask, str]]:
    count = len(properties)
    sizes = np.diff(np.frombuffer(properties.buffers()[1], np.int32, count + 1, properties.offset * 4))
    covered = np.bincount(segments.rows, segments.value_ends + 1 - segments.name_starts, count)
    yield covered != sizes, "the properties cannot be parsed"
    try:
        properties.cast(pa.string())
    except pa.ArrowInvalid:
        wrong = np.fromiter((not _is_utf8(one) for one in properties.to_pylist()), bool, count)
        yield wrong, "the properties are not UTF-8"
    found = named(segments, _ASSIGNED)
    long = np.flatnonzero(segments.name_ends - segments.name_starts >= len(_TRANSIENT))
    if len(long):
        names = windows_at(segments.octets, len(_TRANSIENT), segments.name_starts[long])
        found[long] |= (names == np.frombuffer(_TRANSIENT, np.uint8)).all(axis=1)
    yield _rows_with(segments, found, count), "it has a property that only the store sets"


def _dispatch_checks(
    chunk: EncodedChunk, segments: PropertySegments, config: StoreConfig
) -> Iterator[tuple[Mask, str]]:
    """Yield checks of what units and index are made of."""
    tags = string_hashes(segments.column(PROPERTY_TAGS))
    yield tags_codes_of(tags) != chunk.tags_codes, "tagsCode is not the hash of the TAGS"
    if len(chunk.entries.hashes):  # none: its task did not index
        yield _other_entries(chunk, segments, tags), "indexHashes are not those of the keys"
    count = len(chunk.sizes)
    levels = delay_levels_of(chunk.topics, chunk.topic_codes, segments, len(config.delay_levels_ms))
    expected = np.zeros(count, np.int32) if levels is None else levels
    claimed = np.zeros(count, np.int32) if chunk.delay_levels is None else chunk.delay_levels
    yield expected != claimed, "delayLevel is not that of the property DELAY"


def _other_entries(chunk: EncodedChunk, segments: PropertySegments, tags: Hashes) -> Mask:
    expected = index_entries(
        chunk.topics, chunk.topic_codes, segments.column(PROPERTY_UNIQ_KEY), segments.column(PROPERTY_KEYS), tags
    )
    count, claimed = len(chunk.sizes), chunk.entries
    wrong: Mask = _entries_per_row(expected, count) != _entries_per_row(claimed, count)
    if not wrong.any():
        differs = (expected.hashes != claimed.hashes) | (expected.of_tag != claimed.of_tag)
        wrong[expected.of_row[differs]] = True
    return wrong


def _entries_per_row(entries: IndexEntries, count: int) -> Ints:
    return np.bincount(entries.of_row, minlength=count)


def _waiting_checks(chunk: EncodedChunk, segments: PropertySegments) -> Iterator[tuple[Mask, str]]:
    """Yield checks of rows that wait under the store's topics: they are as a put would have placed them."""
    scheduled, timed = (_of_code(chunk, topic) for topic in _WAITING_TOPICS)
    waiting = scheduled | timed
    if not waiting.any():
        return
    encoded = pc.dictionary_encode(segments.column(PROPERTY_REAL_TOPIC).fill_null(""))
    allowed = [_may_wait(topic) for topic in encoded.dictionary.to_pylist()]
    yield waiting & ~np.array(allowed, bool)[np.asarray(encoded.indices)], "REAL_TOPIC names no topic for messages"
    ids, valid = integers(segments.column(PROPERTY_REAL_QUEUE_ID))
    yield waiting & (~valid | (ids >= MAX_QUEUE_NUMS)), "REAL_QID is no queue"
    levels = np.zeros(len(waiting), np.int32) if chunk.delay_levels is None else chunk.delay_levels
    yield scheduled & ((levels <= 0) | (levels - 1 != chunk.queue_ids)), "the delay level is not that of its queue"
    _, valid = integers(segments.column(PROPERTY_TIMER_OUT_MS))
    yield timed & ~(valid & (chunk.queue_ids == 0)), "TIMER_OUT_MS is no time"


def _of_code(chunk: EncodedChunk, topic: str) -> Mask:
    codes = [code for code, one in enumerate(chunk.topics) if one == topic]
    return np.isin(chunk.topic_codes, codes) if codes else np.zeros(len(chunk.topic_codes), bool)


def _may_wait(topic: str) -> bool:
    return topic not in _WAITING_TOPICS and why_not_prepared(topic, redelivered=False) == ""


def _lmq_checks(
    chunk: EncodedChunk, properties: pa.Array, segments: PropertySegments, config: StoreConfig
) -> Iterator[tuple[Mask, str]]:
    """Yield checks of LMQs: a record says an offset in one only where the append writes it."""
    count = len(chunk.sizes)
    claimed = np.zeros(count, bool)
    if chunk.lmqs is not None:
        claimed[chunk.lmqs.rows] = True
    holds = _rows_with(segments, named(segments, (PROPERTY_INNER_MULTI_QUEUE_OFFSET,)), count)
    yield holds != claimed, f"{PROPERTY_INNER_MULTI_QUEUE_OFFSET} is not that of the LMQs of its columns"
    if chunk.lmqs is None or not claimed.any():
        return
    yield claimed & (not config.enable_lmq), "it is in LMQs, but enableLmq is false"
    names = segments.column(PROPERTY_INNER_MULTI_DISPATCH)
    wrong = np.zeros(count, bool)
    reserved = PROPERTY_CRC_SIZE if chunk.property_crc else 0
    each = zip(chunk.lmqs.rows.tolist(), chunk.lmqs.names, chunk.lmqs.at.tolist(), strict=True)
    for row, of_row in groupby(each, key=lambda one: one[0]):
        segment, places = offsets_of((names[row].as_py() or "").split(","))
        end = int(chunk.sizes[row]) - reserved
        found = [(name, at - end) for _, name, at in of_row]
        wrong[row] = found != places or not properties[row].as_py().endswith(segment)
    yield wrong, "the LMQs of its columns are not those that it names"


def _rows_with(segments: PropertySegments, pairs: Mask, count: int) -> Mask:
    found = np.zeros(count, bool)
    found[segments.rows[pairs]] = True
    return found


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
