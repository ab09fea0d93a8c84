"""Attempts of one send: queues, requests, and what follows a failure.

RocketMQ's source: client/impl/producer/DefaultMQProducerImpl.java (sendDefaultImpl, sendKernelImpl,
tryToFindTopicPublishInfo), client/producer/DefaultMQProducer.java (retryResponseCodes).
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from rocketflow.client.errors import ClientError, NoBrokersError, NoRouteError, RequestRefusedError, UnreachableError
from rocketflow.client.produce.errors import BadMessageError, send_failed
from rocketflow.client.produce.faults import BrokerFaults
from rocketflow.client.produce.options import TEMPLATE_TOPIC
from rocketflow.client.produce.results import STATUSES, SendResult, SendStatus, send_result
from rocketflow.client.produce.topic_queues import TopicQueues
from rocketflow.remoting.bodies import MessageQueue
from rocketflow.remoting.codes import ResponseCode
from rocketflow.remoting.errors import RemotingError

if TYPE_CHECKING:
    from rocketflow.client.cluster import Cluster
    from rocketflow.client.produce.options import ProducerOptions
    from rocketflow.client.produce.outgoing import Outgoing
    from rocketflow.client.produce.selectors import Selector
    from rocketflow.remoting.command import Command
    from rocketflow.remoting.prepared_frame import PreparedFrame

RETRIED_CODES: Final = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)
"""The codes of answers after which another broker is tried.

RocketMQ's clients also retry NO_PERMISSION: an account that may not send to a topic may do so at no broker.
"""


class Sender:
    """Sends to the queues of a cluster, each message until it is stored, its time is over or no attempt remains."""

    def __init__(self, cluster: Cluster, options: ProducerOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._has_hooks = bool(options.all_hooks())
        self._faults = BrokerFaults() if options.latency_faults else None
        self._topics: dict[str, TopicQueues] = {}
        self._asking: dict[str, asyncio.Task[TopicQueues]] = {}
        self._prepared: dict[tuple[int, str], PreparedFrame] = {}
        self._loop = asyncio.get_running_loop()
        cluster.on_route_change(self._forget)

    async def queues(self, topic: str) -> TopicQueues:
        """Return the queues of a topic, those that a send would create for a topic that no broker has.

        Raises NoRouteError and NoNameServerError.
        """
        found = self._known(topic)
        if found is not None:
            return found
        asking = self._asking.get(topic)
        if asking is None:  # sends that begin together ask once
            self._asking[topic] = asking = self._loop.create_task(self._ask_queues(topic))
            asking.add_done_callback(lambda _: self._asking.pop(topic))
        return await asyncio.shield(asking)

    async def send(self, out: Outgoing, to: MessageQueue | Selector | None, timeout_s: float) -> SendResult:
        """Send until a broker has stored the messages. Raises SendFailedError (SendRefusedError), and as `queues` does.

        A queue that is given, or chosen by a selector, has one attempt.
        """
        ends_at = self._loop.time() + timeout_s
        failures: list[ClientError] = []
        last_broker = ""
        for attempt in range(1 if to is not None else 1 + self._options.retries):
            topic = self._known(out.topic) or await self.queues(out.topic)
            queue = self._choose(topic, out, to, last_broker)
            last_broker = queue.broker_name
            began = self._loop.time()
            if attempt and began >= ends_at:
                break
            try:
                reply = await self._ask(out, queue, self._attempt_s(ends_at - began))
            except UnreachableError as error:
                self._note(queue, began, failed=True)
                failures.append(error)
                continue
            except ClientError as error:
                failures.append(error)
                continue
            if reply.code in STATUSES:
                self._note(queue, began)
                result = self._result(reply, out, queue)
                if result.status is SendStatus.SEND_OK or not self._options.retry_not_stored:
                    return result
            else:
                self._note(queue, began, is_refused=True)
            failures.append(
                RequestRefusedError(self.address_of(queue), out.code, reply.code, reply.remark or "no remark")
            )
            if reply.code not in RETRIED_CODES and reply.code not in STATUSES:
                break
        raise send_failed(out.topic, failures)

    def address_of(self, queue: MessageQueue) -> str:
        """Return the address of a queue's broker. Raises NoBrokerAddressError."""
        topic = self._topics.get(queue.topic)
        address = None if topic is None else topic.address(queue.broker_name)
        return address if address is not None else self._cluster.broker_address(queue.broker_name)

    async def send_one_way(self, out: Outgoing, to: MessageQueue | Selector | None) -> None:
        """Write a send that wants no answer to a connection, once there is room.

        Raises UnreachableError, NoRoomError after `send_timeout_s`, and as `queues` does.
        """
        topic = await self.queues(out.topic)
        queue = self._choose(topic, out, to, "")
        header = out.header(self._options.group, self._options.queues_of_new_topics, queue, _now_ms())
        timeout_s = self._options.send_timeout_s
        await self._cluster.notify(self.address_of(queue), out.code, header, body=out.body, timeout_s=timeout_s)

    def _known(self, topic: str) -> TopicQueues | None:
        found = self._topics.get(topic)
        return found if found is not None and self._loop.time() < found.asks_again_at else None

    async def _ask(self, out: Outgoing, queue: MessageQueue, timeout_s: float) -> Command:
        address = self.address_of(queue)
        group, queues = self._options.group, self._options.queues_of_new_topics
        if self._has_hooks or out.topic.startswith("%"):
            header = out.header(group, queues, queue, _now_ms())
            return await self._cluster.ask(address, out.code, header, body=out.body, timeout_s=timeout_s)
        prepared = self._prepared.get((out.code, out.topic))
        if prepared is None:
            self._prepared[out.code, out.topic] = prepared = out.prepared(group, queues)
        return await self._cluster.ask_prepared(address, prepared, out.values(queue, _now_ms()), out.body, timeout_s)

    def _choose(
        self, topic: TopicQueues, out: Outgoing, to: MessageQueue | Selector | None, last_broker: str
    ) -> MessageQueue:
        if to is None:
            return topic.next(last_broker, self._faults, int(self._loop.time() * 1000))
        queue = to if isinstance(to, MessageQueue) else to(topic.queues, out.messages[0])
        if queue.topic != out.topic:
            raise BadMessageError(f"topic {out.topic!r}: the queue {queue} belongs to another topic")
        return queue

    def _attempt_s(self, remaining_s: float) -> float:
        limit = self._options.attempt_timeout_s
        return max(min(remaining_s, limit) if limit else remaining_s, 0.001)

    def _note(self, queue: MessageQueue, began: float, *, is_refused: bool = False, failed: bool = False) -> None:
        if self._faults is not None:
            now_ms = int(self._loop.time() * 1000)
            latency_ms = now_ms - int(began * 1000)
            self._faults.note(queue.broker_name, latency_ms, now_ms, is_refused=is_refused, failed=failed)

    def _result(self, reply: Command, out: Outgoing, queue: MessageQueue) -> SendResult:
        try:
            return send_result(reply, out.message_id, queue)
        except RemotingError as error:
            raise ClientError(f"broker {queue.broker_name!r}: the answer to a send cannot be read: {error}") from None

    async def _ask_queues(self, topic: str) -> TopicQueues:
        try:
            found = TopicQueues(topic, await self._cluster.route(topic))
        except NoBrokersError:
            raise
        except NoRouteError as error:
            found = await self._template_queues(topic, error)
        if not found.queues:
            raise NoRouteError(f"topic {topic!r}: no broker with a master takes messages for it")
        self._topics[topic] = found
        return found

    async def _template_queues(self, topic: str, error: NoRouteError) -> TopicQueues:
        """Return the queues that a broker gives a topic that a send creates."""
        try:
            route = await self._cluster.ask_route(TEMPLATE_TOPIC)
        except NoRouteError:
            raise NoRouteError(
                f"{error}; no broker creates topics for sends either (autoCreateTopicEnable=true): create the topic "
                f"first, 'rocketflow admin updateTopic -t {topic} -c CLUSTER' for example"
            ) from None
        at_most = self._options.queues_of_new_topics
        ends_at = self._loop.time() + self._options.route_refresh_s
        return TopicQueues(topic, route, at_most=at_most, asks_again_at=ends_at)

    def _forget(self, topic: str) -> None:
        self._topics.pop(topic, None)


def _now_ms() -> int:
    return int(time.time() * 1000)
