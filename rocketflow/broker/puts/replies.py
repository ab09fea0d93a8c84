"""Replies of request-reply: passed on to the client that waits for them.

RocketMQ's source: broker/processor/ReplyMessageProcessor.java.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from rocketflow.access.permissions import ADMINISTRATOR, SUBSCRIBE, Action, client_row, topic_needs, topic_of
from rocketflow.access.served import serves
from rocketflow.aio.channel import ChannelError
from rocketflow.aio.server import RefusedError, Request
from rocketflow.broker.puts.awaited_replies import reply_key
from rocketflow.broker.puts.sends import send_header
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers.send import (
    ReplyMessageRequestHeader,
    SendMessageRequestHeader,
    SendMessageResponseHeader,
)
from rocketflow_store.spi.broker import decode_properties

if TYPE_CHECKING:
    from rocketflow.aio.channel import Channel
    from rocketflow.broker.groups import ProducerTable
    from rocketflow.broker.operators import Access
    from rocketflow.broker.puts.awaited_replies import AwaitedReplies
    from rocketflow.broker.puts.sends import Sends
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow_store.spi.broker import RawMessage

PUSH_SECONDS: Final = 10.0


class Replies:
    """Requests 324 and 325, and request 326 to a client."""

    def __init__(
        self,
        settings: BrokerSettings,
        sends: Sends,
        producers: ProducerTable[Channel],
        awaited: AwaitedReplies | None,
        access: Access,
    ) -> None:
        self._awaited = awaited
        self._access = access
        self._sends = sends
        self._producers = producers
        self._settings = settings

    @serves(RequestCode.SEND_REPLY_MESSAGE, client_row(topic_of(Action.PUB)))
    @serves(RequestCode.SEND_REPLY_MESSAGE_V2, client_row(topic_of(Action.PUB, field="b")))
    async def reply(self, request: Request) -> None:
        """Pass a reply on to the client that waits for it, store it, and answer."""
        key = reply_key(decode_properties((send_header(request).properties or "").encode()))
        if key is None:
            raise _refused("reply message properties[REPLY_TO_CLIENT] is null")
        account = self._account_of(request, key)
        header, message = await self._sends.checked(request)
        failure = await self._push(request, header, message, key[0], self._producers.channel_of(key[0], account))
        if failure:
            raise _refused(failure)
        if self._settings.store_reply_message_enable:
            self._sends.put(request, message)
            return
        request.reply(header=SendMessageResponseHeader(msg_id="0", queue_id=message.queue_id, queue_offset=0))

    def _account_of(self, request: Request, key: tuple[str, str]) -> str | None:
        """Return the account of the client that a reply is for, None for any.

        With accounts that is the client that sent the request, if it is known here and the sender of the reply may read
        its topic; else a client of the sender's own account. An administrator replies to all clients. Raises
        RefusedError if there is no such client.
        """
        access = self._access
        if self._awaited is None:
            return None
        sender = access.guard.sender(request)
        if access.guard.allows(sender, (ADMINISTRATOR,)):
            return None
        known = self._awaited.find(key)
        if known is not None and access.guard.allows(sender, topic_needs(known.topic, SUBSCRIBE)):
            return known.sender.name
        if self._producers.channel_of(key[0], sender.name) is None:
            raise RefusedError(
                ResponseCode.NO_PERMISSION,
                f"no request of client <{key[0]}> that the sender of the reply may read waits for it at this broker",
            )
        return sender.name

    async def _push(
        self,
        request: Request,
        header: SendMessageRequestHeader,
        message: RawMessage,
        client_id: str,
        channel: Channel | None,
    ) -> str:
        """Send the reply to the client; return why that failed, or ""."""
        properties = message.properties.decode()
        if channel is None:
            return f"push reply message fail, channel of <{client_id}> not found."
        now_ms = int(time.time() * 1000)
        pushed = ReplyMessageRequestHeader(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=message.queue_id,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            properties=f"{properties}PUSH_REPLY_TIME\x01{now_ms}\x02",
            reconsume_times=header.reconsume_times,
            unit_mode=bool(header.unit_mode),
            born_host=request.channel.address,  # RocketMQ's begin with a slash, and Java clients ask the DNS for those
            store_host=self._settings.broker_address,
            store_timestamp=now_ms,
        )
        code, body = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, request.command.body
        try:
            answer = await channel.request(code, pushed, body=body, timeout_s=PUSH_SECONDS)
        except (ChannelError, TimeoutError) as error:
            return f"push reply message to {client_id} fail: {error}"
        if answer.code != ResponseCode.SUCCESS:
            return f"push reply message to {client_id} fail: answer {answer.code}, {answer.remark}"
        return ""


def _refused(remark: str) -> RefusedError:
    return RefusedError(ResponseCode.SYSTEM_ERROR, remark)
