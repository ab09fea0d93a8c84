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
from rocketflow.client.push import ConsumeContext, Listener
from rocketflow.client.received import ReceivedMessage
from rocketflow.remoting.bodies import MessageQueue
from rocketflow_store import StoreConfig
from tests.apache.clients import jars
from tests.apache.mqadmin import mqadmin
from tests.support.java_programs import FLAGS, compiled
from tests.support.maven import java_and_javac
from tests.support.processes import end
from tests.support.pushing import committed, consuming, make_topic, options, put, small_cluster, until
from tests.support.real_broker import RealBroker
from tests.support.servers import wait_for_a_broker
from tests.support.trials import LEVEL

pytestmark = [pytest.mark.apache, pytest.mark.slow, pytest.mark.timeout(600)]

VERSION = "5.3.3"
QUEUES = 8
CALL_S = 0.003
CLOCK_MS = 1
PLACES = ("RocketFlow", *(("Apache",) if LEVEL != "sample" else ()))


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
    if kind == "RocketFlow":
        with small_cluster(home) as (names, _):
            yield names.address
    else:
        with RealBroker(VERSION, home / "store", StoreConfig(), home / "work") as broker:
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
                count = len(java.calls())
                await until(lambda: len(java.calls()) > count + 20)
                await asyncio.to_thread(java.leave)
                await until(lambda: _own(first.queues(), topic) == QUEUES)
                is_enough = True
                await feeding
                await until(lambda: {one.body for one in (*python, *java.calls())} == {*map(str, range(sent))})
            assert sum((await committed(names, group, topic)).values()) == sent
        finally:
            is_enough = True
            java.close()
        return [*python, *java.calls()]

    with place_of(place, tmp_path) as names:
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


def test_mqadmin_shows_the_state_of_a_python_consumer(tmp_path: Path) -> None:
    async def ask(names: str) -> list[str]:
        await make_topic(names, "shown", 2)
        await put(names, "shown", map(str, range(6)), queues=2)
        calls: list[Call] = []
        async with consuming(options(names, "g-shown"), noting(calls), "shown") as consumer:
            await until(lambda: len(calls) == 6 and len(consumer.queues()) == 3)
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

    with place_of("RocketFlow", tmp_path) as names:
        found = run(ask(names))
    assert "Same subscription in the same group" in found[0]
    assert "Rebalance OK" in found[0]
    assert "#Consumer Properties#" in found[1]
    assert "shown" in found[1]
    assert "PYTHON" in found[2]
    assert "shown" in found[3]
