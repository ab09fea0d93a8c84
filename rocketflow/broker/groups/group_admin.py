"""Requests of operators about consumer groups: offsets set back or copied, what is forbidden, how far groups are.

RocketMQ's source: broker/processor/AdminBrokerProcessor.java.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rocketflow.access.permissions import (
    CLUSTER_READ,
    Action,
    change_row,
    cluster,
    group_of,
    read_row,
    topic_of,
    topics_of,
)
from rocketflow.access.served import serves
from rocketflow.aio.server import RefusedError, Request
from rocketflow.broker.topics import StoredTimes
from rocketflow.remoting.bodies import MessageQueue, MessageQueueBody, QueueProgress, encode_body, queue_map
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers import admin as headers
from rocketflow.remoting.headers.offset import (
    CloneGroupOffsetRequestHeader,
    QueryCorrectionOffsetHeader,
    ResetOffsetRequestHeader,
)
from rocketflow.remoting.headers.pull import QueryConsumeQueueRequestHeader
from rocketflow_store import StoreError, WouldBlockError

if TYPE_CHECKING:
    from rocketflow.broker.figures import BrokerStats
    from rocketflow.broker.groups.tables import Tables
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow_store.spi.broker import WritingStore

MAX_UNITS: Final = 1_024

MAX_QUEUES_NOWAIT: Final = 1_024
"""Queues of a group whose figures are computed in the event loop: some milliseconds."""

NOT_BEFORE_OTHERS: Final = (1 << 63) - 1
"""Java's Long.MAX_VALUE: a queue whose offset needs no correction."""


class GroupAdmin:
    """Requests of operators about consumer groups."""

    def __init__(self, store: WritingStore, settings: BrokerSettings, tables: Tables, stats: BrokerStats) -> None:
        self._stats = stats
        self._times = StoredTimes(store, tables.topics)
        self._store = store
        self._topics, self._groups = tables.topics, tables.groups
        self._offsets, self._consumers = tables.offsets, tables.consumers
        self._settings = settings

    # --- offsets

    @serves(
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        change_row(topic_of(Action.UPDATE), group_of(Action.UPDATE, field="group")),
    )
    async def _reset(self, request: Request) -> None:
        """Set a group's offsets by time or to a value; its members learn of it with their next pull (request 222)."""
        header = request.command.header(ResetOffsetRequestHeader)
        config = self._topics.known(header.topic)
        if self._groups.get(header.group) is None:
            raise RefusedError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {header.group} does not exist")
        queue_id = header.queue_id if "queueId" in request.command.fields else -1
        if queue_id >= config.read_queue_nums:
            raise RefusedError(ResponseCode.INVALID_PARAMETER, f"topic {header.topic} has no queue {queue_id}")
        if queue_id >= 0 and header.offset is not None and header.offset != -1:
            begin, end = self._store.bounds(header.topic, queue_id)
            if not begin <= header.offset <= end + 1:
                raise RefusedError(
                    ResponseCode.SYSTEM_ERROR,
                    f"Target offset {header.offset} not in consume queue range [{begin}-{end}]",
                )
            wanted = {queue_id: header.offset}
        else:
            queues = [queue_id] if queue_id >= 0 else list(range(config.read_queue_nums))
            wanted = {one: await self._offset_at(header.topic, one, header.timestamp) for one in queues}
        for one, offset in wanted.items():
            self._offsets.reset(header.group, header.topic, one, offset)
        table = {MessageQueue(header.topic, self._settings.broker_name, one): at for one, at in wanted.items()}
        request.reply(body=encode_body({"offsetTable": queue_map(table)}))

    async def _offset_at(self, topic: str, queue_id: int, timestamp: int) -> int:
        if timestamp < 0:
            return self._store.bounds(topic, queue_id)[1]
        return await asyncio.to_thread(self._store.get_offset_in_queue_by_time, topic, queue_id, timestamp)

    @serves(
        RequestCode.CLONE_GROUP_OFFSET,
        change_row(
            group_of(Action.UPDATE, field="srcGroup"),
            group_of(Action.UPDATE, field="destGroup"),
            topic_of(Action.UPDATE, optional=True),
        ),
    )
    async def _clone(self, request: Request) -> None:
        """Copy a group's offsets to another group (request 314)."""
        header = request.command.header(CloneGroupOffsetRequestHeader)
        if await self._groups.for_use(header.dest_group) is None:
            raise RefusedError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {header.dest_group} does not exist")
        committed = self._offsets.of_group(header.src_group)
        group = self._consumers.get(header.src_group)
        for topic in [header.topic] if header.topic else sorted(committed):
            if self._topics.get(topic) is None:
                continue
            if not header.offline and group is not None and topic not in group.subscriptions:
                continue
            for queue_id, offset in committed.get(topic, {}).items():
                self._offsets.commit(header.dest_group, topic, queue_id, offset)
        request.reply()

    @serves(
        RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
        change_row(group_of(Action.UPDATE, field="group"), topic_of(Action.UPDATE)),
    )
    async def _forbid(self, request: Request) -> None:
        """Forbid a group to read a topic or allow it again, and answer what holds (request 353)."""
        header = request.command.header(headers.UpdateGroupForbiddenRequestHeader)
        if header.readable is not None:
            await self._groups.forbid(header.group, header.topic, not header.readable)
        readable = not self._groups.is_forbidden(header.group, header.topic)
        request.reply(body=encode_body({"group": header.group, "readable": readable, "topic": header.topic}))

    @serves(RequestCode.QUERY_CORRECTION_OFFSET, read_row(topic_of(Action.GET), cluster(Action.GET)))
    def _get_corrections(self, request: Request) -> None:
        """Answer the least offsets that any group has of a topic's queues (request 308).

        A queue where `compareGroup` is before all others needs no correction.
        """
        header = request.command.header(QueryCorrectionOffsetHeader)
        filtered = {*(header.filter_groups or "").split(",")}
        least: dict[int, int] = {}
        for group in self._offsets.groups_of_topic(header.topic):
            if group not in filtered:
                for queue_id, offset in self._offsets.of(group, header.topic).items():
                    least[queue_id] = min(offset, least.get(queue_id, offset))
        for queue_id, offset in self._offsets.of(header.compare_group, header.topic).items():
            if least.get(queue_id, NOT_BEFORE_OTHERS) > offset:
                least[queue_id] = NOT_BEFORE_OTHERS
        request.reply(body=encode_body({"correctionOffsets": {str(one): at for one, at in sorted(least.items())}}))

    # --- how far groups are

    @serves(
        RequestCode.GET_CONSUME_STATS,
        read_row(group_of(Action.GET), topic_of(Action.GET, optional=True), topics_of("topicList", ";", Action.GET)),
    )
    async def _get_figures(self, request: Request) -> None:
        """Answer how far a group is in topics that the request lists or names, or that it has offsets of (request 208).

        Topics that an online group does not read are omitted, unless the request lists them.
        """
        header = request.command.header(headers.GetConsumeStatsRequestHeader)
        group = header.consumer_group
        committed = self._offsets.of_group(group)
        listed = {one for one in (header.topic_list or "").split(";") if one.strip()}
        named = [header.topic] if header.topic else committed
        topics = sorted(listed) if listed else self._consumers.topics_read(group, named)
        queues = {config.topic_name: config.read_queue_nums for topic in topics if (config := self._topics.get(topic))}
        try:
            figures = self._figures(group, committed, queues, nowait=True)
        except WouldBlockError:
            figures = await asyncio.to_thread(self._figures, group, committed, queues)
        rate = sum(self._stats.get_rate(topic, group) for topic in queues)
        request.reply(body=encode_body({"consumeTps": rate, "offsetTable": queue_map(figures)}))

    def _figures(
        self,
        group: str,
        committed: Mapping[str, Mapping[int, int]],
        queues: Mapping[str, int],
        *,
        nowait: bool = False,
    ) -> dict[MessageQueue, QueueProgress]:
        """Return how far a group is in the first queues of each topic; `queues` are their numbers. Waits for the disk.

        With `nowait` raises WouldBlockError instead, and if there are many queues.
        """
        if nowait and sum(queues.values()) > MAX_QUEUES_NOWAIT:
            raise WouldBlockError(group)
        figures: dict[MessageQueue, QueueProgress] = {}
        for topic, count in queues.items():
            offsets, pulled = committed.get(topic, {}), self._offsets.pull_offsets(group, topic)
            last_read = {one: offset - 1 for one, offset in offsets.items() if offset > 0 and one < count}
            times = self._times.of(topic, last_read, nowait=nowait)
            for queue_id, end in enumerate(self._store.ends(topic, count)):
                offset = offsets.get(queue_id, 0)
                figures[MessageQueue(topic, self._settings.broker_name, queue_id)] = QueueProgress(
                    broker_offset=end,
                    consumer_offset=offset,
                    last_timestamp=times.get(queue_id, 0),
                    pull_offset=max(offset, pulled.get(queue_id, 0)),
                )
        return figures

    @serves(RequestCode.GET_BROKER_CONSUME_STATS, CLUSTER_READ)
    async def _get_all_figures(self, request: Request) -> None:
        """Answer how far all groups are, by group and topic (request 317).

        Apache's broker fills in no pull offsets here, and so its inflight total is negative; these are as in 208.
        """
        header = request.command.header(headers.GetConsumeStatsInBrokerHeader)
        found: list[dict[str, list[dict[str, Any]]]] = []
        total = inflight = 0
        for group in sorted(self._groups.all()):
            stats = []
            committed = self._offsets.of_group(group)
            for topic in self._consumers.topics_read(group, committed):
                config = self._topics.get(topic)
                if config is None or (header.is_order and not config.order):
                    continue
                queues = {topic: config.write_queue_nums}
                figures = await asyncio.to_thread(self._figures, group, committed, queues)
                total += sum(one.broker_offset - one.consumer_offset for one in figures.values())
                inflight += sum(one.pull_offset - one.consumer_offset for one in figures.values())
                stats.append({"consumeTps": self._stats.get_rate(topic, group), "offsetTable": queue_map(figures)})
            found.append({group: stats})
        body = {
            "brokerAddr": self._settings.broker_address,
            "consumeStatsList": found,
            "totalDiff": total,
            "totalInflightDiff": inflight,
        }
        request.reply(body=encode_body(body))

    @serves(RequestCode.QUERY_CONSUME_TIME_SPAN, read_row(topic_of(Action.GET), group_of(Action.GET, field="group")))
    async def _get_time_span(self, request: Request) -> None:
        header = request.command.header(headers.QueryConsumeTimeSpanRequestHeader)
        config = self._topics.known(header.topic)
        queues = range(config.write_queue_nums)
        offsets = {one: self._offsets.get(header.group, header.topic, one) or 0 for one in queues}
        spans = await asyncio.to_thread(self._spans, header.topic, offsets)
        request.reply(body=encode_body({"consumeTimeSpanSet": spans}))

    def _spans(self, topic: str, offsets: Mapping[int, int]) -> list[dict[str, Any]]:
        """Return the times of the first, the last and the last read message of each queue. Waits for the disk."""
        bounds = {one: self._store.bounds(topic, one) for one in offsets}
        first = self._store.stored_times(topic, {one: begin for one, (begin, _) in bounds.items()})
        last = self._store.stored_times(topic, {one: end - 1 for one, (_, end) in bounds.items()})
        read = self._store.stored_times(topic, {one: offset - 1 for one, offset in offsets.items() if offset > 0})
        waiting = self._store.stored_times(topic, offsets)
        now_ms = int(time.time() * 1000)
        return [
            {
                "consumeTimeStamp": read.get(one, -1) if offset > 0 else first.get(one, -1),
                "delayTime": now_ms - waiting[one] if one in waiting else 0,
                "maxTimeStamp": last.get(one, -1),
                "messageQueue": MessageQueueBody(broker_name=self._settings.broker_name, queue_id=one, topic=topic),
                "minTimeStamp": first.get(one, -1),
            }
            for one, offset in offsets.items()
        ]

    @serves(RequestCode.QUERY_CONSUME_QUEUE, read_row(topic_of(Action.GET), group_of(Action.GET, optional=True)))
    async def _get_units(self, request: Request) -> None:
        """Answer units of a ConsumeQueue (request 321)."""
        header = request.command.header(QueryConsumeQueueRequestHeader)
        topic = header.topic or ""
        config = self._topics.get(topic)
        if config is None or not 0 <= header.queue_id < config.read_queue_nums:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"{header.queue_id}@{topic} is not exist!")
        begin, end = self._store.bounds(topic, header.queue_id)
        stop = min(end, header.index + min(header.count, MAX_UNITS))
        units: list[dict[str, Any]] = []
        if begin <= header.index < stop:
            units = await asyncio.to_thread(self._units, topic, header.queue_id, header.index, stop)
        found: dict[str, Any] = {"maxQueueIndex": end, "minQueueIndex": begin, "queueData": units}
        if header.consumer_group:
            subscription = self._consumers.subscription(header.consumer_group, topic)
            if subscription is None:
                found["filterData"] = f"{header.consumer_group}@{topic} is not online!"
            else:
                found["subscriptionData"] = subscription
                found["filterData"] = "null"  # as Apache's broker says of a group that filters by tags
        request.reply(body=encode_body(found))

    def _units(self, topic: str, queue_id: int, start: int, stop: int) -> list[dict[str, Any]]:
        """Return the units of messages [start, stop), of a BatchCQ topic one for each record. Waits for the disk."""
        try:
            units = self._store.read_units(topic, queue_id, start, stop).tolist()
        except StoreError as error:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, str(error)) from None
        return [
            {"eval": False, "physicOffset": phy_offset, "physicSize": size, "tagsCode": tags_code}
            for phy_offset, size, tags_code in dict.fromkeys(units)
        ]

    @serves(
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
        read_row(group_of(Action.GET, field="group"), topic_of(Action.GET, optional=True)),
    )
    def _get_subscription(self, request: Request) -> None:
        header = request.command.header(headers.QuerySubscriptionByConsumerRequestHeader)
        found = {"group": header.group, "topic": header.topic}
        subscription = self._consumers.subscription(header.group, header.topic or "")
        request.reply(body=encode_body(found if subscription is None else {**found, "subscriptionData": subscription}))
