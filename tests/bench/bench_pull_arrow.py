"""`pull_arrow` and `poll` beside raw pulls of the same messages, from RocketFlow's broker and from Apache's, in turn.

A raw pull asks for the same answers and decodes nothing: it is as fast as the broker serves one pull of each queue at a
time. The messages are on disk and in the page cache; they are read from 4 queues.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rocketflow.aio.loop import run as run_loop
from rocketflow.arrow import pull_arrow
from rocketflow.client import ConsumeFrom, Message, PullConsumer, PullOptions
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.cluster import Cluster
from rocketflow.client.consume.pulls import Puller, PullRequest
from rocketflow.client.consume.subscriptions import subscription
from rocketflow.client.options import ClientOptions
from rocketflow.remoting.bodies import MessageQueue
from rocketflow_store import StoreConfig
from rocketflow_store.spi.table_rows import TopicConfig
from tests.bench.figures import Figure, ratio
from tests.support.maven import JarsNotFetchedError
from tests.support.real_broker import RealBroker
from tests.support.servers import direct, put_batch, running, wait_for_a_broker

VERSION: Final = "5.3.3"
ROUNDS: Final = 5
QUEUES: Final = [MessageQueue("bench", "broker-a", k) for k in range(4)]
MESSAGES: Final = 120_000
_BATCH: Final = 500
_COLUMNS: Final = ("queueOffset", "body")


def run(scale: float) -> Iterator[Figure]:
    count = int(MESSAGES * scale) // len(QUEUES) // _BATCH * _BATCH * len(QUEUES)
    with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as folder:
        with _rocketflow(Path(folder) / "own") as (names, address):
            yield from _figures("RocketFlow's broker", names, address, count)
        try:
            with _apache(Path(folder) / "apache") as (names, address):
                yield from _figures("Apache's broker", names, address, count)
        except JarsNotFetchedError as error:
            print(f"Apache's broker is not measured: {error}")


@contextmanager
def _rocketflow(home: Path) -> Iterator[tuple[str, str]]:
    with running("namesrv", home / "names") as names:
        settings = (f"storePathRootDir={home}/store", f"namesrvAddr={names.address}")
        arguments = [part for one in settings for part in ("--set", one)]
        with running("broker", home / "broker", *arguments) as broker:
            wait_for_a_broker(names.address)
            yield names.address, broker.address


@contextmanager
def _apache(home: Path) -> Iterator[tuple[str, str]]:
    home.mkdir()
    with RealBroker(VERSION, home / "store", StoreConfig(broker_name="broker-a"), home) as broker:
        names = f"127.0.0.1:{broker.names_port}"
        wait_for_a_broker(names)
        yield names, f"127.0.0.1:{broker.port}"


def _figures(place: str, names: str, address: str, count: int) -> Iterator[Figure]:
    run_loop(_filled(names, address, count))
    cases: dict[str, Callable[[str, int], Coroutine[None, None, float]]] = {
        "raw pulls": _raw,
        "pull_arrow, body and offset": _columns,
        "poll": _polls,
    }
    rates: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(ROUNDS + 1):
        for name, call in cases.items():
            seconds = run_loop(call(names, count))
            if turn:  # the first one warms the broker
                rates[name].append(count / seconds)
    figures = {name: Figure(f"{name}, 1 KiB, {place}", "msg/s", tuple(found)) for name, found in rates.items()}
    yield from figures.values()
    raw, arrow, poll = figures.values()
    yield ratio(arrow, raw)
    yield ratio(poll, raw)


async def _filled(names: str, address: str, count: int) -> None:
    async with AdminClient(ClientOptions(name_servers=names, timeout_s=60)) as admin:
        config = TopicConfig(topic_name="bench", read_queue_nums=len(QUEUES), write_queue_nums=len(QUEUES))
        await admin.create_topic(address, config)
    async with direct() as client:
        messages = [Message("bench", b"x" * 1024, properties={"TAGS": "t", "KEYS": f"k{n}"}) for n in range(_BATCH)]
        for _ in range(count // len(QUEUES) // _BATCH):
            for queue in QUEUES:
                await put_batch(client, address, queue.queue_id, messages)


async def _raw(names: str, count: int) -> float:
    cluster = Cluster(ClientOptions(name_servers=names))
    puller, wanted = Puller(cluster, "raw"), subscription("bench", version=1)

    async def read(queue: MessageQueue) -> None:
        offset = 0
        while offset < count // len(QUEUES):
            pull = PullRequest(queue=queue, offset=offset, subscription=wanted, with_subscription=True)
            offset = (await puller.pull(pull)).next_offset

    await cluster.route("bench")
    began = time.perf_counter()
    await asyncio.gather(*(read(one) for one in QUEUES))
    seconds = time.perf_counter() - began
    await cluster.close()
    return seconds


async def _columns(names: str, count: int) -> float:
    async def rows(consumer: PullConsumer) -> int:
        return sum(one.num_rows for one in await pull_arrow(consumer, _COLUMNS))

    return await _consumed(names, count, rows)


async def _polls(names: str, count: int) -> float:
    async def rows(consumer: PullConsumer) -> int:
        return len(await consumer.poll())

    return await _consumed(names, count, rows)


async def _consumed(names: str, count: int, rows: Callable[[PullConsumer], Awaitable[int]]) -> float:
    options = PullOptions(name_servers=names, group="bench", start=ConsumeFrom.FIRST, auto_commit=False)
    async with PullConsumer(options) as consumer:
        await consumer.queues("bench")
        began = time.perf_counter()
        await consumer.assign(QUEUES)
        found = 0
        while found < count:
            found += await rows(consumer)
        return time.perf_counter() - began
