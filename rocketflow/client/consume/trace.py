"""The trace of a consumer: rows before and after messages are consumed, sent by a producer of its own.

RocketMQ's source: client/trace/hook/ConsumeMessageTraceHookImpl.java, client/trace/AsyncTraceDispatcher.java,
client/consumer/listener/ConsumeReturnType.java, client/impl/consumer/DefaultLitePullConsumerImpl.java (poll).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import fields
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow.client.ids import unique_keys
from rocketflow.client.options import ClientOptions
from rocketflow.client.produce.options import ProducerOptions
from rocketflow.client.produce.producer import Producer
from rocketflow.client.produce.trace import FLUSH_SECONDS, Traced, Tracer, TraceRow, traced_row

if TYPE_CHECKING:
    from rocketflow_store.spi.messages import ReceivedMessage

_GROUP: Final = "_INNER_TRACE_PRODUCER-CONSUME"


class ReturnType(IntEnum):
    """The ends of a listener's call, in the order of RocketMQ's ConsumeReturnType."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURN_NULL = 3
    FAILED = 4


class Consumed(NamedTuple):
    """Messages whose rows before were added, the id that joins those to the rows after, and the time in ms."""

    request_id: str
    messages: list[Traced]
    began_ms: int


def before_row(traced: Traced, group: str, now_ms: int, region: str, request_id: str, reconsume_times: int) -> TraceRow:
    """Return the row of a message that is about to be consumed."""
    head = ("SubBefore", now_ms, region, group, request_id)
    return traced_row(traced, *head, traced.message_id, reconsume_times, traced.keys or "null")


def after_row(traced: Traced, group: str, now_ms: int, request_id: str, cost_ms: int, kind: ReturnType) -> TraceRow:
    """Return the row of a message that was consumed, or was to be; `cost_ms` is its share of the call's time."""
    is_ok = kind is ReturnType.SUCCESS
    head = ("SubAfter", request_id, traced.message_id, cost_ms, is_ok, traced.keys or "null")
    return traced_row(traced, *head, int(kind), now_ms, group)


class ConsumeTrace:
    """Collects the rows of a consumer and sends them to a trace topic.

    Messages of the trace topic, and those whose producer or broker wants no trace, have no rows.
    """

    def __init__(self, options: ClientOptions, group: str, topic: str) -> None:
        shared = {one.name: getattr(options, one.name) for one in fields(ClientOptions)}
        self._producer = Producer(ProducerOptions(**{**shared, "group": _GROUP, "instance_name": ""}))
        self._tracer = Tracer(topic, self._producer.send)
        self._group = group
        self._ids = unique_keys()

    async def start(self) -> None:
        """Begin to send rows every FLUSH_SECONDS."""
        await self._producer.start()
        self._producer.cluster.spawn(self._flush_regularly())

    async def close(self) -> None:
        """Send the rows that wait, and disconnect."""
        await self._tracer.flush()
        await self._producer.close()

    def before(self, messages: Iterable[ReceivedMessage]) -> Consumed:
        """Add the rows of messages that are about to be consumed."""
        request_id, now_ms = self._ids.next(), int(time.time() * 1000)
        found: list[Traced] = []
        for one in messages:
            if one.topic == self._tracer.topic or one.properties.get("TRACE_ON") == "false":
                continue
            traced = Traced(one.topic, one.message_id, one.tags or "", " ".join(one.keys))
            region = one.properties.get("MSG_REGION", "null")
            self._add(before_row(traced, self._group, now_ms, region, request_id, one.reconsume_times))
            found.append(traced)
        return Consumed(request_id, found, now_ms)

    def after(self, consumed: Consumed, kind: ReturnType) -> None:
        """Add the rows of messages that were consumed, or were to be."""
        now_ms = int(time.time() * 1000)
        for one in consumed.messages:
            cost_ms = (now_ms - consumed.began_ms) // len(consumed.messages)
            self._add(after_row(one, self._group, now_ms, consumed.request_id, cost_ms, kind))

    def _add(self, row: TraceRow) -> None:
        if self._tracer.add(row):
            self._producer.cluster.spawn(self._tracer.flush())

    async def _flush_regularly(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            await self._tracer.flush()
