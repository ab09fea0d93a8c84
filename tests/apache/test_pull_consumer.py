"""The lite pull consumer at Apache's brokers and at RocketFlow's, in groups that Apache's clients use too."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rocketflow.aio.loop import run
from rocketflow.client import ConsumeFrom, OffsetCorrection, PullConsumer, PullListener, PullOptions
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.consume.subscriptions import SQL92
from rocketflow.client.errors import RequestRefusedError
from rocketflow.client.options import ClientOptions
from rocketflow.remoting.bodies import MessageQueue
from rocketflow_store import StoreConfig
from rocketflow_store.spi.table_rows import TopicConfig
from tests.apache.clients import cluster, jars
from tests.apache.judge import versions
from tests.support.java_programs import FLAGS, compiled
from tests.support.maven import java_and_javac
from tests.support.real_broker import RealBroker
from tests.support.servers import wait_for_a_broker
from tests.support.trials import FULL

TOPIC = "shared"
BROKER = "broker-a"
QUEUES = [MessageQueue(TOPIC, BROKER, k) for k in range(2)]
OWN = "rocketflow"
SERVERS = [OWN, "5.3.3", "4.9.7", "5.5.0"] if FULL else [OWN, *versions(of=("5.3.3",))]


class JavaClient:
    """Apache's clients in one process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, *words: object) -> list[str]:
        """Send a line and return the lines of its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        found: list[str] = []
        for line in self._process.stdout:
            if line == "DONE\n":
                return found
            if line.startswith("= "):  # clients of 4.9 write their log too
                found.append(line[2:].rstrip("\n"))
        raise AssertionError(f"GroupClient ended after {words}: {found[-3:]}")


@contextmanager
def java_client(version: str, names: str, home: Path) -> Iterator[JavaClient]:
    lib = jars(version)
    classes = compiled("GroupClient", version, lib)
    command = [java_and_javac()[0], *FLAGS, f"-Duser.home={home}", "-cp", f"{lib}/*:{classes}", "GroupClient", names]
    with (home / "java.log").open("w") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        yield JavaClient(process)
    finally:
        process.kill()
        process.communicate()


@contextmanager
def servers(kind: str, home: Path) -> Iterator[tuple[str, str]]:
    """Run a NameServer and a broker; yield their addresses."""
    if kind == OWN:
        with cluster(home) as (names, broker):
            wait_for_a_broker(names.address)
            yield names.address, broker.address
        return
    config = StoreConfig(broker_name=BROKER, mapped_file_size_commit_log=1 << 24)
    with RealBroker(kind, home / "store", config, home, last=True) as broker:
        names = f"127.0.0.1:{broker.names_port}"
        wait_for_a_broker(names)
        yield names, f"127.0.0.1:{broker.port}"


def options(names: str, **more: Any) -> PullOptions:
    values = {"name_servers": names, "group": "shared-group", "timeout_s": 30, "start": ConsumeFrom.FIRST, **more}
    return PullOptions(**values)


async def polled(consumer: PullConsumer, count: int) -> list[tuple[int, int, bytes]]:
    found: list[tuple[int, int, bytes]] = []
    async with asyncio.timeout(120):
        while len(found) < count:
            found += [(one.queue_id, one.queue_offset, one.body) for one in await consumer.poll(5)]
    return sorted(found)


async def create_topic(names: str, broker: str) -> None:
    async with AdminClient(ClientOptions(name_servers=names, timeout_s=30)) as admin:
        await admin.create_topic(broker, TopicConfig(topic_name=TOPIC, read_queue_nums=2, write_queue_nums=2))


def body(queue_id: int, number: int, size: int) -> bytes:
    return f"{queue_id}-{number}".encode().ljust(size, b".")


async def read_from_the_first(names: str) -> None:
    """Read what the Java producer has sent, compressed bodies too, and commit it."""
    async with PullConsumer(options(names)) as consumer:
        await consumer.subscribe(TOPIC)
        found = await polled(consumer, 30)
        assert found == [
            (queue_id, number, body(queue_id, number, size))
            for queue_id, count, size in ((0, 20, 100), (1, 10, 10_000))
            for number in range(count)
        ]


async def positions_and_events(names: str) -> None:
    """Seek, filter by tag, and meet an offset that no queue has."""
    corrections: list[OffsetCorrection] = []

    class Noted(PullListener):
        def offset_corrected(self, correction: OffsetCorrection) -> None:
            corrections.append(correction)

    async with PullConsumer(options(names, group="other-group", listener=Noted(), suspend_s=1)) as consumer:
        await consumer.assign(QUEUES, "odd")
        assert len(await polled(consumer, 17)) == 17
        await consumer.seek_to_begin(QUEUES[1])
        assert [one[:2] for one in await polled(consumer, 7)] == [(1, n) for n in (1, 3, 5, 7, 9, 11, 13)]
        await consumer.seek_to_time(QUEUES[1], 0)
        assert consumer.position(QUEUES[1]) == 0
        await consumer.seek_to_time(QUEUES[1], int(time.time() * 1000) + 1000)
        await consumer.seek_to_end(QUEUES[0])
        assert consumer.position(QUEUES[0]) == 20
        consumer.seek(QUEUES[0], 1000)
        async with asyncio.timeout(60):
            while not corrections:
                await asyncio.sleep(0.05)
        assert corrections[0] == OffsetCorrection(QUEUES[0], 1000, 20, 0, 20)


async def sql_is_refused(names: str) -> None:
    async with PullConsumer(options(names, group="sql-group")) as consumer:
        with pytest.raises(RequestRefusedError, match="SQL92"):
            await consumer.subscribe(TOPIC, "a = 1", SQL92)


async def committed(names: str) -> list[int | None]:
    async with PullConsumer(options(names)) as consumer:
        await consumer.queues(TOPIC)
        return [await consumer.committed(one) for one in QUEUES]


@pytest.mark.apache
@pytest.mark.parametrize("kind", SERVERS)
def test_java_and_python_take_turns_in_one_group(kind: str, tmp_path: Path) -> None:
    version = "5.3.3" if kind == OWN else kind  # a 5.x lite pull consumer cannot read from brokers of 4.9
    with servers(kind, tmp_path) as (names, broker), java_client(version, names, tmp_path) as java:
        run(create_topic(names, broker))
        java.ask("SEND", TOPIC, BROKER, 0, 20, 100)
        java.ask("SEND", TOPIC, BROKER, 1, 10, 10_000)
        run(read_from_the_first(names))
        assert [java.ask("OFFSET", "shared-group", TOPIC, BROKER, k) for k in range(2)] == [["20"], ["10"]]
        java.ask("SEND", TOPIC, BROKER, 1, 5, 100)
        assert java.ask("READ", "shared-group", TOPIC, 5) == [f"1\t{offset}" for offset in range(10, 15)]
        assert run(committed(names)) == [20, 15]
        run(positions_and_events(names))
        if kind != OWN:
            run(sql_is_refused(names))
