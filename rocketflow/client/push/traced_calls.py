"""A listener with rows of trace before and after its calls.

RocketMQ's source: client/impl/consumer/ConsumeMessageConcurrentlyService.java and ConsumeMessageOrderlyService.java
(ConsumeRequest.run), client/trace/hook/ConsumeMessageTraceHookImpl.java.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rocketflow.client.consume.trace import ConsumeTrace, ReturnType
from rocketflow.client.push.listeners import ConsumeContext, ConsumeStatus

if TYPE_CHECKING:
    from rocketflow.client.push.listeners import Listener
    from rocketflow_store.spi.messages import ReceivedMessage


def traced_listener(listener: Listener, trace: ConsumeTrace, timeout_s: float) -> Listener:
    """Return a listener that calls another one and adds rows; a call of `timeout_s` or longer is one that timed out."""

    async def call(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeStatus | None:
        consumed, began = trace.before(messages), time.monotonic()
        kind = ReturnType.EXCEPTION
        try:
            status = await listener(messages, context)
            kind = _kind(status)
            return status
        finally:
            is_late = time.monotonic() - began >= timeout_s
            trace.after(consumed, ReturnType.TIME_OUT if is_late else kind)

    return call


def _kind(status: object) -> ReturnType:
    if status is None or status is ConsumeStatus.SUCCESS:
        return ReturnType.SUCCESS
    return ReturnType.FAILED if status is ConsumeStatus.RECONSUME_LATER else ReturnType.RETURN_NULL
