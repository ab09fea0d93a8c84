"""A broker with very many undecided half messages asks about all of them while it takes sends."""

from __future__ import annotations

import asyncio
import os
import time
from bisect import bisect_left
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import pytest

from rocketflow.aio.loop import run
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command
from rocketflow_store import StoreConfig, StoreReader
from rocketflow_store.spi.broker import RawMessage, encode_properties, open_store
from tests.support.request_headers import send_header
from tests.support.results import measured
from tests.support.servers import RunningServer, running_broker, until
from tests.support.transactions import PRODUCER_GROUP, TransactionClient
from tests.support.trials import LEVEL

pytestmark = pytest.mark.slow

HALVES = 100_000 if LEVEL != "sample" else 20_000
MOST_COPIES = HALVES // (10 if LEVEL != "sample" else 3)
"""While a send is on its way no more half messages are copied; a check copies 500 at once."""
HALF_TOPIC, TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC", "s"


def filled(store: Path) -> None:
    """Write half messages of 1 KiB into a new store."""
    born_ms = int(time.time() * 1000) - 60_000
    common = {"TRAN_MSG": "true", "PGROUP": PRODUCER_GROUP, "REAL_TOPIC": "t", "REAL_QID": "0"}
    config = StoreConfig(mapped_file_size_commit_log=1 << 26, max_hash_slot_num=100_000, max_index_num=400_000)
    with open_store(store, config, store_host="127.0.0.1:1") as opened:
        for first in range(0, HALVES, 1_000):
            run_of = [
                RawMessage(
                    *(HALF_TOPIC, 0, bytes(1_024), encode_properties({**common, "UNIQ_KEY": f"u{number}"})),
                    *(0, 0, born_ms, bytes(8)),
                    is_internal=True,
                )
                for number in range(first, first + 1_000)
            ]
            appended = opened.append(run_of)
            assert all(one.stored for one in appended.results)
            opened.publish(appended.end)


class Sent(NamedTuple):
    """Messages that were sent one after another.

    `half_messages` says how many half messages and copies of them the store had before each.
    """

    half_messages: list[int]
    slowest_s: float


async def sent_until(stop: Path, address: str, store: Path) -> Sent:
    """Send until there is a file `stop`, with pauses of 5 ms; make a file `begun` before the first message."""
    half_messages, slowest_s = [], 0.0
    async with TransactionClient(address) as client:
        await asyncio.to_thread(stop.with_name("begun").touch)
        while not await asyncio.to_thread(stop.exists):
            with StoreReader(store) as reader:
                half_messages.append(reader.bounds(HALF_TOPIC, 0)[1])
            began = time.monotonic()
            answer = await client.ask(RequestCode.SEND_MESSAGE, send_header(TOPIC), b"x")
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            slowest_s = max(slowest_s, time.monotonic() - began)
            await asyncio.sleep(0.005)
    return Sent(half_messages, slowest_s)


def send_until(stop: Path, address: str, store: Path) -> Sent:
    """Send from a process of its own: a thread would wait for the one that takes the questions."""
    return run(sent_until(stop, address, store))


async def asked_about_all(broker: RunningServer) -> dict[str, float]:
    """Wait for a question about each half message; return the seconds of the round, and those of the broker's CPU."""
    asked: list[Command] = []
    async with TransactionClient(broker.address, on_question=asked.append) as client, asyncio.timeout(300):
        await client.heartbeat()
        cpu = cpu_seconds(broker.process.pid)
        while not asked:
            await asyncio.sleep(0.01)
        began = time.monotonic()
        while len(asked) < HALVES:
            await asyncio.sleep(0.01)
    assert len({one.fields["msgId"] for one in asked[:HALVES]}) == HALVES
    return {"seconds": time.monotonic() - began, "broker_cpu_seconds": cpu_seconds(broker.process.pid) - cpu}


def places(store: Path, topic: str, first: int = 0) -> list[int]:
    """Return where the log has the messages of a topic's queue 0, from an offset on."""
    with StoreReader(store) as reader:
        end = reader.bounds(topic, 0)[1]
        batches = reader.read(topic, 0, first, end, columns=["physicalOffset"])
        return [place for rows in batches for place in rows["physicalOffset"].to_pylist()]


def copies_during_sends(store: Path, sent: Sent) -> list[int]:
    """Return how many half messages of the round were copied while each send was on its way."""
    copies = places(store, HALF_TOPIC, HALVES)[:HALVES]
    assert len(copies) == HALVES
    stored = [HALVES + bisect_left(copies, one) for one in places(store, TOPIC)]
    return [max(after - before, 0) for before, after in zip(sent.half_messages, stored, strict=True)]


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_all_undecided_messages_are_asked_about_in_one_round_beside_sends(tmp_path: Path) -> None:
    """The log says how far the round went during a send: its time would be that of the machine."""
    filled(tmp_path / "store")
    settings = ("transactionTimeOut=1000", "transactionCheckInterval=3000", "waitTimeMillsInSendQueue=20000")
    stop = tmp_path / "stop"
    with running_broker(tmp_path, *settings) as broker, ProcessPoolExecutor(1, get_context("spawn")) as pool:
        sending = pool.submit(send_until, stop, broker.address, tmp_path / "store")
        try:
            assert until(stop.with_name("begun").exists, 60)  # before it the broker has no client to ask
            took = run(asked_about_all(broker))
        finally:
            stop.touch()
            sent = sending.result(60)
        broker.stop_in_order()
    during = copies_during_sends(tmp_path / "store", sent)
    measured(
        "checkedHalves",
        halves=HALVES,
        **{name: round(value, 2) for name, value in took.items()},
        slowest_send_ms=round(sent.slowest_s * 1000),
        sends=len(during),
        most_copies_during_a_send=max(during),
    )
    assert max(during) <= MOST_COPIES, f"{max(during):,} half messages were copied while a send waited"
