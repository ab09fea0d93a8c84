"""Properties of messages that are also in LMQs (light message queues), as RocketMQ 5 writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow_store.model.property_names import PROPERTY_INNER_MULTI_DISPATCH, PROPERTY_INNER_MULTI_QUEUE_OFFSET
from rocketflow_store.model.topic_names import LMQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, SYSTEM_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping


LMQ_QUEUE_ID: Final = 0


def gets_lmqs(topic: str) -> bool:
    """Return True if messages of a topic get units in LMQs; retried and delayed messages get them on delivery."""
    return topic != SCHEDULE_TOPIC and not topic.startswith((RETRY_PREFIX, SYSTEM_PREFIX))


def lmq_units(properties: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    """Return (name, queue offset) of the LMQs that a record is in."""
    names = properties.get(PROPERTY_INNER_MULTI_DISPATCH, "").split(",")
    offsets = properties.get(PROPERTY_INNER_MULTI_QUEUE_OFFSET, "").split(",")
    if len(names) != len(offsets):
        return ()
    return tuple(
        (name, int(offset))
        for name, offset in zip(names, offsets, strict=True)
        if name.startswith(LMQ_PREFIX) and offset.isascii() and offset.isdigit() and len(offset) < 19
    )
