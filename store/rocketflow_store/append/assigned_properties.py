"""Properties that depend on a record's queue offset: the base offset of an inner batch, the offsets in LMQs.

A message that names LMQs (light message queues) in INNER_MULTI_DISPATCH is stored once; each LMQ gets a CqUnit that
points at it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rocketflow_store.format.lmq_properties import LMQ_QUEUE_ID, gets_lmqs, lmq_units
from rocketflow_store.format.properties import MAX_PROPERTIES_SIZE
from rocketflow_store.format.record import PROPERTY_CRC_SIZE
from rocketflow_store.model.errors import MessageRejectedError
from rocketflow_store.model.property_names import (
    PROPERTY_INNER_BASE,
    PROPERTY_INNER_MULTI_DISPATCH,
    PROPERTY_INNER_MULTI_QUEUE_OFFSET,
    PROPERTY_INNER_NUM,
)
from rocketflow_store.model.status import PutMessageStatus
from rocketflow_store.model.system_flags import INNER_BATCH_FLAG, TRANSACTION_COMMIT, TRANSACTION_MASK
from rocketflow_store.model.topic_names import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rocketflow_store.append.record_run import RecordRun
    from rocketflow_store.format.record import RecordFields
    from rocketflow_store.settings.store_config import StoreConfig
    from rocketflow_store.views.queues.queue_table import FileQueueTable


_MAX_BATCH_NUM: Final = (1 << 15) - 1


@dataclass(frozen=True, slots=True)
class Assigned:
    """Number of queue offsets that a record takes, and (name, queue offset) of each LMQ that gets it."""

    batch_num: int = 1
    lmq: tuple[tuple[str, int], ...] = ()


NOTHING_ASSIGNED: Final = Assigned()


class AssignedProperties:
    """Checks and writes INNER_BASE and INNER_MULTI_QUEUE_OFFSET under one configuration."""

    def __init__(self, config: StoreConfig, is_batch_cq: Callable[[str], bool], queues: FileQueueTable) -> None:
        self._is_batch_cq = is_batch_cq
        self._enable_lmq, self._most_lmq = config.enable_lmq, config.max_lmq_consume_queue_num
        self._lmq = {topic for topic, _ in queues.names() if topic.startswith(LMQ_PREFIX)}
        self._max_bytes = MAX_PROPERTIES_SIZE - (PROPERTY_CRC_SIZE if config.append_prop_crc else 0)

    def assign(self, run: RecordRun, fields: RecordFields, properties: dict[str, str], *, given: bool) -> Assigned:
        """Add the assigned properties to `fields` and `properties`; a `given` record keeps its properties.

        MessageRejectedError if an inner batch is invalid, or if there would be too many LMQs.
        """
        inner = fields.sys_flag & INNER_BATCH_FLAG
        if not inner and PROPERTY_INNER_NUM not in properties and not self._enable_lmq:
            return NOTHING_ASSIGNED
        if given:
            return Assigned(_batch_num(properties) if inner else 1, lmq_units(properties))
        queued = fields.sys_flag & TRANSACTION_MASK in (0, TRANSACTION_COMMIT)
        queue_offset = run.next_offset(fields.topic.decode(), fields.queue_id) if queued else 0
        batch_num = self._inner_batch(fields, properties, queue_offset)
        names = properties.get(PROPERTY_INNER_MULTI_DISPATCH, "") if self._enable_lmq else ""
        if names and gets_lmqs(fields.topic.decode()):
            self._assign_lmq_offsets(run, fields, properties, names.split(","))
        return Assigned(batch_num, lmq_units(properties) if names else ())

    def _inner_batch(self, fields: RecordFields, properties: dict[str, str], queue_offset: int) -> int:
        if not fields.sys_flag & INNER_BATCH_FLAG:
            if PROPERTY_INNER_NUM in properties:
                raise MessageRejectedError(
                    PutMessageStatus.MESSAGE_ILLEGAL,
                    f"{PROPERTY_INNER_NUM} is set, but sysFlag has no inner batch flag",
                )
            return 1
        topic = fields.topic.decode()
        if not self._is_batch_cq(topic):
            raise MessageRejectedError(
                PutMessageStatus.MESSAGE_ILLEGAL, f"topic {topic!r} takes no inner batch: its queue.type is not BatchCQ"
            )
        batch_num = _batch_num(properties)
        self._append(fields, properties, PROPERTY_INNER_BASE, str(queue_offset))
        return batch_num

    def _assign_lmq_offsets(
        self, run: RecordRun, fields: RecordFields, properties: dict[str, str], names: list[str]
    ) -> None:
        wanted = {name for name in names if name.startswith(LMQ_PREFIX)}
        self.check_lmq_limit(wanted)
        offsets: list[str] = []
        taken: dict[str, int] = {}
        for name in names:  # a name without the LMQ prefix gets no offset, as with RocketMQ 5.3
            if name in wanted:
                offsets.append(str(run.next_offset(name, LMQ_QUEUE_ID) + taken.get(name, 0)))
                taken[name] = taken.get(name, 0) + 1
            else:
                offsets.append("")
        self._append(fields, properties, PROPERTY_INNER_MULTI_QUEUE_OFFSET, ",".join(offsets))
        self._lmq |= wanted

    def check_lmq_limit(self, wanted: set[str]) -> None:
        """Raise MessageRejectedError if the LMQs in `wanted` would exceed maxLmqConsumeQueueNum."""
        if len(self._lmq | wanted) > self._most_lmq:
            raise MessageRejectedError(
                PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED,
                f"{len(self._lmq | wanted)} LMQs would exceed maxLmqConsumeQueueNum ({self._most_lmq})",
            )

    def add_lmqs(self, names: set[str]) -> None:
        """Count these LMQs from now on."""
        self._lmq |= names

    def _append(self, fields: RecordFields, properties: dict[str, str], name: str, value: str) -> None:
        if not value.strip(","):
            return
        properties[name] = value
        raw = fields.properties
        fields.properties = raw + (b"\x02" if raw and raw[-1] != 2 else b"") + f"{name}\x01{value}\x02".encode()
        if len(fields.properties) > self._max_bytes:
            raise MessageRejectedError(
                PutMessageStatus.PROPERTIES_SIZE_EXCEEDED,
                f"properties with {name} are {len(fields.properties)} bytes, at most {self._max_bytes} are allowed",
            )


def _batch_num(properties: Mapping[str, str]) -> int:
    text = properties.get(PROPERTY_INNER_NUM, "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
    if not 1 <= number <= _MAX_BATCH_NUM:
        raise MessageRejectedError(
            PutMessageStatus.MESSAGE_ILLEGAL, f"{PROPERTY_INNER_NUM} is {text!r}, expected 1 to {_MAX_BATCH_NUM}"
        )
    return number
