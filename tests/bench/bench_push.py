"""Push consumers from a backlog: RocketFlow's in Python and RocketMQ's in Java, in turn at both brokers in one run.

Each round has a new group, which reads 1 KiB messages of four queues from the first one on. The first round does not
count; ratios are those of a round.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.bench.bench_network import BACKLOG_BODY, VERSION, Load, start_peers
from tests.bench.figures import Figure
from tests.support.java_programs import broker_jars
from tests.support.maven import JarsNotFetchedError, java_and_javac
from tests.support.trials import environment

ROUNDS: Final = 3
MESSAGES: Final = 160_000
SECONDS: Final = 600


def run(scale: float) -> Iterator[Figure]:
    try:
        lib = broker_jars(VERSION)
        java_and_javac()
    except JarsNotFetchedError as error:
        print(f"Java's push consumer is not measured: {error}")
        return
    with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as folder, ExitStack() as stack:
        load = Load(lib, Path(folder))
        stack.callback(load.close)
        count = max(4_096, int(MESSAGES * scale) // 128 * 128)
        for peer in start_peers(stack, Path(folder) / "servers", "ASYNC_FLUSH"):
            load.ask("FILL", peer.names, "backlog", BACKLOG_BODY, count)
            yield from _rates(f"{peer.name}'s broker", peer.names, load, count)


def _rates(place: str, names: str, load: Load, count: int) -> Iterator[Figure]:
    rates: dict[str, list[float]] = {"Java": [], "Python": [], "Python, threads": []}
    for number in range(ROUNDS + 1):
        for client, found in rates.items():
            group = f"push-{client.split()[-1]}-{number}"
            if client == "Java":
                messages, nanos = load.ask("PUSH", names, "backlog", group, count)
            else:
                face = "threads" if "threads" in client else "asyncio"
                messages, nanos = _python(names, group, count, face)
            if number:
                found.append(messages / nanos * 1e6)
    case = f"push 1 KiB from a backlog, {place}"
    for client, found in rates.items():
        yield Figure(f"{case}, {client}", "k msg/s", tuple(found))
    for client in ("Python", "Python, threads"):
        ratios = tuple(one / other for one, other in zip(rates[client], rates["Java"], strict=True))
        yield Figure(f"  {case}: {client} / Java", "x", ratios)


def _python(names: str, group: str, count: int, face: str) -> tuple[int, int]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.push_client", names, "backlog", group, str(count), face],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
        env=environment(),
    )
    messages, nanos = map(int, done.stdout.split())
    return messages, nanos
