"""The Python producer with Apache's broker and Java's consumer: what it sends is what Java's client receives."""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from rocketflow.aio.loop import run
from rocketflow.client import (
    ClientOptions,
    Message,
    Producer,
    ProducerOptions,
    SendStatus,
    TransactionProducer,
    TransactionState,
)
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.consume.trace import ReturnType, after_row, before_row
from rocketflow.client.errors import NoRouteError
from rocketflow.client.produce import SendResult
from rocketflow.client.produce.trace import Traced, TraceType, ended_row, recalled_row, sent_row
from rocketflow.remoting.bodies import MessageQueue
from rocketflow_store.spi.messages import Compression, ReceivedMessage
from rocketflow_store.spi.table_rows import TopicConfig
from tests.apache.clients import cluster, jars
from tests.apache.judge import versions
from tests.apache.test_apache_opens_rocketflow_stores import SIZES
from tests.support.java_programs import FLAGS, compiled
from tests.support.maven import java_and_javac
from tests.support.real_broker import RealBroker
from tests.support.servers import wait_for_a_broker

pytestmark = [pytest.mark.apache, pytest.mark.slow, pytest.mark.timeout(1_800)]

JAVA: Final = "5.3.3"
SECONDS: Final = 240
SETTINGS: Final = (
    *("transactionTimeOut=1500", "transactionCheckInterval=1000", "transactionCheckMax=200"),
    "recallMessageEnable=true",
)
COMMIT, ROLLBACK, UNKNOWN = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN


class Line(NamedTuple):
    """A message as Java's consumer prints it; texts that are missing are `null`."""

    topic: str
    message_id: str
    tags: str
    keys: str
    flag: str
    colour: str
    body: bytes


@contextmanager
def servers(place: str, home: Path) -> Iterator[str]:
    """Run a NameServer and a broker and yield the address of the first."""
    if place == "RocketFlow":
        with cluster(home, *SETTINGS) as (names, _):
            wait_for_a_broker(names.address)
            yield names.address
        return
    conf = "".join(f"{one}\n" for one in SETTINGS)
    with RealBroker(place, home / "store", SIZES, home / "work", conf, last=True) as broker:
        address = f"127.0.0.1:{broker.names_port}"
        wait_for_a_broker(address)
        yield address


@contextmanager
def java_consumer(names: str, home: Path, count: int, *topics: str) -> Iterator[subprocess.Popen[str]]:
    """Run Java's push consumer until the end of the block."""
    lib = jars(JAVA)
    command = [java_and_javac()[0], *FLAGS, f"-Duser.home={home}", "-cp", f"{lib}/*:{compiled('Received', JAVA, lib)}"]
    arguments = ["Received", names, "java-readers", str(SECONDS), str(count), *topics]
    process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def lines_of(process: subprocess.Popen[str]) -> list[Line]:
    """Wait for the consumer's end and return the messages that it received."""
    out, err = process.communicate(timeout=SECONDS + 60)
    found = [one.split("\t")[1:] for one in out.splitlines() if one.startswith("message\t")]
    assert found, err[-3000:]
    return [Line(*one[:-1], base64.b64decode(one[-1])) for one in found]


def java(program: str, home: Path, *arguments: str) -> str:
    """Run a program of `java/` to its end and return what it printed."""
    lib = jars(JAVA)
    flags = [*FLAGS, f"-Duser.home={home}", "-cp", f"{lib}/*:{compiled(program, JAVA, lib)}"]
    command = [java_and_javac()[0], *flags, program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


async def create_topics(names: str, *topics: str) -> None:
    async with AdminClient(ClientOptions(name_servers=names, timeout_s=30)) as admin:
        (address,) = await admin.masters("TBW102")
        for one in topics:
            await admin.create_topic(address, TopicConfig(topic_name=one, read_queue_nums=2, write_queue_nums=2))
        async with asyncio.timeout(60):
            for one in topics:
                while True:
                    try:
                        await admin.route(one)
                        break
                    except NoRouteError:
                        await asyncio.sleep(0.1)


async def send_all(names: str) -> dict[str, Line]:
    """Send messages of all kinds to topic `kinds`; return the lines that Java's consumer prints, by message id."""
    sent: dict[str, Line] = {}
    options = ProducerOptions(group="python", name_servers=names, send_timeout_s=30.0)
    large = os.urandom(3_000) + bytes(3_000)

    def line(message: Message) -> None:
        tags, keys = message.tags or "null", " ".join(message.keys) or "null"
        colour = message.properties.get("colour", "null")
        sent[message.unique_key] = Line(
            "kinds", message.unique_key, tags, keys, str(message.flag), colour, message.body
        )

    async with Producer(options) as producer:
        single = Message("kinds", "日本".encode(), tags="TagA", keys=["k1", "k2"], properties={"colour": "äö"}, flag=5)
        batch = [Message("kinds", b"batch %d" % number, tags="TagB", keys=[f"b{number}"]) for number in range(20)]
        later = [Message("kinds", b"level", delay_level=1), Message("kinds", b"timer", delay_ms=1_500)]
        one_way = Message("kinds", b"one way")
        for one in (single, *later):
            result = await producer.send(one)
            assert result.status is SendStatus.SEND_OK
            assert result.message_id == one.unique_key
        result = await producer.send_batch(batch, to=MessageQueue("kinds", result.queue.broker_name, 1))
        assert (result.queue.queue_id, len(result.offset_message_id.split(","))) == (1, 20)
        await producer.send_one_way(one_way)
        recalled = await producer.send(Message("kinds", b"recalled", delay_s=20))
        assert await producer.recall("kinds", recalled.recall_handle or "") == recalled.message_id
        for one in (single, one_way, *batch, *later):
            line(one)
    for kind in Compression:
        packed = ProducerOptions(group="python", name_servers=names, send_timeout_s=30.0, compression=kind)
        async with Producer(packed) as producer:
            message = Message("kinds", large, tags=kind.name)
            await producer.send(message)
            line(message)
    together = ProducerOptions(group="python", name_servers=names, send_timeout_s=30.0, batch_linger_s=0.05)
    async with Producer(together) as producer:
        collected = [Message("kinds", b"collected %d" % number) for number in range(50)]
        await asyncio.gather(*(producer.send(one) for one in collected))
        for one in collected:
            line(one)
    for message in await send_transactions(names):
        line(message)
    return sent


async def send_transactions(names: str) -> list[Message]:
    """Send messages in transactions and return those that commit, one of them once the broker has asked."""
    checked = asyncio.Event()
    states = {b"commits": COMMIT, b"rolls back": ROLLBACK, b"is asked for": UNKNOWN}

    async def execute(message: Message) -> TransactionState:
        return states[message.body]

    async def check(message: ReceivedMessage) -> TransactionState:
        assert message.body == b"is asked for"
        checked.set()
        return COMMIT

    options = ProducerOptions(group="python-transactions", name_servers=names, send_timeout_s=30.0)
    async with TransactionProducer(options, check) as producer:
        messages = [Message("kinds", body, tags="tx") for body in states]
        for one in messages:
            assert (await producer.send_in_transaction(one, execute)).state is states[one.body]
        async with asyncio.timeout(SECONDS):
            await checked.wait()
    return [messages[0], messages[2]]


@pytest.mark.parametrize("place", ["RocketFlow", *versions(of=("5.3.3", "5.5.0"))])
def test_java_consumer_receives_what_the_python_producer_sends(place: str, tmp_path: Path) -> None:
    async def main(names: str) -> None:
        await create_topics(names, "kinds", "questions")
        sent = await send_all(names)
        with java_consumer(names, tmp_path, len(sent) + 3, "kinds", "questions") as consumer:
            await ask(names)
            found = await asyncio.to_thread(lines_of, consumer)
        received = {one.message_id: one for one in found if one.topic == "kinds"}
        assert received == sent
        assert len(found) == len(sent) + 3

    async def ask(names: str) -> None:
        async with Producer(ProducerOptions(group="python-asks", name_servers=names)) as producer:
            asked = [producer.request(Message("questions", b"%d" % one), timeout_s=SECONDS) for one in range(3)]
            for number, reply in enumerate(await asyncio.gather(*asked)):
                assert reply.body == b"java:%d" % number

    with servers(place, tmp_path) as names:
        run(main(names))


def test_rows_of_trace_are_those_of_javas_client(tmp_path: Path) -> None:
    found = [one.split(" ", 2)[1:] for one in java("TraceRows", tmp_path).splitlines() if one.startswith("row ")]
    result = SendResult(SendStatus.SEND_OK, "UK", "OFF", MessageQueue("t", "a", 0), 5)
    host = "127.0.0.1:10911"
    failed = result._replace(status=SendStatus.FLUSH_DISK_TIMEOUT)
    rows = [
        sent_row(Traced("t", "UK", "tag", "k1 k2"), result, "g", (1000, 7), host, 3, TraceType.NORMAL),
        sent_row(Traced("t", "UK", "", ""), failed, "g", (1000, 7), host, 3, TraceType.DELAY),
        ended_row(Traced("t", "UK", "tag", "k"), "g", 1000, host, "TX", "COMMIT_MESSAGE", is_check=True),
        recalled_row(Traced("t", "UK", "", ""), "g", 1000, "DefaultRegion", is_recalled=True),
        recalled_row(Traced("t", "UK", "", ""), "g", 1000, "DefaultRegion", is_recalled=False),
        before_row(Traced("t", "UK", "tag", "k1 k2"), "g", 1000, "DefaultRegion", "REQ", 2),
        before_row(Traced("t", "UK", "", ""), "g", 1000, "DefaultRegion", "REQ", 2),
        after_row(Traced("t", "UK", "tag", "k1 k2"), "g", 1000, "REQ", 7, ReturnType.SUCCESS),
        after_row(Traced("t", "UK", "", ""), "g", 1000, "REQ", 7, ReturnType.FAILED),
    ]
    assert [bytes.fromhex(one) for one, _ in found] == [one.text.encode() for one in rows]
    assert [keys for _, keys in found] == [f"[{', '.join(sorted(one.keys))}]" for one in rows]
