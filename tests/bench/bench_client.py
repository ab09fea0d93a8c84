"""Producers: RocketFlow's in Python and RocketMQ's in Java, in turn at both brokers in one run.

Each has 64 sends of one message in flight, then 8 of batches of 32; Java's are threads, Python's are tasks of one event
loop in a process of its own. The first round does not count; ratios are those of a round.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.bench.bench_network import BATCH, BATCH_SENDERS, BODY, SENDERS, VERSION, Load, Peer, start_peers, warm
from tests.bench.figures import Figure
from tests.support.java_programs import broker_jars
from tests.support.maven import JarsNotFetchedError, java_and_javac
from tests.support.trials import environment

ROUNDS: Final = 5
SECONDS: Final = 4
CASES: Final = (("single", SENDERS, 1), ("batch", BATCH_SENDERS, BATCH))


def run(scale: float) -> Iterator[Figure]:
    try:
        lib = broker_jars(VERSION)
        java_and_javac()
    except JarsNotFetchedError as error:
        print(f"Java's producer is not measured: {error}")
        return
    with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as folder, ExitStack() as stack:
        load = Load(lib, Path(folder))
        stack.callback(load.close)
        peers = start_peers(stack, Path(folder) / "servers", "ASYNC_FLUSH")
        warm(load, peers, scale)
        for peer in peers:
            for topic, senders, batch in CASES:
                yield from _rates(load, peer, topic, senders, batch, max(1, round(SECONDS * scale)))


def _rates(load: Load, peer: Peer, topic: str, senders: int, batch: int, seconds: int) -> Iterator[Figure]:
    rates: dict[str, list[float]] = {"Java": [], "Python": []}
    cpu, failed = [], 0
    for number in range(ROUNDS + 1):
        java = load.ask("SEND", peer.names, topic, senders, BODY, batch, seconds)
        python = _python(peer.names, topic, senders, batch, seconds)
        if number:
            rates["Java"].append(java[0] / java[1] * 1e6)
            rates["Python"].append(python[0] / python[1] * 1e6)
            cpu.append(python[5] / python[0] / 1000)
            failed += python[4]
    what = f"batch {batch} x {BODY} B" if batch > 1 else f"send {BODY} B"
    case = f"{what}, {senders} in flight, {peer.name}'s broker"
    yield from (Figure(f"{case}, {client}", "k msg/s", tuple(found)) for client, found in rates.items())
    ratios = tuple(one / other for one, other in zip(rates["Python"], rates["Java"], strict=True))
    yield Figure(f"  {case}: Python / Java", "x", ratios)
    yield Figure(f"{case}: Python's client", "us CPU a message", tuple(cpu))
    if failed:
        yield Figure(f"{case}: sends that failed", "messages", (failed,))


def _python(names: str, topic: str, senders: int, batch: int, seconds: int) -> list[int]:
    words = map(str, (names, topic, senders, BODY, batch, seconds))
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.python_load", *words],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    return [int(one) for one in done.stdout.split()[1:]]
