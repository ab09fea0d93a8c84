"""Encode rows of the sink's columns as CommitLog records, a chunk at a time, byte for byte as the scalar encoder does.

A chunk is encoded without its place: `relocate` writes offsets and store time later. Properties are in the order of
`format.properties`. `BatchEncoder.validate` refuses all invalid rows before the first byte is encoded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketflow_store.format.properties import MAX_PROPERTIES_SIZE, encode_properties
from rocketflow_store.format.record import (
    PROPERTY_CRC_SIZE,
    check_fits_a_file,
    record_size,
    unlike_crc,
)
from rocketflow_store.model.errors import BatchSchemaError, MessageRejectedError, UnknownColumnError
from rocketflow_store.model.java_compat import string_hash
from rocketflow_store.model.message import Message
from rocketflow_store.model.message_id import UNIQ_KEYS, encode_host
from rocketflow_store.model.property_names import (
    PROPERTY_DELAY,
    PROPERTY_INNER_MULTI_DISPATCH,
    PROPERTY_INNER_MULTI_QUEUE_OFFSET,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TIMER_DELIVER_MS,
    PROPERTY_TIMER_OUT_MS,
    PROPERTY_UNIQ_KEY,
)
from rocketflow_store.model.status import PutMessageStatus
from rocketflow_store.model.system_flags import BORN_HOST_V6_FLAG, STORE_HOST_V6_FLAG
from rocketflow_store.model.topic_names import LMQ_PREFIX, MAX_QUEUE_NUMS, SCHEDULE_TOPIC, TIMER_TOPIC, check_send_topic
from rocketflow_store.records.arrow.arrays import (
    EMPTY,
    binary_array,
    bool_array,
    empty_values,
    fixed_width,
    join,
    reserved_uniq_keys,
    taken,
)
from rocketflow_store.records.arrow.chunking import chunks
from rocketflow_store.records.arrow.columns import SINK_COLUMNS
from rocketflow_store.records.arrow.crc import crc32_column
from rocketflow_store.records.arrow.gather import constant_string, int_array, with_validity
from rocketflow_store.records.arrow.hashing import splitmix64, string_hashes
from rocketflow_store.records.arrow.queue_column import QueueColumn
from rocketflow_store.records.arrow.queue_turns import QueueTurns
from rocketflow_store.records.decoding.dispatch_rows import DispatchRows, tags_codes_of
from rocketflow_store.records.decoding.index_entries import IndexEntries, index_entries
from rocketflow_store.records.decoding.properties import split_properties
from rocketflow_store.records.decoding.record_crc import rows_like_crc
from rocketflow_store.records.encoding.compiled_rows import (
    EncodedRows,
    RowContents,
    RowTexts,
    compiled_rows,
    magic_of,
    topic_part,
)
from rocketflow_store.records.encoding.delayed_placement import REQUESTS, place_for_later
from rocketflow_store.records.encoding.lmq_offsets import LmqOffsets, room_needed, with_room
from rocketflow_store.records.encoding.message_encoder import MessageEncoder
from rocketflow_store.records.encoding.property_map import PROPERTY_NAME, EntryKind, PropertyMap
from rocketflow_store.records.encoding.record_heads import AFTER_HOSTS, BEFORE_HOSTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from rocketflow_store.records.decoding.index_entries import Hashes
    from rocketflow_store.settings.store_config import StoreConfig

    Ints = npt.NDArray[np.int64]

NAMED: Final = (EntryKind.KEYS, EntryKind.TAGS, EntryKind.SHARDING_KEY)
"""Properties that have columns, in stored order."""
_COUNTED_IDS: Final = 1 << 15
"""Queue ids below this are counted rather than sorted."""
_MAP: Final = pa.map_(pa.string(), pa.string())
_PROPERTIES_ROOM: Final = 512
"""Most bytes that fixed names, a UNIQ_KEY, delay and topic properties add to a row's own values, except for topics."""
_HEAD_ROOM: Final = 512
"""More than the size of a record without body and properties, and of the blank record that ends a file."""


class StagedBytes(Protocol):
    """The bytes of a chunk that are read when they are written: so they need no memory until then."""

    @property
    def size(self) -> int: ...

    def read_into(self, octets: npt.NDArray[np.uint8]) -> None:
        """Fill `octets`; raise StagedPartError if the bytes are not those that were checked."""
        ...


@dataclass(slots=True)
class EncodedChunk:
    """Encoded records without a place: record i is `data[starts[i] : starts[i] + sizes[i]]`.

    `topics[topic_codes[i]]` is the topic it is stored under, `delay_levels` are > 0 on the schedule topic. `row_hashes`
    (uint64, or None if not requested) depend on the row's content alone. With `property_crc` every record ends with 20
    bytes reserved for its property CRC.
    """

    data: pa.Buffer
    starts: Ints
    sizes: Ints
    topics: list[str]
    topic_codes: npt.NDArray[np.int32]
    queue_ids: npt.NDArray[np.int32]
    tags_codes: Ints
    entries: IndexEntries
    delay_levels: npt.NDArray[np.int32] | None = None
    delay_levels_ms: Sequence[int] = ()
    row_hashes: npt.NDArray[np.uint64] | None = None
    property_crc: bool = False
    lmqs: LmqOffsets | None = None
    """LMQs that records are also in; None if the store has none (enableLmq)."""
    staged: StagedBytes | None = None
    """Where the bytes are; `data` is empty then."""

    @property
    def size(self) -> int:
        """The number of bytes of all records."""
        return self.data.size if self.staged is None else self.staged.size

    def writable(self) -> npt.NDArray[np.uint8]:
        """Return the bytes as a writable array."""
        if self.staged is None and self.data.is_mutable:
            return np.asarray(memoryview(self.data)).view(np.uint8)
        octets = np.empty(self.size, np.uint8)
        self.copy_into(octets)
        return octets

    def copy_into(self, octets: npt.NDArray[np.uint8]) -> None:
        """Copy the bytes into an array of this size."""
        if self.staged is None:
            octets[:] = np.frombuffer(self.data, np.uint8)
        else:
            self.staged.read_into(octets)

    def queues(self) -> tuple[QueueColumn, npt.NDArray[np.int32]]:
        """Return the distinct queues, by topic and id, and each row's index among them."""
        if len(self.topics) == 1 and len(self.queue_ids) and int(self.queue_ids.max()) < _COUNTED_IDS:
            present = np.flatnonzero(np.bincount(self.queue_ids))
            lookup = np.zeros(int(present[-1]) + 1, np.int32)
            lookup[present] = np.arange(len(present))
            return QueueColumn(self.topics, np.zeros(len(present), np.int64), present), lookup[self.queue_ids]
        tagged = (self.topic_codes.astype(np.int64) << 32) | self.queue_ids
        different, queue_of = np.unique(tagged, return_inverse=True)
        return QueueColumn(self.topics, different >> 32, different & 0xFFFFFFFF), queue_of.astype(np.int32)

    def dispatch_rows(
        self,
        phy_offsets: Ints,
        queue_offsets: Ints,
        queues: QueueColumn,
        queue_of: npt.NDArray[np.int32],
        store_timestamp_ms: int,
    ) -> DispatchRows:
        """Return the input of dispatch once the records have their place."""
        tags_codes = self.tags_codes
        if self.delay_levels is not None:
            delayed = np.flatnonzero(self.delay_levels > 0)
            tags_codes = tags_codes.copy()
            tags_codes[delayed] = (
                store_timestamp_ms + np.array(self.delay_levels_ms, np.int64)[self.delay_levels[delayed] - 1]
            )
        return DispatchRows(
            phy_offsets=phy_offsets,
            sizes=self.sizes,
            tags_codes=tags_codes,
            store_timestamps=np.full(len(self.sizes), store_timestamp_ms, np.int64),
            queue_offsets=queue_offsets,
            queues=queues,
            queue_of=queue_of,
            entries=self.entries,
        )


class BatchEncoder:
    """Encodes Arrow batches under one configuration.

    `queue_count(topic)` returns the number of queues of a topic; `default_topic` is for rows (or batches) without one.
    """

    def __init__(
        self,
        config: StoreConfig,
        queue_count: Callable[[str], int],
        default_topic: str | None = None,
        *,
        row_hashes: bool = False,
    ) -> None:
        self._config, self._queue_count, self._default_topic = config, queue_count, default_topic
        self._row_hashes = row_hashes
        self._scalar = MessageEncoder(config)
        self._store_host = encode_host(config.store_host)
        self._reserved = PROPERTY_CRC_SIZE if config.append_prop_crc else 0
        if default_topic is not None:
            check_send_topic(default_topic)

    # -- checks

    def validate(self, batch: pa.RecordBatch | pa.Table) -> set[str]:
        """Check that a batch has only columns of the sink and that every row can be stored.

        Returns the LMQs that rows name, if the store has any. Raises UnknownColumnError or BatchSchemaError for a
        column, MessageRejectedError for the first invalid row.
        """
        for name in batch.schema.names:
            if name not in SINK_COLUMNS:
                raise UnknownColumnError(name, SINK_COLUMNS)
            if batch.schema.names.count(name) > 1:
                raise BatchSchemaError(name, "occurs more than once: keep one of them")
        if "body" not in batch.schema.names:
            raise BatchSchemaError("body", "is missing: every message needs one (binary or string)")
        first = 0
        lmqs: set[str] = set()
        for part in batch.to_batches() if isinstance(batch, pa.Table) else [batch]:
            columns = _Columns(part, self._default_topic, self._config)
            self._validate_part(columns, first)
            if self._config.enable_lmq:
                lmqs |= self._lmqs(columns, first)
            first += part.num_rows
        return lmqs

    def _validate_part(self, columns: _Columns, first: int) -> None:
        config = self._config
        bodies = columns.bodies
        columns.convert_all()
        if bodies.null_count:
            raise _rejected("the body is null", first + _first(bodies.is_null()))
        sizes = _lengths(bodies)
        if len(sizes) and int(sizes.max()) > config.max_message_size:
            row = int(np.flatnonzero(sizes > config.max_message_size)[0])
            raise _rejected(
                f"body of {int(sizes[row])} bytes, maxMessageSize is {config.max_message_size}", first + row
            )
        topics = columns.topics()
        if topics.null_count or (self._default_topic is None and columns.topic is None and len(bodies)):
            row = _first(topics.is_null()) if topics.null_count else 0
            raise _rejected("no topic: give a column or the option `topic`", first + row)
        for topic in pc.unique(topics).to_pylist():
            try:
                check_send_topic(topic)
            except MessageRejectedError as error:
                row = int(np.flatnonzero(np.array([one == topic for one in topics.to_pylist()]))[0])
                raise MessageRejectedError(error.status, error.why, first + row) from error
        if columns.queue_id is not None:
            ids = np.asarray(columns.queue_id.fill_null(0))
            outside = np.flatnonzero((ids < 0) | (ids >= MAX_QUEUE_NUMS))
            if len(outside):
                why = f"queueId {ids[outside[0]]}: a topic has queues 0 to {MAX_QUEUE_NUMS - 1}"
                raise _rejected(why, first + int(outside[0]))
        room = np.full(len(bodies), _PROPERTIES_ROOM, np.int64) + columns.text_sizes()
        suspicious = room > MAX_PROPERTIES_SIZE - PROPERTY_CRC_SIZE
        suspicious |= columns.rows_with_separators() | columns.rows_with_far_delivery(config)
        suspicious |= columns.rows_with_delay_requests()
        suspicious |= sizes + room + _HEAD_ROOM > config.mapped_file_size_commit_log
        for row in np.flatnonzero(suspicious).tolist():
            try:
                fields, _ = self._scalar.encode(columns.message(row), 0, config.clock.now_ms())
                check_fits_a_file(record_size(fields, config.append_prop_crc), config.mapped_file_size_commit_log)
            except MessageRejectedError as error:
                raise MessageRejectedError(error.status, error.why, first + row) from error

    def _lmqs(self, columns: _Columns, first: int) -> set[str]:
        """Return the LMQs that rows name; raise for a row without space for its offsets in them."""
        found: set[str] = set()
        if len(columns.bodies) == 0:
            return found
        own, config = columns.own, self._config
        names = split_properties(own).column(PROPERTY_INNER_MULTI_DISPATCH)
        body_sizes, own_sizes = _lengths(columns.bodies), _lengths(own)
        for row in np.flatnonzero(np.asarray(names.is_valid())).tolist():
            text = names[row].as_py()
            lmqs = {one for one in text.split(",") if one.startswith(LMQ_PREFIX)}
            properties = int(own_sizes[row]) + _PROPERTIES_ROOM + room_needed(text)
            if lmqs and properties > MAX_PROPERTIES_SIZE - PROPERTY_CRC_SIZE:
                why = f"properties of {properties} bytes with {PROPERTY_INNER_MULTI_QUEUE_OFFSET}"
                raise MessageRejectedError(PutMessageStatus.PROPERTIES_SIZE_EXCEEDED, why, first + row)
            if lmqs and int(body_sizes[row]) + properties + _PROPERTIES_ROOM > config.max_message_size:
                raise _rejected("a record in LMQs must not be larger than maxMessageSize", first + row)
            found |= lmqs
        return found

    # -- bytes

    def encode(
        self, batch: pa.RecordBatch | pa.Table, now_ms: int, next_queue: QueueTurns | None = None
    ) -> Iterator[EncodedChunk]:
        """Yield the chunks of a validated batch, in row order.

        Rows without a queue take turns by topic; `next_queue` continues the turns (without it they begin at queue 0).
        """
        turns = QueueTurns() if next_queue is None else next_queue
        for part in batch.to_batches() if isinstance(batch, pa.Table) else [batch]:
            columns = _Columns(part, self._default_topic, self._config)
            for rows in chunks(_lengths(columns.bodies)):
                some = part.slice(rows.start, rows.stop - rows.start)
                yield self._chunk(_Columns(some, self._default_topic, self._config), now_ms, turns)

    def _chunk(self, columns: _Columns, now_ms: int, next_queue: QueueTurns) -> EncodedChunk:
        topics, codes = columns.topic_codes()
        queue_ids = self._queue_ids(columns, topics, codes, next_queue)
        new_ids = UNIQ_KEYS.reserve(len(codes))
        named = None if self._config.enable_lmq else columns.named()
        if named is not None:
            texts = RowTexts(named, (None, columns.keys, columns.tags), (new_ids[0].encode(), new_ids[1]))
            rows = self._compiled(columns, now_ms, topics, codes, queue_ids, texts, is_named=True)
            if rows is not None:
                return self._encoded(rows, topics, codes, queue_ids)
        uniq_keys, uniq_segment = columns.uniq_keys_of(new_ids)
        properties, topics, codes, queue_ids, levels = self._properties(
            columns, uniq_keys, uniq_segment, topics, codes, queue_ids
        )
        lmqs = None
        if self._config.enable_lmq:
            properties, lmqs = with_room(properties, topics, codes)
        rows = None
        if named is None:
            texts = RowTexts([(b"", properties)], (uniq_keys, columns.effective_keys(), columns.effective_tags()))
            rows = self._compiled(columns, now_ms, topics, codes, queue_ids, texts, is_named=False)
        if rows is None:
            rows = self._joined(columns, now_ms, topics, codes, queue_ids, properties, uniq_keys)
        if self._row_hashes:
            rows = rows._replace(row_hashes=_row_hashes(columns, rows.body_crcs))
        return self._encoded(rows, topics, codes, queue_ids, levels, lmqs)

    def _encoded(
        self,
        rows: EncodedRows,
        topics: list[str],
        codes: npt.NDArray[np.int32],
        queue_ids: npt.NDArray[np.int32],
        levels: npt.NDArray[np.int32] | None = None,
        lmqs: LmqOffsets | None = None,
    ) -> EncodedChunk:
        reserved = self._reserved
        return EncodedChunk(
            data=rows.data,
            starts=rows.starts,
            sizes=rows.sizes,
            topics=topics,
            topic_codes=codes,
            queue_ids=queue_ids,
            tags_codes=rows.tags_codes,
            entries=rows.entries,
            delay_levels=levels,
            delay_levels_ms=self._config.delay_levels_ms,
            row_hashes=rows.row_hashes,
            property_crc=reserved > 0,
            lmqs=None if lmqs is None else lmqs.in_records(rows.sizes - reserved),
        )

    def _compiled(
        self,
        columns: _Columns,
        now_ms: int,
        topics: list[str],
        codes: npt.NDArray[np.int32],
        queue_ids: npt.NDArray[np.int32],
        texts: RowTexts,
        *,
        is_named: bool,
    ) -> EncodedRows | None:
        """Return the rows as the kernel encodes them, None if it leaves them over; hashed if their texts are named."""
        return compiled_rows(
            self._head(now_ms).tobytes(),
            columns.bodies,
            topics,
            codes,
            queue_ids,
            columns.flags(),
            columns.born_timestamps(now_ms),
            texts,
            columns.contents() if is_named and self._row_hashes else None,
            reserved=self._reserved,
            indexed=self._config.message_index_enable,
        )

    def _joined(
        self,
        columns: _Columns,
        now_ms: int,
        topics: list[str],
        codes: npt.NDArray[np.int32],
        queue_ids: npt.NDArray[np.int32],
        properties: pa.Array,
        uniq_keys: pa.Array,
    ) -> EncodedRows:
        """Return the rows as their parts are joined in Arrow."""
        count, bodies, reserved = len(codes), columns.bodies, self._reserved
        crcs = crc32_column(bodies) & 0x7FFFFFFF
        if not reserved:
            properties = unlike_crcs(properties)
        body_sizes, property_sizes = _lengths(bodies), _lengths(properties) + reserved
        topic_parts = [topic_part(topic) for topic in topics]
        topic_sizes = np.array([len(part) for part in topic_parts], np.int64)[codes]
        head_size = 68 + 2 * len(self._store_host) + 4
        sizes = head_size + body_sizes + topic_sizes + 2 + property_sizes
        head = self._heads(columns, now_ms, sizes, crcs, queue_ids, body_sizes, topics, codes)
        topic_column = taken(topic_parts, codes)
        lengths = fixed_width(property_sizes.astype(">i2").view(np.uint8).reshape(count, 2))
        pieces = [head, bodies, topic_column, lengths, properties]
        if reserved:
            pieces.append(fixed_width(np.zeros((count, reserved), np.uint8)))
        records = join(*pieces)
        ends = np.frombuffer(records.buffers()[1], np.int32, count + 1, records.offset * 4).astype(np.int64)
        tags = columns.tag_hashes()
        return EncodedRows(
            data=records.buffers()[2],
            starts=ends[:-1],
            sizes=sizes,
            body_crcs=crcs,
            tags_codes=tags_codes_of(tags),
            entries=self._entries(topics, codes, uniq_keys, columns, tags),
            row_hashes=None,
        )

    def _entries(
        self, topics: list[str], codes: npt.NDArray[np.int32], uniq_keys: pa.Array, columns: _Columns, tags: Hashes
    ) -> IndexEntries:
        if not self._config.message_index_enable:
            return IndexEntries.none()
        return index_entries(topics, codes, uniq_keys, columns.effective_keys(), tags)

    def _heads(
        self,
        columns: _Columns,
        now_ms: int,
        sizes: Ints,
        crcs: Ints,
        queue_ids: npt.NDArray[np.int32],
        body_sizes: Ints,
        topics: list[str],
        codes: npt.NDArray[np.int32],
    ) -> pa.Array:
        """Return everything before the body, as fixed-width rows."""
        heads = np.repeat(self._head(now_ms), len(sizes))
        heads["total_size"] = sizes
        heads["magic_code"] = np.array([magic_of(topic) for topic in topics], np.int64)[codes]
        heads["body_crc"] = crcs
        heads["queue_id"] = queue_ids
        heads["flag"] = columns.flags()
        heads["born_timestamp"] = columns.born_timestamps(now_ms)
        heads["body_size"] = body_sizes
        return fixed_width(heads.view(np.uint8).reshape(len(sizes), heads.itemsize))

    def _head(self, now_ms: int) -> npt.NDArray[np.void]:
        """Return the fields before the body that rows share: hosts, their flags, and the time without a column."""
        host = self._store_host
        width = len(host)
        hosts = [("born_host", f"V{width}"), ("store_timestamp", ">i8"), ("store_host", f"V{width}")]
        head = np.zeros(1, np.dtype([*BEFORE_HOSTS, *hosts, *AFTER_HOSTS]))
        head["sys_flag"] = BORN_HOST_V6_FLAG | STORE_HOST_V6_FLAG if width == 20 else 0
        head["born_timestamp"] = now_ms
        head["born_host"] = head["store_host"] = np.void(host)
        return head

    def _queue_ids(
        self, columns: _Columns, topics: list[str], codes: npt.NDArray[np.int32], next_queue: QueueTurns
    ) -> npt.NDArray[np.int32]:
        count = len(codes)
        counts = np.array([self._queue_count(topic) for topic in topics], np.int64)
        queue_ids = np.full(count, -1, np.int64)
        if columns.queue_id is not None:
            queue_ids = np.asarray(columns.queue_id.fill_null(-1)).astype(np.int64)
        if columns.sharding_key is not None:
            open_rows = (queue_ids < 0) & np.asarray(columns.sharding_key.is_valid())
            hashes, _ = string_hashes(columns.sharding_key)
            sharded = np.abs(hashes.view(np.int32).astype(np.int64)) % counts[codes]
            queue_ids = np.where(open_rows, sharded, queue_ids)
        for code, topic in enumerate(topics):
            rows = np.flatnonzero((queue_ids < 0) & (codes == code))
            if len(rows):
                first = next_queue[topic]
                queue_ids[rows] = (first + np.arange(len(rows))) % counts[code]
                next_queue[topic] = int((first + len(rows)) % counts[code])
        return queue_ids.astype(np.int32)

    def _properties(
        self,
        columns: _Columns,
        uniq_keys: pa.Array,
        uniq_segment: pa.Array,
        topics: list[str],
        codes: npt.NDArray[np.int32],
        queue_ids: npt.NDArray[np.int32],
    ) -> tuple[pa.Array, list[str], npt.NDArray[np.int32], npt.NDArray[np.int32], Any]:
        """Return (stored properties, topics and queues to store the rows under, delay levels or None)."""
        own = columns.own
        levels = columns.delay_levels()
        due = columns.deliver_timestamps()
        scalar = columns.scalar_rows
        if levels is None and due is None and not scalar:
            return join(own, uniq_segment), topics, codes, queue_ids, None
        count = len(codes)
        delayed = levels > 0 if levels is not None else np.zeros(count, bool)
        timed = (due > self._config.clock.now_ms()) & ~delayed if due is not None else np.zeros(count, bool)
        odd = np.array(sorted(scalar), np.intp)
        delayed[odd] = timed[odd] = False
        segments = _real_places(topics, codes, queue_ids, delayed | timed)
        segments += _timer_ticks(due, timed, self._config.timer_precision_ms)
        encoded = join(own, *segments, uniq_segment)
        stored = [*topics, SCHEDULE_TOPIC, TIMER_TOPIC]
        kept = np.zeros(count, np.int32) if levels is None else np.where(delayed, levels, 0).astype(np.int32)
        original = codes, queue_ids
        codes, queue_ids = codes.copy(), queue_ids.copy()
        codes[delayed], codes[timed] = len(topics), len(topics) + 1
        queue_ids[delayed], queue_ids[timed] = kept[delayed] - 1, 0
        if scalar:
            values = encoded.to_pylist()
            for row, given in scalar.items():
                properties = dict(given)
                where = topics[int(original[0][row])], int(original[1][row])
                topic, queue_id = place_for_later(*where, properties, 0, self._config, accepted=True)
                properties.setdefault(PROPERTY_UNIQ_KEY, uniq_keys[row].as_py())
                values[row], queue_ids[row] = encode_properties(properties), queue_id
                if topic != where[0]:
                    codes[row] = stored.index(topic, len(topics))
                    kept[row] = queue_id + 1 if topic == SCHEDULE_TOPIC else 0
            encoded = binary_array(values)
        return encoded, stored, codes, queue_ids, kept if kept.any() else None


def _real_places(
    topics: list[str], codes: npt.NDArray[np.int32], queue_ids: npt.NDArray[np.int32], moved: npt.NDArray[np.bool_]
) -> list[Any]:
    """Return the piece with the real topic and queue of rows that are first stored elsewhere, if there are any."""
    if not moved.any():
        return []
    heads = taken(
        [f"{PROPERTY_REAL_TOPIC}\x01{topic}\x02{PROPERTY_REAL_QUEUE_ID}\x01".encode() for topic in topics], codes
    )
    ids = pa.array(queue_ids, pa.int32()).cast(pa.string()).cast(pa.binary())
    place = pc.binary_join_element_wise(heads, ids, _CLOSE, EMPTY)
    return [place if moved.all() else pc.if_else(bool_array(moved), place, None)]


def _timer_ticks(due: Ints | None, timed: npt.NDArray[np.bool_], precision_ms: int) -> list[Any]:
    """Return the piece with the delivery time of timer messages, if there are any."""
    if due is None or not timed.any():
        return []
    rest = due % precision_ms
    ticks = pa.array(due - np.where(rest == 0, precision_ms, rest), pa.int64()).cast(pa.string()).cast(pa.binary())
    name = binary_array([f"{PROPERTY_TIMER_OUT_MS}\x01".encode()])[0]
    when = pc.binary_join_element_wise(name, ticks, _CLOSE, EMPTY)
    return [when if timed.all() else pc.if_else(bool_array(timed), when, None)]


class _Columns:
    """The sink's columns of one batch, each cast to one type."""

    def __init__(self, batch: pa.RecordBatch, default_topic: str | None, config: StoreConfig) -> None:
        self._batch, self._default_topic = batch, default_topic
        self._last_level = len(config.delay_levels_ms)
        self.bodies = _cast("body", batch.column("body"), pa.binary())
        self.topic = self._text("topic")
        self.tags, self.keys = _filled(self._text("tags")), _filled(self._keys())
        sharding_key = _filled(self._text("shardingKey"))
        self.sharding_key = None if sharding_key is None else _empty_to_null(sharding_key)
        self.queue_id = self._get("queueId", pa.int32())

    @cached_property
    def _map(self) -> PropertyMap | None:
        properties = self._map_column()
        return None if properties is None or len(self.bodies) == 0 else PropertyMap(properties)

    def _map_column(self) -> pa.Array | None:
        column = self._get("properties", None)
        return column if column is None or _is_text_map(column.type) else _cast("properties", column, _MAP)

    def _get(self, name: str, kind: pa.DataType | None) -> pa.Array | None:
        if name not in self._batch.schema.names:
            return None
        column = self._batch.column(name)
        return column if kind is None else _cast(name, column, kind)

    def convert_all(self) -> None:
        """Cast every column before anything is encoded; raise BatchSchemaError for a value that does not fit."""
        for name in ("flag", "delayTimeLevel"):
            self._get(name, pa.int32())
        for name in ("bornTimestamp", "deliverTimestamp"):
            column = self._get(name, None)
            if column is not None and not pa.types.is_timestamp(column.type):
                self._milliseconds(name)
        self._map_column()

    def _text(self, name: str) -> pa.Array | None:
        return self._get(name, pa.string())

    def _keys(self) -> pa.Array | None:
        column = self._get("keys", None)
        if column is None:
            return None
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            lists = _cast("keys", column, pa.list_(pa.string()))
            if lists.flatten().null_count:  # one null would make the whole row's keys null
                lists = pa.array(
                    [None if row is None else [key for key in row if key is not None] for row in lists.to_pylist()],
                    type=lists.type,
                )
            return pc.binary_join(lists, _text_scalar(" ")).cast(pa.string())
        return _cast("keys", column, pa.string())

    def topics(self) -> pa.Array:
        """Return the topic of every row, null if neither column nor default names one."""
        count = len(self.bodies)
        if self.topic is None:
            if self._default_topic is None:
                return pa.nulls(count, pa.string())
            return constant_string(self._default_topic, count)
        if self._default_topic is not None and self.topic.null_count:
            return self.topic.fill_null(self._default_topic)
        return self.topic

    def topic_codes(self) -> tuple[list[str], npt.NDArray[np.int32]]:
        """Return the distinct topics and each row's index among them."""
        if self.topic is None:
            assert self._default_topic is not None
            return [self._default_topic], np.zeros(len(self.bodies), np.int32)
        encoded = pc.dictionary_encode(self.topics())
        return encoded.dictionary.to_pylist(), np.asarray(encoded.indices).astype(np.int32)

    def flags(self) -> Any:
        column = self._get("flag", pa.int32())
        return 0 if column is None else np.asarray(column.fill_null(0))

    def born_timestamps(self, now_ms: int) -> Any:
        column = self._milliseconds("bornTimestamp")
        if column is None:
            return now_ms
        return np.asarray(column.fill_null(now_ms))

    def _milliseconds(self, name: str) -> pa.Array | None:
        column = self._get(name, None)
        if column is None:
            return None
        if pa.types.is_timestamp(column.type):
            per_ms = {"s": 0, "ms": 1, "us": 1000, "ns": 1_000_000}[column.type.unit]
            values = column.cast(pa.int64())
            if per_ms == 0:
                return pc.multiply(values, 1000)
            if per_ms == 1:
                return values
            rounded_down = np.asarray(values.fill_null(0)) // per_ms
            return with_validity(int_array(rounded_down, pa.int64()), np.asarray(values.is_valid()).astype(bool))
        return _cast(name, column, pa.int64())

    def delay_levels(self) -> npt.NDArray[np.int32] | None:
        column = self._get("delayTimeLevel", pa.int32())
        if column is None:
            return None
        levels = np.asarray(column.fill_null(0))
        return np.clip(levels, 0, self._last_level).astype(np.int32) if (levels > 0).any() else None

    def _due(self) -> pa.Array | None:
        """Return the times of delivery (ms); one that is not after 1970 is none, as an attribute of a message."""
        column = self._milliseconds("deliverTimestamp")
        return None if column is None else pc.if_else(pc.greater(column, 0), column, None)

    def deliver_timestamps(self) -> Ints | None:
        column = self._due()
        if column is None or column.null_count == len(column):
            return None
        return np.asarray(column.fill_null(0)).astype(np.int64)

    # -- properties

    @cached_property
    def own(self) -> pa.Array:
        """The encoded properties of a row itself: its map, KEYS, TAGS, sharding key, delay or delivery time."""
        return self._own_properties(None)

    @cached_property
    def own_but_uniq_key(self) -> pa.Array:
        """The properties as in `own`, without the row's UNIQ_KEY."""
        if self._in_map(EntryKind.UNIQ_KEY) is None:
            return self.own
        return self._own_properties(EntryKind.UNIQ_KEY)

    def _own_properties(self, without: EntryKind | None) -> pa.Array:
        named = {
            EntryKind.KEYS: None if self.keys is None else _empty_to_null(self.keys),
            EntryKind.TAGS: None if self.tags is None else _empty_to_null(self.tags),
            EntryKind.SHARDING_KEY: self.sharding_key,
        }
        columns = {kind: column for kind, column in named.items() if column is not None}
        segments = [self._map.encoded(columns, without)] if self._map is not None else []
        for kind, column in columns.items():
            there = self._in_map(kind)
            if there is not None:  # the map's entry already has the value
                column = pc.if_else(there.is_null(), column, None)
            segments += _named(PROPERTY_NAME[kind], column)
        delays, due = self._get("delayTimeLevel", pa.int32()), self._due()
        if delays is not None:
            stored = pc.min_element_wise(delays, pa.scalar(self._last_level, pa.int32()), skip_nulls=False)
            positive = pc.if_else(pc.greater(delays, 0), stored, None).cast(pa.string())
            segments += _named(PROPERTY_DELAY, positive)
        if due is not None:
            text = due.cast(pa.string())
            if delays is not None:
                text = pc.if_else(pc.greater(delays.fill_null(0), 0), None, text)
            segments += _named(PROPERTY_TIMER_DELIVER_MS, text)
        joined = join(*segments) if segments else empty_values(len(self.bodies))
        if not self.scalar_rows:
            return joined
        values = joined.to_pylist()
        for row, properties in self.scalar_rows.items():
            dropped = None if without is None else PROPERTY_NAME[without]
            values[row] = encode_properties({name: value for name, value in properties.items() if name != dropped})
        return binary_array(values)

    @cached_property
    def scalar_rows(self) -> dict[int, dict[str, str]]:
        """Properties, by row, of rows whose maps request a delay or a delivery time, or have a name twice.

        If columns request them too, also of rows whose maps have REAL_TOPIC or other placement properties.
        """
        if self._map is None:
            return {}
        kinds = [EntryKind.LATER]
        if {"delayTimeLevel", "deliverTimestamp"} & set(self._batch.schema.names):
            kinds.append(EntryKind.PLACE)
        rows = np.union1d(self._map.rows_of(*kinds), self._map.rows_with_repeats())
        return {row: MessageEncoder.own_properties(self.message(row)) for row in rows.tolist()}

    def _in_map(self, kind: EntryKind) -> pa.Array | None:
        return None if self._map is None else self._map.values_of(kind)

    def effective_keys(self) -> pa.Array:
        """Return the stored KEYS of every row."""
        return self._effective(self.keys, EntryKind.KEYS)

    def effective_tags(self) -> pa.Array:
        """Return the stored TAGS of every row."""
        return self._effective(self.tags, EntryKind.TAGS)

    def tag_hashes(self) -> Hashes:
        """Return the Java hashes and the lengths of the stored TAGS."""
        return string_hashes(self.effective_tags())

    def _effective(self, column: pa.Array | None, kind: EntryKind) -> pa.Array:
        there = self._in_map(kind)
        if column is None:
            return pa.nulls(len(self.bodies), pa.string()) if there is None else there
        return column if there is None else pc.coalesce(_empty_to_null(column), there)

    def named(self) -> list[tuple[bytes, pa.Array]] | None:
        """Return the columns of all properties with their names, None if maps or times of delivery have some too."""
        if self._map is not None or {"delayTimeLevel", "deliverTimestamp"} & set(self._batch.schema.names):
            return None
        columns = zip(NAMED, (self.keys, self.tags, self.sharding_key), strict=True)
        return [(f"{PROPERTY_NAME[kind]}\x01".encode(), column) for kind, column in columns if column is not None]

    def contents(self) -> RowContents:
        """Return what a row's hash depends on besides its bytes."""
        times = self.born_timestamps(0)
        queue_ids = None if self.queue_id is None else np.ascontiguousarray(self.queue_id.fill_null(-1))
        return RowContents(times if isinstance(times, np.ndarray) else None, queue_ids)

    def uniq_keys_of(self, new_ids: tuple[str, int]) -> tuple[pa.Array, pa.Array]:
        """Return (UNIQ_KEY of every row, the property segments to append).

        A row that has a UNIQ_KEY keeps it; others get one of `new_ids`, a prefix and a tick for the first row.
        """
        keys, segments = reserved_uniq_keys(*new_ids, len(self.bodies))
        own = self._in_map(EntryKind.UNIQ_KEY)
        if own is None:
            return keys, segments
        return pc.coalesce(own, keys), pc.if_else(own.is_null(), segments, None)

    # -- checks

    def text_sizes(self) -> Ints:
        """Return the bytes of every row's own property names and values."""
        total = np.zeros(len(self.bodies), np.int64)
        for column in (self.keys, self.tags, self.sharding_key, self.topic):
            if column is not None:
                total += _lengths(column)
        if self._map is not None:
            sizes = _lengths(self._map.names) + _lengths(self._map.values) + 2
            total += np.diff(np.append(0, np.cumsum(sizes))[self._map.offsets])
        return total

    def rows_with_separators(self) -> npt.NDArray[np.bool_]:
        """Return a mask of rows with 0x01 or 0x02 in a text; all rows if any map has one, or an empty name."""
        found = np.zeros(len(self.bodies), bool)
        for column in (self.keys, self.tags, self.sharding_key):
            if column is not None and _has_separator(column):
                found |= np.array([one is not None and ("\x01" in one or "\x02" in one) for one in column.to_pylist()])
        if self._map is not None and (
            _has_separator(self._map.names) or _has_separator(self._map.values) or not _lengths(self._map.names).all()
        ):
            found |= True
        return found

    def rows_with_far_delivery(self, config: StoreConfig) -> npt.NDArray[np.bool_]:
        """Return a mask of rows due later than a timer may be set, or due at all if there is no timer."""
        due = self.deliver_timestamps()
        if due is None:
            return np.zeros(len(self.bodies), bool)
        if not config.timer_wheel_enable:
            column = self._due()
            return np.zeros(0, bool) if column is None else np.asarray(column.is_valid()).astype(bool)
        far: npt.NDArray[np.bool_] = due > config.clock.now_ms() + config.timer_max_delay_sec * 1000
        return far

    def rows_with_delay_requests(self) -> npt.NDArray[np.bool_]:
        """Return a mask of rows whose maps request a delay or a time of delivery."""
        found = np.zeros(len(self.bodies), bool)
        for row, properties in self.scalar_rows.items():
            found[row] = any(name in properties for name in REQUESTS)
        return found

    def message(self, row: int) -> Message:
        """Return one row as a Message."""

        def value(name: str) -> Any:
            return self._batch.column(name)[row].as_py() if name in self._batch.schema.names else None

        properties = value("properties")
        due = self._milliseconds("deliverTimestamp")
        return Message(
            topic=self.topics()[row].as_py(),
            body=self.bodies[row].as_py(),
            tags=value("tags"),
            keys=(self.keys[row].as_py() or "") if self.keys is not None else "",
            properties=dict(properties) if properties else {},
            sharding_key=value("shardingKey"),
            flag=value("flag") or 0,
            delay_level=value("delayTimeLevel") or 0,
            deliver_at_ms=None if due is None else due[row].as_py(),
        )


(_CLOSE,) = binary_array([b"\x02"])


def unlike_crcs(properties: pa.Array) -> pa.Array:
    """Return the property strings of records without a CRC as `format.record.unlike_crc` does."""
    rows = rows_like_crc(properties)
    if len(rows) == 0:
        return properties
    values = properties.to_pylist()
    for row in rows.tolist():
        try:
            values[row] = unlike_crc(values[row])
        except MessageRejectedError as error:
            raise MessageRejectedError(error.status, error.why, row) from error
    return binary_array(values)


def _text_scalar(text: str) -> Any:
    return binary_array([text.encode()]).cast(pa.string())[0]


def _named(name: str, values: pa.Array) -> list[Any]:
    """Return pieces that join to `name 0x01 value 0x02`, or to nothing if the value is null."""
    head = binary_array([f"{name}\x01".encode()])[0]
    values = values.cast(pa.binary())
    if values.null_count == 0:
        return [head, values, _CLOSE]
    return [pc.binary_join_element_wise(head, values, _CLOSE, EMPTY)]


def _filled(column: pa.Array | None) -> pa.Array | None:
    """Return a column with empty texts for nulls, which may have bytes that mean nothing."""
    return column if column is None or column.null_count == 0 else column.fill_null("")


def _empty_to_null(column: pa.Array) -> pa.Array:
    lengths = _lengths(column)
    if len(lengths) == 0 or int(lengths.min()) > 0:
        return column
    return pc.if_else(bool_array(lengths > 0), column, None)


def _cast(name: str, column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise BatchSchemaError(name, f"is {column.type}; it takes {kind}: {error}") from error


def _is_text_map(kind: pa.DataType) -> bool:
    texts = (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())
    return pa.types.is_map(kind) and kind.key_type in texts and kind.item_type in texts


def _lengths(column: pa.Array) -> Ints:
    """Return the bytes of each value of a string or binary array (0 for null)."""
    if len(column) == 0:
        return np.zeros(0, np.int64)
    if column.type not in (pa.binary(), pa.string()):
        column = column.cast(pa.binary())
    offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4)
    return np.diff(offsets).astype(np.int64)


def _has_separator(column: pa.Array) -> bool:
    column = column.cast(pa.binary())
    _, offsets, data = column.buffers()
    if data is None or len(column) == 0:
        return False
    ends = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4)
    octets = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]  # a slice has the buffers of its parent
    return bool(((octets == 1) | (octets == 2)).any())


def _first(mask: pa.Array) -> int:
    return int(np.flatnonzero(np.asarray(mask))[0])


def _rejected(why: str, row: int) -> MessageRejectedError:
    return MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, why, row)


def _row_hashes(columns: _Columns, body_crcs: Ints) -> npt.NDArray[np.uint64]:
    """Return a 64-bit hash of each row's content: body, own properties, topic, flag, queue and time if given."""
    property_crcs = crc32_column(columns.own_but_uniq_key).astype(np.uint64)
    topics, codes = columns.topic_codes()
    topic_hashes = np.array([string_hash(topic) & 0xFFFFFFFF for topic in topics], np.uint64)[codes]
    with np.errstate(over="ignore"):
        state = body_crcs.astype(np.uint64) | (property_crcs << np.uint64(32))
        for part in (topic_hashes, _lengths(columns.bodies), columns.flags(), columns.born_timestamps(0)):
            state = splitmix64(np.bitwise_xor(state, np.asarray(part).astype(np.uint64)))
        if columns.queue_id is not None:
            state = splitmix64(np.bitwise_xor(state, np.asarray(columns.queue_id.fill_null(-1)).astype(np.uint64)))
    return state
