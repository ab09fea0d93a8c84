"""The check-back of 100,000 half messages inside a broker's process, without sockets, beside single sends."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple, cast

from rocketflow.aio.channel import Channel
from rocketflow.broker.groups.clients import Client
from rocketflow_store.spi.broker import RawMessage, encode_properties
from rocketflow_store.spi.names import HALF_TOPIC
from tests.bench.figures import Figure
from tests.support.sender import NOW_MS, Sender, Wire, send

HALVES: Final = 100_000
ROUNDS: Final = 3
GROUP: Final = "producers"
PAUSE_SECONDS: Final = 0.005
SIZES: Final = {
    "mappedFileSizeCommitLog": str(1 << 28),
    "mappedFileSizeConsumeQueue": "6000000",
    "maxHashSlotNum": "1000000",
    "maxIndexNum": "4000000",
}


class Producer(Wire):
    """Takes questions and drops them."""

    def writelines(self, parts: Sequence[bytes]) -> None:
        pass


class Answers(Wire):
    """Says when an answer has come."""

    def __init__(self, peer: tuple[str, int]) -> None:
        super().__init__(peer)
        self.came = asyncio.Event()

    def writelines(self, parts: Sequence[bytes]) -> None:
        self.came.set()


class Round(NamedTuple):
    """Seconds, processor time (us) of a half message, and the largest delay (ms) of a send."""

    seconds: float
    us: float
    slowest_ms: float


def fill(sender: Sender, halves: int) -> None:
    """Store half messages of 1 KiB that are due."""
    common = {"TRAN_MSG": "true", "PGROUP": GROUP, "REAL_TOPIC": "orders", "REAL_QID": "0"}
    for first in range(0, halves, 1_000):
        keys = (f"7F000001{number:024X}" for number in range(first, min(first + 1_000, halves)))
        texts = [encode_properties({**common, "UNIQ_KEY": key, "__transactionId__": key}) for key in keys]
        host = bytes([10, 9, 8, 7, 0, 0, 0, 1])
        appended = sender.store.append(
            [RawMessage(HALF_TOPIC, 0, bytes(1_024), one, 0, 0, NOW_MS, host, is_internal=True) for one in texts]
        )
        sender.store.publish(appended.end)


def connected(sender: Sender, wire: Wire) -> Channel:
    """Return another connection of the broker."""
    channel = Channel(sender.server, together=sender.server)
    channel.connection_made(cast("asyncio.Transport", wire))
    return channel


async def delays(sender: Sender) -> list[float]:
    """Send one message after another until cancelled, and return the times (ms) until their answers."""
    answers = Answers(("10.9.8.6", 4713))
    channel, found = connected(sender, answers), []
    with contextlib.suppress(asyncio.CancelledError):
        for opaque in count(1):
            answers.came.clear()
            began = time.perf_counter()
            channel.data_received(send(opaque))
            await answers.came.wait()
            found.append((time.perf_counter() - began) * 1_000)
            await asyncio.sleep(PAUSE_SECONDS)
    return found


async def check(sender: Sender, halves: int) -> Round:
    """Check all half messages once."""
    checks = sender.transactions.checks
    await checks.learn()
    channel = connected(sender, Producer(("10.9.8.7", 4712)))
    sender.tables.producers.register(GROUP, Client(channel, "c", "JAVA", 479, 0))
    beside = asyncio.create_task(delays(sender))
    await asyncio.sleep(0)
    began, cpu = time.perf_counter(), time.process_time()
    await checks.check(NOW_MS + 60_000)
    took, used = time.perf_counter() - began, time.process_time() - cpu
    beside.cancel()
    assert checks.asked == halves, f"{checks.asked:,} questions for {halves:,} half messages"
    return Round(took, used / halves * 1e6, max(await beside))


def measure(halves: int) -> Round:
    """Return the figures of one round in a new store."""
    with tempfile.TemporaryDirectory() as home:
        sender = Sender(Path(home, "store"), together=True, **SIZES)
        try:
            fill(sender, halves)
            return sender.loop.run_until_complete(check(sender, halves))
        finally:
            sender.close()


def run(scale: float) -> Iterator[Figure]:
    """Measure rounds of checks in new stores."""
    halves = int(HALVES * scale)
    rounds = [measure(halves) for _ in range(ROUNDS)]
    case = f"check-back of {halves:,} half messages"
    yield Figure(case, "s", tuple(one.seconds for one in rounds))
    yield Figure(f"{case}: processor time, with sends", "us a half message", tuple(one.us for one in rounds))
    yield Figure(f"{case}: largest delay of a send", "ms", tuple(one.slowest_ms for one in rounds))
