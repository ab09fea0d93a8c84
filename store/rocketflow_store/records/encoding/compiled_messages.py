"""Messages and clients' batches as records by the compiled kernel, which takes the usual ones.

`message_encoder` is the definition; it gets what is left over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.format.properties import MAX_PROPERTIES_SIZE, encode_properties
from rocketflow_store.format.record import PROPERTY_CRC_SIZE
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.message import Message
from rocketflow_store.model.message_id import encode_host
from rocketflow_store.model.system_flags import (
    BORN_HOST_V6_FLAG,
    INNER_BATCH_FLAG,
    STORE_HOST_V6_FLAG,
    TRANSACTION_MASK,
)
from rocketflow_store.model.topic_names import check_send_topic
from rocketflow_store.records.encoding.delayed_placement import LATER
from rocketflow_store.records.encoding.message_encoder import (
    ASSIGNED_MARKS,
    NEW_UNIQ_KEY_SIZE,
    batch_limit,
    batch_properties,
)

if TYPE_CHECKING:
    from rocketflow_store.model.kernel_objects import Records
    from rocketflow_store.model.message import MessageBatch
    from rocketflow_store.records.encoding.message_encoder import MessageEncoder
    from rocketflow_store.settings.store_config import StoreConfig

_IPV4_SIZE: Final = 8
_UNUSUAL_FLAGS: Final = TRANSACTION_MASK | INNER_BATCH_FLAG | BORN_HOST_V6_FLAG | STORE_HOST_V6_FLAG


class CompiledMessages:
    """Writes usual messages under one configuration; an `encoder` checks topics and has the UNIQ_KEYs."""

    def __init__(self, config: StoreConfig, encoder: MessageEncoder) -> None:
        self._config, self._store_host = config, encode_host(config.store_host)
        self._reserved = PROPERTY_CRC_SIZE if config.append_prop_crc else 0
        self.writer: Any = None
        """The kernel's `MessageWriter`, None if it takes no message."""
        if COMPILED is None or config.enable_lmq or len(self._store_host) != _IPV4_SIZE:
            return
        self.writer = COMPILED.MessageWriter(
            *(self._store_host, config.append_prop_crc, config.tag_entries, config.max_message_size),
            batch_limit(config),
            check_send_topic,
            encoder.next_uniq_key,
        )

    def message(self, message: object, queue_id: int, now_ms: int) -> Records | None:
        """Return the records (one) of a usual message, None for any other."""
        if self.writer is None or message.__class__ is not Message or queue_id.__class__ is not int:
            return None
        records: Records | None = self.writer.message(message, queue_id, now_ms)
        return records

    def batch(self, batch: MessageBatch, queue_id: int, now_ms: int) -> Records | None:
        """Return the records of a usual batch, None for any other."""
        body, config = batch.body, self._config
        born = now_ms if batch.born_timestamp is None else batch.born_timestamp
        numbers = queue_id, batch.sys_flag, born, batch.reconsume_times
        if (
            self.writer is None
            or body.__class__ is not bytes
            or batch.properties.__class__ is not dict
            or any(one.__class__ is not int for one in numbers)
            or not -(1 << 63) <= born < 1 << 63
            or len(body) > config.max_message_size
            or batch.sys_flag & _UNUSUAL_FLAGS
            or not LATER.isdisjoint(batch.properties)
            or any(mark in body for mark in ASSIGNED_MARKS)
        ):
            return None
        suffix, born_host = b"", self._store_host
        try:
            if batch.properties:
                suffix = encode_properties(batch_properties(batch))
            if batch.born_host is not None:
                born_host = encode_host(batch.born_host)
        except ValueError:
            return None
        room = MAX_PROPERTIES_SIZE - len(suffix) - self._reserved - 1 - NEW_UNIQ_KEY_SIZE
        records: Records | None = self.writer.batch(
            *(batch.topic, body, suffix, queue_id, batch.sys_flag, born, born_host, batch.reconsume_times, now_ms),
            *(room, batch_limit(config)),
        )
        return records
