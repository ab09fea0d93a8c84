"""Rows of trace about the calls of a listener."""

from __future__ import annotations

import asyncio

import pytest

from rocketflow.aio.loop import run
from rocketflow.client import Message, Producer, ProducerOptions, PushConsumer
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.consume.trace import ConsumeTrace
from rocketflow.client.options import ClientOptions
from rocketflow.client.push import ConsumeContext, ConsumeStatus
from rocketflow_store.spi.messages import ReceivedMessage
from tests.support.pushing import consuming, make_topic, operator, options, until

KINDS = {b"good": ("true", "0"), b"slow": ("false", "1"), b"bad": ("false", "2"), b"odd": ("false", "3")}
KINDS |= {b"later": ("false", "4")}
"""Bodies, and what the row of the first call about each says: success, and how the call ended."""


async def listen(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeStatus | None:
    (one,) = messages
    context.delay_level = -1  # no second try
    if one.body == b"slow":
        await asyncio.sleep(60)
    if one.body == b"bad":
        raise ValueError("this one fails")
    if one.body == b"odd":
        return "what"  # type: ignore[return-value]
    return ConsumeStatus.RECONSUME_LATER if one.body == b"later" else None


async def rows_of(admin: AdminClient, topic: str) -> list[list[str]]:
    found: list[list[str]] = []
    for queue, bounds in (await admin.topic_status(topic)).items():
        offset = 0
        while offset < bounds.max_offset:
            pulled = await admin.pull(queue, offset)
            offset = pulled.next_offset
            for one in pulled.messages:
                found += [row.split("\x01") for row in one.body.decode().split("\x02")[:-1]]
    return found


@pytest.mark.parametrize("orderly", [False, True])
def test_each_call_has_rows_before_and_after(names: str, orderly: bool) -> None:
    topic, trace, group = f"traced-{orderly}", f"rows-{orderly}", f"g-traced-{orderly}"
    kinds = {b"good": KINDS[b"good"]} if orderly else KINDS  # an orderly queue goes no further than a failure

    async def consume() -> None:
        await make_topic(names, topic)
        await make_topic(names, trace)
        sent = {}
        async with Producer(ProducerOptions(name_servers=names, group="traced")) as producer:
            for body in kinds:
                sent[(await producer.send(Message(topic, body, keys=["k", body.decode()]))).message_id] = body
        made = options(names, group, orderly=orderly, trace_topic=trace, consume_timeout_s=1.0)
        async with operator(names) as admin, consuming(made, listen, topic) as consumer:
            assert isinstance(consumer, PushConsumer)

            async def all_came() -> bool:
                return sum(row[0] == "SubAfter" for row in await rows_of(admin, trace)) >= len(kinds)

            await until(all_came)
            found = await rows_of(admin, trace)
        before = {sent[row[5]]: row for row in found if row[0] == "SubBefore"}
        after = {sent[row[2]]: row for row in found if row[0] == "SubAfter"}
        assert before.keys() == after.keys() == kinds.keys()
        for body, (is_ok, kind) in kinds.items():
            assert [*before[body][2:4], *before[body][6:]] == ["DefaultRegion", group, "0", f"k {body.decode()}"]
            assert before[body][4] == after[body][1], "the rows of a call have one request id"
            assert [*after[body][4:7], after[body][8]] == [is_ok, f"k {body.decode()}", kind, group]

    run(consume())


def test_rows_and_messages_that_shall_not_be_traced_have_no_row() -> None:
    quiet = ReceivedMessage("t", 0, 0, b"", {"UNIQ_KEY": "quiet", "TRACE_ON": "false"})
    row = ReceivedMessage("rows", 0, 0, b"", {"UNIQ_KEY": "row"})
    loud = ReceivedMessage("t", 0, 1, b"", {"UNIQ_KEY": "loud", "TRACE_ON": "true"})

    async def main() -> None:
        trace = ConsumeTrace(ClientOptions(name_servers="127.0.0.1:1"), "g", "rows")
        assert [one.message_id for one in trace.before([quiet, row, loud]).messages] == ["loud"]

    run(main())
