"""Topics, groups and clients as a broker knows them: the owners that most requests need."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from rocketflow.broker.groups.clients import ConsumerTable, ProducerTable
from rocketflow.broker.groups.groups import Groups
from rocketflow.broker.groups.offsets import GroupOffsets
from rocketflow.broker.groups.queue_locks import QueueLocks
from rocketflow.broker.topics import unsupported

if TYPE_CHECKING:
    from rocketflow.aio.channel import Channel
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow.broker.topics import Topics
    from rocketflow_store.spi.broker import WritingStore

LOG: Final = logging.getLogger("rocketflow.broker")


class Tables:
    """Topics, groups, their offsets, clients and locks."""

    def __init__(self, store: WritingStore, settings: BrokerSettings, topics: Topics) -> None:
        self.topics = topics
        self.groups = Groups(store, settings)
        self.offsets = GroupOffsets(store)
        self.producers: ProducerTable[Channel] = ProducerTable()
        self.consumers: ConsumerTable[Channel] = ConsumerTable()
        self.locks = QueueLocks()
        topics.on_deleted.append(self.offsets.topic_deleted)

    def create_system_tables(self) -> None:
        """Create the topics and groups that every broker has. Blocks. Raises StoreError."""
        for name, topic in self.topics.all().items():
            for why in unsupported(topic):
                LOG.warning("topic %s: %s; its messages are served as those of a usual topic", name, why)
        self.topics.create_system_topics()
        self.groups.create_system_groups()
