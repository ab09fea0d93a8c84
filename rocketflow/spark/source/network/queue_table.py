"""The queues that a read knows: those of the routes, and those of brokers that are away, without I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from rocketflow.client.routes import MASTER_ID, subscribe_queues
from rocketflow.spark.source.stream_offset import QueueKey

if TYPE_CHECKING:
    from rocketflow.remoting.bodies import BrokerData, TopicRouteData

_DOWN_S: Final = 5.0
"""How long an address that failed is asked after all others."""


class QueueTable:
    """Queues by topic, and the addresses of their brokers.

    A NameServer forgets a broker that stops, with its queues. Those of a broker that no NameServer knows stay here:
    they are read from a slave, or when the broker is back. A queue that its broker no longer has is dropped.
    """

    def __init__(self) -> None:
        self._queues: dict[str, set[QueueKey]] = {}
        self._addresses: dict[str, list[str]] = {}
        self._masters: dict[str, str | None] = {}
        self._failed: dict[str, float] = {}
        self._failures = 0

    @property
    def failures(self) -> int:
        """The number of addresses that failed so far; it grows when a broker may have been replaced."""
        return self._failures

    @property
    def brokers(self) -> list[str]:
        """The names of the brokers that have an address."""
        return sorted(self._addresses)

    def of_topic(self, topic: str) -> list[QueueKey]:
        """Return the queues of a topic."""
        return sorted(self._queues.get(topic, ()))

    def topics(self) -> list[str]:
        """Return the topics with queues."""
        return sorted(topic for topic, queues in self._queues.items() if queues)

    def expect(self, keys: Iterable[QueueKey]) -> None:
        """Take queues that a checkpoint names; their brokers may be away."""
        for key in keys:
            self._queues.setdefault(key.topic, set()).add(key)

    def take_brokers(self, brokers: Iterable[BrokerData]) -> None:
        """Take the addresses of brokers, the master's first."""
        for one in brokers:
            if one.broker_addrs:
                ordered = sorted(one.broker_addrs.items(), key=lambda entry: (entry[0] != MASTER_ID, int(entry[0])))
                self._addresses[one.broker_name] = [address for _, address in ordered]
                self._masters[one.broker_name] = one.broker_addrs.get(MASTER_ID)

    def take_route(self, topic: str, route: TopicRouteData | None, registered: Iterable[str]) -> None:
        """Take the queues of a route, None for a topic without one; `registered` are all brokers that are known."""
        there = set(registered) if route is None else {one.broker_name for one in route.broker_datas} | set(registered)
        before = self._queues.get(topic, set())
        news = (
            set()
            if route is None
            else {QueueKey(one.broker_name, topic, one.queue_id) for one in subscribe_queues(topic, route)}
        )
        self._queues[topic] = news | {key for key in before if key.store not in there}
        if route is not None:
            self.take_brokers(route.broker_datas)

    def lacks(self, topic: str, route: TopicRouteData | None) -> bool:
        """Return True if a route lacks queues that are known: their broker may be away, or have lost them."""
        names = set() if route is None else {one.broker_name for one in route.broker_datas}
        return any(key.store not in names for key in self._queues.get(topic, ()))

    def addresses(self, broker: str, now: float) -> list[str]:
        """Return a broker's addresses in the order to ask them: its master first, those that failed last."""
        found = self._addresses.get(broker, [])
        return sorted(found, key=lambda one: now - self._failed.get(one, -_DOWN_S) < _DOWN_S)

    def master(self, broker: str) -> str | None:
        """Return the address of a broker's master, None if no NameServer knows one."""
        return self._masters.get(broker)

    def is_slave(self, broker: str, address: str) -> bool:
        """Return True if an address is not that of the broker's master."""
        return self._masters.get(broker) != address

    def failed(self, address: str, now: float) -> None:
        """Take note that an address does not answer."""
        self._failed[address] = now
        self._failures += 1
