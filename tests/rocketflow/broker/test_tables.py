"""Consumers, producers, locks and held pulls, with the time as an argument."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rocketflow.broker.clients import Client, ConsumerTable, ProducerTable
from rocketflow.broker.held_pulls import HeldPull, HeldPulls
from rocketflow.broker.queue_locks import EXPIRY_MS, QueueLocks
from rocketflow.remoting.bodies import ConsumerData, MessageQueue, SubscriptionData


def client(channel: str, client_id: str = "", at: int = 0) -> Client[str]:
    return Client(channel, client_id or channel, "JAVA", 479, at)


def consumer(*topics: str, version: int = 1, group: str = "g") -> ConsumerData:
    subscriptions = [SubscriptionData(topic=one, sub_version=version) for one in topics]
    return ConsumerData(group_name=group, subscription_data_set=subscriptions)


def test_new_clients_and_topics_change_a_group_and_newer_versions_do_not() -> None:
    table: ConsumerTable[str] = ConsumerTable()
    assert table.register(consumer("T"), client("x"))
    assert not table.register(consumer("T"), client("x"))
    assert not table.register(consumer("T", version=2), client("x"))
    assert table.subscription("g", "T") == SubscriptionData(topic="T", sub_version=2)
    assert not table.register(consumer("T", version=1), client("x"))
    assert table.subscription("g", "T") == SubscriptionData(topic="T", sub_version=2)
    assert table.register(consumer("T", "U"), client("x"))
    assert table.register(consumer("U"), client("x"))
    assert table.subscription("g", "T") is None
    assert table.register(consumer("U"), client("y"))


def test_a_heartbeat_without_subscriptions_keeps_them() -> None:
    table: ConsumerTable[str] = ConsumerTable()
    table.register(consumer("T"), client("x"))
    assert not table.register(consumer(), client("x"), with_subscriptions=False)
    assert table.groups_of_topic("T") == ["g"]


def test_a_closed_connection_leaves_all_groups() -> None:
    table: ConsumerTable[str] = ConsumerTable()
    table.register(consumer("T"), client("x"))
    table.register(consumer("T", group="h"), client("x"))
    table.register(consumer("T"), client("y"))
    assert [one.group for one in table.channel_closed("x")] == ["g", "h"]
    assert table.groups().keys() == {"g"}
    assert table.channel_closed("x") == []


def test_silent_consumers_expire() -> None:
    table: ConsumerTable[str] = ConsumerTable()
    table.register(consumer("T"), client("x", at=0))
    table.register(consumer("T"), client("y", at=1))
    assert table.expired(120_000) == []
    assert table.expired(120_001) == ["x"]


def test_producers_are_found_by_client_id_until_they_leave() -> None:
    table: ProducerTable[str] = ProducerTable()
    table.register("p", client("x", "id"))
    table.register("q", client("x", "id"))
    table.register("p", client("y", "id"))
    assert table.channel_of("id") == "y"
    table.channel_closed("x")
    assert table.channel_of("id") == "y"
    assert table.groups().keys() == {"p"}
    assert table.expired(200_000) == ["y"]
    assert table.channel_of("id") is None
    assert table.members("p") == []


QUEUES = [MessageQueue("T", "b", number) for number in range(3)]


class Locks(RuleBasedStateMachine):
    """Clients lock and unlock; a dictionary says who holds what since when."""

    def __init__(self) -> None:
        super().__init__()
        self.locks = QueueLocks()
        self.held: dict[MessageQueue, tuple[str, int]] = {}
        self.now = 0

    @rule(name=st.sampled_from("xyz"), wanted=st.sets(st.sampled_from(QUEUES)))
    def lock(self, name: str, wanted: set[MessageQueue]) -> None:
        expected = set()
        for queue in wanted:
            holder, since = self.held.get(queue, (name, self.now))
            if holder == name or since + EXPIRY_MS < self.now:
                self.held[queue] = (name, self.now)
                expected.add(queue)
        assert set(self.locks.lock("g", name, wanted, self.now)) == expected

    @rule(name=st.sampled_from("xyz"), wanted=st.sets(st.sampled_from(QUEUES)))
    def unlock(self, name: str, wanted: set[MessageQueue]) -> None:
        self.locks.unlock("g", name, wanted)
        for queue in wanted:
            if self.held.get(queue, ("", 0))[0] == name:
                del self.held[queue]

    @rule(passed=st.sampled_from([1, EXPIRY_MS // 2, EXPIRY_MS + 1]))
    def wait(self, passed: int) -> None:
        self.now += passed

    @invariant()
    def locks_of_the_group_are_known(self) -> None:
        assert self.locks.any_held("g", self.now) == any(
            since + EXPIRY_MS >= self.now for _, since in self.held.values()
        )
        assert not self.locks.any_held("h", self.now)


Locks.TestCase.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
TestLocks = Locks.TestCase


class Pulls(RuleBasedStateMachine):
    """Pulls wait for messages, tags and deadlines; a list says which still do."""

    def __init__(self) -> None:
        super().__init__()
        self.pulls: HeldPulls[int] = HeldPulls()
        self.waiting: dict[int, HeldPull[int]] = {}
        self.count = 0
        self.now = 0

    @rule(offset=st.integers(0, 5), codes=st.none() | st.frozensets(st.integers(1, 3)), wait=st.integers(1, 10))
    def hold(self, offset: int, codes: frozenset[int] | None, wait: int) -> None:
        self.count += 1
        held = HeldPull(self.count, offset, codes, self.now + wait)
        assert self.pulls.hold("T", 0, held)
        self.waiting[self.count] = held

    @rule(end=st.integers(0, 6), codes=st.none() | st.frozensets(st.integers(1, 3), min_size=1))
    def arrive(self, end: int, codes: frozenset[int] | None) -> None:
        expected = {
            number
            for number, one in self.waiting.items()
            if one.offset < end and (codes is None or one.tags_codes is None or one.tags_codes & codes)
        }
        assert self.pulls.arrived("T", 1, end, codes) == []
        assert set(self.pulls.arrived("T", 0, end, codes)) == expected
        for number in expected:
            del self.waiting[number]

    @rule(passed=st.integers(0, 5))
    def expire(self, passed: int) -> None:
        self.now += passed
        expected = {number for number, one in self.waiting.items() if one.deadline_ms <= self.now}
        assert set(self.pulls.expired(self.now)) == expected
        for number in expected:
            del self.waiting[number]

    @rule(rest=st.integers(0, 1))
    def drop(self, rest: int) -> None:
        self.pulls.drop(lambda number: number % 2 == rest)
        self.waiting = {number: one for number, one in self.waiting.items() if number % 2 != rest}

    @invariant()
    def nothing_is_lost(self) -> None:
        assert len(self.pulls) == len(self.waiting)


Pulls.TestCase.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
TestPulls = Pulls.TestCase
