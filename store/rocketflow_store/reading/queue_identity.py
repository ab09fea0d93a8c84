"""Identity that the records of a queue must claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.model.topic_names import LMQ_PREFIX
from rocketflow_store.records.decoding.decode import QueueIdentity

if TYPE_CHECKING:
    from rocketflow_store.settings.store_config import StoreConfig


def queue_identity(config: StoreConfig, topic: str, queue_id: int) -> QueueIdentity:
    """Return the identity that the records of a queue claim; those of an LMQ belong to another topic."""
    return QueueIdentity(topic, queue_id, config.broker_name, exact=not topic.startswith(LMQ_PREFIX))
