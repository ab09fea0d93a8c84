"""From a `Message` to the fields of its record: checks, defaults, delay and timer conversion.

Refusals are RocketMQ's: topic, body size, property size. What is stored under another topic first (a delay level, a
delivery time) carries REAL_TOPIC and REAL_QID, as a broker stores it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.errors import MessageRejectedError, StoreConfigError
from rocketflow_store.format.message_id import UNIQ_KEYS, encode_host
from rocketflow_store.format.properties import MAX_PROPERTIES_SIZE, encode_properties
from rocketflow_store.format.record import PROPERTY_CRC_SIZE, RecordFields
from rocketflow_store.message import (
    BORN_HOST_V6_FLAG,
    PROPERTY_CRC32,
    PROPERTY_DELAY,
    PROPERTY_KEYS,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_SHARDING_KEY,
    PROPERTY_TAGS,
    PROPERTY_TIMER_DELIVER_MS,
    PROPERTY_TIMER_OUT_MS,
    PROPERTY_UNIQ_KEY,
    SCHEDULE_TOPIC,
    STORE_HOST_V6_FLAG,
    TIMER_TOPIC,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    TRANSIENT_PROPERTY_PREFIX,
    Message,
)
from rocketflow_store.status import PutMessageStatus
from rocketflow_store.topic_names import is_send_refused, validate_topic

if TYPE_CHECKING:
    from rocketflow_store.config import StoreConfig


def check_topic(topic: str, row: int | None = None) -> None:
    """Refuse a topic name that RocketMQ refuses; what passes is safe as a directory name."""
    try:
        validate_topic(topic)
    except StoreConfigError as error:
        raise MessageRejectedError(
            PutMessageStatus.MESSAGE_ILLEGAL, f"topic {topic[:64]!r}: {error.why}", row
        ) from error


def check_send_topic(topic: str, row: int | None = None) -> None:
    """Refuse a topic that a user may not send to: a wrong name, or one that only the store itself writes."""
    check_topic(topic, row)
    if is_send_refused(topic):
        raise MessageRejectedError(
            PutMessageStatus.MESSAGE_ILLEGAL, f"topic {topic!r}: only the store itself writes to this topic", row
        )


def timer_out_ms(deliver_timestamp: int, precision_ms: int) -> int:
    """The tick that a delivery time belongs to."""
    rest = deliver_timestamp % precision_ms
    return deliver_timestamp - (rest or precision_ms)


class MessageEncoder:
    """Makes record fields under one configuration."""

    def __init__(self, config: StoreConfig) -> None:
        self._config = config
        self._store_host = encode_host(config.store_host)
        self._delay_levels = len(config.delay_levels_ms)

    def encode(self, message: Message, queue_id: int, now_ms: int) -> tuple[RecordFields, dict[str, str]]:
        """The record's fields and its properties; MessageRejectedError where the message cannot be stored."""
        check_send_topic(message.topic)
        if message.body is None:
            raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, "the body is null")
        if len(message.body) > self._config.max_message_size:
            raise MessageRejectedError(
                PutMessageStatus.MESSAGE_ILLEGAL,
                f"body of {len(message.body)} bytes, maxMessageSize is {self._config.max_message_size}",
            )
        if queue_id < 0:
            raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, f"queue id {queue_id} is negative")
        if not -(1 << 31) <= message.flag < 1 << 31:
            raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, f"flag {message.flag} is not an int32")
        properties = self.own_properties(message)
        topic, queue_id = self._schedule(message, properties, queue_id, now_ms)
        if PROPERTY_UNIQ_KEY not in properties:
            properties[PROPERTY_UNIQ_KEY] = UNIQ_KEYS.next()
        try:
            raw = encode_properties(properties)
            born_host = self._store_host if message.born_host is None else encode_host(message.born_host)
        except ValueError as error:
            raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, str(error)) from error
        reserved = PROPERTY_CRC_SIZE if self._config.enabled_append_prop_crc else 0
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

    @staticmethod
    def own_properties(message: Message) -> dict[str, str]:
        """What the message itself says, in the order it is stored (without UNIQ_KEY and what scheduling adds)."""
        properties = {
            name: value
            for name, value in message.properties.items()
            if name != PROPERTY_CRC32 and not name.startswith(TRANSIENT_PROPERTY_PREFIX) and value is not None
        }
        keys = message.keys if isinstance(message.keys, str) else " ".join(message.keys)
        if keys:
            properties[PROPERTY_KEYS] = keys
        if message.tags:
            properties[PROPERTY_TAGS] = message.tags
        if message.sharding_key is not None:
            properties[PROPERTY_SHARDING_KEY] = message.sharding_key
        if message.delay_time_level > 0:
            properties[PROPERTY_DELAY] = str(message.delay_time_level)
        elif message.deliver_timestamp is not None:
            properties[PROPERTY_TIMER_DELIVER_MS] = str(message.deliver_timestamp)
        return properties

    def _schedule(self, message: Message, properties: dict[str, str], queue_id: int, now_ms: int) -> tuple[str, int]:
        """Topic and queue under which the message is stored now."""
        kind = message.sys_flag & TRANSACTION_MASK
        if kind in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK) or message.topic in (SCHEDULE_TOPIC, TIMER_TOPIC):
            return message.topic, queue_id
        if message.delay_time_level > 0:
            level = min(message.delay_time_level, self._delay_levels)
            properties.pop(PROPERTY_TIMER_DELIVER_MS, None)
            properties |= {PROPERTY_REAL_TOPIC: message.topic, PROPERTY_REAL_QUEUE_ID: str(queue_id)}
            return SCHEDULE_TOPIC, level - 1
        due = message.deliver_timestamp
        if due is None or due <= now_ms:
            return message.topic, queue_id
        if due - now_ms > self._config.timer_max_delay_sec * 1000:
            raise MessageRejectedError(
                PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL,
                f"due in {due - now_ms} ms, timerMaxDelaySec is {self._config.timer_max_delay_sec}",
            )
        properties |= {PROPERTY_REAL_TOPIC: message.topic, PROPERTY_REAL_QUEUE_ID: str(queue_id)}
        properties[PROPERTY_TIMER_OUT_MS] = str(timer_out_ms(due, self._config.timer_precision_ms))
        return TIMER_TOPIC, 0
