"""The queues of a topic that a client may use, by its route, without I/O.

RocketMQ's source: client/impl/factory/MQClientInstance.java (topicRouteData2TopicPublishInfo,
topicRouteData2TopicSubscribeInfo).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import UNSET

from rocketflow.remoting.bodies import BrokerData, MessageQueue, TopicRouteData

MASTER_ID: Final = "0"
_READABLE: Final = 4
_WRITABLE: Final = 2


def publish_queues(topic: str, route: TopicRouteData, *, at_most: int | None = None) -> list[MessageQueue]:
    """Return the queues to send to, by broker name and id; brokers without a master have none.

    An ordered topic's queues are those that `orderTopicConf` names. `at_most` limits the queues of each broker: a topic
    that a send creates gets no more than its client asks for.
    """
    if route.order_topic_conf is not UNSET and route.order_topic_conf:
        return list(_ordered_queues(topic, route.order_topic_conf))
    masters = {one.broker_name for one in route.broker_datas if MASTER_ID in one.broker_addrs}
    return [
        MessageQueue(topic, data.broker_name, queue_id)
        for data in sorted(route.queue_datas, key=lambda one: one.broker_name)
        if data.perm & _WRITABLE and data.broker_name in masters
        for queue_id in range(_limited(data.write_queue_nums, data.read_queue_nums, at_most))
    ]


def subscribe_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """Return the queues to read, by broker name and id."""
    return [
        MessageQueue(topic, data.broker_name, queue_id)
        for data in sorted(route.queue_datas, key=lambda one: one.broker_name)
        if data.perm & _READABLE
        for queue_id in range(data.read_queue_nums)
    ]


def address_of(brokers: Iterable[BrokerData], name: str, *, broker_id: int = 0, or_any: bool = False) -> str | None:
    """Return the address of a broker by name and id; with `or_any`, that of its lowest other id if it has none."""
    for one in brokers:
        if one.broker_name != name:
            continue
        address = one.broker_addrs.get(str(broker_id))
        if address is None and or_any and one.broker_addrs:
            address = one.broker_addrs[min(one.broker_addrs, key=int)]
        if address is not None:
            return address
    return None


def _limited(write_queues: int, read_queues: int, at_most: int | None) -> int:
    return write_queues if at_most is None else min(read_queues, at_most)


def _ordered_queues(topic: str, order: str) -> Iterable[MessageQueue]:
    """Yield the queues of `broker-a:2;broker-b:2`, in that order."""
    for part in order.split(";"):
        name, _, count = part.partition(":")
        if count.strip().isdecimal():
            for queue_id in range(int(count)):
                yield MessageQueue(topic, name, queue_id)
