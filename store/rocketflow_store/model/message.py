"""Messages that are put into a store (`Message`) and messages that are read from it (`ReceivedMessage`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocketflow_store.model.errors import CorruptRecordError, DamagedBodyError, UnsupportedRecordError
from rocketflow_store.model.message_id import offset_msg_id
from rocketflow_store.model.property_names import (
    KEY_SEPARATOR,
    PROPERTY_DELAY,
    PROPERTY_KEYS,
    PROPERTY_SHARDING_KEY,
    PROPERTY_TAGS,
    PROPERTY_TIMER_DELAY_MS,
    PROPERTY_TIMER_DELAY_SEC,
    PROPERTY_TIMER_DELIVER_MS,
    PROPERTY_UNIQ_KEY,
)
from rocketflow_store.model.system_flags import COMPRESSED_FLAG

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(slots=True, init=False)
class Message:
    """A message to put into a store, or to send to a broker.

    `keys` are the words under which the index lists it; one string of blank-separated keys is taken too. It is
    delivered later by `delay_level` (from 1 on, one of `messageDelayLevel`; a level after the last one is the last
    one), `delay_s` or `delay_ms` after it was stored, or at `deliver_at_ms`: no more than one of the four is set. Times
    are milliseconds since the epoch. The producer or the store makes a `uniq_key` (UNIQ_KEY) where there is none.
    `properties` may hold RocketMQ's own names (TAGS, KEYS, UNIQ_KEY ...); the attributes win over them.

    The attributes from `queue_id` on are for a store: a broker sets them itself, and a producer refuses a message that
    has one of them. In a store `queue_id` wins over `sharding_key` (same key, same queue); with neither, queues take
    turns. `born_host` is "ip:port".

    RocketMQ's source: common/message/Message.java, MessageConst.java.
    """

    topic: str
    body: bytes
    tags: str
    keys: list[str]
    properties: Mapping[str, str]
    sharding_key: str
    flag: int
    delay_level: int
    delay_s: int
    delay_ms: int
    deliver_at_ms: int
    uniq_key: str
    queue_id: int | None
    sys_flag: int
    born_timestamp: int | None
    born_host: str | None
    reconsume_times: int
    prepared_transaction_offset: int

    def __init__(
        self,
        topic: str,
        body: bytes,
        tags: str | None = "",
        keys: Sequence[str] | str = (),
        *,
        properties: Mapping[str, str] | None = None,
        sharding_key: str | None = "",
        flag: int = 0,
        delay_level: int = 0,
        delay_s: int = 0,
        delay_ms: int = 0,
        deliver_at_ms: int | None = 0,
        uniq_key: str = "",
        queue_id: int | None = None,
        sys_flag: int = 0,
        born_timestamp: int | None = None,
        born_host: str | None = None,
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
        delay_time_level: int = 0,
        deliver_timestamp: int | None = 0,
        unique_key: str = "",
    ) -> None:
        """Take the attributes; the last three are names before 0.3."""
        self.topic = topic
        self.body = body
        self.tags = tags or ""
        self.keys = keys if isinstance(keys, list) else _keys_of(keys)
        self.properties = {} if properties is None else properties
        self.sharding_key = sharding_key or ""
        self.flag = flag
        self.delay_level = delay_level or delay_time_level
        self.delay_s = delay_s
        self.delay_ms = delay_ms
        self.deliver_at_ms = deliver_at_ms or deliver_timestamp or 0
        self.uniq_key = uniq_key or unique_key
        self.queue_id = queue_id
        self.sys_flag = sys_flag
        self.born_timestamp = born_timestamp
        self.born_host = born_host
        self.reconsume_times = reconsume_times
        self.prepared_transaction_offset = prepared_transaction_offset

    @property
    def is_delayed(self) -> bool:
        """Return whether the message is delivered later than it is stored."""
        return bool(self.delay_level or self.delay_s or self.delay_ms or self.deliver_at_ms)

    def wire_properties(self) -> dict[str, str]:
        """Return all properties, those of the attributes under RocketMQ's names."""
        found = dict(self.properties)
        if keys := KEY_SEPARATOR.join(self.keys):
            found[PROPERTY_KEYS] = keys
        if self.tags:
            found[PROPERTY_TAGS] = self.tags
        if self.sharding_key:
            found[PROPERTY_SHARDING_KEY] = self.sharding_key
        if self.is_delayed:
            self._request_delay(found)
        if self.uniq_key:
            found[PROPERTY_UNIQ_KEY] = self.uniq_key
        return found

    def _request_delay(self, properties: dict[str, str]) -> None:
        """Set the properties of a delay; one to a time wins over those that would be judged before it."""
        if self.deliver_at_ms:
            properties.pop(PROPERTY_TIMER_DELAY_SEC, None)
            properties.pop(PROPERTY_TIMER_DELAY_MS, None)
        for name, value in (
            (PROPERTY_DELAY, self.delay_level),
            (PROPERTY_TIMER_DELAY_SEC, self.delay_s),
            (PROPERTY_TIMER_DELAY_MS, self.delay_ms),
            (PROPERTY_TIMER_DELIVER_MS, self.deliver_at_ms),
        ):
            if value > 0:
                properties[name] = str(value)

    @property
    def delay_time_level(self) -> int:
        """`delay_level`, by its name before 0.3."""
        return self.delay_level

    @property
    def deliver_timestamp(self) -> int | None:
        """`deliver_at_ms`, by its name before 0.3; None for no such time."""
        return self.deliver_at_ms or None

    @property
    def unique_key(self) -> str:
        """`uniq_key`, by its name before 0.3."""
        return self.uniq_key


def _keys_of(keys: Sequence[str] | str) -> list[str]:
    if isinstance(keys, str):
        return keys.split(KEY_SEPARATOR) if keys else []
    return list(keys)


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """A client's batch: messages of one topic that go into one queue, all or none.

    `body` is the body that a client sends (`format.batch_body`). Queue, sysFlag, hosts and times apply to each of its
    messages; `properties` are the batch's own, and are added to each message's.
    """

    topic: str
    body: bytes
    properties: Mapping[str, str] = field(default_factory=dict)
    queue_id: int | None = None
    sys_flag: int = 0
    born_timestamp: int | None = None
    born_host: str | None = None
    reconsume_times: int = 0


@dataclass(slots=True)
class ReceivedMessage:
    """One stored message, read from a store or received from a broker.

    `properties` has TAGS, KEYS and UNIQ_KEY too; times are milliseconds since the epoch; hosts are "ip:port".
    `broker_name` is that of the queue it was received from, "" for a message of a store. `stored_body` has the body's
    bytes as they are stored, perhaps compressed.

    RocketMQ's source: common/message/MessageExt.java.
    """

    topic: str
    queue_id: int
    queue_offset: int
    stored_body: bytes
    properties: dict[str, str]
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0
    born_host: str = ""
    store_timestamp: int = 0
    store_host: str = ""
    physical_offset: int = 0
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    body_crc: int = 0
    store_size: int = 0
    broker_name: str = ""
    body_fault: str = ""
    """Why the body cannot be decoded, once it is known: it does not decompress, or is that of a batch and no batch."""
    _decompressed: bytes | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def body(self) -> bytes:
        """The body, decompressed if sysFlag says that it is compressed; raises DamagedBodyError if it cannot be."""
        if not self.sys_flag & COMPRESSED_FLAG and not self.body_fault:
            return self.stored_body
        return self._decoded_body()

    def _decoded_body(self) -> bytes:
        if self.body_fault:
            raise self.damaged_body(self.body_fault)
        if self._decompressed is None:
            from rocketflow_store.model.compression import decompress_body

            try:
                self._decompressed = decompress_body(self.stored_body, self.sys_flag)
            except (CorruptRecordError, UnsupportedRecordError) as error:
                self.body_fault = error.why  # a large body is not decompressed again for each reader of the reason
                raise self.damaged_body(error.why) from error
        return self._decompressed

    def damaged_body(self, reason: str) -> DamagedBodyError:
        """Return the error for a body of this message that cannot be decoded."""
        place = f"broker {self.broker_name}" if self.broker_name else "the log"
        return DamagedBodyError(place, self.physical_offset, (self.topic, self.queue_id, self.queue_offset), reason)

    @property
    def body_error(self) -> str:
        """The reason for which `body` raises, "" if it does not; `stored_body` has the body in any case."""
        try:
            _ = self.body
        except DamagedBodyError as error:
            return error.reason
        return ""

    @property
    def offset_message_id(self) -> str:
        """The id of the place where it is stored: store host and physical offset in hex; "" if it is stored nowhere."""
        return offset_msg_id(self.store_host, self.physical_offset) if self.store_host else ""

    @property
    def message_id(self) -> str:
        """UNIQ_KEY, which the producer made, or else the id of the place where it is stored."""
        return self.properties.get(PROPERTY_UNIQ_KEY) or self.offset_message_id

    @property
    def uniq_key(self) -> str | None:
        """The id that the producer made, None for none."""
        return self.properties.get(PROPERTY_UNIQ_KEY)

    @property
    def tags(self) -> str | None:
        """The tag, None for none."""
        return self.properties.get(PROPERTY_TAGS)

    @property
    def keys(self) -> list[str]:
        """The keys by which an index finds the message."""
        return [one for one in self.properties.get(PROPERTY_KEYS, "").split(KEY_SEPARATOR) if one]

    @property
    def phy_offset(self) -> int:
        """`physical_offset`, by its name before 0.3."""
        return self.physical_offset

    @property
    def msg_id(self) -> str:
        """`offset_message_id`, by its name before 0.3."""
        return self.offset_message_id

    @property
    def stored_body_size(self) -> int:
        """The size of `stored_body` in bytes, by a name before 0.3."""
        return len(self.stored_body)


MessageExt = ReceivedMessage
"""The name before 0.3."""
