"""Replies of request-reply: passed on to the client that waits for them.

RocketMQ's source: broker/processor/ReplyMessageProcessor.java.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final

from rocketflow.aio.channel import ChannelError
from rocketflow.aio.server import RefusedError, Request
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers.send import (
    ReplyMessageRequestHeader,
    SendMessageRequestHeader,
    SendMessageResponseHeader,
)

if TYPE_CHECKING:
    from rocketflow.aio.channel import Channel
    from rocketflow.broker.clients import ProducerTable
    from rocketflow.broker.sends import Sends
    from rocketflow.broker.settings import BrokerSettings

PUSH_SECONDS: Final = 10.0

_REPLY_TO_CLIENT: Final = re.compile("(?:^|\x02)REPLY_TO_CLIENT\x01([^\x02]*)")


class Replies:
    """Requests 324 and 325, and request 326 to a client."""

    def __init__(self, sends: Sends, producers: ProducerTable[Channel], settings: BrokerSettings) -> None:
        self._sends = sends
        self._producers = producers
        self._settings = settings

    async def reply(self, request: Request) -> None:
        """Pass a reply on to the client that waits for it, store it, and answer."""
        header, message = await self._sends.checked(request)
        properties = message.properties.decode()
        found = _REPLY_TO_CLIENT.search(properties)
        if found is None:
            raise _refused("reply message properties[REPLY_TO_CLIENT] is null")
        failure = await self._push(request, header, message.queue_id, found[1], properties)
        if failure:
            raise _refused(failure)
        if self._settings.store_reply_message_enable:
            self._sends.put(request, message)
            return
        request.reply(header=SendMessageResponseHeader(msg_id="0", queue_id=message.queue_id, queue_offset=0))

    async def _push(
        self, request: Request, header: SendMessageRequestHeader, queue_id: int, client_id: str, properties: str
    ) -> str:
        """Send the reply to the client; return why that failed, or ""."""
        channel = self._producers.channel_of(client_id)
        if channel is None:
            return f"push reply message fail, channel of <{client_id}> not found."
        now_ms = int(time.time() * 1000)
        pushed = ReplyMessageRequestHeader(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=queue_id,
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
