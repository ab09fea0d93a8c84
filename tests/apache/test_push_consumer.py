"""Push consumers of Java and of Python in one group, at RocketFlow's broker and at Apache's; mqadmin asks for them."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from rocketflow.aio.loop import run
from rocketflow.client.errors import RequestRefusedError
from rocketflow.client.push import ConsumeContext, ConsumeStatus, Listener, PushConsumer
from rocketflow.remoting.bodies import MessageQueue
from rocketflow_store import StoreConfig
from rocketflow_store.spi.messages import ReceivedMessage
from tests.apache.clients import jars
from tests.apache.mqadmin import mqadmin
from tests.support.java_programs import FLAGS, compiled
from tests.support.maven import java_and_javac
from tests.support.processes import end
from tests.support.pushing import (
    Noted,
    committed,
    consuming,
    make_topic,
    operator,
    options,
    put,
    small_cluster,
    until,
)
from tests.support.real_broker import RealBroker
from tests.support.servers import wait_for_a_broker
from tests.support.trials import FULL, LEVEL

pytestmark = [pytest.mark.apache, pytest.mark.slow, pytest.mark.timeout(600)]

VERSION = "5.3.3"
QUEUES = 8
CALL_S = 0.003
CLOCK_MS = 1
LOCKS_S = 120
"""Java's client may lock a queue while it leaves, after it has unlocked all: the broker frees that lock after 60 s."""
OWN = "RocketFlow"
PLACES = (OWN, *((VERSION,) if LEVEL != "sample" else ()))
APACHE = ("4.9.7", "5.3.3", "5.5.0") if FULL else (VERSION,) if LEVEL != "sample" else ()
CONF = "enablePropertyFilter=true\nmessageDelayLevel=1s 1s 1s 1s 1s 1s\n"


class Call(NamedTuple):
    """A call of a listener for one message; times are milliseconds since 1970."""

    client: str
    queue_id: int
    queue_offset: int
    began: int
    ended: int
    body: str


class JavaMember:
    """A process with Java's push consumer; `calls` are those of its listener so far."""

    def __init__(self, names: str, group: str, topic: str, kind: str, home: Path) -> None:
        lib = jars(VERSION)
        self._log = home / f"{group}.java"
        self._output = self._log.open("wb")
        self._process = subprocess.Popen(
            [
                *(java_and_javac()[0], *FLAGS, f"-Duser.home={home}"),
                *("-cp", f"{lib}/*:{compiled('PushMember', VERSION, lib)}", "PushMember", names, group, topic, kind),
            ],
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )

    def calls(self) -> list[Call]:
        """Return the calls of the listener."""
        lines = self._log.read_text().splitlines(keepends=True)
        words = [one.split() for one in lines if one.startswith("CALL ") and one.endswith("\n")]
        return [Call("Java", int(one[1]), int(one[2]), int(one[3]), int(one[4]), one[5]) for one in words]

    def leave(self) -> None:
        """Close the consumer and wait for its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(60) == 0, self._log.read_text()[-2000:]

    def close(self) -> None:
        """End the process."""
        if self._process.poll() is None:
            end(self._process, 10)
        self._output.close()


@contextmanager
def place_of(kind: str, home: Path) -> Iterator[str]:
    """Run a NameServer and a broker; yield the address of the NameServer."""
    jars(VERSION)
    if kind == OWN:
        with small_cluster(home) as (names, _):
            yield names.address
    else:
        config = StoreConfig(mapped_file_size_commit_log=1 << 24)
        with RealBroker(kind, home / "store", config, home / "work", CONF, last=True) as broker:
            address = f"127.0.0.1:{broker.names_port}"
            wait_for_a_broker(address)
            yield address


def noting(calls: list[Call]) -> Listener:
    """Return a listener that notes its calls."""

    async def listener(messages: list[ReceivedMessage], context: ConsumeContext) -> None:
        began = int(time.time() * 1000)
        await asyncio.sleep(CALL_S)
        ended = int(time.time() * 1000)
        for one in messages:
            calls.append(Call("Python", one.queue_id, one.queue_offset, began, ended, one.body.decode()))

    return listener


@pytest.mark.parametrize("place", PLACES)
def test_java_and_python_share_the_queues_of_a_group(place: str, tmp_path: Path) -> None:
    async def share(names: str, kind: str) -> list[Call]:
        topic, group = f"mixed-{kind}", f"g-mixed-{kind}"
        await make_topic(names, topic, QUEUES)
        python: list[Call] = []
        sent = 0
        is_enough = False

        async def feed() -> None:
            nonlocal sent
            while not is_enough:
                await put(names, topic, map(str, range(sent, sent + QUEUES)), queues=QUEUES)
                sent += QUEUES
                await asyncio.sleep(0.01)

        feeding = asyncio.ensure_future(feed())
        java = JavaMember(names, group, topic, kind, tmp_path)
        made = options(names, group, orderly=kind == "orderly")
        try:
            async with consuming(made, noting(python), topic) as first:
                await until(lambda: bool(python) and bool(java.calls()))
                await until(lambda: _own(first.queues(), topic) == QUEUES // 2)
                async with consuming(made, noting(python), topic) as second:
                    await until(lambda: 2 <= _own(second.queues(), topic) <= 3)
                await until(lambda: _own(first.queues(), topic) == QUEUES // 2)
                await until(lambda: len({one.queue_id for one in java.calls()[-20:]}) == QUEUES // 2)
                await asyncio.to_thread(java.leave)
                await until(lambda: _own(first.queues(), topic) == QUEUES, LOCKS_S)
                is_enough = True
                await feeding
                await until(lambda: {one.body for one in (*python, *java.calls())} == {*map(str, range(sent))})
            assert sum((await committed(names, group, topic)).values()) == sent
        finally:
            is_enough = True
            java.close()
        return [*python, *java.calls()]

    with place_of(place, tmp_path) as names:
        if LEVEL != "sample":
            calls = run(share(names, "concurrent"))
            assert {one.client for one in calls} == {"Java", "Python"}
        calls = run(share(names, "orderly"))
    assert {one.client for one in calls} == {"Java", "Python"}
    by_queue: dict[int, list[Call]] = defaultdict(list)
    for one in sorted(calls, key=lambda call: (call.began, call.queue_offset)):
        by_queue[one.queue_id].append(one)
    for found in by_queue.values():
        overlaps = [pair for pair in itertools.pairwise(found) if pair[1].began < pair[0].ended - CLOCK_MS]
        assert not overlaps, overlaps[:3]
        offsets = [one.queue_offset for one in found]
        assert offsets == sorted(offsets)


def _own(queues: list[MessageQueue], topic: str) -> int:
    return sum(one.topic == topic for one in queues)


@pytest.mark.skipif(LEVEL == "sample", reason="starts Java twice more: RF_FAULTS=1 runs it")
def test_java_and_python_broadcasting_consumers_continue_after_each_other(tmp_path: Path) -> None:
    """With default options of both: the file of offsets has the same place and text."""

    async def by_java(names: str, count: int) -> list[str]:
        java = JavaMember(names, "g-cast", "cast", "broadcasting", tmp_path)
        try:
            await until(lambda: len(java.calls()) >= count)
            await asyncio.to_thread(java.leave)
        finally:
            java.close()
        return sorted(one.body for one in java.calls())

    async def by_python(names: str, count: int) -> list[str]:
        calls: list[Call] = []
        made = options(names, "g-cast", broadcasting=True, offset_dir=tmp_path / ".rocketmq_offsets")
        async with consuming(made, noting(calls), "cast"):
            await until(lambda: len(calls) >= count)
        return sorted(one.body for one in calls)

    async def share(names: str) -> None:
        await make_topic(names, "cast", 2)
        for first, consume in ((10, by_java), (14, by_python), (18, by_java), (22, by_python)):
            sent = [str(one) for one in range(first, first + 4)]
            await put(names, "cast", sent, queues=2)
            assert await consume(names, 4) == sent
        (directory,) = (tmp_path / ".rocketmq_offsets").iterdir()
        assert directory.name.endswith("@DEFAULT")

    with place_of(OWN, tmp_path) as names:
        run(share(names))


@pytest.mark.skipif(LEVEL == "sample", reason="starts Java once more: RF_FAULTS=1 runs it")
def test_mqadmin_shows_the_state_of_a_python_consumer(tmp_path: Path) -> None:
    async def ask(names: str) -> list[str]:
        await make_topic(names, "shown", 2)
        await put(names, "shown", map(str, range(6)), queues=2)

        async def is_committed() -> bool:
            return sum((await committed(names, "g-shown", "shown")).values()) == 6

        calls: list[Call] = []
        async with consuming(options(names, "g-shown"), noting(calls), "shown") as consumer:
            await until(lambda: len(calls) == 6 and len(consumer.queues()) == 3)
            await until(is_committed)
            at = ("-n", names, "-g", "g-shown")
            return await asyncio.to_thread(
                mqadmin,
                names,
                tmp_path,
                [
                    ["consumerStatus", *at],
                    ["consumerStatus", *at, "-i", consumer.client_id],
                    ["consumerConnection", *at],
                    ["consumerProgress", *at],
                ],
            )

    with place_of(OWN, tmp_path) as names:
        found = run(ask(names))
    assert "Same subscription in the same group" in found[0]
    assert "Rebalance OK" in found[0]
    assert "#Consumer Properties#" in found[1]
    assert "shown" in found[1]
    assert "PYTHON" in found[2]
    assert "shown" in found[3]


@pytest.mark.parametrize("version", APACHE)
def test_every_feature_works_at_apache_s_brokers(version: str, tmp_path: Path) -> None:
    async def retries(names: str) -> None:
        async def act(message: ReceivedMessage, _context: ConsumeContext) -> ConsumeStatus | None:
            fails = message.body == b"1" or (message.body == b"2" and message.reconsume_times == 0)
            return ConsumeStatus.RECONSUME_LATER if fails else None

        await make_topic(names, "retried", 2)
        await put(names, "retried", map(str, range(4)), queues=2)
        noted, dead = Noted(act), Noted()
        async with consuming(options(names, "g-retried", max_reconsume=1), noted, "retried"):
            await until(lambda: noted.counts() == {"0": 1, "1": 2, "2": 2, "3": 1})
            async with consuming(options(names, "g-dead"), dead, "%DLQ%g-retried"):
                await until(lambda: dead.bodies == ["1"])
        assert {one.topic for one in noted.messages} == {"retried"}

    async def orders(names: str) -> None:
        async def act(message: ReceivedMessage, context: ConsumeContext) -> ConsumeStatus | None:
            context.suspend_s = 0.01
            return ConsumeStatus.RECONSUME_LATER if message.body == b"4" else None

        await make_topic(names, "ordered", 2)
        await put(names, "ordered", map(str, range(20)), queues=2)
        noted, dead = Noted(act), Noted()
        async with (
            consuming(options(names, "g-ordered", orderly=True, max_reconsume=2), noted, "ordered"),
            consuming(options(names, "g-ordered-dead"), dead, "%DLQ%g-ordered"),
        ):
            await until(lambda: len(noted.messages) == 22 and dead.bodies == ["4"])
        assert [int(one.body) for one in noted.messages if one.queue_id == 0] == [0, 2, 4, 4, 4, *range(6, 20, 2)]

    async def selects(names: str) -> None:
        await make_topic(names, "selected", 2)
        for number, tag in enumerate("abc"):
            await put(names, "selected", [tag] * 2, queues=2, properties={"TAGS": tag, "n": str(number)})
        for text, kind, expected in (("a || c", "TAG", "aacc"), ("n > 0 AND TAGS <> 'c'", "SQL92", "bb")):
            noted = Noted()
            consumer = PushConsumer(options(names, f"g-{kind}"), noted)
            await consumer.subscribe("selected", text, expression_type=kind)
            async with consumer:
                await until(lambda found=noted, want=expected: len(found.messages) == len(want))
            assert sorted(noted.bodies) == list(expected)
        refused = PushConsumer(options(names, "g-wrong"), Noted())
        await refused.subscribe("selected", "n >", expression_type="SQL92")
        with pytest.raises(RequestRefusedError, match="CHECK_CLIENT_CONFIG"):
            await refused.start()

    async def casts(names: str) -> None:
        await make_topic(names, "cast", 2)
        await put(names, "cast", map(str, range(4)), queues=2)
        one, two = Noted(), Noted()
        made = options(names, "g-cast", broadcasting=True, offset_dir=tmp_path)
        async with consuming(made, one, "cast"), consuming(made, two, "cast"):
            await until(lambda: len(one.messages) == len(two.messages) == 4)

    async def resets(names: str) -> None:
        await make_topic(names, "reset", 2)
        await put(names, "reset", map(str, range(6)), queues=2)
        noted = Noted()
        async with consuming(options(names, "g-reset"), noted, "reset") as consumer, operator(names) as client:
            await until(lambda: len(noted.messages) == 6)
            info = await client.running_info("g-reset", consumer.client_id)
            assert info["properties"]["consumerGroup"] == "g-reset"

            async def is_committed() -> bool:
                return sum((await committed(names, "g-reset", "reset")).values()) == 6

            await until(is_committed)  # 4.9 resets offsets that it has
            await client.reset_offset_by_time("g-reset", "reset", 0)
            await put(names, "reset", ["6", "7"], queues=2)  # ends the pulls under way
            await until(lambda: len(noted.messages) == 14)
        assert sum((await committed(names, "g-reset", "reset")).values()) == 8

    async def all_of_them(names: str) -> None:
        for one in (retries, orders, selects, casts, resets):
            await one(names)

    with place_of(version, tmp_path) as names:
        run(all_of_them(names))
