"""Encode a `Message` as the fields of its record: checks, defaults, delay and timer conversion.

Refusals are RocketMQ's: topic, body size, property size. A message that is first stored under another topic (a delay
level, a delivery time) carries REAL_TOPIC and REAL_QID, as stored by a broker.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from rocketflow_store.format.batch_body import FIXED_SIZE, batch_entries
from rocketflow_store.format.properties import MAX_PROPERTIES_SIZE, decode_properties, encode_properties
from rocketflow_store.format.record import FIXED_SIZE as RECORD_FIXED_SIZE
from rocketflow_store.format.record import PLACED_HEAD, PROPERTY_CRC_SIZE, RecordFields, batch_parts, unlike_crc
from rocketflow_store.model.errors import MessageRejectedError
from rocketflow_store.model.java_compat import java_bytes, java_text, string_hash
from rocketflow_store.model.message import Message, MessageBatch
from rocketflow_store.model.message_id import UNIQ_KEYS, encode_host
from rocketflow_store.model.property_names import (
    PROPERTY_CRC32,
    PROPERTY_INNER_BASE,
    PROPERTY_INNER_MULTI_QUEUE_OFFSET,
    PROPERTY_INNER_NUM,
    PROPERTY_UNIQ_KEY,
    PROPERTY_WAIT,
    TRANSIENT_PROPERTY_PREFIX,
)
from rocketflow_store.model.status import PutMessageStatus
from rocketflow_store.model.system_flags import (
    BORN_HOST_V6_FLAG,
    INNER_BATCH_FLAG,
    NEED_UNWRAP_FLAG,
    NEVER_QUEUED,
    STORE_HOST_V6_FLAG,
    TRANSACTION_MASK,
)
from rocketflow_store.model.topic_names import (
    TIMER_TOPIC,
    check_send_topic,
    check_topic,
)
from rocketflow_store.records.encoding.batch_records import BatchRecords, CheckedBatch
from rocketflow_store.records.encoding.delayed_placement import LATER, place_for_later
from rocketflow_store.records.encoding.unplaced_record import (
    RecordRules,
    dispatch_keys,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow_store.format.batch_body import Entry
    from rocketflow_store.records.encoding.delayed_placement import TimerCongestion
    from rocketflow_store.settings.store_config import StoreConfig


def number_out_of_range(given: object) -> str:
    """Describe the first number of a message that does not fit into its field of a record; empty if all do."""
    for name, attribute, bits in (
        ("flag", "flag", 32),
        ("sysFlag", "sys_flag", 32),
        ("reconsumeTimes", "reconsume_times", 32),
        ("bornTimestamp", "born_timestamp", 64),
        ("preparedTransactionOffset", "prepared_transaction_offset", 64),
    ):
        value = getattr(given, attribute, None)
        if isinstance(value, int) and not -(1 << bits - 1) <= value < 1 << bits - 1:
            return f"{name} {value} is not an int{bits}"
    return ""


_ASSIGNED: Final = frozenset({PROPERTY_CRC32, PROPERTY_INNER_BASE, PROPERTY_INNER_MULTI_QUEUE_OFFSET})
"""Properties that only the store writes; a sender's are dropped."""
_EACH_ITS_OWN: Final = frozenset({PROPERTY_UNIQ_KEY, PROPERTY_WAIT})
"""Properties of a batch that are not added to its messages: they have their own, and a second one would win."""
_UNIQ_KEY: Final = b"\x02UNIQ_KEY\x01"
ASSIGNED_MARKS: Final = tuple(name.encode() for name in (*_ASSIGNED, TRANSIENT_PROPERTY_PREFIX))
_QUESTION_MARK: Final = ord("?")
_MAX_INNER_NUM: Final = (1 << 15) - 1
_UNIQ_KEYS_AT_ONCE: Final = 64
NEW_UNIQ_KEY_SIZE: Final = len(f"{PROPERTY_UNIQ_KEY}\x01\x02") + 56


class MessageEncoder:
    """Creates record fields under one configuration.

    `numbers` are the next tick of a UNIQ_KEY, the end of the reserved ticks, and the time (ms) for which they are.
    """

    def __init__(self, config: StoreConfig) -> None:
        self._config = config
        self._store_host = encode_host(config.store_host)
        self.uniq_prefix = ""
        """The hex digits of a UNIQ_KEY before its tick."""
        self.numbers = array("q", (0, 0, -1))
        self.rules = RecordRules.of(config)
        self._reserved = PROPERTY_CRC_SIZE if config.append_prop_crc else 0
        """Bytes of the properties that the record's CRC takes."""
        self.timer_congestion: TimerCongestion | None = None
        """Set if timer messages are counted."""

    def begin_run(self, count: int, now_ms: int) -> None:
        """Reserve UNIQ_KEYs for the next `count` messages: many at a time, for one millisecond."""
        tick, end, reserved_ms = self.numbers
        if now_ms != reserved_ms or tick + count > end:
            reserved = max(count, _UNIQ_KEYS_AT_ONCE)
            self.uniq_prefix, tick = UNIQ_KEYS.reserve(reserved)
            self.numbers[:] = array("q", (tick, tick + reserved, now_ms))

    def next_uniq_key(self) -> str:
        """Return a new UNIQ_KEY."""
        tick, end, _ = self.numbers
        if tick >= end:
            return UNIQ_KEYS.next()
        self.numbers[0] = tick + 1
        return f"{self.uniq_prefix}{tick & 0xFFFFFFFFFFFF:012X}"

    def encode(
        self, message: Message, queue_id: int, now_ms: int, *, is_internal: bool = False
    ) -> tuple[RecordFields, dict[str, str]]:
        """Return the record's fields and its properties; raise MessageRejectedError if it cannot be stored."""
        (check_topic if is_internal else check_send_topic)(message.topic)
        if message.body is None:
            raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, "the body is null")
        if len(message.body) > self._config.max_message_size:
            raise MessageRejectedError(
                PutMessageStatus.MESSAGE_ILLEGAL,
                f"body of {len(message.body)} bytes, maxMessageSize is {self._config.max_message_size}",
            )
        if queue_id < 0:
            raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, f"queue id {queue_id} is negative")
        if message.sys_flag & TRANSACTION_MASK in NEVER_QUEUED:
            why = f"sysFlag {message.sys_flag:#x} marks half of a transaction: no reader would see the message"
            raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, why)
        properties = self.own_properties(message)
        topic = message.topic
        if not LATER.isdisjoint(properties):
            topic, queue_id = place_for_later(topic, queue_id, properties, message.sys_flag, self._config)
            if self.timer_congestion is not None and message.topic != topic == TIMER_TOPIC:
                self.timer_congestion.check(properties)
        if PROPERTY_UNIQ_KEY not in properties:
            properties[PROPERTY_UNIQ_KEY] = self.next_uniq_key()
        try:
            raw = encode_properties(properties)
            if _QUESTION_MARK in raw:  # perhaps for half of a surrogate pair: queue and index get what is stored
                properties = {java_text(java_bytes(one)): java_text(java_bytes(properties[one])) for one in properties}
            born_host = self._store_host if message.born_host is None else encode_host(message.born_host)
        except ValueError as error:
            raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, str(error)) from error
        reserved = self._reserved
        if len(raw) + reserved > MAX_PROPERTIES_SIZE:
            raise MessageRejectedError(
                PutMessageStatus.PROPERTIES_SIZE_EXCEEDED,
                f"properties of {len(raw) + reserved} bytes, at most {MAX_PROPERTIES_SIZE} are allowed",
            )
        fields = RecordFields(
            topic=topic.encode(),
            queue_id=queue_id,
            body=message.body,
            properties=raw,
            flag=message.flag,
            sys_flag=message.sys_flag & ~(BORN_HOST_V6_FLAG | STORE_HOST_V6_FLAG),
            born_timestamp=now_ms if message.born_timestamp is None else message.born_timestamp,
            born_host=born_host,
            store_host=self._store_host,
            reconsume_times=message.reconsume_times,
            prepared_transaction_offset=message.prepared_transaction_offset,
        )
        return fields, properties

    def check_batch(self, batch: MessageBatch, queue_id: int, now_ms: int) -> CheckedBatch:
        """Check that every entry of a client batch can be stored; raise MessageRejectedError if one cannot."""
        check_send_topic(batch.topic)
        entries = _without_assigned(self._entries(batch), batch.body)
        if queue_id < 0:
            raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, f"queue id {queue_id} is negative")
        if batch.sys_flag & (TRANSACTION_MASK | INNER_BATCH_FLAG):
            raise MessageRejectedError(
                PutMessageStatus.MESSAGE_ILLEGAL, f"sysFlag {batch.sys_flag:#x}: a batch is no transaction"
            )
        if not LATER.isdisjoint(batch.properties):
            placed, _ = place_for_later(batch.topic, queue_id, dict(batch.properties), batch.sys_flag, self._config)
            if placed != batch.topic:
                why = "a batch cannot be delayed: send its messages one by one"
                raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, why)
        try:
            suffix = encode_properties(batch_properties(batch))
            born_host = self._store_host if batch.born_host is None else encode_host(batch.born_host)
        except ValueError as error:
            raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, str(error)) from error
        reserved = self._reserved
        room = MAX_PROPERTIES_SIZE - len(suffix) - reserved - 1 - NEW_UNIQ_KEY_SIZE
        if len(batch.body) > room:  # usually the batch is smaller than the properties of one message may be
            _check_properties(entries, room)
        hosts = len(born_host) + len(self._store_host)
        most = RECORD_FIXED_SIZE + hosts + 2 + len(batch.topic) + len(suffix) + reserved + 1 + NEW_UNIQ_KEY_SIZE
        size = len(batch.body) + len(entries) * (most - FIXED_SIZE)
        limit = batch_limit(self._config)
        if size > limit:
            raise MessageRejectedError(
                PutMessageStatus.MESSAGE_ILLEGAL,
                f"{len(entries)} messages of {size} bytes together, a batch may have {limit}",
            )
        return CheckedBatch(
            topic=batch.topic,
            queue_id=queue_id,
            entries=entries,
            suffix=suffix,
            sys_flag=batch.sys_flag,
            born_timestamp=now_ms if batch.born_timestamp is None else batch.born_timestamp,
            born_host=born_host,
            reconsume_times=batch.reconsume_times,
        )

    def batch_records(self, batch: CheckedBatch, now_ms: int) -> BatchRecords:
        """Return the records of the entries; one without a UNIQ_KEY gets one."""
        topic, suffix, reserved = batch.topic, batch.suffix, self._reserved
        fields = RecordFields(
            *(topic.encode(), batch.queue_id, b"", b"", 0, batch.sys_flag, batch.born_timestamp),
            *(batch.born_host, self._store_host, batch.reconsume_times),
        )
        magic, after, topic_part = batch_parts(fields, now_ms)
        fixed = PLACED_HEAD.size + len(after) + 4 + len(topic_part) + 2 + reserved
        tag_entries, complete = self.rules.tag_entries, bool(suffix or reserved)
        created = BatchRecords(topic, batch.queue_id, magic, after, topic_part, [], [], [], [])
        _, _, _, _, _, messages, sizes, tags_codes, all_keys = created
        for flag, body, raw in batch.entries:
            if _UNIQ_KEY not in b"\x02" + raw:
                raw = (raw if not raw or raw[-1] == 2 else raw + b"\x02") + self._uniq_property()
            elif complete and raw[-1] != 2:  # writers before 5.2 omit the last separator
                raw += b"\x02"
            raw += suffix
            if not reserved:
                raw = unlike_crc(raw if raw[-1] else raw + b"\x02")  # no record ends with zeros
            tags, keys = dispatch_keys(raw, topic, tag_entries)
            messages.append((flag, body, raw))
            sizes.append(fixed + len(body) + len(raw))
            tags_codes.append(string_hash(tags) if tags else 0)
            all_keys.append(keys)
        return created

    def _uniq_property(self) -> bytes:
        return f"{PROPERTY_UNIQ_KEY}\x01{self.next_uniq_key()}\x02".encode()

    def inner_batch(self, batch: MessageBatch) -> Message:
        """Return the single message that a BatchCQ topic stores of a client batch."""
        count = len(self._entries(batch))
        if count > _MAX_INNER_NUM:
            raise MessageRejectedError(
                PutMessageStatus.MESSAGE_ILLEGAL, f"{count} messages, an inner batch may have {_MAX_INNER_NUM}"
            )
        return Message(
            topic=batch.topic,
            body=batch.body,
            properties={**batch.properties, PROPERTY_INNER_NUM: str(count)},
            queue_id=batch.queue_id,
            sys_flag=batch.sys_flag | NEED_UNWRAP_FLAG | INNER_BATCH_FLAG,
            born_timestamp=batch.born_timestamp,
            born_host=batch.born_host,
            reconsume_times=batch.reconsume_times,
        )

    def _entries(self, batch: MessageBatch) -> list[Entry]:
        """Return the entries of a batch; raise MessageRejectedError for one that is too large, empty or none."""
        if len(batch.body) > self._config.max_message_size:
            raise MessageRejectedError(
                PutMessageStatus.MESSAGE_ILLEGAL,
                f"batch of {len(batch.body)} bytes, maxMessageSize is {self._config.max_message_size}",
            )
        try:
            entries = batch_entries(bytes(batch.body))
        except ValueError as error:
            raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, f"not a batch: {error}") from error
        if not entries:
            raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, "a batch without messages")
        return entries

    @staticmethod
    def own_properties(message: Message) -> dict[str, str]:
        """Return the properties of a message that a sender may set, in stored order."""
        return {
            name: value
            for name, value in message.wire_properties().items()
            if name not in _ASSIGNED and value is not None and not name.startswith(TRANSIENT_PROPERTY_PREFIX)
        }


def batch_properties(batch: MessageBatch) -> dict[str, str]:
    """Return the properties of a batch that each of its messages gets."""
    return {
        name: value
        for name, value in batch.properties.items()
        if name not in _ASSIGNED | _EACH_ITS_OWN and not name.startswith(TRANSIENT_PROPERTY_PREFIX)
    }


def batch_limit(config: StoreConfig) -> int:
    """Return the most bytes that the records of a batch may have together."""
    return min(config.max_message_size + 65_536, config.mapped_file_size_commit_log - 8)


def _without_assigned(entries: list[Entry], body: bytes | bytearray | memoryview) -> list[Entry]:
    """Return the entries of a batch without properties that only the store sets, as single messages are stored."""
    raw = bytes(body)
    if not any(mark in raw for mark in ASSIGNED_MARKS):
        return entries
    return [(flag, own, _kept_properties(properties)) for flag, own, properties in entries]


def _kept_properties(raw: bytes) -> bytes:
    if not any(mark in raw for mark in ASSIGNED_MARKS):
        return raw
    try:
        return encode_properties(
            {
                name: value
                for name, value in decode_properties(raw).items()
                if name not in _ASSIGNED and not name.startswith(TRANSIENT_PROPERTY_PREFIX)
            }
        )
    except ValueError as error:
        raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, str(error)) from error


def _check_properties(entries: Sequence[Entry], room: int) -> None:
    """Raise MessageRejectedError if the properties of an entry take more than `room` bytes."""
    for row, (_, _, properties) in enumerate(entries):
        if len(properties) > room:
            raise MessageRejectedError(
                PutMessageStatus.PROPERTIES_SIZE_EXCEEDED,
                f"properties of {len(properties)} bytes, a batch has space for {room}",
                row,
            )
