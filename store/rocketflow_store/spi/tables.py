"""Tables in the config files of a store: topics, and the offsets of groups."""

from __future__ import annotations

from rocketflow_store.metadata.config_files.topics import TopicsFile
from rocketflow_store.metadata.layout.group_offsets import group_offsets, publish_group_offsets
from rocketflow_store.metadata.layout.store_paths import topics_of

__all__ = [
    "TopicsFile",
    "group_offsets",
    "publish_group_offsets",
    "topics_of",
]
