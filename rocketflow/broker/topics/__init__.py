"""Topics: their settings, who learns of them, and requests about them.

| module | content |
|---|---|
| `topics` | settings of topics, and those made on first use |
| `attributes` | attributes of topics and groups |
| `table_changes` | one write of a table for the changes that arrive together |
| `topic_admin` | requests of operators about topics |
| `registration` | calls to NameServers |
| `stored_times` | store times of messages, kept for the figures of groups |
| `parts` | these together |
"""

from __future__ import annotations

from rocketflow.broker.topics.attributes import OF_GROUPS, AttributesError, is_compacted, merged_attributes, unsupported
from rocketflow.broker.topics.parts import TopicParts
from rocketflow.broker.topics.stored_times import StoredTimes
from rocketflow.broker.topics.table_changes import State, TableChanges
from rocketflow.broker.topics.topics import DLQ_QUEUES, Topics

__all__ = [
    "DLQ_QUEUES",
    "OF_GROUPS",
    "AttributesError",
    "State",
    "StoredTimes",
    "TableChanges",
    "TopicParts",
    "Topics",
    "is_compacted",
    "merged_attributes",
    "unsupported",
]
