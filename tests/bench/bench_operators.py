"""Requests of operators over many groups: what mqadmin's `consumerProgress` asks a broker about each of them (208)."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

from rocketflow.aio.channel import Channel
from rocketflow.aio.loop import run as run_loop
from rocketflow.aio.peers import Peers
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers.admin import GetConsumeStatsRequestHeader
from rocketflow_store import StoreConfig
from rocketflow_store.spi.broker import RawMessage, open_store
from rocketflow_store.spi.table_rows import TopicConfig
from tests.bench.figures import Figure
from tests.support.servers import RunningServer, running_broker

RUNS: Final = 3
GROUPS: Final = 1_000
QUEUES: Final = 100
TOPIC: Final = "t"
TIMEOUT_S: Final = 60.0


def run(scale: float) -> Iterator[Figure]:
    groups = max(int(GROUPS * scale), 10)
    with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as home:
        _fill(Path(home) / "store", groups)
        with running_broker(Path(home)) as broker:
            yield _measured(broker, f"consumerProgress over {groups:,} groups x {QUEUES} queues", _progress(groups))


def _fill(store: Path, groups: int) -> None:
    """Make a store with a message in each queue, and offsets of all groups."""
    config = StoreConfig(mapped_file_size_commit_log=1 << 24, max_hash_slot_num=1_000, max_index_num=4_000)
    with open_store(store, config, store_host="127.0.0.1:1") as opened:
        opened.topic_table.put(TopicConfig(TOPIC, QUEUES, QUEUES, 6))
        done = opened.append([RawMessage(TOPIC, one, b"x", b"", 0, 0, 1, bytes(8)) for one in range(QUEUES)])
        opened.publish(done.end)
        for number in range(groups):
            for queue_id in range(QUEUES):
                opened.offset_table.commit(f"g{number}", TOPIC, queue_id, 1)
        opened.offset_table.save()


def _measured(broker: RunningServer, case: str, ask: Callable[[Channel], Awaitable[None]]) -> Figure:
    async def main() -> list[float]:
        peers = Peers()
        channel = await peers.channel(broker.address)
        seconds = []
        for _ in range(RUNS + 1):  # the first one warms up
            began = time.perf_counter()
            await ask(channel)
            seconds.append(time.perf_counter() - began)
        await peers.close()
        return seconds[1:]

    return Figure(case, "s", tuple(run_loop(main())))


def _progress(groups: int) -> Callable[[Channel], Awaitable[None]]:
    async def ask(channel: Channel) -> None:
        """Ask about one group after the other, as mqadmin does."""
        for number in range(groups):
            header = GetConsumeStatsRequestHeader(consumer_group=f"g{number}")
            answer = await channel.request(RequestCode.GET_CONSUME_STATS, header, timeout_s=TIMEOUT_S)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            assert answer.body.count(b"brokerOffset") == QUEUES

    return ask
