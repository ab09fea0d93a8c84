"""What each request code needs: one row per code. A code without a row is answered as an unknown one.

RocketMQ's source: auth/authorization/builder/DefaultAuthorizationContextBuilder.java, the annotations of
remoting/protocol/header/**, acl/plain/PlainAccessValidator.java, acl/common/Permission.java. Codes that RocketMQ leaves
unchecked (18, 28, 200, 320 and 361 with accounts of version 4, ...) have needs here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow.remoting.bodies import HeartbeatData, LockBatchRequestBody, SubscriptionGroupConfig, decode_body
from rocketflow.remoting.codes import RequestCode
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

Needs = Callable[["Command"], Iterable[Need]]
"""Return the needs of a request. Raises HeaderError and BodyError."""


class Row(NamedTuple):
    """What a request code needs: all of `needs`."""

    audience: Audience
    needs: tuple[Needs, ...] = ()
    is_read: bool = False
    """Whether it changes nothing."""

    def needs_of(self, command: Command) -> Iterator[Need]:
        """Yield the needs of a request. Raises HeaderError and BodyError."""
        for one in self.needs:
            yield from one(command)


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


def _topic(field: str, *actions: Action, optional: bool = False) -> Needs:
    """Return the need of the topic that a field names; a missing one is the topic "" unless it is optional."""
    wanted = frozenset(actions)

    def needs(command: Command) -> Iterator[Need]:
        name = command.fields.get(field, "")
        if name or not optional:
            yield from topic_needs(name, wanted)

    return needs


def _topics(field: str, separator: str, *actions: Action) -> Needs:
    """Return the needs of the topics that a field names, none if it is missing."""
    wanted = frozenset(actions)

    def needs(command: Command) -> Iterator[Need]:
        for name in filter(None, command.fields.get(field, "").split(separator)):
            yield from topic_needs(name, wanted)

    return needs


def _group(field: str, *actions: Action, optional: bool = False) -> Needs:
    wanted = frozenset(actions)

    def needs(command: Command) -> Iterator[Need]:
        name = command.fields.get(field, "")
        if name or not optional:
            yield Need(Kind.GROUP, name.removeprefix(RETRY_PREFIX), wanted)

    return needs


def _cluster(*actions: Action) -> Needs:
    need = Need(Kind.CLUSTER, "", frozenset(actions))
    return lambda command: (need,)


_SUBSCRIBE: Final = frozenset({Action.SUB})


def _heartbeat(command: Command) -> Iterator[Need]:
    for group in decode_body(command.body, HeartbeatData).consumer_data_set:
        yield Need(Kind.GROUP, group.group_name, _SUBSCRIBE)
        for one in group.subscription_data_set:
            yield from topic_needs(one.topic, _SUBSCRIBE)


def _lock(command: Command) -> Iterator[Need]:
    body = decode_body(command.body, LockBatchRequestBody)
    yield Need(Kind.GROUP, body.consumer_group, _SUBSCRIBE)
    for topic in {one.topic for one in body.mq_set}:
        yield from topic_needs(topic, _SUBSCRIBE)


def _group_of_body(command: Command) -> Iterator[Need]:
    name = decode_body(command.body, SubscriptionGroupConfig).group_name
    yield Need(Kind.GROUP, name, frozenset({Action.CREATE, Action.UPDATE}))


def _client(*needs: Needs) -> Row:
    return Row(Audience.CLIENT, needs)


def _change(*needs: Needs) -> Row:
    return Row(Audience.ADMIN, needs)


def _read(*needs: Needs) -> Row:
    return Row(Audience.ADMIN, needs, is_read=True)


_CODE = RequestCode
_PUB, _SUB, _GET, _UPDATE = Action.PUB, Action.SUB, Action.GET, Action.UPDATE

_CLIENTS: Final[dict[int, Row]] = {
    _CODE.SEND_MESSAGE: _client(_topic("topic", _PUB)),
    _CODE.SEND_MESSAGE_V2: _client(_topic("b", _PUB)),
    _CODE.SEND_BATCH_MESSAGE: _client(_topic("b", _PUB)),
    _CODE.SEND_REPLY_MESSAGE: _client(_topic("topic", _PUB)),
    _CODE.SEND_REPLY_MESSAGE_V2: _client(_topic("b", _PUB)),
    _CODE.RECALL_MESSAGE: _client(_topic("topic", _PUB)),
    _CODE.END_TRANSACTION: _client(_topic("topic", _PUB, optional=True)),
    _CODE.PULL_MESSAGE: _client(_topic("topic", _SUB), _group("consumerGroup", _SUB)),
    _CODE.LITE_PULL_MESSAGE: _client(_topic("topic", _SUB), _group("consumerGroup", _SUB)),
    _CODE.ROCKETFLOW_PULL_RANGE: _client(_topic("topic", _SUB), _group("consumerGroup", _SUB)),
    _CODE.CONSUMER_SEND_MSG_BACK: _client(_group("group", _SUB), _topic("originTopic", _SUB, optional=True)),
    _CODE.HEART_BEAT: _client(_heartbeat),
    _CODE.UNREGISTER_CLIENT: _client(_group("consumerGroup", _SUB, optional=True)),
    _CODE.GET_CONSUMER_LIST_BY_GROUP: _client(_group("consumerGroup", _SUB, _GET)),
    _CODE.LOCK_BATCH_MQ: _client(_lock),
    _CODE.UNLOCK_BATCH_MQ: _client(_lock),
    _CODE.CHECK_CLIENT_CONFIG: _client(),
    _CODE.QUERY_CONSUMER_OFFSET: _client(_topic("topic", _SUB, _GET), _group("consumerGroup", _SUB, _GET)),
    _CODE.UPDATE_CONSUMER_OFFSET: _client(_topic("topic", _SUB, _UPDATE), _group("consumerGroup", _SUB, _UPDATE)),
    _CODE.GET_MAX_OFFSET: _client(_topic("topic", _GET)),
    _CODE.GET_MIN_OFFSET: _client(_topic("topic", _GET)),
    _CODE.SEARCH_OFFSET_BY_TIMESTAMP: _client(_topic("topic", _GET)),
    _CODE.GET_EARLIEST_MSG_STORETIME: _client(_topic("topic", _GET)),
    _CODE.QUERY_MESSAGE: _client(_topic("topic", _SUB, _GET)),
    _CODE.VIEW_MESSAGE_BY_ID: _client(_topic("topic", _GET, optional=True)),
    _CODE.GET_TOPIC_CONFIG: _client(_topic("topic", _GET)),
    _CODE.GET_SUBSCRIPTIONGROUP_CONFIG: _client(_group("group", _GET)),
    _CODE.QUERY_ASSIGNMENT: _client(),
}

_OPERATORS: Final[dict[int, Row]] = {
    _CODE.UPDATE_AND_CREATE_TOPIC: _change(_topic("topic", Action.CREATE)),
    _CODE.UPDATE_AND_CREATE_TOPIC_LIST: _change(_cluster(_UPDATE)),
    _CODE.DELETE_TOPIC_IN_BROKER: _change(_topic("topic", Action.DELETE)),
    _CODE.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _change(_group_of_body),
    _CODE.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _change(_cluster(_UPDATE)),
    _CODE.DELETE_SUBSCRIPTIONGROUP: _change(_group("groupName", Action.DELETE)),
    _CODE.UPDATE_AND_GET_GROUP_FORBIDDEN: _change(_group("group", _UPDATE), _topic("topic", _UPDATE)),
    _CODE.UPDATE_BROKER_CONFIG: _change(_cluster(_UPDATE)),
    _CODE.INVOKE_BROKER_TO_RESET_OFFSET: _change(_topic("topic", _UPDATE), _group("group", _UPDATE)),
    _CODE.CLONE_GROUP_OFFSET: _change(
        *(_group("srcGroup", _UPDATE), _group("destGroup", _UPDATE), _topic("topic", _UPDATE, optional=True)),
    ),
    _CODE.CONSUME_MESSAGE_DIRECTLY: _change(_group("consumerGroup", _SUB), _topic("topic", _SUB, optional=True)),
    _CODE.RESUME_CHECK_HALF_MESSAGE: _change(_topic("topic", _UPDATE, optional=True), _cluster(_UPDATE)),
    _CODE.SET_MESSAGE_REQUEST_MODE: _change(_cluster(_UPDATE)),
    _CODE.CLEAN_EXPIRED_CONSUMEQUEUE: _change(_cluster(_UPDATE)),
    _CODE.CLEAN_UNUSED_TOPIC: _change(_cluster(_UPDATE)),
    _CODE.DELETE_EXPIRED_COMMITLOG: _change(_cluster(_UPDATE)),
    _CODE.GET_BROKER_CONFIG: _read(_cluster(_GET)),
    _CODE.GET_BROKER_RUNTIME_INFO: _read(_cluster(_GET)),
    _CODE.GET_ALL_TOPIC_CONFIG: _read(_cluster(_GET)),
    _CODE.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _read(_cluster(_GET)),
    _CODE.GET_ALL_CONSUMER_OFFSET: _read(_cluster(_GET)),
    _CODE.GET_ALL_DELAY_OFFSET: _read(_cluster(_GET)),
    _CODE.GET_ALL_PRODUCER_INFO: _read(_cluster(_GET)),
    _CODE.GET_BROKER_CONSUME_STATS: _read(_cluster(_GET)),
    _CODE.GET_BROKER_HA_STATUS: _read(_cluster(_GET)),
    _CODE.GET_PRODUCER_CONNECTION_LIST: _read(_cluster(_GET)),
    _CODE.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _read(_cluster(_GET)),
    _CODE.VIEW_BROKER_STATS_DATA: _read(_cluster(_GET)),
    _CODE.GET_TOPIC_STATS_INFO: _read(_topic("topic", _GET)),
    _CODE.QUERY_CONSUME_QUEUE: _read(_topic("topic", _GET), _group("consumerGroup", _GET, optional=True)),
    _CODE.QUERY_TOPIC_CONSUME_BY_WHO: _read(_topic("topic", _GET)),
    _CODE.QUERY_CORRECTION_OFFSET: _read(_topic("topic", _GET), _cluster(_GET)),
    _CODE.QUERY_CONSUME_TIME_SPAN: _read(_topic("topic", _GET), _group("group", _GET)),
    _CODE.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: _read(_topic("topic", _GET), _group("group", _GET)),
    _CODE.QUERY_SUBSCRIPTION_BY_CONSUMER: _read(_group("group", _GET), _topic("topic", _GET, optional=True)),
    _CODE.QUERY_TOPICS_BY_CONSUMER: _read(_group("group", _GET)),
    _CODE.GET_CONSUME_STATS: _read(
        *(_group("consumerGroup", _GET), _topic("topic", _GET, optional=True), _topics("topicList", ";", _GET)),
    ),
    _CODE.GET_CONSUMER_CONNECTION_LIST: _read(_group("consumerGroup", _GET)),
    _CODE.GET_CONSUMER_RUNNING_INFO: _read(_group("consumerGroup", _GET)),
}

USER_CODES: Final[frozenset[int]] = frozenset(range(_CODE.AUTH_CREATE_USER, _CODE.AUTH_LIST_ACL + 1))
"""Requests about users and their policies; answers hold passwords."""

_USERS: Final[dict[int, Row]] = {
    _CODE.AUTH_CREATE_USER: _change(_cluster(_UPDATE)),
    _CODE.AUTH_UPDATE_USER: _change(_cluster(_UPDATE)),
    _CODE.AUTH_DELETE_USER: _change(_cluster(_UPDATE)),
    _CODE.AUTH_GET_USER: _read(_cluster(_GET)),
    _CODE.AUTH_LIST_USER: _read(_cluster(_GET)),
    _CODE.AUTH_CREATE_ACL: _change(_cluster(_UPDATE)),
    _CODE.AUTH_UPDATE_ACL: _change(_cluster(_UPDATE)),
    _CODE.AUTH_DELETE_ACL: _change(_cluster(_UPDATE)),
    _CODE.AUTH_GET_ACL: _read(_cluster(_GET)),
    _CODE.AUTH_LIST_ACL: _read(_cluster(_GET)),
}

_JOB_CODES: Final = (
    _CODE.ROCKETFLOW_COMMIT_BATCH,
    _CODE.ROCKETFLOW_STAGE_PART,
    _CODE.ROCKETFLOW_COMMIT_PROGRESS,
    _CODE.ROCKETFLOW_LAST_COMMIT,
    _CODE.ROCKETFLOW_STORE_INFO,
    _CODE.ROCKETFLOW_SNAPSHOT,
    _CODE.ROCKETFLOW_REQUEUE,
)

_NAME_SERVER_BROKERS: Final = (
    _CODE.REGISTER_BROKER,
    _CODE.UNREGISTER_BROKER,
    _CODE.BROKER_HEARTBEAT,
    _CODE.QUERY_DATA_VERSION,
)

_NAME_SERVER_CLIENTS: Final = (
    _CODE.GET_ROUTEINFO_BY_TOPIC,
    _CODE.GET_BROKER_MEMBER_GROUP,
    _CODE.GET_BROKER_CLUSTER_INFO,
    _CODE.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    _CODE.GET_TOPICS_BY_CLUSTER,
    _CODE.GET_SYSTEM_TOPIC_LIST_FROM_NS,
    _CODE.GET_UNIT_TOPIC_LIST,
    _CODE.GET_HAS_UNIT_SUB_TOPIC_LIST,
    _CODE.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    _CODE.GET_KV_CONFIG,
    _CODE.GET_KVLIST_BY_NAMESPACE,
)

_NAME_SERVER_CHANGES: Final = (
    _CODE.PUT_KV_CONFIG,
    _CODE.DELETE_KV_CONFIG,
    _CODE.WIPE_WRITE_PERM_OF_BROKER,
    _CODE.ADD_WRITE_PERM_OF_BROKER,
    _CODE.DELETE_TOPIC_IN_NAMESRV,
    _CODE.REGISTER_TOPIC_IN_NAMESRV,
    _CODE.UPDATE_NAMESRV_CONFIG,
)

ROWS: Final[Mapping[int, Row]] = {
    **_CLIENTS,
    **_OPERATORS,
    **_USERS,
    **dict.fromkeys(_JOB_CODES, Row(Audience.JOB, (_cluster(_UPDATE),))),
    **dict.fromkeys(_NAME_SERVER_BROKERS, Row(Audience.BROKER, (_cluster(_UPDATE),))),
    **dict.fromkeys(_NAME_SERVER_CLIENTS, _client()),
    **dict.fromkeys(_NAME_SERVER_CHANGES, _change(_cluster(_UPDATE))),
    _CODE.GET_NAMESRV_CONFIG: _read(_cluster(_GET)),
}
"""The row of each request code that NameServer or broker may process."""
