"""Producers of transactions against RocketFlow's broker, which asks soon for states that it was not sent."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from dataclasses import replace

import pytest

from rocketflow.aio.loop import run
from rocketflow.client import Message, ProducerOptions, TransactionProducer, TransactionState, sync
from rocketflow.client.produce.errors import BadMessageError
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.command import request
from rocketflow.remoting.headers.transaction import CheckTransactionStateRequestHeader, EndTransactionRequestHeader
from rocketflow_store.spi.messages import ReceivedMessage
from tests.support.client_cluster import ClientCluster
from tests.support.record_bytes import record
from tests.support.scripted_broker import ScriptedBroker, scripted

COMMIT, ROLLBACK, UNKNOWN = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN


async def bodies_of(cluster: ClientCluster, topic: str, count: int) -> list[bytes]:
    async with asyncio.timeout(60):
        while len(found := await cluster.stored(topic)) < count:
            await asyncio.sleep(0.05)
    return sorted(one.body for one in found)


async def no_check(_: ReceivedMessage) -> TransactionState:
    return UNKNOWN


def test_consumers_see_what_commits_and_nothing_that_rolls_back(cluster: ClientCluster) -> None:
    stored_before: list[int] = []

    async def main() -> None:
        await cluster.create_topic("ended")

        async def execute(message: Message) -> TransactionState:
            assert len(message.unique_key) == 32
            stored_before.append(len(await cluster.stored("ended")))
            return COMMIT if message.body == b"yes" else ROLLBACK

        async with TransactionProducer(cluster.options(group="ending"), no_check) as producer:
            for body in (b"yes", b"no"):
                message = Message("ended", body, tags="t")
                result = await producer.send_in_transaction(message, execute)
                assert result.state is (COMMIT if body == b"yes" else ROLLBACK)
                assert result.send.message_id == message.unique_key == result.send.transaction_id
                assert "TRAN_MSG" not in message.properties
                assert await bodies_of(cluster, "ended", 1) == [b"yes"]
            (found,) = await cluster.stored("ended")
            assert (found.tags, found.message_id) == ("t", found.properties["UNIQ_KEY"])
            assert found.sys_flag & 0xC == 8
        assert stored_before == [0, 1]

    run(main())


def test_a_broker_asks_for_states_that_are_unknown(cluster: ClientCluster) -> None:
    asked: Counter[bytes] = Counter()

    async def execute(message: Message) -> TransactionState:
        if message.body == b"raises":
            raise ValueError("the database is away")
        return UNKNOWN

    async def check(message: ReceivedMessage) -> TransactionState:
        assert message.topic == "asked"
        asked[message.body] += 1
        if asked[message.body] == 1:
            raise ValueError("not yet")
        return ROLLBACK if message.body == b"rolled back" else COMMIT

    async def main() -> None:
        await cluster.create_topic("asked")
        async with TransactionProducer(cluster.options(group="asked"), check) as producer:
            for body in (b"raises", b"unknown", b"rolled back"):
                result = await producer.send_in_transaction(Message("asked", body), execute)
                assert result.state is UNKNOWN
                assert isinstance(result.error, ValueError) is (body == b"raises")
            assert await bodies_of(cluster, "asked", 2) == [b"raises", b"unknown"]
            async with asyncio.timeout(60):
                while asked[b"rolled back"] < 2:
                    await asyncio.sleep(0.05)
        assert set(asked) == {b"raises", b"unknown", b"rolled back"}

    run(main())


def test_a_producer_is_not_asked_for_the_transactions_of_another_group(cluster: ClientCluster) -> None:
    asked: list[str] = []

    async def first(message: ReceivedMessage) -> TransactionState:
        asked.append("first")
        return COMMIT

    async def second(message: ReceivedMessage) -> TransactionState:
        asked.append("second")
        return COMMIT

    async def unknown(_: Message) -> TransactionState:
        return UNKNOWN

    async def main() -> None:
        await cluster.create_topic("groups")
        async with (
            TransactionProducer(cluster.options(group="first"), first) as one,
            TransactionProducer(cluster.options(group="second"), second) as other,
        ):
            await other.send(Message("groups", b"plain"))
            await one.send_in_transaction(Message("groups", b"half"), unknown)
            assert await bodies_of(cluster, "groups", 2) == [b"half", b"plain"]

    run(main())
    assert set(asked) == {"first"}


def test_a_sync_producer_runs_both_functions_in_threads(cluster: ClientCluster) -> None:
    threads: set[str] = set()

    def execute(message: Message) -> TransactionState:
        threads.add(threading.current_thread().name)
        return UNKNOWN

    def check(message: ReceivedMessage) -> TransactionState:
        threads.add(threading.current_thread().name)
        return COMMIT

    run(cluster.create_topic("threads"))
    with sync.TransactionProducer(cluster.options(group="threads"), check) as producer:
        assert producer.send_in_transaction(Message("threads", b"b"), execute).state is UNKNOWN
        assert run(bodies_of(cluster, "threads", 1)) == [b"b"]
    assert threads
    assert "rocketflow-clients" not in threads


def test_a_delayed_message_cannot_be_in_a_transaction(cluster: ClientCluster) -> None:
    async def main() -> None:
        async with TransactionProducer(cluster.options(), no_check) as producer:
            with pytest.raises(BadMessageError, match="cannot be delayed"):
                await producer.send_in_transaction(Message("t", b"b", delay_level=1), no_execute)

    run(main())


async def no_execute(_: Message) -> TransactionState:
    raise AssertionError("a local transaction must not run")


def test_a_producer_ignores_a_check_of_another_group() -> None:
    async def check(message: ReceivedMessage) -> TransactionState:
        return COMMIT if message.body == b"right" else ROLLBACK

    async def main() -> None:
        broker = ScriptedBroker()
        for group, body in (("wrong", b"wrong"), ("right", b"right")):
            half = record("t", 3, body, {"PGROUP": group, "UNIQ_KEY": f"U-{group}"})
            header = CheckTransactionStateRequestHeader(tran_state_table_offset=3, commit_log_offset=3000)
            broker.requests.append(request(RequestCode.CHECK_TRANSACTION_STATE, header, body=half, one_way=True))
        options = ProducerOptions(group="right", name_servers="127.0.0.1:1")
        async with (
            scripted(broker) as names,
            TransactionProducer(replace(options, name_servers=names.address), check) as producer,
            asyncio.timeout(30),
        ):
            await producer.send(Message("t", b"b"))
            while not broker.ends:
                await asyncio.sleep(0.01)
        (end,) = [one.header(EndTransactionRequestHeader) for one in broker.ends]
        assert (end.msg_id, end.producer_group, end.commit_or_rollback) == ("U-right", "right", COMMIT)
        assert (end.tran_state_table_offset, end.commit_log_offset, end.from_transaction_check) == (3, 3000, True)

    run(main())


def test_a_close_waits_for_checks_that_run() -> None:
    async def main() -> None:
        running = asyncio.Event()

        async def check(_: ReceivedMessage) -> TransactionState:
            running.set()
            await asyncio.sleep(0.1)
            return COMMIT

        broker = ScriptedBroker()
        half = record("t", 3, b"b", {"PGROUP": "closing", "UNIQ_KEY": "U"})
        header = CheckTransactionStateRequestHeader(tran_state_table_offset=3, commit_log_offset=3000)
        broker.requests.append(request(RequestCode.CHECK_TRANSACTION_STATE, header, body=half, one_way=True))
        async with scripted(broker) as names, asyncio.timeout(30):
            options = ProducerOptions(group="closing", name_servers=names.address)
            async with TransactionProducer(options, check) as producer:
                await producer.send(Message("t", b"b"))
                await running.wait()
            while not broker.ends:
                await asyncio.sleep(0.01)

    run(main())
