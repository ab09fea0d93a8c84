"""What requests need: the row that each request code is declared with, beside its processor (`access.served`).

RocketMQ's source: auth/authorization/builder/DefaultAuthorizationContextBuilder.java, the annotations of
remoting/protocol/header/**, acl/plain/PlainAccessValidator.java, acl/common/Permission.java. Codes that RocketMQ leaves
unchecked (18, 28, 200, 320 and 361 with accounts of version 4, ...) have needs here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow_store.spi.names import DLQ_PREFIX, RETRY_PREFIX

if TYPE_CHECKING:
    from rocketflow.remoting.command import Command

TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
REPLY_TOPIC_END: Final = "_REPLY_TOPIC"

REAL_TOPIC: Final = "REAL_TOPIC"
ORIGIN_TOPICS: Final = ("RETRY_TOPIC", "DLQ_ORIGIN_TOPIC")
"""Properties of a retry or dead letter: the topic that its group could not consume it from."""

_INTERNAL_PREFIX: Final = "rmq_sys_"
_INTERNAL_TOPICS: Final = frozenset(
    {
        *("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"),
        *("RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"),
        *("TRANS_CHECK_MAX_TIME_TOPIC", "OFFSET_MOVED_EVENT", "CHECKPOINT_TOPIC", TRACE_TOPIC),
    }
)


class Audience(Enum):
    """Who sends a request: which rows are checked without rules, and which need an administrator."""

    CLIENT = "producers and consumers"
    ADMIN = "operators"
    BROKER = "brokers, at a NameServer"
    JOB = "jobs that see the store's directory"


class Kind(StrEnum):
    """Kinds of resources, in RocketMQ's names."""

    TOPIC = "Topic"
    GROUP = "Group"
    CLUSTER = "Cluster"


class Action(StrEnum):
    """Actions, in RocketMQ's names."""

    ALL = "All"
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


READS: Final = frozenset({Action.GET, Action.LIST})


class Need(NamedTuple):
    """One of `actions` is needed on a resource; the cluster has no name here."""

    kind: Kind
    name: str
    actions: frozenset[Action]


ADMINISTRATOR: Final = Need(Kind.CLUSTER, "", frozenset({Action.UPDATE}))
"""The need of a request that only an administrator may send."""

PUBLISH: Final = frozenset({Action.PUB})
SUBSCRIBE: Final = frozenset({Action.SUB})
READ: Final = frozenset({Action.SUB, Action.GET})
"""Actions on a stored message: one of them is needed."""


class Needs(NamedTuple):
    """Needs that a request names: `of` returns them, and raises HeaderError and BodyError; `text` is for people."""

    text: str
    of: Callable[[Command], Iterable[Need]]


class Row(NamedTuple):
    """What a request code needs: all of `needs`, and one of the actions `record` on each stored message that it gets.

    Such a message leaves with the answer, or is copied: the topic that it is for decides, whatever the request says.
    """

    audience: Audience
    needs: tuple[Needs, ...] = ()
    is_read: bool = False
    """Whether it changes nothing."""
    record: frozenset[Action] = frozenset()
    of_jobs: bool = False
    """Whether jobs send it too, though it is one of clients."""
    of_users: bool = False
    """Whether it is about users and their policies: its answer holds passwords."""
    may_wait: bool = False
    """Whether it waits for messages: a broker's second listener takes none of them."""

    def needs_of(self, command: Command) -> Iterator[Need]:
        """Yield the needs of a request. Raises HeaderError and BodyError."""
        for one in self.needs:
            yield from one.of(command)


def is_internal_topic(name: str) -> bool:
    """Return whether a topic holds messages of other topics, or reports about them, that the broker or clients store.

    Those are delayed, timer, half and abandoned messages, replies, and traces.
    """
    return name in _INTERNAL_TOPICS or name.startswith(_INTERNAL_PREFIX) or name.endswith(REPLY_TOPIC_END)


def topic_needs(name: str, actions: frozenset[Action]) -> tuple[Need, ...]:
    """Return the needs of a topic, none if everybody may publish to it: traces, but not those by region, and replies.

    A retry topic needs its group, reading dead letters needs their group too, and reading an internal topic needs an
    administrator.
    """
    if name.startswith(RETRY_PREFIX):
        of_group = actions - {Action.PUB} | ({Action.SUB} if Action.PUB in actions else set())
        return (Need(Kind.GROUP, name.removeprefix(RETRY_PREFIX), frozenset(of_group)),)
    if actions == {Action.PUB} and (name == TRACE_TOPIC or name.endswith(REPLY_TOPIC_END)):
        return ()
    if Action.SUB in actions and is_internal_topic(name):
        return (ADMINISTRATOR,)
    if Action.SUB in actions and name.startswith(DLQ_PREFIX):
        return (Need(Kind.TOPIC, name, actions), Need(Kind.GROUP, name.removeprefix(DLQ_PREFIX), actions))
    return (Need(Kind.TOPIC, name, actions),)


def record_needs(topic: str, properties: Mapping[str, str], actions: frozenset[Action]) -> tuple[Need, ...]:
    """Return the needs of a stored message: those of the topic that it is for, whichever topic it is stored under.

    A delayed, timer, half or abandoned message is for its REAL_TOPIC. A retry or dead letter also needs the topic that
    its group could not consume it from, if it is read.
    """
    if is_internal_topic(topic):
        topic = properties.get(REAL_TOPIC, topic)
    needs = topic_needs(topic, actions)
    if Action.SUB in actions and topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        origins = {properties[name] for name in ORIGIN_TOPICS if name in properties}
        needs += tuple(need for one in sorted(origins - {topic}) for need in topic_needs(one, actions))
    return needs


def topic_of(*actions: Action, field: str = "topic", optional: bool = False) -> Needs:
    """Return the need of the topic that a field names; a missing one is the topic "" unless it is optional."""
    wanted = frozenset(actions)

    def needs(command: Command) -> Iterator[Need]:
        name = command.fields.get(field, "")
        if name or not optional:
            yield from topic_needs(name, wanted)

    return Needs(f"topic `{field}`: {shown_actions(wanted)}", needs)


def topics_of(field: str, separator: str, *actions: Action) -> Needs:
    """Return the needs of the topics that a field names, none if it is missing."""
    wanted = frozenset(actions)

    def needs(command: Command) -> Iterator[Need]:
        for name in filter(None, command.fields.get(field, "").split(separator)):
            yield from topic_needs(name, wanted)

    return Needs(f"topics `{field}`: {shown_actions(wanted)}", needs)


def group_of(*actions: Action, field: str = "consumerGroup", optional: bool = False) -> Needs:
    """Return the need of the group that a field names, as `topic_of` does."""
    wanted = frozenset(actions)

    def needs(command: Command) -> Iterator[Need]:
        name = command.fields.get(field, "")
        if name or not optional:
            yield Need(Kind.GROUP, name.removeprefix(RETRY_PREFIX), wanted)

    return Needs(f"group `{field}`: {shown_actions(wanted)}", needs)


def cluster(action: Action) -> Needs:
    """Return the need of the cluster."""
    need = Need(Kind.CLUSTER, "", frozenset({action}))
    return Needs(f"cluster: {action}", lambda command: (need,))


def shown_actions(actions: frozenset[Action]) -> str:
    """Return actions as a text."""
    return " or ".join(sorted(actions))


def client_row(
    *needs: Needs, record: frozenset[Action] = frozenset(), of_jobs: bool = False, may_wait: bool = False
) -> Row:
    """Return the row of a request of producers and consumers."""
    return Row(Audience.CLIENT, needs, record=record, of_jobs=of_jobs, may_wait=may_wait)


def change_row(*needs: Needs, record: frozenset[Action] = frozenset()) -> Row:
    """Return the row of an operator's request that changes something."""
    return Row(Audience.ADMIN, needs, record=record)


def read_row(*needs: Needs) -> Row:
    """Return the row of an operator's request that changes nothing."""
    return Row(Audience.ADMIN, needs, is_read=True)


CLUSTER_CHANGE: Final = change_row(cluster(Action.UPDATE))
CLUSTER_READ: Final = read_row(cluster(Action.GET))
BROKER_ROW: Final = Row(Audience.BROKER, (cluster(Action.UPDATE),))
JOB_ROW: Final = Row(Audience.JOB, (cluster(Action.UPDATE),), of_jobs=True)
