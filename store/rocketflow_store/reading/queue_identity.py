"""Who the records of a queue must say they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.model.topic_names import LMQ_PREFIX
from rocketflow_store.records.decoding.decode import QueueIdentity

if TYPE_CHECKING:
    from rocketflow_store.settings.store_config import StoreConfig


def queue_identity(config: StoreConfig, topic: str, queue_id: int) -> QueueIdentity:
    """Return what the records of a queue say of themselves; those of a light queue are another topic's."""
    return QueueIdentity(topic, queue_id, config.broker_name, exact=not topic.startswith(LMQ_PREFIX))
