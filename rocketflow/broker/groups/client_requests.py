"""Requests by which broker and clients know each other: heartbeats, members of groups, locks.

RocketMQ's source: broker/processor/ClientManageProcessor.java, ConsumerManageProcessor.java,
AdminBrokerProcessor.java (lockBatchMQ, unlockBatchMQ), broker/client/DefaultConsumerIdsChangeListener.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow.access.permissions import SUBSCRIBE, Action, Kind, Need, Needs, client_row, group_of, topic_needs
from rocketflow.access.served import serves
from rocketflow.aio.loop import monotonic_ms
from rocketflow.aio.server import RefusedError, Request
from rocketflow.broker.groups.clients import Client
from rocketflow.broker.groups.filters import parse_filter
from rocketflow.remoting.bodies import (
    CheckClientRequestBody,
    ConsumerData,
    GetConsumerListByGroupResponseBody,
    HeartbeatData,
    LockBatchRequestBody,
    LockBatchResponseBody,
    MessageQueue,
    MessageQueueBody,
    decode_body,
    encode_body,
)
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers import client as headers
from rocketflow_store import StoreError
from rocketflow_store.spi import events
from rocketflow_store.spi.names import RETRY_PREFIX, is_directory_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rocketflow.aio.channel import Channel
    from rocketflow.broker.groups.tables import Tables
    from rocketflow.broker.operators import Access
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow.remoting.command import Command

_SUBSCRIBED: Final = "groups and topics of the body: Sub"


def _of_heartbeat(command: Command) -> Iterator[Need]:
    for group in decode_body(command.body, HeartbeatData).consumer_data_set:
        yield Need(Kind.GROUP, group.group_name, SUBSCRIBE)
        for one in group.subscription_data_set:
            yield from topic_needs(one.topic, SUBSCRIBE)


def _of_lock(command: Command) -> Iterator[Need]:
    body = decode_body(command.body, LockBatchRequestBody)
    yield Need(Kind.GROUP, body.consumer_group, SUBSCRIBE)
    for topic in {one.topic for one in body.mq_set}:
        yield from topic_needs(topic, SUBSCRIBE)


MAX_HEARTBEAT_BYTES: Final = 1024 * 1024
MAX_NEW_GROUPS: Final = 5_000
"""Groups, with their retry topics, that one heartbeat may make."""

_LOOK_SECONDS: Final = 10.0


class ClientRequests:
    """Requests 34, 35, 38, 41, 42 and 46, and notice 40."""

    def __init__(self, settings: BrokerSettings, tables: Tables, access: Access) -> None:
        self._access = access
        self._producers, self._consumers, self._locks = tables.producers, tables.consumers, tables.locks
        self._topics, self._groups = tables.topics, tables.groups
        self._settings = settings
        self._changed: set[str] = set()

    @serves(RequestCode.HEART_BEAT, client_row(Needs(_SUBSCRIBED, _of_heartbeat)))
    def heartbeat(self, request: Request) -> Coroutine[Any, Any, None] | None:
        """Take note of a client's groups and subscriptions (request 34)."""
        if len(request.command.body) > MAX_HEARTBEAT_BYTES:
            raise RefusedError(ResponseCode.INVALID_PARAMETER, f"a heartbeat has at most {MAX_HEARTBEAT_BYTES:,} bytes")
        data = decode_body(request.command.body, HeartbeatData)
        if all(self._is_known(one) for one in data.consumer_data_set):
            self._register(request, data)
            return None
        return self._first_heartbeat(request, data)

    def _is_known(self, data: ConsumerData) -> bool:
        """Return whether a group and its retry topic exist."""
        config = self._groups.get(data.group_name)
        if config is None:
            return False
        return config.retry_queue_nums <= 0 or self._topics.get(f"{RETRY_PREFIX}{data.group_name}") is not None

    async def _first_heartbeat(self, request: Request, data: HeartbeatData) -> None:
        """Make the groups of a heartbeat and their retry topics, each table as one write."""
        new = [one for one in data.consumer_data_set if not self._is_known(one)]
        if len(new) > MAX_NEW_GROUPS:
            raise RefusedError(
                ResponseCode.INVALID_PARAMETER, f"a heartbeat makes at most {MAX_NEW_GROUPS:,} groups, not {len(new):,}"
            )
        await self._groups.make(one.group_name for one in new)
        queues = {
            one.group_name: (config.retry_queue_nums, one.unit_mode)
            for one in new
            if (config := self._groups.get(one.group_name)) is not None and config.retry_queue_nums > 0
        }
        if queues:
            await self._topics.ensure_retry_topics(queues)
        if request.channel.is_open:  # the end of a connection removes its clients: it may have come already
            self._register(request, data)

    def _register(self, request: Request, data: HeartbeatData) -> None:
        command = request.command
        language, sender = command.language or "OTHER", self._access.guard.sender(request)
        client = Client(request.channel, data.client_id, language, command.version, monotonic_ms(), sender)
        for producer in data.producer_data_set:
            if is_directory_name(producer.group_name):
                self._producers.register(producer.group_name, client)
        for consumer in data.consumer_data_set:
            if self._groups.get(consumer.group_name) is None:
                continue
            changed = self._consumers.register(consumer, client, with_subscriptions=not data.without_sub)
            conflict = self._consumers.new_conflict(consumer.group_name, client.last_update_ms)
            if conflict:
                place = f"group {consumer.group_name}"
                events.report(events.SUBSCRIPTION_CONFLICT, Path(self._settings.store_path_root_dir), place, conflict)
            if changed:
                self._member_came_or_left(consumer.group_name)
        request.reply()

    @serves(RequestCode.UNREGISTER_CLIENT, client_row(group_of(Action.SUB, optional=True)))
    def unregister(self, request: Request) -> None:
        """Forget a client (request 35)."""
        header = request.command.header(headers.UnregisterClientRequestHeader)
        if header.producer_group:
            self._producers.unregister(header.producer_group, request.channel)
        if header.consumer_group and self._consumers.unregister(header.consumer_group, request.channel) is not None:
            self._member_came_or_left(header.consumer_group)
        request.reply()

    def channel_closed(self, channel: Channel) -> None:
        """Forget the clients of a connection."""
        self._producers.channel_closed(channel)
        for departure in self._consumers.channel_closed(channel):
            self._notify_soon(departure.group)

    async def expire(self) -> None:
        """End the connections of clients that were silent for too long, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for channel in {*self._producers.expired(monotonic_ms()), *self._consumers.expired(monotonic_ms())}:
                channel.close()
            self._consumers.forget_pulls(monotonic_ms())

    @serves(RequestCode.GET_CONSUMER_LIST_BY_GROUP, client_row(group_of(Action.SUB, Action.GET)))
    def list_consumers(self, request: Request) -> None:
        """Answer the client ids of a group (request 38)."""
        header = request.command.header(headers.GetConsumerListByGroupRequestHeader)
        group = self._consumers.get(header.consumer_group)
        if group is None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {header.consumer_group}")
        ids = [one.client_id for one in group.clients.values()]
        request.reply(body=encode_body(GetConsumerListByGroupResponseBody(consumer_id_list=ids)))

    @serves(RequestCode.CHECK_CLIENT_CONFIG, client_row())
    def check_client(self, request: Request) -> None:
        """Check that a subscription can be used (request 46)."""
        wanted = decode_body(request.command.body, CheckClientRequestBody).subscription_data
        if wanted.expression_type in ("", "TAG"):
            request.reply()
            return
        if not self._settings.enable_property_filter:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                f"The broker does not support consumer to filter message by {wanted.expression_type}",
            )
        try:
            parse_filter(wanted.expression_type, wanted.sub_string)
        except StoreError as error:
            raise RefusedError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from None
        request.reply()

    @serves(RequestCode.LOCK_BATCH_MQ, client_row(Needs(_SUBSCRIBED, _of_lock)))
    def lock(self, request: Request) -> None:
        """Lock queues for a client (request 41)."""
        body = decode_body(request.command.body, LockBatchRequestBody)
        held = self._locks.lock(body.consumer_group, body.client_id, _queues(body.mq_set), monotonic_ms())
        found = [MessageQueueBody(broker_name=one.broker_name, queue_id=one.queue_id, topic=one.topic) for one in held]
        request.reply(body=encode_body(LockBatchResponseBody(lock_ok_mq_set=found)))

    @serves(RequestCode.UNLOCK_BATCH_MQ, client_row(Needs(_SUBSCRIBED, _of_lock)))
    def unlock(self, request: Request) -> None:
        """Release queues of a client (request 42)."""
        body = decode_body(request.command.body, LockBatchRequestBody)
        self._locks.unlock(body.consumer_group, body.client_id, _queues(body.mq_set))
        request.reply()

    def _member_came_or_left(self, group: str) -> None:
        """Notify the clients of a group that one has come or left, unless the settings of the group forbid it."""
        config = self._groups.get(group)
        if config is None or config.notify_consumer_ids_changed_enable:
            self._notify_soon(group)

    def _notify_soon(self, group: str) -> None:
        """Notify the clients of a group that its members have changed, once per iteration of the loop."""
        if not self._settings.notify_consumer_ids_changed_enable:
            return
        if not self._changed:
            asyncio.get_running_loop().call_soon(self._notify)
        self._changed.add(group)

    def _notify(self) -> None:
        changed, self._changed = self._changed, set()
        for name in changed:
            group = self._consumers.get(name)
            if group is None or group.is_broadcasting:
                continue
            for channel in group.clients:
                channel.notify(
                    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
                    headers.NotifyConsumerIdsChangedRequestHeader(consumer_group=name),
                )


def _queues(bodies: Iterable[MessageQueueBody]) -> list[MessageQueue]:
    return [MessageQueue(one.topic, one.broker_name, one.queue_id) for one in bodies]
