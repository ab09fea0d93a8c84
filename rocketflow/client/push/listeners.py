"""Listeners: what users give to a push consumer, and how their outcome is read.

RocketMQ's source: client/consumer/listener/*.java.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow.remoting.bodies import MessageQueue

if TYPE_CHECKING:
    from rocketflow_store.spi.messages import ReceivedMessage

LOG: Final = logging.getLogger("rocketflow.client")


class ConsumeStatus(Enum):
    """The outcome of a listener's call.

    After RECONSUME_LATER, a concurrent listener gets the messages again from the retry topic, an orderly one once its
    queue was suspended for a moment.
    """

    SUCCESS = "SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"


@dataclass(slots=True)
class ConsumeContext:
    """The queue of the messages, and settings that a listener may change before it returns.

    `delay_level` is when messages of a concurrent listener are retried: 0 lets the broker choose by the number of
    trials, -1 makes them dead letters at once. `ack_index` is the index of the last message that succeeded, None for
    all. `suspend_s` is how long an orderly queue is suspended, None for the consumer's option.
    """

    queue: MessageQueue
    delay_level: int = 0
    ack_index: int | None = None
    suspend_s: float | None = None


Listener = Callable[[list["ReceivedMessage"], ConsumeContext], Awaitable[ConsumeStatus | None]]
"""Consumes messages. None counts as SUCCESS; an exception is logged and counts as RECONSUME_LATER."""


class Outcome(NamedTuple):
    """The status of a call, and the error that the listener raised."""

    status: ConsumeStatus
    error: Exception | None = None


_SUCCESS: Final = Outcome(ConsumeStatus.SUCCESS)


async def call(listener: Listener, messages: list[ReceivedMessage], context: ConsumeContext) -> Outcome:
    """Call a listener and return its outcome; what it raises is logged with the messages' ids."""
    try:
        status = await listener(messages, context)
    except Exception as error:  # a user's function may raise anything
        LOG.warning("%s", _failure(messages, context, "raised"), exc_info=True)
        return Outcome(ConsumeStatus.RECONSUME_LATER, error)
    if status is None or status is ConsumeStatus.SUCCESS:
        return _SUCCESS
    if isinstance(status, ConsumeStatus):
        return Outcome(status)
    error = TypeError(f"the listener returned {status!r}; a ConsumeStatus or None is expected")
    LOG.error("%s: %s", _failure(messages, context, "returned a wrong value"), error)
    return Outcome(ConsumeStatus.RECONSUME_LATER, error)


def _failure(messages: list[ReceivedMessage], context: ConsumeContext, what: str) -> str:
    topic, broker, queue_id = context.queue
    ids = ", ".join(one.message_id for one in messages[:3]) + (", ..." if len(messages) > 3 else "")
    return f"the listener {what} for {len(messages)} messages of {topic}, {broker} queue {queue_id} ({ids})"


def succeeded(messages: list[ReceivedMessage], context: ConsumeContext, status: ConsumeStatus) -> int:
    """Return how many messages of a concurrent listener's call succeeded, from the first on."""
    if status is not ConsumeStatus.SUCCESS:
        return 0
    if context.ack_index is None:
        return len(messages)
    return max(0, min(context.ack_index + 1, len(messages)))
