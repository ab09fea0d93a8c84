"""Bodies of answers to operators, and maps whose keys are queues.

RocketMQ's source: remoting/protocol/admin/TopicStatsTable.java, ConsumeStats.java,
remoting/protocol/body/ConsumerConnection.java, ProducerConnection.java.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from rocketflow.remoting import fastjson
from rocketflow.remoting.bodies import Body, MessageQueue, MessageQueueBody, QueueProgress, SubscriptionData
from rocketflow.remoting.errors import BodyError

V = TypeVar("V")


class QueueBounds(Body, kw_only=True):
    """Offsets [min, max) of a queue; `last_update_timestamp` is the store time of its newest message, ms, or 0."""

    min_offset: int = 0
    max_offset: int = 0
    last_update_timestamp: int = 0


class Connection(Body, kw_only=True):
    """A client's connection to a broker; `version` is an ordinal of MQVersion."""

    client_id: str = ""
    client_addr: str = ""
    language: str = ""
    version: int = 0


class ConsumerConnection(Body, kw_only=True):
    """The clients of a consumer group, and its subscriptions by topic."""

    connection_set: list[Connection] = msgspec.field(default_factory=list)
    subscription_table: dict[str, SubscriptionData] = msgspec.field(default_factory=dict)
    consume_type: str = ""
    message_model: str = ""
    consume_from_where: str = ""


class ProducerConnection(Body, kw_only=True):
    """The clients of a producer group."""

    connection_set: list[Connection] = msgspec.field(default_factory=list)


class ProducerInfo(Body, kw_only=True):
    """A producer at a broker; `last_update_timestamp` is the time of its last heartbeat, ms."""

    client_id: str = ""
    remote_ip: str = msgspec.field(default="", name="remoteIP")
    language: str = ""
    version: int = 0
    last_update_timestamp: int = 0


class ProducerTableInfo(Body, kw_only=True):
    """Producers by group."""

    data: dict[str, list[ProducerInfo]] = msgspec.field(default_factory=dict)


class ConsumeStats(msgspec.Struct):
    """A group's progress by queue, and the messages that it reads a second."""

    queues: dict[MessageQueue, QueueProgress] = {}
    consume_tps: float = 0.0

    @property
    def lag(self) -> int:
        """Return the number of messages that the group has not consumed."""
        return sum(one.broker_offset - one.consumer_offset for one in self.queues.values())


def decode_consume_stats(data: bytes) -> ConsumeStats:
    """Decode the answer to 208. Raises BodyError."""
    return _consume_stats(decode_object(data))


def decode_stats_of_groups(data: bytes) -> dict[str, list[ConsumeStats]]:
    """Decode the answer to 317, the progress by group, a part for each topic. Raises BodyError."""
    found: dict[str, list[ConsumeStats]] = {}
    try:
        for one in decode_object(data).get("consumeStatsList") or ():
            for group, parts in one.items():
                found[group] = [_consume_stats(part) for part in parts]
    except (AttributeError, TypeError, ValueError) as error:
        raise BodyError(f"consumeStatsList: {error}") from None
    return dict(sorted(found.items()))


def _consume_stats(body: Mapping[str, Any]) -> ConsumeStats:
    return ConsumeStats(queue_table(body, "offsetTable", QueueProgress), float(body.get("consumeTps") or 0.0))


def offset_table(data: bytes) -> dict[MessageQueue, int]:
    """Decode a body whose `offsetTable` maps queues to offsets. Raises BodyError."""
    return queue_table(decode_object(data), "offsetTable", int)


def decode_object(data: bytes) -> Mapping[str, Any]:
    """Decode a body whose maps may have objects as keys. Raises BodyError."""
    found = fastjson.loads(data)
    if not isinstance(found, dict):
        raise BodyError("JSON: an object is expected")
    return found


def subscribe_alike(reports: Sequence[list[tuple[str, str]] | None]) -> bool | None:
    """Return whether the subscriptions of all clients are the same; None where a client that matters did not report."""
    known = [one for one in reports if one is not None]
    if any(one != known[0] for one in known):
        return False
    return True if len(known) == len(reports) else None


def queue_table(body: Mapping[str, Any], name: str, value: type[V]) -> dict[MessageQueue, V]:
    """Return a member of a body that is a map from queues, sorted by queue. Raises BodyError."""
    members = body.get(name) or {}
    try:
        return dict(sorted((_queue(key), msgspec.convert(one, value, strict=False)) for key, one in members.items()))
    except (msgspec.ValidationError, AttributeError, TypeError, ValueError) as error:
        raise BodyError(f"{name}: {error}") from None


def _queue(key: object) -> MessageQueue:
    body = msgspec.convert(dict(key), MessageQueueBody, strict=False)  # type: ignore[call-overload]
    return MessageQueue(body.topic, body.broker_name, body.queue_id)
