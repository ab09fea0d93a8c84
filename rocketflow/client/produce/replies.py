"""Requests that wait for replies of consumers, and the replies.

RocketMQ's source: client/producer/RequestFutureHolder.java, RequestResponseFuture.java, client/utils/MessageUtil.java,
client/impl/ClientRemotingProcessor.java (receiveReplyMessage).
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rocketflow.client.produce.errors import BadMessageError
from rocketflow.remoting.command import answer
from rocketflow.remoting.headers.send import ReplyMessageRequestHeader
from rocketflow_store.spi.messages import Message, ReceivedMessage, decode_properties

if TYPE_CHECKING:
    from rocketflow.remoting.command import Command

LOG: Final = logging.getLogger("rocketflow.client")

CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TTL: Final = "TTL"


class Replies:
    """Finds the request of each reply that a broker passes on (326 PUSH_REPLY_MESSAGE_TO_CLIENT)."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[ReceivedMessage]] = {}

    def expect(self, correlation_id: str) -> asyncio.Future[ReceivedMessage]:
        """Return the future of a reply; `forget` ends the wait for it."""
        self._waiting[correlation_id] = found = asyncio.get_running_loop().create_future()
        return found

    def forget(self, correlation_id: str) -> None:
        """Wait for a reply no more."""
        self._waiting.pop(correlation_id, None)

    async def handle(self, command: Command, address: str) -> Command:
        """Take a reply; one that nothing waits for is logged. Raises HeaderError."""
        reply = _received(command)
        waiting = self._waiting.get(reply.properties.get(CORRELATION_ID, ""))
        if waiting is None or waiting.done():
            LOG.warning("%s: a reply came too late, or to no request of this client: %s", address, reply.properties)
        else:
            waiting.set_result(reply)
        return answer(command)


def as_request(message: Message, client_id: str, timeout_s: float) -> tuple[Message, str]:
    """Return a message whose consumer may reply to a client within `timeout_s`, and the id that the reply will have."""
    correlation_id = str(uuid.uuid4())
    more = {CORRELATION_ID: correlation_id, REPLY_TO_CLIENT: client_id, TTL: str(int(timeout_s * 1000))}
    return replace(message, properties={**message.properties, **more}), correlation_id


def reply_to(request: ReceivedMessage, body: bytes) -> Message:
    """Return the reply to a message that its producer sent by `request`; any producer of the consumer sends it.

    Raises BadMessageError for a message that wants no reply.
    """
    missing = [one for one in ("CLUSTER", CORRELATION_ID, REPLY_TO_CLIENT) if one not in request.properties]
    if missing:
        raise BadMessageError(f"message {request.message_id} wants no reply: it lacks {', '.join(missing)}")
    kept: dict[str, str] = {
        one: request.properties[one] for one in (CORRELATION_ID, REPLY_TO_CLIENT, TTL) if one in request.properties
    }
    return Message(f"{request.properties['CLUSTER']}_REPLY_TOPIC", body, properties={"MSG_TYPE": "reply", **kept})


def _received(command: Command) -> ReceivedMessage:
    header = command.header(ReplyMessageRequestHeader)
    return ReceivedMessage(
        topic=header.topic,
        queue_id=header.queue_id,
        queue_offset=0,
        stored_body=command.body,
        properties=decode_properties((header.properties or "").encode()),
        flag=header.flag,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        born_host=header.born_host,
        store_timestamp=header.store_timestamp,
        store_host=header.store_host,
        reconsume_times=header.reconsume_times or 0,
    )
