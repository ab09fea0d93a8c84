"""Messages that are put into a store (`Message`) and messages that are read from it (`MessageExt`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocketflow_store.model.errors import BadBodyError, CorruptRecordError, UnsupportedRecordError
from rocketflow_store.model.property_names import PROPERTY_KEYS, PROPERTY_TAGS, PROPERTY_UNIQ_KEY
from rocketflow_store.model.system_flags import COMPRESSED_FLAG

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Message:
    """One message to be put.

    `keys` is one string of blank-separated keys or a sequence of keys. `queue_id` wins over `sharding_key` (same key,
    same queue); with neither, queues take turns. Times are milliseconds since the epoch; `born_host` is
    "ip:port". `properties` may hold RocketMQ's own names (TAGS, KEYS, UNIQ_KEY ...); the named fields win over them.
    """

    topic: str
    body: bytes
    tags: str | None = None
    keys: Sequence[str] | str = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    queue_id: int | None = None
    sharding_key: str | None = None
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int | None = None
    born_host: str | None = None
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    delay_time_level: int = 0
    deliver_timestamp: int | None = None


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


@dataclass(frozen=True, slots=True)
class MessageExt:
    """One stored message. `stored_body` is the body's bytes in the log, `body` the decompressed ones."""

    topic: str
    queue_id: int
    queue_offset: int
    phy_offset: int
    store_size: int
    stored_body: bytes
    flag: int
    sys_flag: int
    born_timestamp: int
    born_host: str
    store_timestamp: int
    store_host: str
    reconsume_times: int
    prepared_transaction_offset: int
    body_crc: int
    properties: Mapping[str, str]
    body_fault: str | None = None
    """Why the body is none, though it may decompress: that of an inner batch which is no batch."""

    @property
    def body(self) -> bytes:
        """The body, decompressed if sysFlag says that it is compressed; raises BadBodyError if it cannot be."""
        if self.body_fault is not None:
            raise self.bad_body(self.body_fault)
        if not self.sys_flag & COMPRESSED_FLAG:
            return self.stored_body
        from rocketflow_store.model.compression import decompress_body

        try:
            return decompress_body(self.stored_body, self.sys_flag)
        except (CorruptRecordError, UnsupportedRecordError) as error:
            raise self.bad_body(error.why) from error

    def bad_body(self, reason: str) -> BadBodyError:
        """Return the error for a body of this message that cannot be decoded."""
        return BadBodyError("the log", self.phy_offset, (self.topic, self.queue_id, self.queue_offset), reason)

    @property
    def body_error(self) -> str | None:
        """The reason for which `body` raises, None if it does not; `stored_body` has the body in any case."""
        try:
            _ = self.body
        except BadBodyError as error:
            return error.reason
        return None

    @property
    def msg_id(self) -> str:
        """The offset message id: store host and physical offset in hex."""
        from rocketflow_store.model.message_id import offset_msg_id

        return offset_msg_id(self.store_host, self.phy_offset)

    @property
    def uniq_key(self) -> str | None:
        return self.properties.get(PROPERTY_UNIQ_KEY)

    @property
    def tags(self) -> str | None:
        return self.properties.get(PROPERTY_TAGS)

    @property
    def keys(self) -> str | None:
        return self.properties.get(PROPERTY_KEYS)
