"""Traces: rows about messages that were sent, as mqadmin and dashboards read them from a trace topic.

RocketMQ's source: client/trace/TraceDataEncoder.java, AsyncTraceDispatcher.java, hook/SendMessageTraceHookImpl.java,
hook/EndTransactionTraceHookImpl.java, hook/DefaultRecallMessageTraceHook.java.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from rocketflow.client.errors import ClientError
from rocketflow.client.produce.results import SendResult, SendStatus
from rocketflow_store.spi.messages import Message

LOG: Final = logging.getLogger("rocketflow.client")

TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
FLUSH_ROWS: Final = 100
"""Rows that are sent at once; fewer wait for the next flush."""

FLUSH_SECONDS: Final = 1.0
_MAX_ROWS: Final = 2048
_MAX_BYTES: Final = 118_000
_REGION: Final = "DefaultRegion"


class TraceType(IntEnum):
    """The kinds of messages, in the order of RocketMQ's MessageType."""

    NORMAL = 0
    TRANSACTION_HALF = 1
    TRANSACTION_COMMIT = 2
    DELAY = 3


class TraceRow(NamedTuple):
    """A row, the topic of the message that it is about, and the keys by which it is found."""

    topic: str
    text: str
    keys: tuple[str, ...]


class Traced(NamedTuple):
    """The parts of a message that rows have; `keys` are separated by spaces."""

    topic: str
    message_id: str
    tags: str
    keys: str

    @classmethod
    def of(cls, message: Message, message_id: str) -> Traced:
        """Return the parts of a message to send."""
        properties = message.wire_properties()
        return cls(message.topic, message_id, properties.get("TAGS", ""), properties.get("KEYS", ""))


def sent_row(
    traced: Traced, result: SendResult, group: str, times_ms: tuple[int, int], host: str, size: int, kind: TraceType
) -> TraceRow:
    """Return the row of a send; `times_ms` are those of its begin (since 1970) and its duration, `size` the body's."""
    begin_ms, cost_ms = times_ms
    head = ("Pub", begin_ms, result.region_id, group, traced.topic, traced.message_id, *_words(traced), host)
    is_ok = result.status is SendStatus.SEND_OK
    return traced_row(traced, *head, size, cost_ms, int(kind), result.offset_message_id, is_ok)


def ended_row(
    traced: Traced, group: str, now_ms: int, host: str, transaction_id: str, state: str, *, is_check: bool
) -> TraceRow:
    """Return the row of a transaction's end; `state` is a name of RocketMQ's LocalTransactionState."""
    head = ("EndTransaction", now_ms, _REGION, group, traced.topic, traced.message_id, *_words(traced), host)
    return traced_row(traced, *head, int(TraceType.TRANSACTION_COMMIT), transaction_id, state, is_check)


def recalled_row(traced: Traced, group: str, now_ms: int, region: str, *, is_recalled: bool) -> TraceRow:
    """Return the row of a timer message's recall, which the broker of a region has answered."""
    return traced_row(traced, "Recall", now_ms, region, group, traced.topic, traced.message_id, is_recalled)


def traced_row(traced: Traced, *fields: object) -> TraceRow:
    """Return the row of fields, which is found by the message's id and keys."""
    text = "\x01".join(str(one).lower() if isinstance(one, bool) else str(one) for one in fields) + "\x02"
    return TraceRow(traced.topic, text, (traced.message_id, *traced.keys.split()))


class Tracer:
    """Collects rows and sends them; rows above `_MAX_ROWS` are dropped, and so are those that cannot be sent."""

    def __init__(self, topic: str, send: Callable[[Message], Awaitable[object]]) -> None:
        self.topic = topic
        self._send = send
        self._rows: list[TraceRow] = []
        self._dropped = 0

    def add(self, row: TraceRow) -> bool:
        """Take a row and return whether so many wait that they are to be sent now."""
        if len(self._rows) >= _MAX_ROWS:
            self._dropped += 1
            return False
        self._rows.append(row)
        return len(self._rows) >= FLUSH_ROWS

    async def flush(self) -> None:
        """Send the rows that wait; a failure is logged."""
        rows, self._rows = self._rows, []
        dropped, self._dropped = self._dropped, 0
        if dropped:
            LOG.warning("%d rows of trace were dropped: topic %s takes them too slowly", dropped, self.topic)
        for message in trace_messages(self.topic, rows):
            try:
                await self._send(message)
            except ClientError as error:
                LOG.info("rows of trace were not sent: %s", error)


def trace_messages(trace_topic: str, rows: list[TraceRow]) -> Iterator[Message]:
    """Yield the messages that carry rows: each is about one topic, and its keys are those of its rows."""
    by_topic: defaultdict[str, list[TraceRow]] = defaultdict(list)
    for one in rows:
        by_topic[one.topic].append(one)
    for found in by_topic.values():
        part: list[TraceRow] = []
        size = 0
        for one in found:
            part.append(one)
            size += len(one.text)
            if size >= _MAX_BYTES or len(part) >= FLUSH_ROWS:
                yield _message(trace_topic, part)
                part, size = [], 0
        if part:
            yield _message(trace_topic, part)


def _message(trace_topic: str, rows: list[TraceRow]) -> Message:
    keys = dict.fromkeys(key for one in rows for key in one.keys)
    return Message(trace_topic, "".join(one.text for one in rows).encode(), keys=list(keys))


def _words(traced: Traced) -> tuple[str, str]:
    """Return tags and keys as Java writes them: a text that is missing is the word null."""
    return traced.tags or "null", traced.keys or "null"
