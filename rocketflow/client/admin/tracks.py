"""The outcome of a message in each consumer group.

RocketMQ's source: tools/admin/DefaultMQAdminExtImpl.java (messageTrackDetail, consumed),
tools/admin/api/TrackType.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow.client.admin.group_requests import NoMemberError
from rocketflow.client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Container

    from rocketflow.client.admin.figures import ConsumerConnection, ConsumeStats
    from rocketflow.client.admin.group_requests import GroupRequests
    from rocketflow_store.spi.messages import ReceivedMessage

_PULL: Final = "CONSUME_ACTIVELY"
_BROADCASTING: Final = "BROADCASTING"


class Track(NamedTuple):
    """The outcome in one group, by RocketMQ's names; `exception_desc` says why it is not known."""

    consumer_group: str
    track_type: str
    exception_desc: str | None = None


async def tracks(admin: GroupRequests, message: ReceivedMessage) -> list[Track]:
    """Return a track for each group that reads the message's topic or has offsets of it. Raises ClientError."""
    route = await admin.route(message.topic)
    brokers = {message.broker_name} if message.broker_name else set()
    brokers |= {one.broker_name for one in route.broker_datas if message.store_host in one.broker_addrs.values()}
    return [await _track(admin, message, group, brokers) for group in await admin.groups_of_topic(message.topic)]


async def _track(admin: GroupRequests, message: ReceivedMessage, group: str, brokers: Container[str]) -> Track:
    try:
        members = await admin.consumer_connection(group)
        stats = await admin.consume_stats(group, message.topic)
    except NoMemberError as error:
        return Track(group, "NOT_ONLINE", str(error))
    except ClientError as error:
        return Track(group, "UNKNOWN", str(error))
    return Track(group, track_type(members, is_consumed(stats, message, brokers), message))


def is_consumed(stats: ConsumeStats, message: ReceivedMessage, brokers: Container[str]) -> bool:
    """Return whether a group's offset in the queue of a message, at one of these brokers, is above the message's."""
    return any(
        progress.consumer_offset > message.queue_offset
        for queue, progress in stats.queues.items()
        if (queue.topic, queue.queue_id) == (message.topic, message.queue_id) and queue.broker_name in brokers
    )


def track_type(members: ConsumerConnection, consumed: bool, message: ReceivedMessage) -> str:
    """Return RocketMQ's name for what a group with members did with a message."""
    if members.consume_type == _PULL:
        return "PULL"
    if members.message_model == _BROADCASTING:
        return "CONSUME_BROADCASTING"
    if not consumed:
        return "NOT_CONSUME_YET"
    subscription = members.subscription_table.get(message.topic)
    tags = set() if subscription is None else set(subscription.tags_set)
    return "CONSUMED_BUT_FILTERED" if tags and message.tags not in tags and "*" not in tags else "CONSUMED"
