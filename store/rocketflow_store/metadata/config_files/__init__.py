"""The JSON files in `config/` of a store, as RocketMQ's broker writes and reads them.

files = ConfigFiles(paths.config)
files.topics.set_queue_nums("orders", 8)
files.consumer_offsets.commit("billing", "orders", {0: 10})
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.metadata.config_files.consumer_offsets import ConsumerOffsetsFile
from rocketflow_store.metadata.config_files.delay_offsets import DelayOffsetsFile
from rocketflow_store.metadata.config_files.json_config_file import ConfigFileError, JsonConfigFile
from rocketflow_store.metadata.config_files.lmq_consumer_offsets import LmqConsumerOffsetsFile
from rocketflow_store.metadata.config_files.subscription_groups import SubscriptionGroupsFile
from rocketflow_store.metadata.config_files.topics import TopicsFile
from rocketflow_store.model.topic_names import is_system_topic, validate_group, validate_topic

if TYPE_CHECKING:
    from pathlib import Path

    from rocketflow_store.model.clock import Clock

__all__ = [
    "ConfigFileError",
    "ConfigFiles",
    "ConsumerOffsetsFile",
    "DelayOffsetsFile",
    "LmqConsumerOffsetsFile",
    "SubscriptionGroupsFile",
    "TopicsFile",
    "is_system_topic",
    "validate_group",
    "validate_topic",
]


class ConfigFiles:
    """The files of one `config/` directory. Each file is read when its content is first requested."""

    def __init__(self, directory: Path, clock: Clock | None = None) -> None:
        self.topics = TopicsFile(directory, clock)
        self.subscription_groups = SubscriptionGroupsFile(directory, clock)
        self.consumer_offsets = ConsumerOffsetsFile(directory, clock)
        self.lmq_consumer_offsets = LmqConsumerOffsetsFile(directory, clock)
        self.delay_offsets = DelayOffsetsFile(directory, clock)

    @property
    def every(self) -> tuple[JsonConfigFile, ...]:
        return (self.topics, self.subscription_groups, *self.positions, self.delay_offsets)

    @property
    def positions(self) -> tuple[ConsumerOffsetsFile, ...]:
        """The files with the groups' offsets: with `enableLmq` a broker keeps the second in place of the first."""
        return (self.consumer_offsets, self.lmq_consumer_offsets)
