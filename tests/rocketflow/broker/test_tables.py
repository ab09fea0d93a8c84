"""Consumers, producers, locks and held pulls, with the time as an argument."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rocketflow.access.guard import Sender
from rocketflow.broker.groups.clients import (
    CHANNEL_EXPIRY_MS,
    CONFLICT_AGAIN_MS,
    PULLED_EXPIRY_MS,
    Client,
    ConsumerTable,
    Departure,
    ProducerTable,
)
from rocketflow.broker.groups.queue_locks import EXPIRY_MS, QueueLocks
from rocketflow.broker.reads.held_pulls import HeldPull, HeldPulls
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


def test_a_group_reads_what_it_subscribes_to_and_for_some_time_what_its_pulls_named() -> None:
    table: ConsumerTable[str] = ConsumerTable()
    topics = ["V", "T", "U"]
    assert table.topics_read("g", topics) == ["T", "U", "V"]
    table.register(consumer(), client("x"))
    assert table.topics_read("g", topics) == ["T", "U", "V"]
    table.register(consumer("T"), client("x"))
    table.pulled("g", "U", 1_000)
    table.pulled("other", "V", 1_000)
    table.forget_pulls(1_000 + PULLED_EXPIRY_MS)
    assert table.topics_read("g", topics) == ["T", "U"]
    table.forget_pulls(1_001 + PULLED_EXPIRY_MS)
    assert table.topics_read("g", topics) == ["T"]


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


def test_a_client_that_leaves_one_producer_group_is_still_found_for_the_other() -> None:
    table: ProducerTable[str] = ProducerTable()
    table.register("p", client("x", "id"))
    table.register("q", client("x", "id"))
    table.unregister("p", "x")
    assert table.channel_of("id") == "x"
    table.register("q", client("x", "new"))
    assert table.channel_of("id") is None


def test_a_client_id_is_found_by_the_account_that_took_it() -> None:
    table: ProducerTable[str] = ProducerTable()
    accounts = {one: Sender(one, None) for one in "abc"}
    table.register("p", replace(client("x", "id"), sender=accounts["a"]))
    table.register("p", replace(client("y", "id"), sender=accounts["b"]))
    found = {name: table.channel_of("id", name) for name in accounts}
    assert (found, table.channel_of("id")) == ({"a": "x", "b": "y", "c": None}, "y")
    table.register("p", replace(client("x", "id"), sender=accounts["c"]))
    found = {name: table.channel_of("id", name) for name in accounts}
    assert (found, table.channel_of("id")) == ({"a": None, "b": "y", "c": "x"}, "x")
    table.channel_closed("x")
    table.channel_closed("y")
    assert table.channel_of("id") is None


def test_clients_that_are_not_allowed_are_passed_over() -> None:
    table: ProducerTable[str] = ProducerTable()
    for channel in "xyz":
        table.register("p", client(channel))
    found = [table.next_channel("p", lambda one: one != "y", lambda one: one.channel != "x") for _ in range(3)]
    assert found == ["z", "z", "z"]
    assert table.next_channel("p", lambda _: True, lambda _: False) is None


CHANNELS = st.sampled_from("xyz")
CLIENT_IDS = st.sampled_from("abc")
GROUPS = st.sampled_from("pq")

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
    """Pulls wait for messages, tags and deadlines until their connection closes; a dictionary says which still do."""

    def __init__(self) -> None:
        super().__init__()
        self.pulls: HeldPulls[str, int] = HeldPulls()
        self.waiting: dict[int, tuple[int, HeldPull[str, int]]] = {}
        self.count = 0
        self.now = 0

    @rule(
        channel=st.sampled_from("xyz"),
        queue_id=st.integers(0, 1),
        offset=st.integers(0, 5),
        codes=st.none() | st.frozensets(st.integers(1, 3)),
        wait=st.integers(1, 10),
    )
    def hold(self, channel: str, queue_id: int, offset: int, codes: frozenset[int] | None, wait: int) -> None:
        self.count += 1
        held = HeldPull(channel, self.count, offset, codes, self.now + wait)
        assert self.pulls.hold("T", queue_id, held)
        self.waiting[self.count] = (queue_id, held)

    @rule(
        queue_id=st.integers(0, 1),
        end=st.integers(0, 6),
        codes=st.none() | st.frozensets(st.integers(1, 3), min_size=1),
    )
    def arrive(self, queue_id: int, end: int, codes: frozenset[int] | None) -> None:
        expected = [
            number
            for number, (place, one) in self.waiting.items()
            if place == queue_id
            and one.offset < end
            and (codes is None or one.tags_codes is None or one.tags_codes & codes)
        ]
        assert self.pulls.arrived("U", queue_id, end, codes) == []
        assert self.pulls.arrived("T", queue_id, end, codes) == expected
        for number in expected:
            del self.waiting[number]

    @rule(passed=st.integers(0, 5))
    def expire(self, passed: int) -> None:
        self.now += passed
        expected = {number for number, (_, one) in self.waiting.items() if one.deadline_ms <= self.now}
        assert set(self.pulls.expired(self.now)) == expected
        for number in expected:
            del self.waiting[number]

    @rule(channel=st.sampled_from("xyz"))
    def close(self, channel: str) -> None:
        self.pulls.channel_closed(channel)
        self.waiting = {number: one for number, one in self.waiting.items() if one[1].channel != channel}

    @invariant()
    def nothing_is_lost(self) -> None:
        assert len(self.pulls) == len(self.waiting)


Pulls.TestCase.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
TestPulls = Pulls.TestCase


class Producers(RuleBasedStateMachine):
    """Connections join and leave producer groups under client ids; two dictionaries say who is known as what."""

    def __init__(self) -> None:
        super().__init__()
        self.table: ProducerTable[str] = ProducerTable()
        self.members: dict[tuple[str, str], Client[str]] = {}
        self.newest: dict[str, str] = {}
        """The connection that registered each client id last, while it is in a group under this id."""
        self.now = 0

    def remove(self, wanted: Iterable[tuple[str, str]]) -> None:
        for one in list(wanted):
            self.members.pop(one, None)
        used = {(one.client_id, one.channel) for one in self.members.values()}
        self.newest = {name: channel for name, channel in self.newest.items() if (name, channel) in used}

    @rule(group=GROUPS, channel=CHANNELS, client_id=CLIENT_IDS)
    def register(self, group: str, channel: str, client_id: str) -> None:
        one = client(channel, client_id, self.now)
        self.table.register(group, one)
        self.members[group, channel] = one
        self.newest[client_id] = channel
        self.remove([])

    @rule(group=GROUPS, channel=CHANNELS)
    def unregister(self, group: str, channel: str) -> None:
        self.table.unregister(group, channel)
        self.remove([(group, channel)])

    @rule(channel=CHANNELS)
    def close(self, channel: str) -> None:
        self.table.channel_closed(channel)
        self.remove(key for key in self.members if key[1] == channel)

    @rule(passed=st.sampled_from([1, CHANNEL_EXPIRY_MS // 2, CHANNEL_EXPIRY_MS + 1]))
    def expire(self, passed: int) -> None:
        self.now += passed
        late = [key for key, one in self.members.items() if one.last_update_ms + CHANNEL_EXPIRY_MS < self.now]
        assert sorted(self.table.expired(self.now)) == sorted({channel for _, channel in late})
        self.remove(late)

    @rule(group=GROUPS, usable=st.frozensets(CHANNELS))
    def take_turns(self, group: str, usable: frozenset[str]) -> None:
        expected = {channel for name, channel in self.members if name == group and channel in usable}
        turns = [self.table.next_channel(group, usable.__contains__) for _ in expected]
        assert set(turns) == expected
        if not expected:
            assert self.table.next_channel(group, usable.__contains__) is None

    @invariant()
    def groups_have_the_members_that_live(self) -> None:
        found = {(group, one.channel): one for group, members in self.table.groups().items() for one in members}
        assert found == self.members

    @invariant()
    def client_ids_lead_to_the_newest_connection(self) -> None:
        assert {one: found for one in "abc" if (found := self.table.channel_of(one)) is not None} == self.newest


Producers.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestProducers = Producers.TestCase


class Consumers(RuleBasedStateMachine):
    """Connections join and leave consumer groups with subscriptions; dictionaries say who reads what."""

    def __init__(self) -> None:
        super().__init__()
        self.table: ConsumerTable[str] = ConsumerTable()
        self.members: dict[tuple[str, str], Client[str]] = {}
        self.versions: dict[str, dict[str, int]] = {}
        """The version of each topic's subscription, by group."""
        self.now = 0

    def remove(self, wanted: Iterable[tuple[str, str]]) -> list[Departure]:
        left = [Departure(group, self.members.pop((group, channel)).client_id) for group, channel in list(wanted)]
        live = {group for group, _ in self.members}
        self.versions = {group: topics for group, topics in self.versions.items() if group in live}
        return left

    @rule(
        group=GROUPS,
        channel=CHANNELS,
        client_id=CLIENT_IDS,
        topics=st.frozensets(st.sampled_from("TUV")),
        version=st.integers(1, 3),
        with_subscriptions=st.booleans(),
    )
    def register(
        self, group: str, channel: str, client_id: str, topics: frozenset[str], version: int, with_subscriptions: bool
    ) -> None:
        known = self.members.get((group, channel))
        changed = known is None or known.client_id != client_id
        self.members[group, channel] = one = client(channel, client_id, self.now)
        before = self.versions.setdefault(group, {})
        if with_subscriptions:
            changed |= before.keys() != topics
            self.versions[group] = {topic: max(version, before.get(topic, 0)) for topic in topics}
        data = consumer(*sorted(topics), version=version, group=group)
        assert self.table.register(data, one, with_subscriptions=with_subscriptions) == changed

    @rule(group=GROUPS, channel=CHANNELS)
    def unregister(self, group: str, channel: str) -> None:
        expected = self.remove([key for key in [(group, channel)] if key in self.members])
        assert self.table.unregister(group, channel) == (expected[0] if expected else None)

    @rule(channel=CHANNELS)
    def close(self, channel: str) -> None:
        expected = self.remove([key for key in self.members if key[1] == channel])
        assert sorted(self.table.channel_closed(channel)) == sorted(expected)

    @rule(passed=st.sampled_from([1, CHANNEL_EXPIRY_MS // 2, CHANNEL_EXPIRY_MS + 1]))
    def find_silent_ones(self, passed: int) -> None:
        self.now += passed
        late = {one.channel for one in self.members.values() if one.last_update_ms + CHANNEL_EXPIRY_MS < self.now}
        assert sorted(self.table.expired(self.now)) == sorted(late)

    @invariant()
    def groups_have_the_members_that_live(self) -> None:
        groups = self.table.groups()
        found = {(name, one.channel): one for name, group in groups.items() for one in group.clients.values()}
        assert found == self.members
        assert groups.keys() == {name for name, _ in self.members}

    @invariant()
    def groups_read_what_the_last_heartbeat_names(self) -> None:
        groups = self.table.groups().items()
        assert self.versions == {
            name: {topic: one.sub_version for topic, one in group.subscriptions.items()} for name, group in groups
        }
        for topic in "TUV":
            assert set(self.table.groups_of_topic(topic)) == {
                group for group, topics in self.versions.items() if topic in topics
            }


Consumers.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestConsumers = Consumers.TestCase


class Looked:
    """A connection that counts how often it is looked up or compared."""

    count = 0

    def __init__(self, number: int) -> None:
        self._number = number

    def __hash__(self) -> int:
        Looked.count += 1
        return hash(self._number)

    def __eq__(self, other: object) -> bool:
        Looked.count += 1
        return self is other


def test_the_end_of_a_connection_costs_what_the_connection_holds() -> None:
    """Row N08: ten thousand consumers of one queue disconnect together."""
    pulls: HeldPulls[Looked, int] = HeldPulls()
    consumers: ConsumerTable[Looked] = ConsumerTable()
    producers: ProducerTable[Looked] = ProducerTable()
    channels = [Looked(number) for number in range(2_000)]
    for number, channel in enumerate(channels):
        assert pulls.hold("T", 0, HeldPull(channel, number, 0, None, 1))
        one = Client(channel, f"client-{number}", "JAVA", 479, 0)
        consumers.register(consumer("T", group=f"group-{number % 100}"), one)
        producers.register(f"group-{number % 100}", one)
    Looked.count = 0
    for channel in channels:
        pulls.channel_closed(channel)
        consumers.channel_closed(channel)
        producers.channel_closed(channel)
    assert Looked.count < 50 * len(channels)
    assert (len(pulls), consumers.groups(), producers.groups()) == (0, {}, {})


def test_different_subscriptions_of_a_group_are_reported_once() -> None:
    table: ConsumerTable[str] = ConsumerTable()
    table.register(consumer("T", "U"), client("x"))
    assert table.new_conflict("g", 0) == ""
    table.register(consumer("T"), client("y", "why"))
    said = table.new_conflict("g", 1)
    assert said == "x reads U by TAG '*' and why reads nothing else; 2 different subscriptions in the group"
    table.register(consumer("T"), client("y", "why"))
    assert table.new_conflict("g", CONFLICT_AGAIN_MS + 1) == ""
    table.register(consumer("T"), client("z"))
    assert table.new_conflict("g", CONFLICT_AGAIN_MS) == ""
    table.register(consumer("V"), client("z"))
    assert "3 different subscriptions" in table.new_conflict("g", CONFLICT_AGAIN_MS + 1)
    assert table.new_conflict("h", 0) == ""


def test_members_that_left_or_say_no_subscriptions_conflict_with_none() -> None:
    table: ConsumerTable[str] = ConsumerTable()
    table.register(consumer("T"), client("x"))
    table.register(consumer("T"), client("y"))
    table.channel_closed("x")
    table.register(consumer("U"), client("y"))
    table.register(consumer(), client("z"), with_subscriptions=False)
    assert table.new_conflict("g", 0) == ""


def conditional(expression: str, version: int, kind: str = "SQL92") -> ConsumerData:
    one = SubscriptionData(topic="T", sub_string=expression, expression_type=kind, sub_version=version)
    return ConsumerData(group_name="g", subscription_data_set=[one])


def test_the_newest_condition_is_kept_unless_it_has_a_mistake() -> None:
    table: ConsumerTable[str] = ConsumerTable()

    def kept(data: ConsumerData) -> str | None:
        table.register(data, client("x"))
        group = table.get("g")
        assert group is not None
        found = group.conditions.get("T")
        return None if found is None else found.sub_string

    assert kept(conditional("a >", 1)) is None
    assert kept(conditional("a > 1", 2)) == "a > 1"
    assert kept(conditional("", 3)) == "a > 1"
    assert kept(conditional("TagA", 4, "TAG")) == "a > 1"
    assert kept(conditional("a > 2", 5)) == "a > 2"
    assert kept(conditional("a > > 1", 6)) is None
    assert kept(conditional("a > 3", 7)) == "a > 3"
    assert kept(consumer("U")) is None
