"""Start positions: the offset at which a group reads a queue for which it has none.

RocketMQ's source: client/impl/consumer/RebalancePushImpl.java (computePullFromWhereWithException),
RebalanceLitePullImpl.java, common/consumer/ConsumeFromWhere.java.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from rocketflow.client.admin.message_requests import MessageRequests
from rocketflow.client.consume.membership import now_ms
from rocketflow_store.spi.names import RETRY_PREFIX

if TYPE_CHECKING:
    from rocketflow.client.cluster import Cluster
    from rocketflow.remoting.bodies import MessageQueue

_HALF_AN_HOUR_MS: Final = 1_800_000


class ConsumeFrom(Enum):
    """Start positions, in RocketMQ's names."""

    LAST = "CONSUME_FROM_LAST_OFFSET"
    FIRST = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class Bound(Enum):
    """The basis of the start of a queue."""

    ZERO = "0; the broker corrects it to the first stored message"
    END = "the end of the queue"
    TIME = "the first message stored at the start time or after it"


def bound_of(topic: str, where: ConsumeFrom) -> Bound:
    """Return the start of a topic's queues; retry topics are never skipped, except by time."""
    is_retry = topic.startswith(RETRY_PREFIX)
    if where is ConsumeFrom.FIRST:
        return Bound.ZERO
    if where is ConsumeFrom.LAST:
        return Bound.ZERO if is_retry else Bound.END
    return Bound.END if is_retry else Bound.TIME


class StartPositions:
    """Computes starts; `timestamp_ms` is the time of TIMESTAMP, half an hour before this client was made if None."""

    def __init__(self, cluster: Cluster, where: ConsumeFrom, timestamp_ms: int | None = None) -> None:
        self._queues = MessageRequests(cluster)
        self._where = where
        self._timestamp_ms = now_ms() - _HALF_AN_HOUR_MS if timestamp_ms is None else timestamp_ms

    async def start_of(self, queue: MessageQueue) -> int:
        """Return the offset to start a queue at. Raises ClientError; the caller then tries again later."""
        bound = bound_of(queue.topic, self._where)
        if bound is Bound.ZERO:
            return 0
        if bound is Bound.END:
            return await self._queues.max_offset(queue)
        return await self._queues.search_offset(queue, self._timestamp_ms)
