"""Transactions at a broker process: what consumers see, what the op queue says, and which producers are asked."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from rocketflow.aio.loop import run
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command
from rocketflow.remoting.headers.transaction import ResumeCheckHalfMessageRequestHeader
from rocketflow_store import StoreReader
from rocketflow_store.fsck.verify import verify_store
from tests.support.request_headers import pull_header, send_header, topic_header
from tests.support.servers import RunningServer, no_traceback, running_broker, store_of, until
from tests.support.transactions import COMMIT, ROLLBACK, UNKNOWN, HalfPlace, TransactionClient
from tests.support.trials import LEVEL

HALF, OPS, GIVEN_UP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"
SYSTEM_GROUP = "CID_RMQ_SYS_TRANS"
QUICK = ("transactionTimeOut=1", "transactionCheckInterval=100")


def messages(store: Path, topic: str) -> list[Any]:
    """Return the messages of a topic's queues, in order."""
    with StoreReader(store) as reader:
        found = []
        for queue in reader.queues(topic) if topic in reader.topics() else []:
            low, end = reader.bounds(topic, queue)
            while low < end:
                got = reader.get_message(topic, queue, low)
                found += got.messages
                low = got.next_begin_offset
    return found


async def pulled(client: TransactionClient, topic: str = "t", queue_id: int = 0) -> int:
    """Return the number of messages that a consumer is offered."""
    answer = await client.ask(RequestCode.PULL_MESSAGE, pull_header(topic, queue_id))
    assert answer.code in (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND), answer.remark
    return int(answer.fields["maxOffset"])


async def made(client: TransactionClient, queues: int = 2) -> None:
    answer = await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_header("t", queues))
    assert answer.code == ResponseCode.SUCCESS


def stopped(broker: RunningServer) -> Path:
    """Stop a broker in order and return its store, which is sound."""
    broker.stop_in_order()
    store = store_of(broker)
    assert not verify_store(store).findings
    return store


def test_commit_makes_a_message_visible_and_rollback_does_not(tmp_path: Path) -> None:
    async def transactions(address: str) -> list[HalfPlace]:
        async with TransactionClient(address) as client:
            await made(client)
            first = await client.send(b"kept", queue_id=1, KEYS="k", TAGS="a", UNIQ_KEY="u0", colour="red")
            assert (first.fields["queueId"], first.fields["queueOffset"]) == ("1", "0")
            assert first.fields["transactionId"] == "u0"
            places = [await client.half(b"kept", queue_id=1, UNIQ_KEY=f"u{number}") for number in range(1, 4)]
            assert await pulled(client, queue_id=1) == 0
            assert (await client.end(places[0], COMMIT)).code == ResponseCode.SUCCESS
            assert await pulled(client, queue_id=1) == 1
            assert (await client.end(places[1], ROLLBACK)).code == ResponseCode.SUCCESS
            assert await pulled(client, queue_id=1) == 1
            await client.end_unanswered(places[2], UNKNOWN)
            await client.end_unanswered(places[2], COMMIT)
            assert await asyncio.to_thread(until, lambda: len(messages(store_of(broker), OPS)) == 3)
            assert await pulled(client, queue_id=1) == 2
            return places

    with running_broker(tmp_path) as broker:
        places = run(transactions(broker.address))
        store = stopped(broker)
    halves, committed, marks = (messages(store, topic) for topic in (HALF, "t", OPS))
    assert [(one.sys_flag, one.queue_id) for one in halves] == [(0, 0)] * 4
    properties = halves[0].properties
    assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == ("t", "1")
    assert (properties["__transactionId__"], properties["colour"], properties["TAGS"]) == ("u0", "red", "a")
    assert [one.prepared_transaction_offset for one in committed] == [places[0].phy_offset, places[2].phy_offset]
    assert [(one.sys_flag, one.queue_id, one.queue_offset) for one in committed] == [(8, 1, 0), (8, 1, 1)]
    own, of_half = (
        {name: one for name, one in message.properties.items() if name != "__CRC32#"}
        for message in (committed[0], halves[1])
    )
    assert own == of_half
    assert committed[0].body == b"kept"
    assert [one.body for one in marks] == [b"1,", b"2,", b"3,"]
    assert {one.properties["TAGS"] for one in marks} == {"d"}
    with StoreReader(store) as reader:
        assert reader.read_units(OPS, 0, 0, 1)["tags_code"].tolist() == [ord("d")]
    for mark, one in zip([marks[0], marks[2]], committed, strict=True):
        assert mark.phy_offset == one.phy_offset + one.store_size


def test_ends_of_one_iteration_share_an_op_mark(tmp_path: Path) -> None:
    async def transactions(address: str) -> None:
        async with TransactionClient(address) as client:
            await made(client)
            places = [await client.half(b"%d" % number) for number in range(40)]
            for number, place in enumerate(places):
                await client.end_unanswered(place, ROLLBACK if number % 3 == 0 else COMMIT)
            assert (await client.end(await client.half(b"last"), ROLLBACK)).code == ResponseCode.SUCCESS

    with running_broker(tmp_path, "transactionOpMsgMaxSize=50") as broker:
        run(transactions(broker.address))
        store = stopped(broker)
    marks = messages(store, OPS)
    ended = [int(one) for mark in marks for one in mark.body.decode().strip(",").split(",")]
    assert sorted(ended) == list(range(41))
    assert len(marks) < 30
    assert max(len(mark.body) for mark in marks) <= 50
    assert sorted(int(one.body) for one in messages(store, "t")) == [one for one in range(40) if one % 3]


@pytest.mark.parametrize(
    ("change", "remark"),
    [
        ({"group": "other"}, "producer group wrong"),
        ({"half_offset": 1}, "commit log offset wrong"),
        ({"half_offset": 9}, "Find prepared"),
        ({"half_offset": -1}, "Find prepared"),
        ({"half_offset": 2**63 - 1}, "Find prepared"),
        ({"phy_offset": 1}, "commit log offset wrong"),
    ],
)
def test_end_of_another_half_message_is_refused(broker: RunningServer, change: dict[str, Any], remark: str) -> None:
    async def transaction() -> None:
        async with TransactionClient(broker.address) as client:
            place, _ = await client.half(b"x", "refused"), await client.half(b"y", "refused")
            given = {"half_offset": place.half_offset, "phy_offset": place.phy_offset, "group": ""}
            if change.get("half_offset") in (1, 9):
                change["half_offset"] += place.half_offset
            wrong = {**given, **change}
            answer = await client.end(
                HalfPlace(wrong["half_offset"], wrong["phy_offset"]), COMMIT, group=wrong["group"]
            )
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert remark in (answer.remark or "")
            assert await pulled(client, "refused") == 0
            assert (await client.end(place, ROLLBACK)).code == ResponseCode.SUCCESS

    run(transaction())


def test_half_messages_that_cannot_be_ended_are_refused(tmp_path: Path) -> None:
    async def refusals(address: str) -> None:
        async with TransactionClient(address) as client:
            await made(client)
            for more in ({"DELAY": "3"}, {"TIMER_DELAY_MS": "5000"}):
                answer = await client.send(b"x", **more)
                assert answer.code == ResponseCode.MESSAGE_ILLEGAL
                assert "delayed" in (answer.remark or "")
            batch = send_header("t", 0, properties="TRAN_MSG\x01true\x02", batch=True)
            assert (await client.ask(RequestCode.SEND_MESSAGE, batch, b"x")).code == ResponseCode.MESSAGE_ILLEGAL
            assert (await client.send(b"x", DELAY="0")).code == ResponseCode.SUCCESS
            forged = await client.half(b"x", REAL_TOPIC="SCHEDULE_TOPIC_XXXX", REAL_QID="7")
            assert (await client.end(forged, COMMIT)).code == ResponseCode.SUCCESS
            assert await pulled(client) == 1

    with running_broker(tmp_path) as broker:
        run(refusals(broker.address))
        broker.stop_in_order()


def test_half_message_is_refused_where_transactions_are_switched_off(tmp_path: Path) -> None:
    async def refused(address: str) -> None:
        async with TransactionClient(address) as client:
            answer = await client.send(b"x")
            assert answer.code == ResponseCode.NO_PERMISSION
            assert "transaction" in (answer.remark or "")
            assert (await client.send(b"x", TRAN_MSG="false")).code == ResponseCode.MESSAGE_ILLEGAL  # sysFlag 4
            assert (await client.ask(RequestCode.SEND_MESSAGE, send_header("t"), b"x")).code == ResponseCode.SUCCESS

    with running_broker(tmp_path, "rejectTransactionMessage=true") as broker:
        run(refused(broker.address))


def test_undecided_message_is_asked_about_until_its_producer_decides(tmp_path: Path) -> None:
    async def transactions(address: str) -> None:
        async with TransactionClient(address) as client, TransactionClient(address, client_id="c2") as other:
            await made(client)
            await client.half(b"open", queue_id=1, UNIQ_KEY="u1", KEYS="k", city="Köln")
            await asyncio.gather(client.heartbeat(), other.heartbeat())
            async with asyncio.timeout(20):
                while not (client.questions and other.questions):
                    await asyncio.sleep(0.02)
            questions = [*client.questions, *other.questions]
            for one in questions:
                header, message = one.header, one.stored.message
                assert (header.topic, header.msg_id, header.transaction_id) == (HALF, "u1", "u1")
                assert (message.topic, message.queue_id, message.body) == ("t", 1, b"open")
                assert "city\x01Köln\x02".encode() in message.properties
                assert (one.stored.queue_offset, one.stored.phy_offset) == (
                    header.tran_state_table_offset,
                    header.commit_log_offset,
                )
            checks = sorted(one.stored.message.properties.split(b"TRANSACTION_CHECK_TIMES\x01")[1] for one in questions)
            assert checks == sorted(set(checks))
            newest = max(questions, key=lambda one: one.place.half_offset)
            assert (await client.end(newest.place, COMMIT, is_checked=True)).code == ResponseCode.SUCCESS
            assert await pulled(client, queue_id=1) == 1
            await asyncio.sleep(0.3)
            asked = len(client.questions) + len(other.questions)
            await asyncio.sleep(0.5)
            assert len(client.questions) + len(other.questions) == asked

    with running_broker(tmp_path, *QUICK, "transactionCheckMax=1000") as broker:
        run(transactions(broker.address))
        store = stopped(broker)
    half_end, op_end = len(messages(store, HALF)), len(messages(store, OPS))
    offsets = json.loads((store / "config/consumerOffset.json").read_text())["offsetTable"]
    assert offsets[f"{HALF}@{SYSTEM_GROUP}"] == {"0": half_end}
    assert offsets[f"{OPS}@{SYSTEM_GROUP}"] == {"0": op_end}


def test_message_asked_about_in_vain_is_given_up_and_resumed_by_an_operator(tmp_path: Path) -> None:
    async def transaction(address: str) -> None:
        async with TransactionClient(address) as client:
            await made(client)
            await client.half(b"undecided", UNIQ_KEY="u1")
            await client.heartbeat()
            given_up = store_of(broker)
            assert await asyncio.to_thread(until, lambda: bool(messages(given_up, GIVEN_UP)))
            assert len(client.questions) == 3
            (found,) = messages(given_up, GIVEN_UP)
            assert found.properties["TRANSACTION_CHECK_TIMES"] == "3"
            assert found.properties["REAL_TOPIC"] == "t"
            unknown = ResumeCheckHalfMessageRequestHeader(topic=GIVEN_UP, msg_id="00" * 16)
            answer = await client.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, unknown)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            resumed = ResumeCheckHalfMessageRequestHeader(topic=GIVEN_UP, msg_id=found.msg_id)
            assert (await client.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, resumed)).code == ResponseCode.SUCCESS
            question = (await client.asked(4))[3]
            assert b"TRANSACTION_CHECK_TIMES\x011\x02" in question.stored.message.properties
            assert (await client.end(question.place, COMMIT, is_checked=True)).code == ResponseCode.SUCCESS
            assert await pulled(client) == 1

    with running_broker(tmp_path, *QUICK, "transactionCheckMax=3") as broker:
        run(transaction(broker.address))
        stopped(broker)


def test_message_with_its_own_immunity_time_waits_and_does_not_hold_up_others(tmp_path: Path) -> None:
    async def transactions(address: str) -> None:
        async with TransactionClient(address) as client:
            await made(client)
            began = time.monotonic()
            immune = await client.half(b"immune", UNIQ_KEY="i", CHECK_IMMUNITY_TIME_IN_SECONDS="1")
            decided = await client.half(b"decided", UNIQ_KEY="d", CHECK_IMMUNITY_TIME_IN_SECONDS="1")
            await client.half(b"other", UNIQ_KEY="o")
            await client.heartbeat()
            assert (await client.asked(1))[0].header.msg_id == "o"
            assert (await client.end(decided, COMMIT)).code == ResponseCode.SUCCESS
            async with asyncio.timeout(20):
                while "i" not in {one.header.msg_id for one in client.questions}:
                    await asyncio.sleep(0.02)
            assert time.monotonic() - began > 0.9
            late = await client.end(immune, COMMIT)
            assert late.code == ResponseCode.ILLEGAL_OPERATION
            question = [one for one in client.questions if one.header.msg_id == "i"][-1]
            assert (await client.end(question.place, COMMIT, is_checked=True)).code == ResponseCode.SUCCESS
            assert await pulled(client) == 2
            assert "d" not in {one.header.msg_id for one in client.questions}

    with running_broker(tmp_path, *QUICK, "transactionCheckMax=1000") as broker:
        run(transactions(broker.address))
        assert sorted(one.body for one in messages(stopped(broker), "t")) == [b"decided", b"immune"]


class LateAnswers:
    """Transactions that are ended twice, by answers to two questions: `first` names one of their copies, `then` one."""

    CASES = tuple(
        product((COMMIT, ROLLBACK), (COMMIT, ROLLBACK), (0, 1, -1), (0, 1, -1), ("at once", "later", "killed"))
    )

    def __init__(self) -> None:
        self.places: dict[str, list[HalfPlace]] = {}

    def _end(self, client: TransactionClient, number: int, which: int) -> Coroutine[Any, Any, Command]:
        case, places = self.CASES[number], self.places[str(number)]
        return client.end(places[case[2 + which]], case[which], is_checked=True)

    async def begin(self, client: TransactionClient) -> None:
        """Let the producer be asked twice about each transaction, and give the first answers."""
        await made(client)
        for number in range(len(self.CASES)):
            self.places[str(number)] = [await client.half(b"%d" % number, UNIQ_KEY=str(number))]
        await client.heartbeat()
        async with asyncio.timeout(60):
            while min(map(len, self.places.values())) < 3:
                questions, client.questions = client.questions, []
                for one in questions:
                    self.places[one.header.msg_id].append(one.place)
                await asyncio.sleep(0.02)
        both = [number for number, one in enumerate(self.CASES) if one[4] == "at once"]
        ends = [self._end(client, number, which) for number in both for which in (0, 1)]
        self._check(both, [one.code for one in await asyncio.gather(*ends)])
        first = [number for number, one in enumerate(self.CASES) if one[4] != "at once"]
        answers = await asyncio.gather(*(self._end(client, number, 0) for number in first))
        assert {one.code for one in answers} == {ResponseCode.SUCCESS}
        await self.end_again(client, "later")

    async def end_again(self, client: TransactionClient, when: str) -> None:
        """Give the second answers; each says how the transaction ended, or is refused."""
        numbers = [number for number, one in enumerate(self.CASES) if one[4] == when]
        answers = await asyncio.gather(*(self._end(client, number, 1) for number in numbers))
        self._check(numbers, [code for one in answers for code in (ResponseCode.SUCCESS, one.code)])

    def _check(self, numbers: list[int], codes: list[int]) -> None:
        for number, answered in zip(numbers, zip(codes[::2], codes[1::2], strict=True), strict=True):
            first, then, *_ = self.CASES[number]
            expected = ResponseCode.SUCCESS if first == then else ResponseCode.SYSTEM_ERROR
            assert answered == (ResponseCode.SUCCESS, expected), self.CASES[number]


def test_late_answer_to_an_earlier_question_and_a_later_one_are_one_decision(tmp_path: Path) -> None:
    """Also if the broker is killed between both answers: the first of them counts."""
    settings, late = (*QUICK, "transactionCheckMax=100000"), LateAnswers()

    async def begin(address: str) -> None:
        async with TransactionClient(address) as client:
            await late.begin(client)

    async def end_again(address: str) -> None:
        async with TransactionClient(address) as client:
            await late.end_again(client, "killed")
            await client.heartbeat()
            other = await client.half(b"other", UNIQ_KEY="other")
            asked = {one.header.msg_id for one in await client.asked(1)}
            assert asked == {"other"}, "a producer is asked about what it has decided"
            assert (await client.end(other, ROLLBACK)).code == ResponseCode.SUCCESS

    with running_broker(tmp_path, *settings) as broker:
        run(begin(broker.address))
        broker.kill()
    with running_broker(tmp_path, *settings) as broker:
        run(end_again(broker.address))
        store = stopped(broker)
    committed = [str(number) for number, one in enumerate(late.CASES) if one[0] == COMMIT]
    assert sorted(one.body.decode() for one in messages(store, "t")) == sorted(committed)


@pytest.mark.skipif(LEVEL == "sample", reason="starts three brokers: RF_FAULTS=1 runs it")
def test_undecided_message_survives_a_restart_and_a_kill(tmp_path: Path) -> None:
    def with_client(address: str, call: Any) -> Any:
        async def called() -> Any:
            async with TransactionClient(address) as client:
                return await call(client)

        return run(called())

    async def begin(client: TransactionClient) -> tuple[HalfPlace, HalfPlace]:
        await made(client)
        return await client.half(b"one", UNIQ_KEY="1"), await client.half(b"two", UNIQ_KEY="2")

    async def check(client: TransactionClient) -> None:
        await client.heartbeat()
        await client.asked(2)

    async def decide(client: TransactionClient) -> None:
        await client.heartbeat()
        found = {one.header.msg_id: one for one in await client.asked(4)}
        for one in found.values():
            assert (await client.end(one.place, COMMIT, is_checked=True)).code == ResponseCode.SUCCESS
        assert await pulled(client) == 2

    settings = (*QUICK, "transactionCheckMax=1000")
    with running_broker(tmp_path, "transactionCheckInterval=60000") as broker:
        with_client(broker.address, begin)
        broker.stop_in_order()
    with running_broker(tmp_path, *settings) as broker:
        with_client(broker.address, check)
        broker.kill()
        no_traceback(broker)
    with running_broker(tmp_path, *settings) as broker:
        with_client(broker.address, decide)
        store = stopped(broker)
    assert sorted(one.body for one in messages(store, "t")) == [b"one", b"two"]
