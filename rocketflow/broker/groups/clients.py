"""Producers and consumers by heartbeat, without I/O: times are milliseconds that the caller passes in.

RocketMQ's source: broker/client/ProducerManager.java, ConsumerManager.java, ConsumerGroupInfo.java.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from rocketflow.access.guard import NO_SENDER, Sender
from rocketflow.broker.groups.filters import is_condition, is_tags
from rocketflow.remoting.bodies import ConsumerData, SubscriptionData
from rocketflow_store.spi.names import RETRY_PREFIX

CHANNEL_EXPIRY_MS: Final = 120_000
CONFLICT_AGAIN_MS: Final = 600_000
"""Time after which different subscriptions of a group are reported once more."""

PULLED_EXPIRY_MS: Final = 600_000
"""How long a pull that brings its own subscription counts as one, RocketMQ's `subscriptionExpiredTimeout`."""
BROADCASTING: Final = "BROADCASTING"

_SHOWN: Final = 100
_SHOWN_TOPICS: Final = 3

C = TypeVar("C", bound=Hashable)


@dataclass
class Client(Generic[C]):
    """A client of a group, on one connection; `sender` sent its heartbeat."""

    channel: C
    client_id: str
    language: str
    version: int
    last_update_ms: int
    sender: Sender = NO_SENDER


Reads = frozenset[tuple[str, str, str]]
"""What a client reads: topic, kind of the expression, expression."""


class Departure(NamedTuple):
    """A member that has left a group."""

    group: str
    client_id: str


class ProducerTable(Generic[C]):
    """Producer groups and their clients, by group and by connection."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[C, Client[C]]] = {}
        self._channels: dict[C, dict[str, Client[C]]] = {}
        """The groups of each connection."""
        self._by_client_id: dict[str, dict[str, C]] = {}
        """The connection that took a client id last, by account; the newest is the last."""
        self._ids: Counter[tuple[C, str, str]] = Counter()
        """The number of groups that a connection is in under a client id of an account."""
        self._turn = 0

    def register(self, group: str, client: Client[C]) -> None:
        """Add a client to a group, or take note that it lives."""
        channel = client.channel
        self._groups.setdefault(group, {})[channel] = client
        groups = self._channels.setdefault(channel, {})
        known = groups.get(group)
        groups[group] = client
        by_account = self._by_client_id.setdefault(client.client_id, {})
        by_account.pop(client.sender.name, None)
        by_account[client.sender.name] = channel
        if known is None or _id_of(known) != _id_of(client):
            self._ids[_id_of(client)] += 1
            if known is not None:
                self._release_id(known)

    def unregister(self, group: str, channel: C) -> None:
        """Remove a client from a group."""
        groups = self._channels.get(channel, {})
        client = groups.pop(group, None)
        if client is None:
            return
        if not groups:
            del self._channels[channel]
        members = self._groups[group]
        del members[channel]
        if not members:
            del self._groups[group]
        self._release_id(client)

    def channel_closed(self, channel: C) -> None:
        """Remove a connection from all groups, at a cost that depends on its own groups alone."""
        for group in list(self._channels.get(channel, {})):
            self.unregister(group, channel)

    def expired(self, now_ms: int) -> list[C]:
        """Remove the clients that were silent for too long and return their channels."""
        late = [
            (group, channel)
            for group, members in self._groups.items()
            for channel, client in members.items()
            if client.last_update_ms + CHANNEL_EXPIRY_MS < now_ms
        ]
        for group, channel in late:
            self.unregister(group, channel)
        return list(dict.fromkeys(channel for _, channel in late))

    def channel_of(self, client_id: str, account: str | None = None) -> C | None:
        """Return the connection of a client id: the newest of an account, or of all if there is none."""
        by_account = self._by_client_id.get(client_id, {})
        if account is not None:
            return by_account.get(account)
        return next(reversed(by_account.values()), None)

    def next_channel(
        self, group: str, is_usable: Callable[[C], bool], is_allowed: Callable[[Client[C]], bool] = lambda _: True
    ) -> C | None:
        """Return a usable connection of a group whose client is allowed, a different one each time, or None."""
        clients = [one for channel, one in self._groups.get(group, {}).items() if is_usable(channel)]
        self._turn += 1
        first = self._turn % len(clients) if clients else 0
        found = next((one for one in (*clients[first:], *clients[:first]) if is_allowed(one)), None)
        return None if found is None else found.channel

    def members(self, group: str) -> list[Client[C]]:
        """Return the clients of a group."""
        return list(self._groups.get(group, {}).values())

    def groups(self) -> dict[str, list[Client[C]]]:
        """Return all groups with their clients."""
        return {group: list(members.values()) for group, members in self._groups.items()}

    def _release_id(self, client: Client[C]) -> None:
        """Forget a client id once its connection has it in no group."""
        use = _id_of(client)
        self._ids[use] -= 1
        if self._ids[use]:
            return
        del self._ids[use]
        by_account = self._by_client_id.get(client.client_id, {})
        if by_account.get(client.sender.name) == client.channel:
            del by_account[client.sender.name]
            if not by_account:
                del self._by_client_id[client.client_id]


def _id_of(client: Client[C]) -> tuple[C, str, str]:
    return client.channel, client.client_id, client.sender.name


@dataclass
class ConsumerGroup(Generic[C]):
    """A consumer group: its clients and what it reads.

    `conditions` are the subscriptions by topic whose condition answers pulls, `reads` is what each client said.
    """

    consume_type: str
    message_model: str
    consume_from_where: str
    clients: dict[C, Client[C]] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    conditions: dict[str, SubscriptionData] = field(default_factory=dict)
    reads: dict[C, Reads] = field(default_factory=dict)
    has_new_reads: bool = False
    conflict_ms: int | None = None

    @property
    def is_broadcasting(self) -> bool:
        """Return whether each client reads all messages."""
        return self.message_model == BROADCASTING


class ConsumerTable(Generic[C]):
    """Consumer groups, their clients and their subscriptions; the groups of each connection as well."""

    def __init__(self) -> None:
        self._groups: dict[str, ConsumerGroup[C]] = {}
        self._pulled: dict[tuple[str, str], int] = {}
        """When a pull of a group brought its own subscription of a topic last (ms)."""
        self._channels: dict[C, dict[str, None]] = {}
        """The names of each connection's groups, in order."""

    def register(self, data: ConsumerData, client: Client[C], *, with_subscriptions: bool = True) -> bool:
        """Add a client to a group, or take note that it lives; return whether the group has changed.

        A new client or topic, and a topic that is listed no more, are changes; a newer subscription is not.
        """
        group = self._groups.get(data.group_name)
        if group is None:
            group = ConsumerGroup[C](data.consume_type, data.message_model, data.consume_from_where)
            self._groups[data.group_name] = group
        known = group.clients.get(client.channel)
        changed = known is None or known.client_id != client.client_id
        group.clients[client.channel] = client
        self._channels.setdefault(client.channel, {})[data.group_name] = None
        group.consume_type = data.consume_type
        group.message_model = data.message_model
        group.consume_from_where = data.consume_from_where
        if with_subscriptions:
            changed |= _subscribed(group, data.subscription_data_set)
            reads = _reads(data.subscription_data_set)
            group.has_new_reads |= group.reads.get(client.channel) != reads
            group.reads[client.channel] = reads
        return changed

    def new_conflict(self, group_name: str, now_ms: int) -> str:
        """Return what clients of a group read differently, "" if nothing has changed or it was reported lately.

        The members of a group share its queues: each topic must be read by all of them, by the same expression.
        """
        group = self._groups.get(group_name)
        if group is None or not group.has_new_reads:
            return ""
        group.has_new_reads = False
        kinds = list(dict.fromkeys(group.reads.values()))
        if len(kinds) < 2 or (group.conflict_ms is not None and now_ms < group.conflict_ms + CONFLICT_AGAIN_MS):
            return ""
        group.conflict_ms = now_ms
        texts: list[str] = []
        for kind in kinds[:2]:
            channel = next(one for one, reads in group.reads.items() if reads == kind)
            differing = sorted(kind - kinds[1 - len(texts)])
            texts.append(f"{group.clients[channel].client_id} reads {_shown(differing)}")
        return f"{' and '.join(texts)}; {len(kinds)} different subscriptions in the group"

    def unregister(self, group_name: str, channel: C) -> Departure | None:
        """Remove a client from a group; return it if it was a member."""
        group = self._groups.get(group_name)
        client = None if group is None else group.clients.pop(channel, None)
        if group is None or client is None:
            return None
        group.reads.pop(channel, None)
        if not group.clients:
            del self._groups[group_name]
        names = self._channels[channel]
        del names[group_name]
        if not names:
            del self._channels[channel]
        return Departure(group_name, client.client_id)

    def channel_closed(self, channel: C) -> list[Departure]:
        """Remove a connection from all groups; return the members that have left."""
        names = list(self._channels.get(channel, {}))
        return [one for name in names if (one := self.unregister(name, channel)) is not None]

    def expired(self, now_ms: int) -> list[C]:
        """Return the channels of clients that were silent for too long; their end removes them."""
        return list(
            dict.fromkeys(
                channel
                for group in self._groups.values()
                for channel, client in group.clients.items()
                if client.last_update_ms + CHANNEL_EXPIRY_MS < now_ms
            )
        )

    def get(self, group: str) -> ConsumerGroup[C] | None:
        """Return a group that has a client."""
        return self._groups.get(group)

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """Return what a group reads of a topic."""
        found = self._groups.get(group)
        return None if found is None else found.subscriptions.get(topic)

    def pulled(self, group: str, topic: str, now_ms: int) -> None:
        """Take note that a group's pull of a topic brought its own subscription, as those of pull consumers do."""
        self._pulled[group, topic] = now_ms

    def forget_pulls(self, now_ms: int) -> None:
        """Forget the pulls that brought their own subscription more than PULLED_EXPIRY_MS ago."""
        self._pulled = {key: at_ms for key, at_ms in self._pulled.items() if at_ms + PULLED_EXPIRY_MS >= now_ms}

    def topics_read(self, group_name: str, topics: Iterable[str]) -> list[str]:
        """Return the topics that an online group reads, sorted; all if it is offline or subscribes to none.

        It reads those that it subscribes to, and those that its pulls brought subscriptions of.
        """
        group = self._groups.get(group_name)
        if group is None or not group.subscriptions:
            return sorted(topics)
        return sorted(one for one in topics if one in group.subscriptions or (group_name, one) in self._pulled)

    def groups_of_topic(self, topic: str) -> list[str]:
        """Return the groups that read a topic."""
        return [name for name, group in self._groups.items() if topic in group.subscriptions]

    def groups(self) -> dict[str, ConsumerGroup[C]]:
        """Return all groups that have a client."""
        return dict(self._groups)


def _subscribed(group: ConsumerGroup[C], subscriptions: Iterable[SubscriptionData]) -> bool:
    """Take a client's subscriptions; return whether topics were added or removed."""
    changed = False
    topics = set()
    for one in subscriptions:
        topics.add(one.topic)
        known = group.subscriptions.get(one.topic)
        if known is None:
            changed = True
        if known is None or known.sub_version < one.sub_version:
            group.subscriptions[one.topic] = one
            _take_condition(group, one)
    for topic in group.subscriptions.keys() - topics:
        del group.subscriptions[topic]
        group.conditions.pop(topic, None)
        changed = True
    return changed


def _take_condition(group: ConsumerGroup[C], one: SubscriptionData) -> None:
    """Keep the condition of a new subscription; one with a mistake replaces the old one too, an empty one does not."""
    if is_condition(one.expression_type, one.sub_string):
        group.conditions[one.topic] = one
    elif not is_tags(one.expression_type) and one.sub_string:
        group.conditions.pop(one.topic, None)


def _reads(subscriptions: Iterable[SubscriptionData]) -> Reads:
    """Return what a client reads, without the retry topic, which consumers of some kinds read and others do not."""
    return frozenset(
        (one.topic, one.expression_type or "TAG", one.sub_string or "*")
        for one in subscriptions
        if not one.topic.startswith(RETRY_PREFIX)
    )


def _shown(reads: Sequence[tuple[str, str, str]]) -> str:
    """Return the first of several expressions as a text, "nothing else" for none."""
    texts = [f"{topic} by {kind} {expression[:_SHOWN]!r}" for topic, kind, expression in reads[:_SHOWN_TOPICS]]
    return ", ".join(texts) or "nothing else"
