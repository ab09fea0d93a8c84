"""Send-back of messages that a consumer failed to process: they return later, or become dead letters, as in a broker.

A message that is sent back is stored again with reconsumeTimes + 1. It waits in the schedule topic (delay level
3 + reconsumeTimes unless another is requested) and is delivered to `%RETRY%group`. After the group's `retryMaxTimes`,
or with a level below 0, it goes to `%DLQ%group` instead. RETRY_TOPIC and ORIGIN_MESSAGE_ID name its origin and stay
through all retries.

Unlike a broker's, RocketFlow's dead letters also have DLQ_ORIGIN_TOPIC and DLQ_ORIGIN_MESSAGE_ID, copies of those two:
RocketMQ defines both names, its clients keep them unread, and a replay finds the origin under a fitting name.
`origin_properties=False` omits them; then a record differs from a broker's only by its place and time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rocketflow_store.delivery.requeue.retry_topics import (
    DLQ_QUEUE_NUMS,
    FIRST_RETRY_LEVEL,
    PROPERTY_DLQ_ORIGIN_MESSAGE_ID,
    PROPERTY_DLQ_ORIGIN_TOPIC,
    PROPERTY_ORIGIN_MESSAGE_ID,
    PROPERTY_RETRY_TOPIC,
    dlq_topic,
    retry_topic,
)
from rocketflow_store.format.properties import encode_properties
from rocketflow_store.format.record import decode_record
from rocketflow_store.model.broker_requests import RawMessage
from rocketflow_store.model.errors import MessageNotFoundError
from rocketflow_store.model.message import Message
from rocketflow_store.model.message_id import encode_host
from rocketflow_store.model.property_names import (
    PROPERTY_CRC32,
    PROPERTY_DELAY,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TIMER_DELIVER_MS,
    PROPERTY_WAIT,
)
from rocketflow_store.records.arrow.hashing import splitmix64

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from rocketflow_store.engine.message_store import MessageStore
    from rocketflow_store.model.message import ReceivedMessage
    from rocketflow_store.model.results import PutMessageResult
    from rocketflow_store.tables.subscription_group_config import SubscriptionGroupConfig

OF_AN_EARLIER_DELAY: Final = (
    PROPERTY_REAL_TOPIC,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_TIMER_DELIVER_MS,
    "TIMER_DELAY_SEC",
    "TIMER_DELAY_MS",
)


@dataclass(frozen=True, slots=True)
class SendBack:
    """Parameters of a send-back of a group's messages.

    `delay_level` 0 is the level that follows from reconsumeTimes, below 0 means dead letters at once.
    `max_reconsume_times` is the client's limit (clients since 3.4.9 send one), None the group's `retryMaxTimes`.
    """

    group: str
    delay_level: int = 0
    max_reconsume_times: int | None = None
    origin_properties: bool = True


def consumer_send_msg_back(
    store: MessageStore,
    group: str,
    phy_offset: int,
    delay_level: int = 0,
    max_reconsume_times: int | None = None,
    *,
    origin_properties: bool = True,
) -> PutMessageResult | None:
    """Send one message back; return None if the group has no retry queues: then nothing is stored, as in a broker.

    Raises:
        StoreConfigError: the group's name is not valid.
        MessageNotFoundError: no record begins at `phy_offset`.
    """
    request = SendBack(group, delay_level, max_reconsume_times, origin_properties)
    results = consumer_send_msgs_back(store, request, [phy_offset])
    return results[0] if results else None


def consumer_send_msgs_back(
    store: MessageStore, request: SendBack, phy_offsets: Sequence[int]
) -> list[PutMessageResult]:
    """Send messages back in this order with one flush for all; store none if one of them cannot be found.

    The list is empty if the group has no retry queues. `bulk_send_back` is for very many messages.
    """
    back, dead = retry_topic(request.group), dlq_topic(request.group)
    config = store.config_files.subscription_groups.of(request.group)
    if config.retry_queue_nums <= 0:
        return []
    found = [_message_at(store, phy_offset) for phy_offset in phy_offsets]
    levels = len(store.config.delay_levels_ms)
    messages = [_back_or_dead(message, request, config, levels) for message in found]
    store.ensure_topic(back, config.retry_queue_nums)
    if any(message.topic == dead for message in messages):
        store.ensure_topic(dead, DLQ_QUEUE_NUMS)
    return store.put_messages(messages)


def send_back(record: bytes, request: SendBack, rules: SubscriptionGroupConfig, delay_levels: int) -> RawMessage | None:
    """Return the message that stores a record once more for a group with these `rules`, None without retry queues.

    `delay_levels` is the number of delay levels of the store. Reads and writes nothing: the caller has the record from
    `read_record`, creates the topic of the message if necessary, and appends it.

    Raises:
        CorruptRecordError: The record is damaged.
        StoreConfigError: The group's name is not valid.
    """
    if rules.retry_queue_nums <= 0:
        return None
    message = _back_or_dead(decode_record(record), request, rules, delay_levels)
    assert message.queue_id is not None
    assert message.born_timestamp is not None
    return RawMessage(
        topic=message.topic,
        queue_id=message.queue_id,
        body=message.body,
        properties=encode_properties({name: one for name, one in message.properties.items() if name != PROPERTY_CRC32}),
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_ms=message.born_timestamp,
        born_host=encode_host(str(message.born_host)),
        reconsume_times=message.reconsume_times,
    )


def _back_or_dead(
    message: ReceivedMessage, request: SendBack, rules: SubscriptionGroupConfig, delay_levels: int
) -> Message:
    """Return the message for the group's retry topic, or for its dead letters."""
    most = rules.retry_max_times if request.max_reconsume_times is None else request.max_reconsume_times
    if message.reconsume_times >= most or request.delay_level < 0:
        return _sent_back(message, dlq_topic(request.group), 0, 0, dead_letter=request.origin_properties)
    times, places = np.array([message.reconsume_times]), np.array([message.physical_offset])
    (level,) = delay_levels_of(times, request.delay_level, delay_levels).tolist()
    (queue_id,) = retry_queues(places, rules.retry_queue_nums).tolist()
    return _sent_back(message, retry_topic(request.group), queue_id, level)


def retry_queues(phy_offsets: npt.NDArray[np.int64], queues: int) -> npt.NDArray[np.int64]:
    """Return the queue of the retry topic for each message: a broker chooses at random, here the place decides."""
    return (splitmix64(phy_offsets.astype(np.uint64)) % np.uint64(queues)).astype(np.int64)


def delay_levels_of(reconsume_times: npt.NDArray[Any], asked: int, most: int) -> npt.NDArray[np.int64]:
    """Return the delay levels of messages by how often they were consumed; `asked` overrides the level unless 0."""
    levels = np.full(len(reconsume_times), asked) if asked else FIRST_RETRY_LEVEL + reconsume_times.astype(np.int64)
    return np.minimum(levels, most)


def _message_at(store: MessageStore, phy_offset: int) -> ReceivedMessage:
    message = store.look_message_by_offset(phy_offset)
    if message is None:
        raise MessageNotFoundError(store.path, phy_offset)
    return message


def _sent_back(
    message: ReceivedMessage, topic: str, queue_id: int, level: int, *, dead_letter: bool = False
) -> Message:
    """Return the message to store; a `dead_letter` also gets its origin under the DLQ names."""
    properties = dict(message.properties)
    origin = properties.setdefault(PROPERTY_RETRY_TOPIC, message.topic)
    origin_id = properties.setdefault(PROPERTY_ORIGIN_MESSAGE_ID, message.offset_message_id)
    properties[PROPERTY_WAIT] = "false"
    properties[PROPERTY_DELAY] = str(level)
    if level > 0:  # the new delay replaces the old one, and a delivery time
        for name in OF_AN_EARLIER_DELAY:
            properties.pop(name, None)
    if dead_letter:
        properties |= {PROPERTY_DLQ_ORIGIN_TOPIC: origin, PROPERTY_DLQ_ORIGIN_MESSAGE_ID: origin_id}
    return Message(
        topic=topic,
        body=message.stored_body,
        properties=properties,
        queue_id=queue_id,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_timestamp=message.born_timestamp,
        born_host=message.born_host,
        reconsume_times=message.reconsume_times + 1,
        delay_level=level,
    )
