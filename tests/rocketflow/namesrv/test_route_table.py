"""Registrations, routes and expiry, with the time as an argument."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rocketflow.namesrv.route_table import (
    MAX_BROKERS,
    MAX_TOPICS,
    BrokerKey,
    LeavingBroker,
    MasterAddresses,
    Registration,
    RegistrationRefusedError,
    RouteTable,
)
from rocketflow_store.spi.table_rows import DataVersion, TopicConfig


def registration(
    name: str = "broker-a",
    number: int = 0,
    *,
    address: str = "",
    topics: tuple[str, ...] = ("T", "U"),
    perm: int = 6,
    counter: int = 1,
    state: int = 0,
    acting: bool | None = None,
    cluster: str = "C",
) -> Registration:
    return Registration(
        cluster=cluster,
        broker_name=name,
        broker_id=number,
        address=address or f"{name}-{number}:10911",
        ha_address=f"{name}-{number}:10912",
        timeout_ms=120_000,
        enable_acting_master=acting,
        zone_name=None,
        data_version=DataVersion(counter=counter, state_version=state),
        topics={one: TopicConfig(topic_name=one, perm=perm, read_queue_nums=4, write_queue_nums=4) for one in topics},
    )


def leaving(one: Registration) -> LeavingBroker:
    return LeavingBroker(one.cluster, one.broker_name, one.broker_id, one.address)


def addresses(table: RouteTable, topic: str) -> dict[str, dict[str, str]]:
    route = table.route(topic)
    return {} if route is None else {one.broker_name: one.broker_addrs for one in route.brokers}


def perms(table: RouteTable, topic: str) -> dict[str, int]:
    route = table.route(topic)
    return {} if route is None else {one.broker_name: one.perm for one in route.queues}


def test_a_topic_is_routed_to_the_brokers_that_registered_it() -> None:
    table = RouteTable()
    table.register(registration(), "x", 0)
    table.register(registration("broker-b", topics=("T", "V")), "y", 0)
    assert addresses(table, "T") == {"broker-a": {"0": "broker-a-0:10911"}, "broker-b": {"0": "broker-b-0:10911"}}
    assert addresses(table, "V") == {"broker-b": {"0": "broker-b-0:10911"}}
    assert table.route("W") is None
    assert table.clusters() == {"C": ["broker-a", "broker-b"]}
    assert sorted(table.topics_of_cluster("C")) == ["T", "U", "V"]
    assert table.topics_of_cluster("D") == []


def test_a_slave_learns_its_master_and_changes_no_queues() -> None:
    table = RouteTable()
    assert table.register(registration(number=1), "s", 0) == MasterAddresses("", "")
    table.register(registration(), "m", 0)
    found = table.register(registration(number=1, topics=("T", "U", "W")), "s", 0)
    assert found == MasterAddresses("broker-a-0:10911", "broker-a-0:10912")
    assert table.route("W") is None


def test_one_topic_of_an_unknown_broker_is_refused() -> None:
    table = RouteTable()
    with pytest.raises(RegistrationRefusedError):
        table.register(registration(topics=("T",)), "x", 0)
    assert table.brokers() == {}
    assert table.clusters() == {}
    table.register(registration(), "x", 0)
    table.register(registration(topics=("W",), counter=2), "x", 0)
    assert set(table.topics()) == {"T", "U", "W"}


def test_topics_and_brokers_above_the_limits_are_refused() -> None:
    table = RouteTable()
    most = tuple(f"T{number}" for number in range(MAX_TOPICS))
    table.register(registration(topics=most), "x", 0)
    with pytest.raises(RegistrationRefusedError):
        table.register(registration("broker-b", topics=("T0", "new")), "y", 0)
    table.register(registration("broker-b", topics=("T0", "T1")), "y", 0)
    assert set(table.topics()) == set(most)
    for number in range(MAX_BROKERS - 2):
        table.register(registration(f"b{number}", topics=("T0", "T1")), number, 0)
    with pytest.raises(RegistrationRefusedError):
        table.register(registration("one-too-many", topics=("T0", "T1")), "z", 0)
    table.register(registration("broker-b", topics=("T0", "T1"), counter=2), "y", 1)


def test_an_older_process_under_the_same_id_is_ignored() -> None:
    table = RouteTable()
    table.register(registration(state=2), "x", 0)
    table.register(registration(address="other:1", state=1, topics=("T", "V")), "y", 0)
    assert addresses(table, "T") == {"broker-a": {"0": "broker-a-0:10911"}}
    table.register(registration(address="other:1", state=3), "y", 0)
    assert addresses(table, "T") == {"broker-a": {"0": "other:1"}}


def test_the_same_address_has_one_id() -> None:
    table = RouteTable()
    table.register(registration(number=1, address="a:1"), "x", 0)
    table.register(registration(number=0, address="a:1"), "x", 0)
    assert table.brokers()["broker-a"].broker_addrs == {"0": "a:1"}


def test_permissions_change_with_a_new_version_only() -> None:
    table = RouteTable()
    table.register(registration(), "x", 0)
    assert table.change_permissions("broker-a", writable=False) == 2
    table.register(registration(), "x", 0)
    assert perms(table, "T") == {"broker-a": 4}
    assert table.change_permissions("broker-a", writable=True) == 2
    table.register(registration(perm=4, counter=2), "x", 0)
    assert perms(table, "T") == {"broker-a": 4}
    assert table.change_permissions("none", writable=True) == 0


def test_a_silent_broker_expires() -> None:
    table = RouteTable()
    table.register(registration(), "x", 0)
    table.register(registration("broker-b", cluster="D"), "y", 100_000)
    assert table.expired(120_000) == []
    table.refresh(BrokerKey("C", "broker-a-0:10911"), 60_000)
    assert table.expired(120_001) == []
    assert table.expired(180_001) == ["x"]
    assert addresses(table, "T").keys() == {"broker-b"}
    assert table.clusters() == {"D": ["broker-b"]}


def test_a_closed_connection_removes_its_broker() -> None:
    table = RouteTable()
    table.register(registration(), "x", 0)
    assert not table.channel_closed("y")
    assert table.channel_closed("x")
    assert table.topics() == []
    assert table.brokers() == {}


def test_topics_stay_while_a_slave_lives() -> None:
    table = RouteTable()
    table.register(registration(), "m", 0)
    table.register(registration(number=1), "s", 0)
    table.unregister([leaving(registration())])
    assert perms(table, "T") == {"broker-a": 6}
    assert addresses(table, "T") == {"broker-a": {"1": "broker-a-1:10911"}}


def test_a_slave_acts_as_the_missing_master() -> None:
    table = RouteTable(acting_master=True)
    table.register(registration(acting=True), "m", 0)
    table.register(registration(number=2, acting=True), "s2", 0)
    table.register(registration(number=1, acting=True), "s1", 0)
    table.unregister([leaving(registration())])
    assert perms(table, "T") == {"broker-a": 4}
    assert addresses(table, "T") == {"broker-a": {"0": "broker-a-1:10911", "2": "broker-a-2:10911"}}
    assert table.brokers()["broker-a"].broker_addrs.keys() == {"1", "2"}


def test_topics_that_a_registration_does_not_list_go_if_asked_for() -> None:
    table = RouteTable(delete_topics=True)
    table.register(registration(topics=("T", "U", "V")), "x", 0)
    table.register(registration(topics=("T", "U"), counter=2), "x", 0)
    assert set(table.topics()) == {"T", "U"}


def test_a_topic_is_deleted_everywhere_or_in_one_cluster() -> None:
    table = RouteTable()
    table.register(registration(), "x", 0)
    table.register(registration("broker-b", cluster="D"), "y", 0)
    table.delete_topic("T", "D")
    assert addresses(table, "T").keys() == {"broker-a"}
    table.delete_topic("U")
    assert table.route("U") is None


class Registrations(RuleBasedStateMachine):
    """Brokers come, go and fall silent; a dictionary says what has to be known."""

    def __init__(self) -> None:
        super().__init__()
        self.table = RouteTable()
        self.now = 0
        self.known: dict[tuple[str, int], tuple[int, frozenset[str]]] = {}
        self.channels: dict[tuple[str, int], str] = {}
        """The connection of each broker's last registration."""

    @rule(
        name=st.sampled_from(["a", "b"]),
        number=st.integers(0, 2),
        topics=st.frozensets(st.sampled_from("TUV"), min_size=2),
        channel=st.sampled_from("xyz"),
    )
    def register(self, name: str, number: int, topics: frozenset[str], channel: str) -> None:
        one = registration(name, number, topics=tuple(sorted(topics)), counter=self.now + 1)
        self.table.register(one, channel, self.now)
        self.known[name, number] = (self.now, topics)
        self.channels[name, number] = channel

    @rule(name=st.sampled_from(["a", "b"]), number=st.integers(0, 2))
    def unregister(self, name: str, number: int) -> None:
        self.table.unregister([leaving(registration(name, number))])
        self.known.pop((name, number), None)

    @rule(channel=st.sampled_from("xyz"))
    def close(self, channel: str) -> None:
        closed = [one for one in self.known if self.channels[one] == channel]
        assert self.table.channel_closed(channel) == bool(closed)
        for one in closed:
            del self.known[one]

    @rule(passed=st.sampled_from([1, 60_000, 120_001]))
    def expire(self, passed: int) -> None:
        self.now += passed
        late = {one for one, (heard, _) in self.known.items() if heard + 120_000 < self.now}
        assert sorted(map(str, self.table.expired(self.now))) == sorted(self.channels[one] for one in late)
        for one in late:
            del self.known[one]

    @invariant()
    def brokers_are_those_that_live(self) -> None:
        found = {(name, int(one)) for name, broker in self.table.brokers().items() for one in broker.broker_addrs}
        assert found == self.known.keys()

    @invariant()
    def every_route_leads_to_brokers_that_live(self) -> None:
        names = {name for name, _ in self.known}
        for topic in self.table.topics():
            route = self.table.route(topic)
            assert route is not None
            assert {one.broker_name for one in route.queues} == {one.broker_name for one in route.brokers} <= names
        for (name, number), (_, topics) in self.known.items():
            if number == 0:
                assert topics <= set(self.table.topics())
                assert all(name in addresses(self.table, one) for one in topics)


Registrations.TestCase.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
TestRegistrations = Registrations.TestCase
