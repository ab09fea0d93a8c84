"""Requests about consumer and producer groups: create, delete, progress, members, offsets.

RocketMQ's source: tools/admin/DefaultMQAdminExtImpl.java.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

from rocketflow.client.admin.broker_requests import attribute_changes
from rocketflow.client.admin.figures import (
    ConsumerConnection,
    ConsumeStats,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
    QueueBounds,
    decode_consume_stats,
    decode_object,
    decode_stats_of_groups,
    offset_table,
    queue_table,
)
from rocketflow.client.admin.message_requests import MessageRequests
from rocketflow.client.errors import ClientError, NoRouteError, RequestRefusedError
from rocketflow.remoting.bodies import MessageQueue, decode_body, encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers import admin as headers
from rocketflow.remoting.headers.client import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
)
from rocketflow.remoting.headers.offset import (
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    ResetOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rocketflow_store.spi.names import RETRY_PREFIX
from rocketflow_store.spi.table_rows import SubscriptionGroupConfig

if TYPE_CHECKING:
    from rocketflow.remoting.headers.header import Header
    from rocketflow_store.spi.messages import ReceivedMessage


_CALL_S: Final = 20.0
"""How long a consumer may take for one message; brokers wait 10 s."""


_RESETS: Final = 5
"""How often offsets are reset while clients of the group commit others."""


class OffsetChange(NamedTuple):
    """A group's offset in a queue, 0 if it has none, and that of a reset."""

    committed: int
    target: int


class NoMemberError(ClientError):
    """No client of a group is connected to the brokers that were asked."""


class GroupRequests(MessageRequests):
    """Requests about groups. All raise ClientError, RequestRefusedError where a server refuses them."""

    async def create_group(
        self, broker_address: str, config: SubscriptionGroupConfig, *, removed: Iterable[str] = ()
    ) -> None:
        """Create a consumer group at a broker, or change it.

        The attributes of `config` are set, those whose names are `removed` are taken away, all others stay. Brokers
        refuse attributes that they do not know; those of 5.3.3 and RocketFlow's know none of groups.
        """
        body = encode_body(replace(config, attributes=attribute_changes(config.attributes, removed)))
        await self.cluster.request(broker_address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)

    async def delete_group(self, broker_address: str, group: str, *, clean_offset: bool = False) -> None:
        """Delete a consumer group at a broker, with its offsets if wanted."""
        header = headers.DeleteSubscriptionGroupRequestHeader(group_name=group, clean_offset=clean_offset)
        await self.cluster.request(broker_address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)

    async def group_config(self, broker_address: str, group: str) -> SubscriptionGroupConfig:
        """Return the settings of a consumer group at a broker."""
        header = headers.GetSubscriptionGroupConfigRequestHeader(group=group)
        reply = await self.cluster.request(broker_address, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header)
        return decode_body(reply.body, SubscriptionGroupConfig)

    async def consume_stats(self, group: str, topic: str | None = None) -> ConsumeStats:
        """Return a group's progress, in one topic or in all that it reads, from all brokers that have it."""
        header = headers.GetConsumeStatsRequestHeader(consumer_group=group, topic=topic)
        found = ConsumeStats({})
        for address in await self.brokers_of_group(group, topic):
            reply = await self.cluster.request(address, RequestCode.GET_CONSUME_STATS, header)
            stats = decode_consume_stats(reply.body)
            found.queues.update(stats.queues)
            found.consume_tps += stats.consume_tps
        found.queues = dict(sorted(found.queues.items()))
        return found

    async def consumer_connection(self, group: str) -> ConsumerConnection:
        """Return the clients of a consumer group. Raises NoMemberError."""
        header = headers.GetConsumerConnectionListRequestHeader(consumer_group=group)
        reply = await self._first_answer(group, RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        return decode_body(reply, ConsumerConnection)

    async def producer_connection(self, group: str, topic: str) -> ProducerConnection:
        """Return the clients of a producer group at the brokers of a topic. Raises NoMemberError."""
        header = headers.GetProducerConnectionListRequestHeader(producer_group=group)
        found = ProducerConnection()
        known: set[str] = set()
        for address in await self.masters(topic):
            reply = await self.cluster.ask(address, RequestCode.GET_PRODUCER_CONNECTION_LIST, header)
            if reply.code == ResponseCode.SUCCESS:
                members = decode_body(reply.body, ProducerConnection).connection_set
                found.connection_set += [one for one in members if one.client_id not in known]
                known.update(one.client_id for one in members)
            elif reply.code != ResponseCode.SYSTEM_ERROR:  # with it brokers answer for a group that they do not know
                raise RequestRefusedError(address, RequestCode.GET_PRODUCER_CONNECTION_LIST, reply.code, reply.remark)
        if not found.connection_set:
            raise NoMemberError(f"no producer of group {group!r} is connected to the brokers of topic {topic!r}")
        return found

    async def running_info(self, group: str, client_id: str, *, stacks: bool = False) -> dict[str, Any]:
        """Return what a client of a consumer group reports: properties, subscriptions, queues.

        With `stacks` also the stacks of its threads, as text (`jstack`). Raises NoMemberError.
        """
        header = GetConsumerRunningInfoRequestHeader(consumer_group=group, client_id=client_id, jstack_enable=stacks)
        return dict(decode_object(await self._first_answer(group, RequestCode.GET_CONSUMER_RUNNING_INFO, header)))

    async def consume_directly(self, group: str, client_id: str, message: ReceivedMessage) -> dict[str, Any]:
        """Let a push consumer of a group consume one message at once; no offset changes.

        Return the members of ConsumeMessageDirectlyResult. Raises RequestRefusedError for a client that is not
        connected, or is no push consumer.
        """
        header = ConsumeMessageDirectlyResultRequestHeader(
            consumer_group=group, client_id=client_id, msg_id=message.offset_message_id, topic=message.topic
        )
        reply = await self.cluster.request(
            message.store_host, RequestCode.CONSUME_MESSAGE_DIRECTLY, header, timeout_s=_CALL_S
        )
        return dict(decode_object(reply.body))

    async def reset_offset_by_time(
        self, group: str, topic: str, timestamp_ms: int, *, force: bool = False
    ) -> dict[MessageQueue, int]:
        """Set a group's offsets in a topic to the first messages stored at or after a time, -1 for the queues' ends.

        Without `force` no message is skipped: queues whose committed offset is lower, 0 without one, stay as they are.
        Where it is equal, clients go back to it too. Return the offsets that hold then.
        """
        if force:
            return await self._reset_all(group, topic, timestamp_ms)
        found: dict[MessageQueue, int] = {}
        for address in await self.masters(topic):
            changes = await self._changes_at(address, group, topic, timestamp_ms)
            await self._reset_queues(address, group, {one: to for one, (at, to) in changes.items() if to <= at})
            found |= {one: min(change) for one, change in changes.items()}
        return dict(sorted(found.items()))

    async def offset_changes(self, group: str, topic: str, timestamp_ms: int) -> dict[MessageQueue, OffsetChange]:
        """Return what a reset of a group's offsets to a time changes, -1 for the queues' ends."""
        found: dict[MessageQueue, OffsetChange] = {}
        for address in await self.masters(topic):
            found |= await self._changes_at(address, group, topic, timestamp_ms)
        return dict(sorted(found.items()))

    async def reset_queue_offset(self, broker_address: str, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set a group's offset in one queue, also for its clients that run.

        Apache's brokers of version 4, and later ones without `useServerSideResetOffset`, let these clients go on at the
        committed offsets of the topic's other queues too: what they have not committed yet comes again.
        """
        await self._reset_queues(broker_address, group, {MessageQueue(topic, "", queue_id): offset})

    async def committed_offset(self, broker_address: str, group: str, queue: MessageQueue) -> int:
        """Return a group's offset in a queue at its broker, 0 if it has none."""
        header = QueryConsumerOffsetRequestHeader(consumer_group=group, topic=queue.topic, queue_id=queue.queue_id)
        code = RequestCode.QUERY_CONSUMER_OFFSET
        reply = await self.cluster.ask(broker_address, code, header)
        if reply.code == ResponseCode.QUERY_NOT_FOUND:
            return 0
        if reply.code != ResponseCode.SUCCESS:
            raise RequestRefusedError(broker_address, code, reply.code, reply.remark)
        return reply.header(QueryConsumerOffsetResponseHeader).offset

    async def _reset_all(self, group: str, topic: str, timestamp_ms: int) -> dict[MessageQueue, int]:
        """Let brokers set the offsets of all queues; where those need clients for it and none runs, commit them."""
        header = ResetOffsetRequestHeader(
            group=group, topic=topic, queue_id=-1, offset=-1, timestamp=timestamp_ms, is_force=True
        )
        found: dict[MessageQueue, int] = {}
        code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
        for address in await self.masters(topic):
            reply = await self.cluster.ask(address, code, header)
            if reply.code == ResponseCode.SUCCESS:
                found |= offset_table(reply.body)
            elif reply.code == ResponseCode.CONSUMER_NOT_ONLINE:
                changes = await self._changes_at(address, group, topic, timestamp_ms)
                for queue, (_, offset) in changes.items():
                    await self.commit_offset(address, group, queue, offset)
                    found[queue] = offset
            else:
                raise RequestRefusedError(address, code, reply.code, reply.remark)
        return dict(sorted(found.items()))

    async def _changes_at(
        self, address: str, group: str, topic: str, timestamp_ms: int
    ) -> dict[MessageQueue, OffsetChange]:
        header = headers.GetTopicStatsInfoRequestHeader(topic=topic)
        reply = await self.cluster.request(address, RequestCode.GET_TOPIC_STATS_INFO, header)
        found = {}
        for queue in queue_table(decode_object(reply.body), "offsetTable", QueueBounds):
            target = await self.search_offset_at(address, topic, queue.queue_id, timestamp_ms)
            found[queue] = OffsetChange(await self.committed_offset(address, group, queue), max(target, 0))
        return found

    async def _reset_queues(self, address: str, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit the offsets of queues of one topic, and let the group's clients go on there.

        Brokers without `useServerSideResetOffset` ignore queue and offset of the request. `is_force=False` and -1, the
        queues' ends, let them send each client the lower of end and committed offset: the committed offsets.
        """
        code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
        for _ in range(_RESETS):
            for queue, offset in offsets.items():
                await self.commit_offset(address, group, queue, offset)
            reset: dict[int, int] = {}
            for queue, offset in offsets.items():
                if queue.queue_id in reset:
                    continue
                header = ResetOffsetRequestHeader(
                    group=group, topic=queue.topic, queue_id=queue.queue_id, offset=offset, timestamp=-1, is_force=False
                )
                reply = await self.cluster.ask(address, code, header)
                if reply.code == ResponseCode.CONSUMER_NOT_ONLINE:
                    return
                if reply.code != ResponseCode.SUCCESS:
                    if await self._is_offline(address, group):  # brokers of version 4 want offsets of all queues first
                        return
                    raise RequestRefusedError(address, code, reply.code, reply.remark)
                reset |= {one.queue_id: at for one, at in offset_table(reply.body).items()}
            if all(reset.get(queue.queue_id) == offset for queue, offset in offsets.items()):
                return
        raise ClientError(f"{address}: the clients of group {group!r} commit other offsets meanwhile: stop them first")

    async def _is_offline(self, address: str, group: str) -> bool:
        header = headers.GetConsumerConnectionListRequestHeader(consumer_group=group)
        reply = await self.cluster.ask(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        return reply.code == ResponseCode.CONSUMER_NOT_ONLINE

    async def queue_owners(self, group: str) -> dict[MessageQueue, str]:
        """Return the ids of a group's clients by the queues that they read; clients that do not answer have none."""
        found: dict[MessageQueue, str] = {}
        for one in (await self.consumer_connection(group)).connection_set:
            with contextlib.suppress(ClientError):
                info = await self.running_info(group, one.client_id)
                found |= dict.fromkeys(queue_table(info, "mqTable", dict), one.client_id)
        return found

    async def producers_at(self, broker_address: str) -> dict[str, list[ProducerInfo]]:
        """Return the producers that are connected to a broker, by group; from RocketMQ 4.9.4 on."""
        header = headers.GetAllProducerInfoRequestHeader()
        reply = await self.cluster.request(broker_address, RequestCode.GET_ALL_PRODUCER_INFO, header)
        return dict(sorted(decode_body(reply.body, ProducerTableInfo).data.items()))

    async def consume_stats_at(
        self, broker_address: str, *, orderly: bool = False, timeout_s: float = 0.0
    ) -> dict[str, list[ConsumeStats]]:
        """Return the progress of all groups at a broker, by group; `orderly`: only that of topics read in order."""
        header = headers.GetConsumeStatsInBrokerHeader(is_order=orderly)
        code = RequestCode.GET_BROKER_CONSUME_STATS
        reply = await self.cluster.request(broker_address, code, header, timeout_s=timeout_s)
        return decode_stats_of_groups(reply.body)

    async def commit_offset(self, broker_address: str, group: str, queue: MessageQueue, offset: int) -> None:
        """Set a group's offset in a queue at its broker; a running client of the group may set another one later."""
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
        )
        await self.cluster.request(broker_address, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def brokers_of_group(self, group: str, topic: str | None = None) -> list[str]:
        """Return the masters of a group's retry topic, else those of `topic`, else those of all clusters."""
        for one in (RETRY_PREFIX + group, topic):
            if one is not None:
                with contextlib.suppress(NoRouteError):
                    return await self.masters(one)
        clusters = (await self.cluster_info()).cluster_addr_table
        return [address for one in clusters for address in await self.brokers_of(one)]

    async def _first_answer(self, group: str, code: RequestCode, header: Header) -> bytes:
        """Return the first body with which a broker of a group answers. Raises NoMemberError for none."""
        for address in await self.brokers_of_group(group):
            reply = await self.cluster.ask(address, code, header)
            if reply.code == ResponseCode.SUCCESS:
                return reply.body
            if reply.code not in (ResponseCode.CONSUMER_NOT_ONLINE, ResponseCode.SYSTEM_ERROR):
                raise RequestRefusedError(address, code, reply.code, reply.remark)
        raise NoMemberError(f"no consumer of group {group!r} is connected to a broker")
