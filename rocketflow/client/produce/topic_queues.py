"""The queues that a topic's messages go to, in turn, without I/O.

RocketMQ's source: client/impl/producer/TopicPublishInfo.java, client/latency/MQFaultStrategy.java
(selectOneMessageQueue), client/common/ThreadLocalIndex.java.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rocketflow.client.routes import address_of, publish_queues

if TYPE_CHECKING:
    from rocketflow.client.produce.faults import BrokerFaults
    from rocketflow.remoting.bodies import MessageQueue, TopicRouteData


class TopicQueues:
    """The queues of a topic and the addresses of their masters; the turn begins at a random queue.

    `asks_again_at` is the time at which a topic's own route is asked for again: it had none, and the route of the
    template topic serves until then.
    """

    def __init__(
        self, topic: str, route: TopicRouteData, *, at_most: int | None = None, asks_again_at: float = float("inf")
    ) -> None:
        self.queues: Sequence[MessageQueue] = publish_queues(topic, route, at_most=at_most)
        self.asks_again_at = asks_again_at
        self._addresses = {one.broker_name: address_of(route.broker_datas, one.broker_name) for one in self.queues}
        self._turn = random.randrange(1 << 30)

    def address(self, broker_name: str) -> str | None:
        """Return the address of a broker's master."""
        return self._addresses.get(broker_name)

    def next(self, last_broker: str = "", faults: BrokerFaults | None = None, now_ms: int = 0) -> MessageQueue:
        """Return the next queue, of another broker than the one that failed last where there is another.

        With `faults` it is one of an available broker, else of a reachable one, else simply the next.
        """
        if faults is not None:
            queue = self._next_of(last_broker, lambda name: faults.is_available(name, now_ms))
            queue = queue or self._next_of(last_broker, faults.is_reachable)
        elif last_broker:
            queue = self._next_of(last_broker, lambda _: True)
        else:
            queue = None
        return queue or self._next()

    def _next_of(self, last_broker: str, is_wanted: Callable[[str], bool]) -> MessageQueue | None:
        for _ in self.queues:
            queue = self._next()
            if queue.broker_name != last_broker and is_wanted(queue.broker_name):
                return queue
        return None

    def _next(self) -> MessageQueue:
        self._turn += 1
        return self.queues[self._turn % len(self.queues)]
