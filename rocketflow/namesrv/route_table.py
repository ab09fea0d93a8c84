"""The tables of a NameServer and their rules, without I/O: times are milliseconds that the caller passes in.

RocketMQ's source: namesrv/routeinfo/RouteInfoManager.java.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec import structs

from rocketflow.errors import RocketFlowError
from rocketflow.remoting.bodies import BrokerData, QueueData
from rocketflow_store.spi.names import PERM_READ_WRITE, PERM_WRITE
from rocketflow_store.spi.table_rows import DataVersion, TopicConfig

MASTER_ID: Final = 0

UNIT_FLAG: Final = 1
UNIT_SUB_FLAG: Final = 2


MAX_TOPICS: Final = 100_000
MAX_BROKERS: Final = 10_000


class RegistrationRefusedError(RocketFlowError):
    """A broker registered one topic before all of them, or the table is full."""


class BrokerKey(NamedTuple):
    """A broker process: its cluster and its address."""

    cluster: str
    address: str


class LeavingBroker(NamedTuple):
    """A broker process that leaves."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str


@dataclass
class LiveBroker:
    """A broker process that registered and has not expired."""

    broker_name: str
    broker_id: int
    last_update_ms: int
    timeout_ms: int
    data_version: DataVersion
    channel: Hashable
    ha_address: str


@dataclass
class Registration:
    """A broker's report of itself and its topics."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    timeout_ms: int
    enable_acting_master: bool | None
    zone_name: str | None
    data_version: DataVersion
    topics: dict[str, TopicConfig]
    filter_servers: list[str] = field(default_factory=list)


class MasterAddresses(NamedTuple):
    """The addresses of a slave's master, "" for none."""

    master: str
    ha: str


class Route(NamedTuple):
    """The queues of a topic and the brokers that have them."""

    queues: list[QueueData]
    brokers: list[BrokerData]


class RouteTable:
    """Brokers, clusters and topics of one NameServer.

    With `acting_master`, the slave with the smallest id acts for a missing master: its queues can be read.
    With `delete_topics`, a registration removes the broker's topics that it does not list.
    """

    def __init__(self, *, acting_master: bool = False, delete_topics: bool = False) -> None:
        self._acting_master = acting_master
        self._delete_topics = delete_topics
        self._topics: dict[str, dict[str, QueueData]] = {}
        self._brokers: dict[str, BrokerData] = {}
        self._clusters: dict[str, set[str]] = {}
        self._live: dict[BrokerKey, LiveBroker] = {}
        self._of_channel: dict[Hashable, set[BrokerKey]] = {}
        self._filter_servers: dict[BrokerKey, list[str]] = {}

    # --- brokers

    def register(self, registration: Registration, channel: Hashable, now_ms: int) -> MasterAddresses:
        """Take a broker's registration and return the addresses of its master if it is a slave.

        Raises RegistrationRefusedError.
        """
        one = registration
        key = BrokerKey(one.cluster, one.address)
        self._check_room(key, one.topics)
        self._clusters.setdefault(one.cluster, set()).add(one.broker_name)
        broker = self._brokers.setdefault(one.broker_name, BrokerData(cluster=one.cluster, broker_name=one.broker_name))
        first = not broker.broker_addrs
        broker.enable_acting_master = bool(one.enable_acting_master)
        if one.zone_name is not None:
            broker.zone_name = one.zone_name
        for number, address in list(broker.broker_addrs.items()):
            if address == one.address and number != str(one.broker_id):
                del broker.broker_addrs[number]
        if self._is_outdated(broker, one):
            self._forget_live(key)
            return MasterAddresses("", "")
        if str(one.broker_id) not in broker.broker_addrs and len(one.topics) == 1:
            self._forget_unused(one.broker_name)
            raise RegistrationRefusedError(
                f"broker {one.broker_name} ({one.address}) is not known here and registered one topic alone"
            )
        broker.broker_addrs[str(one.broker_id)] = one.address
        self._take_topics(broker, one, first)
        self._forget_live(key)
        self._of_channel.setdefault(channel, set()).add(key)
        self._live[key] = LiveBroker(
            one.broker_name, one.broker_id, now_ms, one.timeout_ms, one.data_version, channel, one.ha_address
        )
        if one.filter_servers:
            self._filter_servers[key] = one.filter_servers
        else:
            self._filter_servers.pop(key, None)
        return self._master_of(broker, one)

    def _check_room(self, key: BrokerKey, topics: Collection[str]) -> None:
        """Raise RegistrationRefusedError if the table has no room for a broker and its topics."""
        if key not in self._live and len(self._live) >= MAX_BROKERS:
            raise RegistrationRefusedError(f"{MAX_BROKERS:,} brokers are registered here: stop some")
        if len(self._topics) + sum(one not in self._topics for one in topics) > MAX_TOPICS:
            raise RegistrationRefusedError(f"a NameServer has at most {MAX_TOPICS:,} topics: delete some")

    def _forget_live(self, key: BrokerKey) -> None:
        live = self._live.pop(key, None)
        if live is not None:
            keys = self._of_channel[live.channel]
            keys.discard(key)
            if not keys:
                del self._of_channel[live.channel]

    def _is_outdated(self, broker: BrokerData, one: Registration) -> bool:
        """Check whether another process with a newer state has the broker's id."""
        other = broker.broker_addrs.get(str(one.broker_id))
        if other is None or other == one.address:
            return False
        live = self._live.get(BrokerKey(one.cluster, other))
        return live is not None and live.data_version.state_version > one.data_version.state_version

    def _forget_unused(self, broker_name: str) -> None:
        broker = self._brokers[broker_name]
        if not broker.broker_addrs:
            self._remove_broker(broker)

    def _take_topics(self, broker: BrokerData, one: Registration, first: bool) -> None:
        prime_slave = (
            one.broker_id != MASTER_ID
            and one.enable_acting_master is not None
            and one.broker_id == min(map(int, broker.broker_addrs))
        )
        if one.broker_id != MASTER_ID and not prime_slave:
            return
        if self._delete_topics and len(one.topics) != 1:
            self._remove_queues({one.broker_name}, lambda topic: topic not in one.topics)
        live = self._live.get(BrokerKey(one.cluster, one.address))
        changed = first or live is None or live.data_version != one.data_version
        for topic, config in one.topics.items():
            queues = self._topics.setdefault(topic, {})
            if changed or one.broker_name not in queues:
                perm = config.perm & ~PERM_WRITE if prime_slave and one.enable_acting_master else config.perm
                queues[one.broker_name] = QueueData(
                    broker_name=one.broker_name,
                    perm=perm,
                    read_queue_nums=config.read_queue_nums,
                    topic_sys_flag=config.topic_sys_flag,
                    write_queue_nums=config.write_queue_nums,
                )

    def _master_of(self, broker: BrokerData, one: Registration) -> MasterAddresses:
        master = broker.broker_addrs.get(str(MASTER_ID))
        live = self._live.get(BrokerKey(one.cluster, master)) if master else None
        if one.broker_id == MASTER_ID or master is None or live is None:
            return MasterAddresses("", "")
        return MasterAddresses(master, live.ha_address)

    def refresh(self, key: BrokerKey, now_ms: int) -> None:
        """Take note that a broker lives."""
        live = self._live.get(key)
        if live is not None:
            live.last_update_ms = now_ms

    def data_version(self, key: BrokerKey) -> DataVersion | None:
        """Return the version of the topics that a broker registered last, None if it is not known."""
        live = self._live.get(key)
        return None if live is None else live.data_version

    def expired(self, now_ms: int) -> list[Hashable]:
        """Remove the brokers that were silent for too long and return their channels."""
        late = [(key, live) for key, live in self._live.items() if live.last_update_ms + live.timeout_ms < now_ms]
        self.unregister(LeavingBroker(key.cluster, live.broker_name, live.broker_id, key.address) for key, live in late)
        return [live.channel for _, live in late]

    def channel_closed(self, channel: Hashable) -> bool:
        """Remove the broker whose connection has ended; return whether there was one."""
        closed = [(key, self._live[key]) for key in self._of_channel.get(channel, ())]
        self.unregister(
            LeavingBroker(key.cluster, live.broker_name, live.broker_id, key.address) for key, live in closed
        )
        return bool(closed)

    def unregister(self, leaving: Iterable[LeavingBroker]) -> None:
        """Remove broker processes, and topics and clusters that are left without a broker."""
        without_master = set()
        removed = set()
        for one in leaving:
            key = BrokerKey(one.cluster, one.address)
            self._forget_live(key)
            self._filter_servers.pop(key, None)
            broker = self._brokers.get(one.broker_name)
            if broker is None:
                continue
            if broker.broker_addrs.get(str(one.broker_id)) == one.address:
                del broker.broker_addrs[str(one.broker_id)]
            if not broker.broker_addrs:
                self._remove_broker(broker)
                removed.add(one.broker_name)
            elif broker.enable_acting_master and str(MASTER_ID) not in broker.broker_addrs:
                without_master.add(one.broker_name)
        if removed:
            self._remove_queues(removed, lambda topic: True)
        for queues in self._topics.values():
            for name in without_master & queues.keys():
                queues[name] = structs.replace(queues[name], perm=queues[name].perm & ~PERM_WRITE)

    def _remove_broker(self, broker: BrokerData) -> None:
        del self._brokers[broker.broker_name]
        names = self._clusters.get(broker.cluster, set())
        names.discard(broker.broker_name)
        if not names:
            self._clusters.pop(broker.cluster, None)

    def _remove_queues(self, broker_names: Collection[str], of_topic: Callable[[str], bool]) -> None:
        for topic, queues in list(self._topics.items()):
            if of_topic(topic):
                for name in [one for one in queues if one in broker_names]:
                    del queues[name]
                if not queues:
                    del self._topics[topic]

    # --- routes

    def route(self, topic: str) -> Route | None:
        """Return the queues of a topic and their brokers, None if there are none."""
        queues = list(self._topics.get(topic, {}).values())
        brokers = [
            structs.replace(
                self._brokers[one.broker_name], broker_addrs=dict(self._brokers[one.broker_name].broker_addrs)
            )
            for one in queues
            if one.broker_name in self._brokers
        ]
        if not queues or not brokers:
            return None
        if self._acting_master:
            for broker in brokers:
                _present_acting_master(broker, queues)
        return Route(queues, brokers)

    def filter_servers(self, brokers: Iterable[BrokerData]) -> dict[str, list[str]]:
        """Return the filter servers of brokers by address; normally there are none."""
        return {
            address: self._filter_servers[key]
            for broker in brokers
            for address in broker.broker_addrs.values()
            if (key := BrokerKey(broker.cluster, address)) in self._filter_servers
        }

    def add_queues(self, topic: str, queues: Iterable[QueueData]) -> None:
        """Add queues of brokers that are known."""
        known = {one.broker_name: one for one in queues if one.broker_name in self._brokers}
        if known:
            self._topics.setdefault(topic, {}).update(known)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Remove a topic, or its queues at the brokers of one cluster."""
        names = self._brokers.keys() if cluster is None else self._clusters.get(cluster, set())
        if cluster is None:
            self._topics.pop(topic, None)
        else:
            self._remove_queues(names, lambda one: one == topic)

    def change_permissions(self, broker_name: str, *, writable: bool) -> int:
        """Allow or forbid writing to all queues of a broker; return the number of topics."""
        count = 0
        for queues in self._topics.values():
            one = queues.get(broker_name)
            if one is not None:
                perm = PERM_READ_WRITE if writable else one.perm & ~PERM_WRITE
                queues[broker_name] = structs.replace(one, perm=perm)
                count += 1
        return count

    # --- lists

    def topics(self) -> list[str]:
        """Return all topics."""
        return list(self._topics)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """Return the topics that have a queue at a broker of a cluster."""
        names = self._clusters.get(cluster, set())
        return [topic for topic, queues in self._topics.items() if names & queues.keys()]

    def topics_with_flag(self, flag: int, without: int = 0) -> list[str]:
        """Return the topics whose first queues have a bit of `topicSysFlag`, and not the bits of `without`."""
        return [
            topic
            for topic, queues in self._topics.items()
            if (first := next(iter(queues.values()))).topic_sys_flag & flag and not first.topic_sys_flag & without
        ]

    def clusters(self) -> dict[str, list[str]]:
        """Return the broker names of each cluster."""
        return {cluster: sorted(names) for cluster, names in self._clusters.items()}

    def brokers(self) -> dict[str, BrokerData]:
        """Return the addresses of each broker name."""
        return dict(self._brokers)

    def live(self) -> Iterator[tuple[BrokerKey, LiveBroker]]:
        """Return the broker processes that live."""
        return iter(self._live.items())


def _present_acting_master(broker: BrokerData, queues: list[QueueData]) -> None:
    """Show the slave with the smallest id as the master of a broker that has none, if its queues are read-only."""
    if not broker.enable_acting_master or str(MASTER_ID) in broker.broker_addrs or not broker.broker_addrs:
        return
    if not any(one.broker_name == broker.broker_name and one.perm & PERM_WRITE for one in queues):
        smallest = min(broker.broker_addrs, key=int)
        broker.broker_addrs[str(MASTER_ID)] = broker.broker_addrs.pop(smallest)
