"""Apache's broker and RocketFlow's, with the kernel and without it, under one load of RocketMQ's Java client, in turn.

All stores have RocketMQ's default file sizes. Apache's broker has `-Xms1g -Xmx1g` and is warmed for a minute; of each
load a round that does not count goes before. A broker that does nothing shows what the client itself reaches. Ratios
are medians of the rounds' ratios: 1x holds from 0.95.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketflow_store import StoreConfig
from tests.bench.figures import Figure
from tests.support.http_get import get
from tests.support.java_programs import broker_jars
from tests.support.maven import JarsNotFetchedError, compile_java, java_and_javac
from tests.support.memory import rss_anon_mib
from tests.support.ports import free_port
from tests.support.real_broker import RealBroker
from tests.support.servers import RunningServer, running, wait_for_a_broker

VERSION: Final = "5.3.3"
ROUNDS: Final = 5
SENDERS: Final = 64
BATCH: Final = 32
BATCH_SENDERS: Final = 8
BODY: Final = 200
BACKLOG_BODY: Final = 1024
LATENCY_RATE: Final = 1_000
CONNECTIONS: Final = 1_000

_SOURCE: Final = Path(__file__).parent / "java" / "NetworkBench.java"
_OPENS: Final = (
    *("--add-exports=java.base/sun.nio.ch=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"),
    *("--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED"),
)
_APACHE_FLAGS: Final = ("-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=1g", *_OPENS)
_CLIENT_FLAGS: Final = ("-Xms512m", "-Xmx1g", *_OPENS)
_OWN_BROKER, _PURE, _APACHE = "RocketFlow", "RocketFlow without kernel", "Apache"
_NULL: Final = "a broker that does nothing"
"""It repeats what RocketFlow answered: its rate is what the client reaches at most."""


@dataclass(frozen=True)
class Peer:
    """A broker that runs: its name, its NameServer, its process."""

    name: str
    names: str
    pid: int
    address: tuple[str, int]

    def cpu_s(self) -> float:
        """Return the processor time that the broker has taken."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Load:
    """The Java client, which does one load after the other."""

    def __init__(self, lib: Path, home: Path) -> None:
        classes = compile_java(_SOURCE, _SOURCE.read_text(), lib)
        self._process = subprocess.Popen(
            [java_and_javac()[0], *_CLIENT_FLAGS, f"-Duser.home={home}", "-cp", f"{lib}/*:{classes}", "NetworkBench"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(home / "client.log").open("wb"),
            text=True,
        )

    def ask(self, *words: object) -> list[int]:
        """Run one load and return its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(*words, file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            if line.startswith("ANSWER "):
                return [int(one) for one in line.split()[1:]]
        raise AssertionError(f"the client has ended: {words}")

    def close(self) -> None:
        """End the client."""
        self._process.kill()
        self._process.wait()


def run(scale: float) -> Iterator[Figure]:
    try:
        lib = broker_jars(VERSION)
        java_and_javac()
    except JarsNotFetchedError as error:
        print(f"Apache's broker is not measured: {error}")
        return
    with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as folder, ExitStack() as stack:
        load = Load(lib, Path(folder))
        stack.callback(load.close)
        yield from _asynchronous(load, Path(folder) / "async", scale)
        yield from _synchronous(load, Path(folder) / "sync", scale)
        yield from _starts(load, Path(folder) / "start", scale)
        yield from _lag(load, Path(folder) / "lag", scale)


def _asynchronous(load: Load, home: Path, scale: float) -> Iterator[Figure]:
    with ExitStack() as stack:
        peers = start_peers(stack, home, "ASYNC_FLUSH")
        idle = {peer.name: rss_anon_mib(peer.pid) for peer in peers}
        seconds = max(1, round(4 * scale))
        backlog = max(4_096, int(240_000 * scale) // 128 * 128)
        upstream, null = _null(stack, home)
        warm(load, peers, scale)
        for peer in (*peers, upstream):
            load.ask("FILL", peer.names, "backlog", BACKLOG_BODY, backlog)
        rated = [*peers, null]
        sends = ("SEND", "single", SENDERS, BODY, 1, seconds)
        yield from _rates(f"send {BODY} B, {SENDERS} threads, ASYNC", load, rated, [sends])
        batches = ("SEND", "batch", BATCH_SENDERS, BODY, BATCH, seconds)
        yield from _rates(f"batch {BATCH} x {BODY} B, {BATCH_SENDERS} threads, ASYNC", load, rated, [batches])
        commits = ("COMMIT", "single", SENDERS, BODY, seconds)
        yield from _rates(
            f"transactions of {BODY} B, half and commit, {SENDERS} threads, ASYNC", load, rated, [commits]
        )
        yield from _rates("pull 1 KiB from a backlog", load, rated, [("PULL", "backlog")])
        rounds = [("PUSH", "backlog", f"push-{number}", backlog) for number in range(ROUNDS + 1)]
        yield from _rates("push 1 KiB from a backlog", load, rated, rounds)
        rounds = [("LATENCY", "paced", f"paced-{number}", LATENCY_RATE, seconds) for number in range(ROUNDS + 1)]
        yield from _latencies(load, peers, rounds)
        loaded = {peer.name: rss_anon_mib(peer.pid) for peer in peers}
        connected = {peer.name: _with_connections(peer) for peer in peers}
        for what, found in (("idle", idle), ("after load", loaded), (f"and {CONNECTIONS} connections", connected)):
            yield from _compared(f"anonymous memory {what}", "MiB", {one: [value] for one, value in found.items()})


def _synchronous(load: Load, home: Path, scale: float) -> Iterator[Figure]:
    with ExitStack() as stack:
        peers = start_peers(stack, home, "SYNC_FLUSH")
        warm(load, peers, scale)
        sends = ("SEND", "single", SENDERS, BODY, 1, max(1, round(4 * scale)))
        yield from _rates(f"send {BODY} B, {SENDERS} threads, SYNC", load, peers, [sends])


def _starts(load: Load, home: Path, scale: float) -> Iterator[Figure]:
    """Measure the time from a broker's start until it serves a store of 1 GiB that was closed in order."""
    with ExitStack() as stack:
        for peer in start_peers(stack, home, "ASYNC_FLUSH"):
            load.ask("FILL", peer.names, "backlog", BACKLOG_BODY, int(900_000 * scale) // 128 * 128)
    runs: dict[str, list[float]] = {_OWN_BROKER: [], _PURE: [], _APACHE: []}
    for _ in range(ROUNDS):
        for name in runs:
            with ExitStack() as stack:
                names = stack.enter_context(running("namesrv", home / "names", "--set", f"kvConfigPath={home}/kv.json"))
                began = time.monotonic()
                if name != _APACHE:
                    stack.enter_context(_own(name, home, names.address, "ASYNC_FLUSH"))
                else:
                    stack.enter_context(_apache(home, "ASYNC_FLUSH", names.port))
                runs[name].append(time.monotonic() - began)
    yield from _compared("start with 1 GiB until it serves", "s", runs)


def _lag(load: Load, home: Path, scale: float) -> Iterator[Figure]:
    """Measure the lag of the broker's event loop under load: 20 looks a second, in its metrics' classes."""
    seconds = max(2, round(60 * scale))
    with ExitStack() as stack:
        names = stack.enter_context(running("namesrv", home / "names", "--set", f"kvConfigPath={home}/kv.json"))
        port = free_port()
        metrics = ("metricsExporterType=PROM", f"metricsPromExporterPort={port}")
        stack.enter_context(_own(_OWN_BROKER, home, names.address, "ASYNC_FLUSH", *metrics))
        wait_for_a_broker(names.address)
        load.ask("SEND", names.address, "single", SENDERS, BODY, 1, seconds)
        shown = get(port, "/metrics")[1]
    classes = re.findall(r'^rocketflow_loop_lag_seconds_bucket\{.*le="([^"]+)".*\} (\S+)$', shown, re.MULTILINE)
    counts = [(float(bound), float(count)) for bound, count in classes]
    total = counts[-1][1]
    for what, share in (("p99", 0.99), ("p99.9", 0.999), ("maximum", 1.0)):
        bound = next(bound for bound, count in counts if count >= share * total)
        yield Figure(f"lag of the loop, {SENDERS} threads, {what} at most", "ms", (bound * 1000,))


def start_peers(stack: ExitStack, home: Path, flush: str) -> list[Peer]:
    """Start the brokers, each at its NameServer."""
    peers = []
    for name in (_OWN_BROKER, _PURE):
        folder = home / f"names-{name}"
        names = stack.enter_context(running("namesrv", folder, "--set", f"kvConfigPath={folder}/kv.json"))
        own = stack.enter_context(_own(name, home, names.address, flush))
        peers.append(Peer(name, names.address, own.process.pid, ("127.0.0.1", own.port)))
    apache = stack.enter_context(_apache(home, flush))
    peers.append(Peer(_APACHE, f"127.0.0.1:{apache.names_port}", apache.pid, ("127.0.0.1", apache.port)))
    for peer in peers:
        wait_for_a_broker(peer.names)
    return peers


def _null(stack: ExitStack, home: Path) -> tuple[Peer, Peer]:
    """Start a broker and what repeats its answers."""
    folder = home / "names-upstream"
    names = stack.enter_context(running("namesrv", folder, "--set", f"kvConfigPath={folder}/kv.json"))
    upstream = stack.enter_context(_own("upstream", home, names.address, "ASYNC_FLUSH"))
    address = f"127.0.0.1:{upstream.port}"
    command = [sys.executable, "-m", "tests.bench.null_broker", names.address, address]
    process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    stack.callback(process.kill)
    assert process.stdout is not None
    known, port = process.stdout.readline().split()
    wait_for_a_broker(names.address)
    return (
        Peer("upstream", names.address, upstream.process.pid, ("127.0.0.1", upstream.port)),
        Peer(_NULL, f"127.0.0.1:{known}", process.pid, ("127.0.0.1", int(port))),
    )


def _own(
    name: str, home: Path, names: str, flush: str, *further: str
) -> contextlib.AbstractContextManager[RunningServer]:
    settings = (f"storePathRootDir={home}/{name}", f"flushDiskType={flush}", "diskMaxUsedSpaceRatio=95", *further)
    arguments = [part for one in settings for part in ("--set", one)]
    variable = "ROCKETFLOW_NO_KERNEL" if name == _PURE else "ROCKETFLOW_REQUIRE_KERNEL"
    return running("broker", home / f"broker-{name}", "-n", names, *arguments, shell=f"export {variable}=1; exec")


def _apache(home: Path, flush: str, names_port: int = 0) -> RealBroker:
    work, conf = home / "apache-work", f"flushDiskType={flush}\n"
    return RealBroker(VERSION, home / "apache", StoreConfig(), work, conf, names_port, _APACHE_FLAGS)


def warm(load: Load, peers: Sequence[Peer], scale: float) -> None:
    """Send for a while: code that the JVMs have compiled is measured."""
    for peer in peers:
        seconds = max(1, round((30 if peer.name == _APACHE else 5) * scale))
        load.ask("SEND", peer.names, "single", SENDERS, BODY, 1, seconds)
        load.ask("SEND", peer.names, "batch", BATCH_SENDERS, BODY, BATCH, seconds)


def _rates(case: str, load: Load, peers: Sequence[Peer], rounds: Sequence[Sequence[object]]) -> Iterator[Figure]:
    """Run a load at each peer in turn, once more than ROUNDS; the first does not count."""
    rates: dict[str, list[float]] = {peer.name: [] for peer in peers}
    cpu: dict[str, list[float]] = {peer.name: [] for peer in peers}
    times: dict[str, list[tuple[int, int]]] = {peer.name: [] for peer in peers}
    failed = 0
    for number in range(ROUNDS + 1):
        words = rounds[number % len(rounds)]
        for peer in peers:
            before = peer.cpu_s()
            count, nanos, *more = load.ask(words[0], peer.names, *words[1:])
            if number:
                rates[peer.name].append(count / nanos * 1e6)
                cpu[peer.name].append((peer.cpu_s() - before) / count * 1e6)
                if more:
                    times[peer.name].append((more[0], more[1]))
                    failed += more[2]
    yield from _compared(case, "k msg/s", rates)
    yield from _compared(f"{case}: broker", "us CPU a message", cpu)
    for place, percentile in enumerate(("p50", "p99")):
        if any(times.values()):
            found = {name: [one[place] / 1000 for one in runs] for name, runs in times.items()}
            yield from _compared(f"{case}: {percentile}", "ms", found)
    if failed:
        yield Figure(f"{case}: sends that failed", "messages", (failed,))


def _latencies(load: Load, peers: Sequence[Peer], rounds: Sequence[Sequence[object]]) -> Iterator[Figure]:
    found: dict[str, dict[str, list[float]]] = {one: {peer.name: [] for peer in peers} for one in ("p50", "p99")}
    for number, words in enumerate(rounds):
        for peer in peers:
            _, _, p50, p99 = load.ask(words[0], peer.names, *words[1:])
            if number:
                found["p50"][peer.name].append(p50 / 1000)
                found["p99"][peer.name].append(p99 / 1000)
    for percentile, runs in found.items():
        yield from _compared(f"send to listener at {LATENCY_RATE} msg/s: {percentile}", "ms", runs)


def _with_connections(peer: Peer) -> float:
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            stack.enter_context(socket.create_connection(peer.address, timeout=10))
        time.sleep(1.0)
        return rss_anon_mib(peer.pid)


def _compared(case: str, unit: str, runs: dict[str, list[float]]) -> Iterator[Figure]:
    """Yield all figures and the ratios of the rounds, own to the others'."""
    yield from (Figure(f"{case}, {name}", unit, tuple(found)) for name, found in runs.items())
    for peer in (one for one in (_APACHE, _PURE, _NULL) if one in runs):
        pairs = zip(runs[_OWN_BROKER], runs[peer], strict=True)
        yield Figure(f"  {case}: {_OWN_BROKER} / {peer}", "x", tuple(one / other for one, other in pairs))
