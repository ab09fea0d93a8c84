"""Sends: from the request to the store, and from its result to the answer.

RocketMQ's source: broker/processor/SendMessageProcessor.java, AbstractSendMessageProcessor.java.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from rocketflow.access.permissions import Action, client_row, topic_of
from rocketflow.access.served import serves
from rocketflow.aio.loop import monotonic_ms
from rocketflow.aio.server import RefusedError, Request
from rocketflow.broker.puts.client_properties import BY_BROKER
from rocketflow.broker.puts.put_gatherer import PC_SYNCHRONIZED
from rocketflow.broker.topics import DLQ_QUEUES, is_compacted
from rocketflow.broker.transactions import half_message, is_delayed, is_half, real_topic, whole_message
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import RESPONSE_FLAG, Command
from rocketflow.remoting.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from rocketflow.remoting.prepared_frame import PreparedFrame, number_value, text_value
from rocketflow.remoting.recall_handle import RecallHandle
from rocketflow_store import PutMessageStatus
from rocketflow_store.spi.broker import RawMessage, encode_properties
from rocketflow_store.spi.ids import encode_host
from rocketflow_store.spi.names import DLQ_PREFIX, PERM_WRITE, RETRY_PREFIX, is_send_refused

if TYPE_CHECKING:
    from rocketflow.broker.figures import MessageCounts
    from rocketflow.broker.groups import Tables
    from rocketflow.broker.puts.awaited_replies import AwaitedReplies
    from rocketflow.broker.puts.put_gatherer import PutGatherer
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow.broker.transactions import RecentHalves
    from rocketflow_store import PutMessageResult
    from rocketflow_store.spi.table_rows import TopicConfig

MAX_RECONSUME_SINCE: Final = 121
"""Version ordinal of V3_4_9: clients from it on say how often they retry."""

_LONG_NAMES: Final = (RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE)
"""Codes of requests whose header names its fields by words, not by letters."""

_CODES: Final = {
    PutMessageStatus.PUT_OK: ResponseCode.SUCCESS,
    PutMessageStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    PutMessageStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    PutMessageStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
    PutMessageStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutMessageStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
    PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutMessageStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutMessageStatus.OS_PAGE_CACHE_BUSY: ResponseCode.SYSTEM_BUSY,
}

_HALF: Final = b"TRAN_MSG\x01"
"""Part of the properties of all half messages."""

_REPLY_TO_CLIENT: Final = b"REPLY_TO_CLIENT\x01"
"""Part of the properties of all messages that want a reply."""

_UNIQ_KEY: Final = re.compile(b"(?:^|\x02)UNIQ_KEY\x01([^\x02]*)")
_DROPPED: Final = re.compile(f"\x02(?:{'|'.join(BY_BROKER)})\x01[^\x02]*")
"""Properties that the broker sets, in a text with a separator before it."""
_DELAY: Final = re.compile(b"(?:^|(?<=\x02))DELAY\x01[^\x02]*(?:\x02|$)")
_NO_DELAY: Final = b"DELAY\x01-1\x02"
"""What a dead letter of an orderly consumer has in place of its delay."""
_KEYS: Final = re.compile(b"(?:^|\x02)KEYS\x01([^\x02]*)")


class Sends:
    """Requests 10, 310 and 320."""

    def __init__(
        self,
        settings: BrokerSettings,
        tables: Tables,
        gatherer: PutGatherer,
        counts: MessageCounts,
        halves: RecentHalves,
        awaited: AwaitedReplies | None,
    ) -> None:
        self._awaited = awaited
        self._halves = halves
        self._gatherer = gatherer
        self._topics, self._groups, self._locks = tables.topics, tables.groups, tables.locks
        self._settings = settings
        self._counts = counts
        trace = "true" if settings.trace_on else "false"
        self._common = {"MSG_REGION": settings.region_id, "TRACE_ON": trace}
        changing = ("msgId", "queueId", "queueOffset", "transactionId")
        self._usual_answer = PreparedFrame(ResponseCode.SUCCESS, self._common, changing, flag=RESPONSE_FLAG)
        added = {**self._common, "CLUSTER": settings.broker_cluster_name}
        self._added = encode_properties(added).decode()
        self._on_stored: Callable[[str, int], None] | None = None

    @property
    def added(self) -> bytes:
        """Return the end of the properties of all messages."""
        return self._added.encode()

    @property
    def answer_parts(self) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        """Return the parts of the usual answer's header between its values, in JSON and in ROCKETMQ's own form."""
        return self._usual_answer.parts(), self._usual_answer.binary_parts()

    def notify_stored(self, on_stored: Callable[[str, int], None]) -> None:
        """Call `on_stored` with topic and queue of what is stored there, or is to be when its time has come."""
        self._on_stored = on_stored

    def check_writable(self) -> None:
        """Raise RefusedError if no message may be sent now."""
        check_writable(self._settings)

    def check_halves(self) -> None:
        """Raise RefusedError if no half message may be sent now."""
        if self._settings.reject_transaction_message:
            raise RefusedError(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._settings.broker_ip1}] sending transaction message is forbidden",
            )

    def note_halves(self, records: dict[int, bytes], topics: dict[str, int]) -> None:
        """Keep half messages that were stored, by their half offset; `topics` says how many each real topic has."""
        self._halves.note_records(records)
        for topic, count in topics.items():
            self._counts.half(topic, count)

    def answer_one(
        self, request: Request, result: PutMessageResult, place: tuple[str, int, int, int, str, str | None]
    ) -> None:
        """Answer one of several sends; `result` is that of all, `place` is what the kernel says of this one."""
        topic, queue_id, queue_offset, phy_offset, msg_id, uniq_key = place
        message = RawMessage(topic, queue_id, b"", b"", 0, 0, 0, b"")
        if result.stored:
            result = result._replace(
                topic=topic, queue_id=queue_id, queue_offset=queue_offset, physical_offset=phy_offset, msg_id=msg_id
            )
        self._answer(request, result, message, uniq_key)

    @serves(RequestCode.SEND_MESSAGE, client_row(topic_of(Action.PUB)))
    @serves(RequestCode.SEND_MESSAGE_V2, client_row(topic_of(Action.PUB, field="b")))
    @serves(RequestCode.SEND_BATCH_MESSAGE, client_row(topic_of(Action.PUB, field="b")))
    def send(self, request: Request) -> Coroutine[Any, Any, None] | None:
        """Put the message or batch of a request into the store, and answer once it is there.

        The answer to the first message of a topic also waits until the NameServers know the topic.
        """
        header = send_header(request)
        config = self._topics.get(header.topic)
        if config is None or header.topic.startswith(RETRY_PREFIX):
            return self._send_after_creation(request, header, is_first=config is None)
        self._check_state(header.topic)
        self._put_sent(request, self._raw(request, header, config))
        return None

    async def _send_after_creation(self, request: Request, header: SendMessageRequestHeader, *, is_first: bool) -> None:
        message = await self._message(request, header)
        self._put_sent(request, message, asyncio.ensure_future(self._topics.registered()) if is_first else None)

    async def checked(self, request: Request) -> tuple[SendMessageRequestHeader, RawMessage]:
        """Return a send's header and its message for the store. Raises RefusedError if it is not allowed."""
        header = send_header(request)
        return header, await self._message(request, header)

    async def _message(self, request: Request, header: SendMessageRequestHeader) -> RawMessage:
        """Return the message for the store; topics and groups that it needs are made."""
        self._check_state(header.topic)
        config = await self._topics.for_send(
            header.topic, header.default_topic, header.default_topic_queue_nums, is_unit=bool(header.unit_mode)
        )
        message = self._raw(request, header, config)
        if header.topic.startswith(RETRY_PREFIX):
            return await self._retried(request, header, message)
        return message

    def _put_sent(self, request: Request, message: RawMessage, first: asyncio.Future[None] | None = None) -> None:
        """Put a message, or the half message in its place: the answer has the half message's offset."""
        if self._awaited is not None and _REPLY_TO_CLIENT in message.properties:
            self._awaited.note(message, request)
        if _HALF not in message.properties:
            self.put(request, message, first)
        elif is_half(message):
            self.put(request, self._half(message), first, queue_id=message.queue_id)
        else:
            self.put(request, whole_message(message), first)

    def put(
        self,
        request: Request,
        message: RawMessage,
        first: asyncio.Future[None] | None = None,
        *,
        queue_id: int | None = None,
    ) -> None:
        """Put a message into the store; answer the request with the result, after `first` is done.

        The answer names the queue of the message's topic, whichever topic it is stored under first; `queue_id` is that
        of the real topic of a half message.
        """
        named = message.queue_id if queue_id is None else queue_id
        uniq_key = _UNIQ_KEY.search(message.properties)
        transaction_id = uniq_key[1].decode() if uniq_key else None

        def stored(result: PutMessageResult) -> None:
            if result.stored:
                self._counts.sent(message, result)
                if self._on_stored is not None:
                    self._on_stored(message.topic, message.queue_id)
            if queue_id is not None and result.stored:
                topic = real_topic(message)
                self._halves.note(message, result)
                self._counts.half(topic, 1)
                if self._on_stored is not None:
                    self._on_stored(topic, queue_id)
            if result.queue_id != named:
                result = result._replace(queue_id=named)
            if first is None or first.done():
                self._answer(request, result, message, transaction_id)
            else:
                first.add_done_callback(lambda _: self._answer(request, result, message, transaction_id))

        self._gatherer.add(message, stored, request.refuse)

    def _check_state(self, topic: str) -> None:
        check_writable(self._settings)
        if is_send_refused(topic):
            raise RefusedError(ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")

    def _raw(self, request: Request, header: SendMessageRequestHeader, config: TopicConfig) -> RawMessage:
        """Return the message of a request to a topic. Raises RefusedError if the topic does not take it."""
        queue_id = _queue(header, config)
        properties = own_properties(header.properties or "") + self._added
        message = RawMessage(
            header.topic,
            queue_id,
            request.command.body,
            properties.encode(),
            header.flag,
            header.sys_flag,
            header.born_timestamp,
            encode_host(request.channel.address),
            header.reconsume_times or 0,
            is_batch=bool(header.batch) or request.command.code == RequestCode.SEND_BATCH_MESSAGE,
        )
        if config.attributes:
            _check_key(message, config)
        return message

    def _half(self, message: RawMessage) -> RawMessage:
        """Return the half message that takes the place of a transactional message. Raises RefusedError."""
        self.check_halves()
        if message.is_batch or is_delayed(message):
            kind = "batch" if message.is_batch else "delayed message"
            raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, f"a {kind} cannot be transactional: remove TRAN_MSG")
        return half_message(message)

    async def _retried(self, request: Request, header: SendMessageRequestHeader, message: RawMessage) -> RawMessage:
        """Return a message that a consumer sends to its retry topic as it is, or as a dead letter."""
        if message.is_batch:
            raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, f"retry topic {header.topic} takes no batches")
        group_name = header.topic.removeprefix(RETRY_PREFIX)
        group = await self._groups.for_use(group_name)
        if group is None:
            raise RefusedError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group_name}")
        most = group.retry_max_times
        if request.command.version >= MAX_RECONSUME_SINCE and header.max_reconsume_times is not None:
            most = header.max_reconsume_times
        times = header.reconsume_times or 0
        if times > most or (times > 0 and self._locks.any_held(group_name, monotonic_ms())):
            config = await self._topics.ensure(f"{DLQ_PREFIX}{group_name}", DLQ_QUEUES)
            properties = _DELAY.sub(b"", message.properties) + _NO_DELAY
            return message._replace(topic=config.topic_name, queue_id=0, properties=properties)
        return message

    def _answer(
        self, request: Request, result: PutMessageResult, message: RawMessage, transaction_id: str | None
    ) -> None:
        code = _CODES.get(result.status, ResponseCode.SYSTEM_ERROR)
        if not result.stored:
            busy = result.status is PutMessageStatus.OS_PAGE_CACHE_BUSY
            request.reply(code, remark=PC_SYNCHRONIZED if busy else f"{result.status.name}: {result.why}")
            return
        if request.command.is_one_way:
            request.reply(code)
            return
        unusual = result.timer_out_ms is not None or code or request.command.header_type
        if transaction_id is None or unusual or (message.is_batch and self._is_batch_cq(message.topic)):
            self._send_answer(request, code, result, message, transaction_id)
            return
        place = number_value(result.queue_id), number_value(result.queue_offset)
        values = text_value(result.msg_id), *place, text_value(transaction_id)
        request.send_frame(code, self._usual_answer.frame(request.command.opaque, values))

    def _is_batch_cq(self, topic: str) -> bool:
        config = self._topics.get(topic)
        return config is not None and config.is_batch_cq

    def _send_answer(
        self, request: Request, code: int, result: PutMessageResult, message: RawMessage, transaction_id: str | None
    ) -> None:
        """Send an answer that is not the usual one: in the other header type, say, or with a handle for a recall.

        That to a batch that is one record of a BatchCQ topic names the batch's id: clients take it as the message's.
        """
        topic = message.topic
        fields = {
            **self._common,
            "msgId": result.msg_id,
            "queueId": str(result.queue_id),
            "queueOffset": str(result.queue_offset),
        }
        if transaction_id is not None:
            fields["transactionId"] = transaction_id
            if message.is_batch and self._is_batch_cq(topic):
                fields["batchUniqId"] = transaction_id
            if result.timer_out_ms is not None and not topic.startswith(RETRY_PREFIX):
                due_ms = result.timer_out_ms + 1  # a message due at a tick itself would get the tick before
                fields["recallHandle"] = RecallHandle(
                    topic, self._settings.broker_name, due_ms, transaction_id
                ).encode()
        command = request.command
        request.send(Command(code, fields, flag=RESPONSE_FLAG, opaque=command.opaque, header_type=command.header_type))


def own_properties(text: str) -> str:
    """Return the property string of a client without the properties that the broker sets."""
    if text and not text.endswith("\x02"):
        text += "\x02"
    return _DROPPED.sub("", "\x02" + text)[1:]


def check_writable(settings: BrokerSettings) -> None:
    """Raise RefusedError if the settings allow no messages to be sent or committed now."""
    if not settings.broker_permission & PERM_WRITE:
        raise RefusedError(ResponseCode.NO_PERMISSION, f"the broker[{settings.broker_ip1}] sending is forbidden")
    if time.time() * 1000 < settings.start_accept_send_request_time_stamp:
        raise RefusedError(ResponseCode.SYSTEM_ERROR, "the broker accepts no messages yet")


def send_header(request: Request) -> SendMessageRequestHeader:
    """Return the header of a send or a reply. Raises HeaderError."""
    command = request.command
    return command.header(SendMessageRequestHeader if command.code in _LONG_NAMES else SendMessageRequestHeaderV2)


def _check_key(message: RawMessage, config: TopicConfig) -> None:
    """Raise RefusedError for a message without a key to a topic that RocketMQ compacts; batches are not checked."""
    if is_compacted(config) and not message.is_batch:
        keys = _KEYS.findall(message.properties)
        if not keys or not keys[-1].decode("utf-8", "replace").strip():
            raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, f"topic {config.topic_name}: the message needs a key")


def _queue(header: SendMessageRequestHeader, config: TopicConfig) -> int:
    """Return the queue of a message. Raises RefusedError if the topic has no such queue."""
    if header.queue_id >= max(config.write_queue_nums, config.read_queue_nums):
        raise RefusedError(
            ResponseCode.INVALID_PARAMETER,
            f"request queueId[{header.queue_id}] is illegal, topic {header.topic} has {config.write_queue_nums} "
            "queues to write to",
        )
    return header.queue_id if header.queue_id >= 0 else random.randrange(max(config.write_queue_nums, 1))
