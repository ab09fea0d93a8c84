"""Messages that a listener could not handle: back to the broker, which delivers them later by the group's retry topic.

RocketMQ's source: client/impl/consumer/DefaultMQPushConsumerImpl.java (sendMessageBack, resetRetryAndNamespace),
ConsumeMessageOrderlyService.java (sendMessageBack).
"""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING, Final

from rocketflow.client.errors import ClientError, NoRouteError, RequestRefusedError
from rocketflow.client.routes import publish_queues
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.headers.send import ConsumerSendMsgBackRequestHeader, SendMessageRequestHeaderV2
from rocketflow_store.spi.messages import COMPRESSION_MASK, property_text
from rocketflow_store.spi.names import RETRY_PREFIX

if TYPE_CHECKING:
    from rocketflow.client.cluster import Cluster
    from rocketflow.remoting.headers.header import Header
    from rocketflow_store.spi.messages import ReceivedMessage

LOG: Final = logging.getLogger("rocketflow.client")

_INNER_PRODUCER: Final = "CLIENT_INNER_PRODUCER"
_FIRST_LEVEL: Final = 3
_SEND_TIMEOUT_S: Final = 5.0
_DROPPED_PROPERTIES: Final = frozenset({"TRAN_MSG", "MIN_OFFSET", "MAX_OFFSET", "CONSUME_START_TIME"})


class SendBacks:
    """Returns messages of a group to the broker; after `max_reconsume` retries the broker makes them dead letters."""

    def __init__(self, cluster: Cluster, group: str, max_reconsume: int) -> None:
        self._cluster = cluster
        self._group = group
        self._max_reconsume = max_reconsume
        self._retry_topic = RETRY_PREFIX + group

    def is_retry(self, topic: str) -> bool:
        """Check whether a topic is the group's retry topic."""
        return topic == self._retry_topic

    def restore_topic(self, message: ReceivedMessage) -> None:
        """Give a message of the retry topic the topic that it was sent to."""
        message.topic = message.properties.get("RETRY_TOPIC", message.topic)

    async def send_back(self, message: ReceivedMessage, broker_name: str, delay_level: int = 0) -> bool:
        """Return a message to its broker and say whether the broker has it, or a copy of it.

        A broker that cannot find it, or does not answer, gets a copy into the group's retry topic.
        """
        header = ConsumerSendMsgBackRequestHeader(
            offset=message.physical_offset,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            origin_topic=message.topic,
            max_reconsume_times=self._max_reconsume,
        )
        try:
            address = self._cluster.broker_address(broker_name)
            await self._cluster.request(address, RequestCode.CONSUMER_SEND_MSG_BACK, header, timeout_s=_SEND_TIMEOUT_S)
        except ClientError as error:
            LOG.warning(
                "group %s: message %s was not sent back, a copy is sent: %s", self._group, message.message_id, error
            )
            return await self.send_copy(message)
        return True

    async def send_copy(self, message: ReceivedMessage) -> bool:
        """Send a copy of a message to the group's retry topic and say whether a broker has it.

        The broker makes it a dead letter if the message was retried often enough.
        """
        try:
            route = await self._cluster.route(self._retry_topic)
            queues = publish_queues(self._retry_topic, route)
            if not queues:
                raise NoRouteError(f"topic {self._retry_topic!r} has no queue to send to")
            queue = random.choice(queues)
            address = self._cluster.broker_address(queue.broker_name)
            reply = await self._cluster.ask(
                address,
                RequestCode.SEND_MESSAGE_V2,
                self._copy_header(message, queue.queue_id),
                body=message.stored_body,
                timeout_s=_SEND_TIMEOUT_S,
            )
            if reply.code not in _STORED:
                raise RequestRefusedError(address, RequestCode.SEND_MESSAGE_V2, reply.code, reply.remark)
        except (ClientError, ValueError) as error:
            LOG.warning("group %s: no copy of message %s was sent: %s", self._group, message.message_id, error)
            return False
        return True

    def _copy_header(self, message: ReceivedMessage, queue_id: int) -> Header:
        properties = {name: value for name, value in message.properties.items() if name not in _DROPPED_PROPERTIES}
        properties.setdefault("ORIGIN_MESSAGE_ID", message.offset_message_id)
        properties["RETRY_TOPIC"] = message.topic
        properties["DELAY"] = str(_FIRST_LEVEL + message.reconsume_times)
        return SendMessageRequestHeaderV2(
            producer_group=_INNER_PRODUCER,
            topic=self._retry_topic,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=queue_id,
            sys_flag=message.sys_flag & COMPRESSION_MASK,
            born_timestamp=message.born_timestamp,
            flag=message.flag,
            properties=property_text(properties),
            reconsume_times=message.reconsume_times + 1,
            max_reconsume_times=self._max_reconsume,
            unit_mode=False,
            batch=False,
        )


_STORED: Final = frozenset({0, 10, 11, 12})
"""Codes with which a broker has stored a message, though perhaps not synced or replicated it."""
