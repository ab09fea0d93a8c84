"""Java's producer of 5.3.3 sends by each of its features; Python's consumers see all that it sent."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from rocketflow.aio.loop import run
from rocketflow.arrow import pull_arrow
from rocketflow.client import (
    ConsumeContext,
    ConsumeFrom,
    PullConsumer,
    PullOptions,
    PushConsumer,
    PushOptions,
    ReceivedMessage,
    sync,
)
from tests.apache.clients import cluster, jars
from tests.apache.test_apache_opens_rocketflow_stores import SIZES
from tests.support.java_programs import FLAGS, compiled
from tests.support.maven import java_and_javac
from tests.support.pushing import make_topic
from tests.support.real_broker import RealBroker
from tests.support.servers import wait_for_a_broker
from tests.support.trials import LEVEL, ROOT

pytestmark = [pytest.mark.apache, pytest.mark.slow, pytest.mark.timeout(1_800)]

VERSION: Final = "5.3.3"
TOPIC: Final = "JavaFeatures"
PATIENCE_S: Final = 60
SETTINGS: Final = ("messageDelayLevel=1s 1s 1s", "enablePropertyFilter=true", "waitTimeMillsInSendQueue=20000")
_README_BLOCK: Final = re.compile(r"^```python\n(from rocketflow\.client import .*?)^```", re.M | re.S)


class Seen(NamedTuple):
    """A message as a consumer sees it."""

    body: str
    tags: str | None
    keys: str
    flag: int
    properties: tuple[tuple[str, str], ...] = ()


def seen(body: bytes, tags: str | None, flag: int, properties: dict[str, str]) -> Seen:
    named = sorted((name, value) for name, value in properties.items() if name in {"colour", "number", "__SHARDINGKEY"})
    return Seen(body.decode(), tags or None, properties.get("KEYS", ""), flag, tuple(named))


EXPECTED: Final = sorted(
    [
        Seen("whole", "red", "k1 k2", 7, (("colour", "日本"),)),
        *(Seen(f"batch{number}", f"b{number}", "", 0, (("number", str(number)),)) for number in range(3)),
        *(Seen(body, None, "", 0) for body in ("one-way", "delayed", "timed")),
        Seen("sharded", None, "", 0, (("__SHARDINGKEY", "shard-1"),)),
        *(Seen(f"{kind} {'x' * 9000}", None, "", 0) for kind in ("LZ4", "ZSTD", "ZLIB")),
        Seen("committed", None, "t1", 0),
    ],
    key=repr,
)


def of_message(one: ReceivedMessage) -> Seen:
    return seen(one.body, one.tags, one.flag, one.properties)


def test_python_consumers_see_all_features_of_javas_producer(tmp_path: Path) -> None:
    with cluster(tmp_path, *SETTINGS) as (names, broker):
        wait_for_a_broker(names.address)
        check(names.address)
        broker.stop_in_order()


@pytest.mark.skipif(LEVEL == "sample", reason="boots a broker of Apache's: RF_FAULTS=1 runs it")
def test_python_consumers_see_all_features_of_javas_producer_at_apache_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = "".join(f"{one}\n" for one in SETTINGS)
    sizes = replace(SIZES, broker_name="apache")
    with RealBroker(VERSION, tmp_path / "store", sizes, tmp_path / "work", conf, last=True) as apache:
        names = f"127.0.0.1:{apache.names_port}"
        wait_for_a_broker(names)
        check(names)
        monkeypatch.setenv("NAMESRV_ADDR", names)
        (block,) = _README_BLOCK.findall((ROOT / "README.md").read_text("utf-8"))
        exec(compile(block, "README.md", "exec"), {})
        assert "[['o-1']]" in capsys.readouterr().out


def check(names: str) -> None:
    """Send by Java's producer, and compare what each of Python's consumers sees."""
    lib = jars(VERSION)
    run(make_topic(names, TOPIC))
    classes = compiled("EveryFeature", VERSION, lib)
    command = [java_and_javac()[0], *FLAGS, "-cp", f"{lib}/*:{classes}", "EveryFeature", names, TOPIC]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as java:
        assert java.stdout is not None
        assert "sent\n" in iter(java.stdout.readline, "")
        for reads in (pushed, polled, pulled_as_columns):
            assert sorted(run(reads(names)), key=repr) == EXPECTED, reads.__name__
        assert sorted(polled_plainly(names), key=repr) == EXPECTED


async def pushed(names: str) -> list[Seen]:
    found: list[ReceivedMessage] = []

    async def listen(messages: list[ReceivedMessage], context: ConsumeContext) -> None:
        found.extend(messages)

    options = PushOptions(name_servers=names, group="python-push", consume_from=ConsumeFrom.FIRST)
    consumer = PushConsumer(options, listen)
    await consumer.subscribe(TOPIC)
    async with consumer:
        latest = asyncio.get_running_loop().time() + PATIENCE_S
        while len(found) < len(EXPECTED) and asyncio.get_running_loop().time() < latest:
            await asyncio.sleep(0.05)
    return [of_message(one) for one in found]


def pull_options(names: str, group: str) -> PullOptions:
    return PullOptions(name_servers=names, group=group, start=ConsumeFrom.FIRST)


async def until_all(poll: Callable[[], Awaitable[list[Seen]]]) -> list[Seen]:
    """Return what polls return until all messages have come, or for PATIENCE_S seconds."""
    found: list[Seen] = []
    latest = asyncio.get_running_loop().time() + PATIENCE_S
    while len(found) < len(EXPECTED) and asyncio.get_running_loop().time() < latest:
        found += await poll()
    return found


async def polled(names: str) -> list[Seen]:
    async with PullConsumer(pull_options(names, "python-pull")) as consumer:
        await consumer.subscribe(TOPIC)

        async def poll() -> list[Seen]:
            return [of_message(one) for one in await consumer.poll(1)]

        return await until_all(poll)


async def pulled_as_columns(names: str) -> list[Seen]:
    async with PullConsumer(pull_options(names, "python-columns")) as consumer:
        await consumer.subscribe(TOPIC)

        async def poll() -> list[Seen]:
            batches = await pull_arrow(consumer, ["body", "tags", "flag", "properties"], timeout_s=1)
            return [of_row(row) for batch in batches for row in batch.to_pylist()]

        return await until_all(poll)


def of_row(row: dict[str, Any]) -> Seen:
    return seen(row["body"], row["tags"], row["flag"], dict(row["properties"]))


def polled_plainly(names: str) -> list[Seen]:
    found: list[Seen] = []
    with sync.PullConsumer(pull_options(names, "python-sync")) as consumer:
        consumer.subscribe(TOPIC)
        for _ in range(PATIENCE_S):
            found += [of_message(one) for one in consumer.poll(1)]
            if len(found) >= len(EXPECTED):
                break
    return found
