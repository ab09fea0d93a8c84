"""JSON bodies of requests and answers: one class for each of RocketMQ's body classes, in its names.

Attributes are RocketMQ's names in snake case. A member that is missing or null gets the default; UNSET
members are not written. RocketMQ's source: remoting/protocol/body/**, heartbeat/**, route/**, subscription/**.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple, TypeVar, cast

import msgspec
from msgspec import UNSET, UnsetType

from rocketflow.remoting import fastjson
from rocketflow.remoting.errors import BodyError
from rocketflow_store.spi.table_rows import (
    DataVersion,
    SubscriptionGroupConfig,
    TableRow,
    TopicConfig,
    converted,
    json_of,
    row_of,
)

B = TypeVar("B")
R = TypeVar("R", bound=TableRow)


def decode_body(data: bytes, body: type[B]) -> B:
    """Decode a body, in standard JSON or in fastjson's; one row of a table keeps its unknown members.

    Raises BodyError.
    """
    if isinstance(body, type) and issubclass(body, TableRow):
        return _row(decode_body(data, dict[str, Any]), body)
    if b'"$ref"' not in data:
        try:
            return cast("B", _decoder(cast("Any", body)).decode(data))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # not standard JSON, a null, or wrong: the second decoder finds out
    try:
        return converted(fastjson.loads(data), body)
    except msgspec.ValidationError as error:
        raise BodyError(f"{body.__name__}: {error}") from None


def decode_rows(data: bytes, member: str, kind: type[R]) -> list[R]:
    """Decode the rows of a table in a list of a body, with their unknown members. Raises BodyError."""
    return [_row(one, kind) for one in decode_body(data, dict[str, list[dict[str, Any]]]).get(member, [])]


def _row(entry: dict[str, Any], kind: type[R]) -> R:
    try:
        return row_of(kind, entry)
    except ValueError as error:
        raise BodyError(f"{kind.__name__}: {error}") from None


def encode_body(body: object) -> bytes:
    """Return a body as fastjson writes it: members by name, no blanks."""
    return _ENCODER.encode(json_of(body) if isinstance(body, TableRow) else body)


_ENCODER: Final = msgspec.json.Encoder(order="sorted")


@cache
def _decoder(body: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(body, strict=False)


class Body(msgspec.Struct, kw_only=True, rename="camel"):
    """Base of the bodies."""


class MessageQueue(NamedTuple):
    """A queue of a topic at a broker."""

    topic: str
    broker_name: str
    queue_id: int


class MessageQueueBody(Body, kw_only=True):
    """A queue of a topic at a broker, as a JSON object."""

    broker_name: str = ""
    queue_id: int = 0
    topic: str = ""


class TopicConfigWrapper(Body, kw_only=True):
    """All topics of a broker (TopicConfigSerializeWrapper, TopicConfigAndMappingSerializeWrapper)."""

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    mapping_data_version: DataVersion | UnsetType = UNSET
    topic_config_table: dict[str, TopicConfig] = {}
    topic_queue_mapping_detail_map: dict[str, Any] | UnsetType = UNSET
    topic_queue_mapping_info_map: dict[str, Any] | UnsetType = UNSET


class RegisterBrokerBody(Body, kw_only=True):
    """A broker's registration at a NameServer."""

    filter_server_list: list[str] = []
    topic_config_serialize_wrapper: TopicConfigWrapper = msgspec.field(default_factory=TopicConfigWrapper)


class QueueData(Body, kw_only=True):
    """The queues of a topic at one broker."""

    broker_name: str = ""
    perm: int = 0
    read_queue_nums: int = 0
    topic_sys_flag: int = 0
    write_queue_nums: int = 0


class BrokerData(Body, kw_only=True):
    """The addresses of a broker: master (0) and slaves by id."""

    broker_addrs: dict[str, str] = {}
    broker_name: str = ""
    cluster: str = ""
    enable_acting_master: bool = False
    zone_name: str | UnsetType = UNSET


class TopicRouteData(Body, kw_only=True):
    """The queues of a topic and their brokers."""

    broker_datas: list[BrokerData] = []
    filter_server_table: dict[str, list[str]] = {}
    order_topic_conf: str | UnsetType = UNSET
    queue_datas: list[QueueData] = []
    topic_queue_mapping_by_broker: dict[str, Any] | UnsetType = UNSET


class ClusterInfo(Body, kw_only=True):
    """The brokers by name, and the names by cluster."""

    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}


class BrokerMemberGroup(Body, kw_only=True):
    """The addresses of one broker name."""

    broker_addrs: dict[str, str] = {}
    broker_name: str = ""
    cluster: str = ""


class GetBrokerMemberGroupResponseBody(Body, kw_only=True):
    """Answer 901."""

    broker_member_group: BrokerMemberGroup = msgspec.field(default_factory=BrokerMemberGroup)


class TopicList(Body, kw_only=True):
    """Names of topics."""

    broker_addr: str | UnsetType = UNSET
    topic_list: list[str] = []


class GroupList(Body, kw_only=True):
    """Names of groups."""

    group_list: list[str] = []


class KVTable(Body, kw_only=True):
    """Texts by name."""

    table: dict[str, str] = {}


class SubscriptionData(Body, kw_only=True):
    """A group's filter on a topic."""

    class_filter_mode: bool = False
    code_set: list[int] = []
    expression_type: str = "TAG"
    sub_string: str = "*"
    sub_version: int = 0
    tags_set: list[str] = []
    topic: str = ""


class ConsumerData(Body, kw_only=True):
    """One consumer group of a client."""

    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    consume_type: str = "CONSUME_PASSIVELY"
    group_name: str = ""
    message_model: str = "CLUSTERING"
    subscription_data_set: list[SubscriptionData] = []
    unit_mode: bool = False


class ProducerData(Body, kw_only=True):
    """One producer group of a client."""

    group_name: str = ""


class HeartbeatData(Body, kw_only=True):
    """A client's heartbeat, every 30 seconds."""

    client_id: str = msgspec.field(default="", name="clientID")
    consumer_data_set: list[ConsumerData] = []
    heartbeat_fingerprint: int = 0
    producer_data_set: list[ProducerData] = []
    without_sub: bool = False


class LockBatchRequestBody(Body, kw_only=True):
    """Queues that a client locks or unlocks for a group."""

    client_id: str = ""
    consumer_group: str = ""
    mq_set: list[MessageQueueBody] = []
    only_this_broker: bool = False


class LockBatchResponseBody(Body, kw_only=True):
    """Queues that the client holds now."""

    lock_ok_mq_set: list[MessageQueueBody] = msgspec.field(default_factory=list, name="lockOKMQSet")


class GetConsumerListByGroupResponseBody(Body, kw_only=True):
    """The client ids of a group."""

    consumer_id_list: list[str] = []


class CheckClientRequestBody(Body, kw_only=True):
    """A subscription that a client wants to use."""

    client_id: str = ""
    group: str = ""
    namespace: str | UnsetType = UNSET
    subscription_data: SubscriptionData = msgspec.field(default_factory=SubscriptionData)


class SetMessageRequestModeRequestBody(Body, kw_only=True):
    """The way in which a group gets the messages of a topic: PULL or POP."""

    topic: str = ""
    consumer_group: str = ""
    mode: str = "PULL"
    pop_share_queue_num: int = 0


class SubscriptionGroupWrapper(Body, kw_only=True):
    """All groups of a broker."""

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    forbidden_table: dict[str, dict[str, int]] = {}
    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}


class QueueProgress(Body, kw_only=True):
    """The progress of a group in a queue; `last_timestamp` is the store time (ms) of the last message that it read."""

    broker_offset: int = 0
    consumer_offset: int = 0
    last_timestamp: int = 0
    pull_offset: int = 0


@lru_cache(maxsize=10_000)
def queue_key(queue: MessageQueue) -> bytes:
    """Return a queue as fastjson writes it as the key of a map."""
    return encode_body(MessageQueueBody(broker_name=queue.broker_name, queue_id=queue.queue_id, topic=queue.topic))


def queue_map(values: Mapping[MessageQueue, object] | Iterable[tuple[MessageQueue, object]]) -> msgspec.Raw:
    """Return a map whose keys are queues, ready to stand in a body."""
    items = values.items() if isinstance(values, Mapping) else values
    return msgspec.Raw(fastjson.object_keys((queue_key(queue), encode_body(value)) for queue, value in items))


class UserInfo(Body, kw_only=True):
    """A user of RocketMQ 5's access control; `user_type` is Super or Normal, `user_status` enable or disable."""

    password: str | None = None
    user_status: str | None = None
    user_type: str | None = None
    username: str | None = None

    def __repr__(self) -> str:
        """Return a text without the password."""
        return f"UserInfo(username={self.username!r}, user_type={self.user_type!r}, user_status={self.user_status!r})"


class PolicyEntryInfo(Body, kw_only=True):
    """Actions on a resource that are allowed or denied."""

    actions: list[str] = []
    decision: str | None = None
    resource: str | None = None
    source_ips: list[str] | UnsetType = UNSET


class PolicyInfo(Body, kw_only=True):
    """The entries of one type of policy: Custom or Default."""

    entries: list[PolicyEntryInfo] = []
    policy_type: str | None = None


class AclInfo(Body, kw_only=True):
    """The policies of a subject, `User:name`."""

    policies: list[PolicyInfo] = []
    subject: str | None = None
