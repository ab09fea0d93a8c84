"""Requests of operators about topics.

RocketMQ's source: broker/processor/AdminBrokerProcessor.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rocketflow.access.permissions import (
    CLUSTER_CHANGE,
    CLUSTER_READ,
    Action,
    change_row,
    client_row,
    read_row,
    topic_of,
)
from rocketflow.access.served import serves
from rocketflow.aio.server import RefusedError, Request
from rocketflow.broker.topics.attributes import AttributesError, parse_changes
from rocketflow.broker.topics.topics import check_topic_name
from rocketflow.remoting import bodies
from rocketflow.remoting.bodies import MessageQueue, decode_rows, encode_body, queue_map
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers import admin as headers
from rocketflow_store.spi.names import MAX_QUEUE_NUMS
from rocketflow_store.spi.table_rows import TopicConfig

if TYPE_CHECKING:
    from rocketflow.broker.figures import BrokerStats
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow.broker.topics.topics import Topics
    from rocketflow_store.spi.broker import WritingStore

LOG: Final = logging.getLogger("rocketflow.broker")

_ALL_PERMISSIONS: Final = 7


class TopicAdmin:
    """Requests of operators about topics."""

    def __init__(self, store: WritingStore, settings: BrokerSettings, topics: Topics, stats: BrokerStats) -> None:
        self._store = store
        self._topics = topics
        self._settings = settings
        self._stats = stats

    @serves(RequestCode.UPDATE_AND_CREATE_TOPIC, change_row(topic_of(Action.CREATE)))
    async def _put_topic(self, request: Request) -> None:
        header = request.command.header(headers.CreateTopicRequestHeader)
        try:
            changes = parse_changes(header.attributes or "")
        except AttributesError as error:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"topic {header.topic}: {error}") from None
        wanted = TopicConfig(
            topic_name=header.topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            order=header.order,
            topic_filter_type=header.topic_filter_type,
            topic_sys_flag=header.topic_sys_flag or 0,
            attributes=changes,
        )
        await self._change_topics([wanted])
        request.reply()

    @serves(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, CLUSTER_CHANGE)
    async def _put_topics(self, request: Request) -> None:
        await self._change_topics(decode_rows(request.command.body, "topicConfigList", TopicConfig))
        request.reply()

    async def _change_topics(self, wanted: Sequence[TopicConfig]) -> None:
        """Make or change topics, and wait until the NameServers know of it; all are checked first."""
        for one in wanted:
            check_topic_name(one.topic_name)
            self._check_not_system(one.topic_name)
            _check_settings(one)
        hidden = await asyncio.to_thread(self._hidden, wanted)
        if await self._topics.change(wanted):
            for text in hidden:
                LOG.warning(text)
            await self._topics.registered()

    def _hidden(self, wanted: Sequence[TopicConfig]) -> list[str]:
        """Return a text for each topic of whose messages some will not be read any more. Waits for the disk."""
        found = []
        known = self._topics.all()
        for one in wanted:
            before = known[one.topic_name].read_queue_nums if one.topic_name in known else 0
            bounds = [self._store.bounds(one.topic_name, queue) for queue in range(one.read_queue_nums, before)]
            count = sum(end - begin for begin, end in bounds)
            if count:
                found.append(
                    f"topic {one.topic_name}: {count} messages of its last {len(bounds)} queues are hidden from "
                    f"consumers: readQueueNums was {before} and is {one.read_queue_nums}; {before} shows them again"
                )
        return found

    def _check_not_system(self, topic: str) -> None:
        if self._topics.is_system(topic):
            raise RefusedError(ResponseCode.INVALID_PARAMETER, f"The topic[{topic}] is conflict with system topic.")

    @serves(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, CLUSTER_READ)
    def _get_system_topics(self, request: Request) -> None:
        names = sorted(one for one in self._topics.all() if self._topics.is_system(one))
        request.reply(body=encode_body(bodies.TopicList(topic_list=names)))

    @serves(RequestCode.DELETE_TOPIC_IN_BROKER, change_row(topic_of(Action.DELETE)))
    async def _delete_topic(self, request: Request) -> None:
        header = request.command.header(headers.DeleteTopicRequestHeader)
        self._check_not_system(header.topic)
        await self._topics.delete(header.topic)
        request.reply()

    @serves(RequestCode.GET_TOPIC_CONFIG, client_row(topic_of(Action.GET)))
    def _get_topic(self, request: Request) -> None:
        header = request.command.header(headers.GetTopicConfigRequestHeader)
        config = self._topics.known(header.topic)
        request.reply(body=encode_body(config))

    @serves(RequestCode.GET_ALL_TOPIC_CONFIG, CLUSTER_READ)
    def _get_topics(self, request: Request) -> None:
        request.reply(body=encode_body(self._topics.wrapper()))

    def _figures(self, config: TopicConfig) -> dict[MessageQueue, dict[str, int]]:
        """Return the bounds of a topic's queues, and the time of their newest messages. Waits for the disk."""
        topic = config.topic_name
        bounds = {
            queue_id: self._store.bounds(topic, queue_id)
            for queue_id in range(max(config.write_queue_nums, config.read_queue_nums))
        }
        newest = {queue_id: end - 1 for queue_id, (begin, end) in bounds.items() if begin < end}
        times = self._store.stored_times(topic, newest)
        return {
            MessageQueue(topic, self._settings.broker_name, queue_id): {
                "lastUpdateTimestamp": times.get(queue_id, 0),
                "maxOffset": end,
                "minOffset": begin,
            }
            for queue_id, (begin, end) in bounds.items()
        }

    @serves(RequestCode.GET_TOPIC_STATS_INFO, read_row(topic_of(Action.GET)))
    async def _get_topic_figures(self, request: Request) -> None:
        header = request.command.header(headers.GetTopicStatsInfoRequestHeader)
        config = self._topics.known(header.topic)
        figures = await asyncio.to_thread(self._figures, config)
        request.reply(
            body=encode_body({"offsetTable": queue_map(figures), "topicPutTps": self._stats.put_rate(header.topic)})
        )


def _check_settings(wanted: TopicConfig) -> None:
    """Raise RefusedError for settings that no topic can have."""
    if not (0 <= wanted.read_queue_nums <= MAX_QUEUE_NUMS and 0 <= wanted.write_queue_nums <= MAX_QUEUE_NUMS):
        raise RefusedError(ResponseCode.INVALID_PARAMETER, f"a topic has 0 to {MAX_QUEUE_NUMS} queues")
    if not 0 <= wanted.perm <= _ALL_PERMISSIONS:
        raise RefusedError(ResponseCode.INVALID_PARAMETER, f"perm {wanted.perm} is not 0 to {_ALL_PERMISSIONS}")
    if wanted.attributes and wanted.attributes.get("+message.type") == "MIXED":
        raise RefusedError(ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported.")
