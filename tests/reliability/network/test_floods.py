"""Rows N04 to N08: many connections, half-open ones, slow readers and slow frames beside good clients."""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from rocketflow.aio.channel import Channel, ChannelClosedError
from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.aio.server import Limits, Request, Server
from rocketflow.remoting.codes import ResponseCode
from tests.reliability.network.wire import CODE, asked, connected, descriptors, frame, is_served
from tests.support.checker import findings
from tests.support.memory import rss_anon_mib
from tests.support.request_headers import pull_header, send_header
from tests.support.results import Tally, measured
from tests.support.servers import RunningServer, no_traceback, running_broker, until
from tests.support.trials import FULL, LEVEL, SEED

pytestmark = pytest.mark.slow

MIB = 1 << 20
GOOD = range(50 if LEVEL == "sample" else 400)
"""The messages of a good client whose latency is measured."""


def served(server: RunningServer, numbers: range) -> list[float]:
    """Check that a good client is served, each time; return how long it waited, in ms."""
    waited = []

    async def main() -> None:
        peers = Peers()
        channel = await peers.channel(server.address)
        for number in numbers:
            began = time.monotonic()
            await is_served(channel, number)
            waited.append(round((time.monotonic() - began) * 1000, 3))
        await peers.close()

    run(main())
    return waited


async def answered(channel: Channel, count: int = 1) -> list[float]:
    """Check that a server answers request 1; return how long each answer took, in ms."""
    waited = []
    for _ in range(count):
        began = time.monotonic()
        assert (await asked(channel, 1)).code == ResponseCode.SUCCESS
        waited.append(round((time.monotonic() - began) * 1000, 3))
    return waited


@contextmanager
def many(server: RunningServer, count: int) -> Iterator[list[socket.socket]]:
    """Open connections and close them at the end."""
    with ExitStack() as stack:
        yield [stack.enter_context(connected(server)) for _ in range(count)]


def test_thousands_of_connections_are_served(broker: RunningServer, tally: Callable[..., Tally]) -> None:
    counts = tally("N07", "idle")
    count = 10_000 if FULL else 9_000 if LEVEL != "sample" else 1_500
    pid = broker.process.pid
    alone = served(broker, GOOD)
    before, files = rss_anon_mib(pid), descriptors(pid)
    with many(broker, count) as sockets:
        assert until(lambda: descriptors(pid) >= files + count - 2)
        measured("goodBesideN07", aloneMs=alone, attackedMs=served(broker, GOOD))
        assert rss_anon_mib(pid) - before < 100
        for one in random.Random(SEED).sample(sockets, 100):
            one.sendall(frame(9999))
            assert one.recv(4)
        counts.trial(None, f"{count} connections")
    assert until(lambda: descriptors(pid) <= files + 8)
    no_traceback(broker)


def test_connections_above_the_limit_are_closed_and_those_below_are_served(
    tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    counts = tally("N07", "limit")
    with running_broker(
        tmp_path, "rocketflow.maxConnections=20", "serverChannelMaxIdleTimeSeconds=4", "flushDiskType=ASYNC_FLUSH"
    ) as server:
        with many(server, 19) as sockets:
            assert until(lambda: descriptors(server.process.pid) >= 19)
            served(server, range(1))
            with many(server, 10) as more:
                closed = 0
                for one in more:
                    with suppress(ConnectionError):
                        closed += one.recv(1) == b""
                assert closed >= 8
            served(server, range(1, 2))
            began = time.monotonic()  # N05: peers that say nothing are closed
            for one in sockets:
                with suppress(ConnectionError):
                    assert one.recv(1) == b""
            assert time.monotonic() - began < 15
        served(server, range(2, 3))
        no_traceback(server)
        counts.trial(None, "20 connections")


def test_nothing_is_left_of_a_storm_of_short_connections(
    broker: RunningServer, names: RunningServer, tally: Callable[..., Tally]
) -> None:
    counts = tally("N08")
    rng = random.Random(SEED)
    count = 20_000 if LEVEL != "sample" else 600
    data = frame(CODE.SEND_MESSAGE, send_header("storm"), bytes(2000))
    for server in (broker, names):
        pid = server.process.pid
        before, files = rss_anon_mib(pid), descriptors(pid)
        for _ in range(count):
            with connected(server) as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                with suppress(ConnectionError):
                    one.sendall(data[: rng.randrange(len(data) + 1)])
        assert until(lambda: descriptors(pid) <= files + 8), (descriptors(pid), files)  # noqa: B023
        assert rss_anon_mib(pid) - before < 32
        no_traceback(server)
    served(broker, range(2))
    counts.trial(None, f"{count} connections")


def test_announced_frames_take_no_memory_and_are_given_up(tally: Callable[..., Tally]) -> None:
    counts = tally("N04", "announced")
    count = 200 if FULL else 50

    async def main() -> None:
        server = Server({1: lambda request: request.reply()}, limits=Limits(frame_s=1.0))
        port = await server.listen("127.0.0.1", 0)
        peers = Peers()
        good = await peers.channel(f"127.0.0.1:{port}")
        alone = await answered(good, len(GOOD))
        begun = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
        for _, writer in begun:
            writer.write((16 * MIB - 4).to_bytes(4, "big"))
        attacked = []
        start = time.monotonic()
        while server.connection_count > 1 and time.monotonic() < start + 20:
            for _, writer in begun:
                if not writer.is_closing():
                    writer.write(b"x")
            attacked += await answered(good, 10)
            await asyncio.sleep(0.1)
        assert server.connection_count == 1
        assert time.monotonic() - start >= 1.0
        measured("goodBesideN04", aloneMs=alone, attackedMs=attacked)
        for _, writer in begun:
            writer.transport.abort()
        await peers.close()
        await server.close()

    run(main())
    counts.trial(None, f"{count} connections")


def test_incomplete_frames_take_no_more_memory_than_allowed(tally: Callable[..., Tally]) -> None:
    counts = tally("N04", "incomplete")
    limit = 8 * MIB

    async def main() -> None:
        server = Server({1: lambda request: request.reply()}, limits=Limits(frame_s=3.0, all_unread=limit))
        port = await server.listen("127.0.0.1", 0)
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        for _, writer in opened:
            writer.write((12 * MIB).to_bytes(4, "big") + bytes(4 * MIB))
        peers = Peers()
        for _ in range(10):
            assert (await asked(await peers.channel(f"127.0.0.1:{port}"), 1)).code == 0
            assert server.unread < limit + 20 * 512 * 1024
            await asyncio.sleep(0.1)
        end = time.monotonic() + 30
        while server.connection_count > 1 and time.monotonic() < end:
            await asyncio.sleep(0.1)
        assert server.connection_count == 1
        for _, writer in opened:
            writer.transport.abort()
        await peers.close()
        await server.close()

    run(main())
    counts.trial(None, "20 connections")


def test_a_client_that_does_not_read_holds_its_own_limit_and_no_more(
    broker: RunningServer, tally: Callable[..., Tally]
) -> None:
    counts = tally("N06", "broker")
    count, more = (15, 5) if FULL else (3, 0)  # 15 hold less than all may together, 20 do not
    pid = broker.process.pid

    async def fill() -> None:
        peers = Peers()
        channel = await peers.channel(broker.address)
        for _ in range(32):
            sent = await asked(channel, CODE.SEND_MESSAGE, send_header("large"), bytes(100_000))
            assert sent.code == ResponseCode.SUCCESS
        await peers.close()

    run(fill())
    alone = served(broker, GOOD)
    before = rss_anon_mib(pid)
    with many(broker, count) as slow:
        pull_much(slow)
        highest, attacked = 0.0, []
        for first in range(0, len(GOOD), 5):
            attacked += served(broker, GOOD[first : first + 5])
            highest = max(highest, rss_anon_mib(pid) - before)
        assert highest < min(count * 16, 256) + 48, highest
        measured("goodBesideN06", aloneMs=alone, attackedMs=attacked)
        with many(broker, more) as further:
            pull_much(further)
            run(fill())  # large answers may be refused with 2 now, and sends are not
            assert rss_anon_mib(pid) - before < 256 + 48
        counts.trial(None, f"{count + more} clients")
        received = 0  # a client that begins to read gets its answers
        slow[0].settimeout(30.0)
        while received < 40 * MIB:
            received += len(slow[0].recv(MIB))
    kept = 256 + 48 if more else 64  # malloc keeps what many took, and gives it to the next ones
    assert until(lambda: rss_anon_mib(pid) - before < kept)
    no_traceback(broker)


def pull_much(sockets: list[socket.socket]) -> None:
    """Send pulls of large messages, as many as the broker reads."""
    pulls = b"".join(frame(CODE.PULL_MESSAGE, pull_header("large"), opaque=number) for number in range(2_000))
    for one in sockets:
        one.settimeout(0.5)
        with suppress(TimeoutError):
            one.sendall(pulls)


def test_a_client_that_does_not_read_is_closed_and_one_that_reads_slowly_is_not(tally: Callable[..., Tally]) -> None:
    counts = tally("N06", "closed")
    idle_s, answers = 3.0, 24

    async def main() -> None:
        server = Server(
            {1: lambda request: request.reply(body=bytes(MIB))}, limits=Limits(idle_s=idle_s, unsent=256 * 1024)
        )
        port = await server.listen("127.0.0.1", 0)
        silent, slow = (asking(port, answers) for _ in range(2))
        loop, began, received = asyncio.get_running_loop(), time.monotonic(), 0
        while server.connection_count > 1 or time.monotonic() < began + 2 * idle_s:
            received += len(await loop.sock_recv(slow, 64 * 1024))
            assert time.monotonic() < began + 60, "the client that does not read is not closed"
            await asyncio.sleep(0.05)
        assert time.monotonic() - began >= idle_s
        while received < answers * MIB:
            chunk = await loop.sock_recv(slow, MIB)
            assert chunk, "the client that reads was closed"
            received += len(chunk)
        for one in (silent, slow):
            one.close()
        await server.close()

    run(main())
    counts.trial(None, "2 clients")


def asking(port: int, answers: int) -> socket.socket:
    """Return a connection with a small window that has asked for answers."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)
    sock.connect(("127.0.0.1", port))
    sock.sendall(b"".join(frame(1, opaque=number) for number in range(answers)))
    sock.setblocking(False)
    return sock


def test_all_unsent_bytes_together_are_limited_and_good_clients_are_served(tally: Callable[..., Tally]) -> None:
    counts = tally("N06", "all")

    async def main() -> None:
        large = bytes(MIB)
        server = Server(
            {1: lambda request: request.reply(body=large), 2: lambda request: request.reply()},
            limits=Limits(unsent=4 * MIB, all_unsent=16 * MIB),
        )
        port = await server.listen("127.0.0.1", 0)
        slow = []
        for _ in range(12):
            sock = socket.create_connection(("127.0.0.1", port))
            sock.sendall(b"".join(frame(1, opaque=number) for number in range(64)))
            slow.append(sock)
            await asyncio.sleep(0.05)
        unsent = sum(channel.unsent_size for channel in server.channels)
        assert unsent < 16 * MIB + 12 * MIB, unsent
        peers = Peers()
        channel = await peers.channel(f"127.0.0.1:{port}")
        assert (await asked(channel, 2)).code == ResponseCode.SUCCESS
        assert (await asked(channel, 1)).code == ResponseCode.SYSTEM_BUSY
        for sock in slow:
            sock.close()
        for _ in range(100):
            if (await asked(channel, 1)).code == ResponseCode.SUCCESS:
                break
            await asyncio.sleep(0.05)
        else:
            pytest.fail("large answers are refused for ever")
        await peers.close()
        await server.close()

    run(main())
    counts.trial(None, "12 clients")


def test_requests_that_run_for_long_are_limited(tally: Callable[..., Tally]) -> None:
    counts = tally("N06", "tasks")
    gate = asyncio.Event()

    async def slowly(request: Request) -> None:
        await gate.wait()
        request.reply()

    async def main() -> None:
        server = Server({1: slowly, 2: lambda request: request.reply()})
        port = await server.listen("127.0.0.1", 0)
        greedy = []
        for _ in range(6):
            sock = socket.create_connection(("127.0.0.1", port))
            sock.sendall(b"".join(frame(1, opaque=number) for number in range(1, 401)))
            greedy.append(sock)
            await asyncio.sleep(0.05)
        assert server.task_count <= 1_000
        peers = Peers()
        channel = await peers.channel(f"127.0.0.1:{port}")
        assert (await asked(channel, 2)).code == ResponseCode.SUCCESS
        assert (await asked(channel, 1)).code == ResponseCode.SYSTEM_BUSY
        gate.set()
        for sock in greedy:
            sock.setblocking(False)
        answered = 0
        end = time.monotonic() + 30
        while answered < 6 * 400 and time.monotonic() < end:
            await asyncio.sleep(0.05)
            for sock in greedy:
                with suppress(BlockingIOError):
                    answered += sock.recv(1 << 20).count(b'"opaque":')
        assert answered == 6 * 400
        for sock in greedy:
            sock.close()
        await peers.close()
        await server.close()

    run(main())
    counts.trial(None, "6 clients")


HOLD = """
import socket, sys, time
held = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(int(sys.argv[2]))]
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(LEVEL == "sample", reason="silent peers are closed above: RF_FAULTS=1 runs it")
def test_peers_that_have_died_without_a_word_are_closed(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counts = tally("N05")
    with running_broker(tmp_path, "serverChannelMaxIdleTimeSeconds=3") as server:
        served(server, range(1))
        files = descriptors(server.process.pid)
        with subprocess.Popen([sys.executable, "-c", HOLD, str(server.port), "100"], stdout=subprocess.PIPE) as stopped:
            try:
                assert stopped.stdout is not None
                assert stopped.stdout.readline() == b"ready\n"
                stopped.send_signal(signal.SIGSTOP)
                assert until(lambda: descriptors(server.process.pid) >= files + 90)
                served(server, range(2))
                assert until(lambda: descriptors(server.process.pid) <= files + 8)
            finally:
                stopped.kill()
        no_traceback(server)
    counts.trial(None, "100 connections")


def test_a_broker_without_free_descriptors_serves_those_that_are_connected(tmp_path: Path) -> None:
    limit = 120
    command = f"ulimit -n {limit}; exec"
    with running_broker(tmp_path, shell=command) as server, ExitStack() as stack:
        peers = Peers()

        async def main() -> None:
            channel = await peers.channel(server.address)
            await is_served(channel, 0)
            with suppress(OSError):
                for _ in range(2 * limit):
                    stack.enter_context(connected(server, 1.0))
            for number in range(8):  # files of new topics are opened
                await is_served(channel, number, f"new-{number}")
            stack.close()
            for _ in range(200):
                new = Peers()
                try:
                    await is_served(await new.channel(server.address), 2)
                    break
                except (OSError, ChannelClosedError):  # closed at once while the others are open
                    await asyncio.sleep(0.1)
                finally:
                    await new.close()
            else:
                pytest.fail("no new connection is served")

        async def closing() -> None:
            try:
                await main()
            finally:
                await peers.close()

        run(closing())
        no_traceback(server)


@pytest.mark.skipif(
    LEVEL == "sample", reason="test_many_queues.py has more queues than descriptors: RF_FAULTS=1 runs it"
)
def test_more_topics_than_descriptors_are_made_on_first_use_and_kept_through_a_kill(
    tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    counts = tally("S32", "broker")
    limit, topics = 120, 150 if LEVEL == "sample" else 1_000
    command = f"ulimit -n {limit}; exec"

    async def use(address: str) -> None:
        peers = Peers()
        channel = await peers.channel(address)
        for number in range(topics):
            await is_served(channel, number, f"topic-{number}")
        await peers.close()

    with running_broker(tmp_path, "flushDiskType=ASYNC_FLUSH", shell=command) as server:
        run(use(server.address))
        assert descriptors(server.process.pid) < limit
        server.process.kill()
    with running_broker(tmp_path, "flushDiskType=ASYNC_FLUSH", shell=command) as server:
        run(use(server.address))
        assert descriptors(server.process.pid) < limit
        no_traceback(server)
    assert not findings(tmp_path / "store")
    counts.trial(None, f"{topics} topics, {limit} descriptors")
