"""Groups: clients and their groups, what they have read, and requests about them.

| module | content |
|---|---|
| `clients`, `client_requests` | producers and consumers by heartbeat; their requests |
| `groups` | settings of groups, and those made on first use |
| `offsets` | offsets of groups, where they pull next, and offsets of queues |
| `filters` | filters of subscriptions |
| `lags`, `group_figures` | lags of groups by topic, and all figures of groups |
| `queue_locks` | queues that consumers lock |
| `member_calls` | requests of operators that members of a group answer |
| `group_requests`, `group_admin` | requests of operators: settings and clients; offsets and progress |
| `tables` | topics, groups, offsets, clients and locks: what most requests need |
| `parts` | these together |
"""

from __future__ import annotations

from rocketflow.broker.groups.clients import ProducerTable
from rocketflow.broker.groups.filters import Filter, is_tags, parse_filter
from rocketflow.broker.groups.offsets import GroupOffsets, least_offset
from rocketflow.broker.groups.parts import GroupParts
from rocketflow.broker.groups.tables import Tables

__all__ = ["Filter", "GroupOffsets", "GroupParts", "ProducerTable", "Tables", "is_tags", "least_offset", "parse_filter"]
