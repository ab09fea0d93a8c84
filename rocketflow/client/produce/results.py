"""Results of sends, without I/O.

RocketMQ's source: client/producer/SendResult.java, SendStatus.java, client/impl/MQClientAPIImpl.java
(processSendResponse).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from rocketflow.remoting.bodies import MessageQueue
from rocketflow.remoting.codes import ResponseCode
from rocketflow.remoting.headers.send import SendMessageResponseHeader

if TYPE_CHECKING:
    from rocketflow.remoting.command import Command


class SendStatus(Enum):
    """The outcomes of a send that a broker has stored, in RocketMQ's names.

    Only SEND_OK says that the message is as safe as the broker's settings ask.
    """

    SEND_OK = ResponseCode.SUCCESS
    FLUSH_DISK_TIMEOUT = ResponseCode.FLUSH_DISK_TIMEOUT
    FLUSH_SLAVE_TIMEOUT = ResponseCode.FLUSH_SLAVE_TIMEOUT
    SLAVE_NOT_AVAILABLE = ResponseCode.SLAVE_NOT_AVAILABLE


STATUSES: Final = {int(one.value): one for one in SendStatus}
"""The status by the code of an answer; other codes are refusals."""


class SendResult(NamedTuple):
    """A stored message, or a stored batch.

    `message_id` is the UNIQ_KEY that the producer made, `offset_message_id` names the place in a broker's CommitLog;
    both list the ids of a batch with commas, and `queue_offset` is that of its first message. `recall_handle` recalls a
    timer message.
    """

    status: SendStatus
    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    recall_handle: str | None = None
    region_id: str = "DefaultRegion"
    is_traced: bool = True


class SendAnswer(SendMessageResponseHeader, kw_only=True):
    """The fields of an answer, those of trace among them."""

    region_id: str = msgspec.field(name="MSG_REGION", default="DefaultRegion")
    trace_on: str = msgspec.field(name="TRACE_ON", default="true")


def send_result(reply: Command, message_id: str, queue: MessageQueue) -> SendResult:
    """Return the result that an answer of a code of `STATUSES` describes. Raises HeaderError."""
    found = reply.header(SendAnswer)
    return SendResult(
        STATUSES[reply.code],
        message_id,
        found.msg_id,
        queue if found.queue_id == queue.queue_id else queue._replace(queue_id=found.queue_id),
        found.queue_offset,
        found.transaction_id,
        found.recall_handle,
        found.region_id,
        found.trace_on != "false",
    )
