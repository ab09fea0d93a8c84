"""Recalls of timer messages before they are delivered.

RocketMQ's source: broker/processor/RecallMessageProcessor.java, TimerMessageStore.java (buildDeleteKey).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from rocketflow.access.permissions import Action, client_row, topic_of
from rocketflow.access.served import serves
from rocketflow.aio.server import RefusedError, Request
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import answer
from rocketflow.remoting.errors import HeaderError
from rocketflow.remoting.headers.send import RecallMessageRequestHeader, RecallMessageResponseHeader
from rocketflow.remoting.recall_handle import RecallHandle, decode_recall_handle
from rocketflow_store import StoreError
from rocketflow_store.spi.broker import RawMessage, encode_properties
from rocketflow_store.spi.ids import encode_host
from rocketflow_store.spi.names import PERM_WRITE, validate_group

if TYPE_CHECKING:
    from rocketflow.broker.puts.put_gatherer import PutGatherer
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow.broker.topics import Topics
    from rocketflow.remoting.headers.header import Header
    from rocketflow_store import PutMessageResult

_TAG: Final = "_RECALL_TAG_"


class Recalls:
    """Request 370. `max_delay_ms` is how far ahead a timer message may be due."""

    def __init__(self, settings: BrokerSettings, topics: Topics, gatherer: PutGatherer, max_delay_ms: int) -> None:
        self._gatherer = gatherer
        self._topics = topics
        self._settings = settings
        self._max_delay_ms = max_delay_ms

    @serves(RequestCode.RECALL_MESSAGE, client_row(topic_of(Action.PUB)))
    def recall(self, request: Request) -> None:
        """Put a message into the store that recalls another, and answer once it is there."""
        header = request.command.header(RecallMessageRequestHeader)
        try:
            handle = self._checked(header)
        except RefusedError as refusal:
            self._answer(request, refusal.code, remark=refusal.remark)
            return
        now_ms = int(time.time() * 1000)
        properties = {
            "TAGS": _TAG,
            "TIMER_DEL_UNIQKEY": f"{handle.topic}+{handle.uniq_key}",
            "UNIQ_KEY": handle.uniq_key,
            "TIMER_DELIVER_MS": str(handle.deliver_ms),
            "BORN_TIMESTAMP": str(now_ms),
        }
        if header.producer_group:
            properties["PGROUP"] = header.producer_group
        message = RawMessage(
            topic=handle.topic,
            queue_id=0,
            body=b"0",
            properties=encode_properties(properties),
            flag=0,
            sys_flag=0,
            born_ms=now_ms,
            born_host=encode_host(request.channel.address),
        )

        def stored(result: PutMessageResult) -> None:
            if result.stored:
                self._answer(request, header=RecallMessageResponseHeader(msg_id=handle.uniq_key))
            else:
                remark = f"recall failed, {result.status.name}: {result.why}"
                self._answer(request, ResponseCode.SYSTEM_ERROR, remark=remark)

        self._gatherer.add(message, stored, request.refuse)

    def _answer(
        self, request: Request, code: int = 0, *, header: Header | None = None, remark: str | None = None
    ) -> None:
        """Send an answer with the broker's region: clients write no row of trace without it."""
        reply = answer(request.command, code, header, remark=remark)
        reply.fields["MSG_REGION"] = self._settings.region_id
        request.send(reply)

    def _checked(self, header: RecallMessageRequestHeader) -> RecallHandle:
        """Return the handle of a recall. Raises RefusedError if the message cannot be recalled here."""
        settings = self._settings
        if not settings.recall_message_enable:
            raise RefusedError(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
        is_early = time.time() * 1000 < settings.start_accept_send_request_time_stamp
        is_writable = settings.broker_permission & PERM_WRITE or settings.allow_recall_when_broker_not_writeable
        if is_early or not is_writable:
            raise RefusedError(ResponseCode.SERVICE_NOT_AVAILABLE, "recall failed, broker service not available")
        if self._topics.get(header.topic) is None:
            raise RefusedError(ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{header.topic}] not exist")
        try:
            handle = decode_recall_handle(header.recall_handle)
            if header.producer_group:
                validate_group(header.producer_group)
        except (HeaderError, StoreError) as error:
            raise _illegal(str(error)) from None
        if handle.topic != header.topic:
            raise _illegal("recall failed, topic not match")
        if handle.broker_name != settings.broker_name:
            raise _illegal("recall failed, broker service not available")
        if not 0 < handle.deliver_ms - time.time() * 1000 < self._max_delay_ms:
            raise _illegal("recall failed, timestamp invalid")
        return handle


def _illegal(remark: str) -> RefusedError:
    return RefusedError(ResponseCode.ILLEGAL_OPERATION, remark)
