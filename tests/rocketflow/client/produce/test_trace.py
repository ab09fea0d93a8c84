"""Rows of trace: their form, how they are packed, and that brokers get them."""

from __future__ import annotations

import asyncio
import logging
import random

import pytest

from rocketflow.aio.loop import run
from rocketflow.client import Message, Producer, SendResult, SendStatus, TransactionProducer, TransactionState
from rocketflow.client.errors import ClientError, RequestRefusedError
from rocketflow.client.produce.trace import (
    FLUSH_ROWS,
    Traced,
    Tracer,
    TraceRow,
    TraceType,
    ended_row,
    sent_row,
    trace_messages,
)
from rocketflow.remoting.bodies import MessageQueue
from rocketflow_store.spi.messages import ReceivedMessage
from tests.support.client_cluster import ClientCluster
from tests.support.trials import SEED

RESULT = SendResult(SendStatus.SEND_OK, "UK", "OFF", MessageQueue("t", "a", 0), 5, region_id="R")
HOST = "127.0.0.1:10911"


def test_a_row_of_a_send_has_the_fields_of_rocketmq() -> None:
    row = sent_row(Traced("t", "UK", "tag", "k1 k2"), RESULT, "g", (1000, 7), HOST, 3, TraceType.NORMAL)
    assert (
        row.text
        == "\x01".join(["Pub", "1000", "R", "g", "t", "UK", "tag", "k1 k2", HOST, "3", "7", "0", "OFF", "true"])
        + "\x02"
    )
    assert row.keys == ("UK", "k1", "k2")
    failed = RESULT._replace(status=SendStatus.FLUSH_DISK_TIMEOUT)
    bare = sent_row(Traced("t", "UK", "", ""), failed, "g", (1, 2), HOST, 3, TraceType.DELAY)
    assert bare.text.split("\x01")[6:8] == ["null", "null"]
    assert bare.text.split("\x01")[11:] == ["3", "OFF", "false\x02"]
    assert bare.keys == ("UK",)


def test_a_row_of_an_end_has_the_fields_of_rocketmq() -> None:
    row = ended_row(Traced("t", "UK", "tag", "k"), "g", 9, HOST, "TX", "COMMIT_MESSAGE", is_check=True)
    assert (
        row.text
        == "\x01".join(
            [
                "EndTransaction",
                "9",
                "DefaultRegion",
                "g",
                "t",
                "UK",
                "tag",
                "k",
                HOST,
                "2",
                "TX",
                "COMMIT_MESSAGE",
                "true",
            ]
        )
        + "\x02"
    )


def test_rows_are_packed_by_topic_and_size_and_none_is_lost() -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    rows = [
        TraceRow(f"t{rng.randrange(3)}", f"{number}:" + "x" * rng.randrange(3_000) + "\x02", (f"k{number}",))
        for number in range(1_000)
    ]
    messages = list(trace_messages("TRACE", rows))
    found = [part for one in messages for part in one.body.decode().split("\x02")[:-1]]
    assert sorted(found) == sorted(one.text[:-1] for one in rows)
    for one in messages:
        assert len(one.body) < 128_000
        assert len(one.keys) <= FLUSH_ROWS
        assert [f"k{part.split(':')[0]}" for part in one.body.decode().split("\x02")[:-1]] == list(one.keys)
        assert one.topic == "TRACE"


def test_rows_that_cannot_be_sent_or_are_too_many_are_dropped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def refused(message: Message) -> None:
        raise ClientError("no broker")

    tracer = Tracer("TRACE", refused)
    wanted = [tracer.add(TraceRow("t", "r\x02", ("k",))) for _ in range(3_000)]
    assert wanted.index(True) == FLUSH_ROWS - 1
    with caplog.at_level(logging.INFO, "rocketflow.client"):
        run(tracer.flush())
    assert "952 rows of trace were dropped" in caplog.text
    assert "rows of trace were not sent: no broker" in caplog.text


def test_brokers_get_rows_of_sends_batches_and_transactions(cluster: ClientCluster) -> None:
    async def commit(_: Message | ReceivedMessage) -> TransactionState:
        return TransactionState.COMMIT

    async def main() -> None:
        await cluster.create_topic("traced", 1)
        await cluster.create_topic("rows", 1)
        async with TransactionProducer(cluster.options(group="tracers", trace_topic="rows"), commit) as producer:
            one = await producer.send(Message("traced", b"one", tags="t", keys=["k1", "k2"]))
            batch = await producer.send_batch([Message("traced", b"a"), Message("traced", b"b")])
            delayed = await producer.send(Message("traced", b"d", delay_level=1))
            ended = await producer.send_in_transaction(Message("traced", b"half"), commit)
        async with Producer(cluster.options(group="untraced")) as producer:
            await producer.send(Message("traced", b"quiet"))
        found = await cluster.stored("rows")
        rows = [row.split("\x01") for message in found for row in message.body.decode().split("\x02")[:-1]]
        assert [(row[0], row[5]) for row in rows] == [
            ("Pub", one.message_id),
            ("Pub", batch.message_id),
            ("Pub", delayed.message_id),
            ("Pub", ended.send.message_id),
            ("EndTransaction", ended.send.message_id),
        ]
        assert [row[11] for row in rows] == ["0", "0", "3", "1", "COMMIT_MESSAGE"]
        assert {row[3] for row in rows} == {"tracers"}
        assert rows[0][6:9] == ["t", "k1 k2", cluster.broker.address]
        keys = {key for message in found for key in message.keys}
        assert {one.message_id, "k1", "k2", ended.send.message_id} <= keys

    run(main())


def test_a_recall_has_a_row_whether_it_succeeds_or_not(cluster: ClientCluster) -> None:
    async def main() -> None:
        await cluster.create_topic("recalled", 1)
        await cluster.create_topic("recall-rows", 1)
        async with Producer(cluster.options(group="recallers", trace_topic="recall-rows")) as producer:
            sent = await producer.send(Message("recalled", b"late", delay_s=3600))
            with pytest.raises(RequestRefusedError, match="topic not match"):
                await producer.recall("recall-rows", sent.recall_handle or "")
            assert await producer.recall("recalled", sent.recall_handle or "") == sent.message_id
        rows = "".join(one.body.decode() for one in await cluster.stored("recall-rows")).split("\x02")
        assert sorted(one.split("\x01")[2:] for one in rows if one.startswith("Recall")) == [
            ["DefaultRegion", "recallers", "recall-rows", sent.message_id, "false"],
            ["DefaultRegion", "recallers", "recalled", sent.message_id, "true"],
        ]

    run(main())


def test_many_rows_are_sent_before_the_producer_closes(cluster: ClientCluster) -> None:
    async def main() -> None:
        await cluster.create_topic("much", 1)
        await cluster.create_topic("many-rows", 1)
        async with Producer(cluster.options(trace_topic="many-rows")) as producer:
            await asyncio.gather(*(producer.send(Message("much", b"b")) for _ in range(3 * FLUSH_ROWS)))
            async with asyncio.timeout(60):
                while len(await cluster.stored("many-rows")) < 3:
                    await asyncio.sleep(0.02)
        rows = "".join(one.body.decode() for one in await cluster.stored("many-rows"))
        assert rows.count("\x02") == 3 * FLUSH_ROWS

    run(main())
