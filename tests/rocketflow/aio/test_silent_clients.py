"""Clients that do not read: what waits for one of them, and for all together, has a limit."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rocketflow.aio.channel import LARGE, ChannelCongestedError
from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.aio.server import Limits, Request, Server
from rocketflow.remoting.codes import ResponseCode
from rocketflow.remoting.command import decode_command, encode_command, request
from rocketflow.remoting.frame import FrameReceiver

KIB = 1 << 10
MIB = 1 << 20

TASK, AT_ONCE, SMALL, MIDDLE = 1, 2, 3, 4
LIMITS = Limits(unsent=MIB, all_unsent=4 * MIB)


async def in_a_task(request: Request) -> None:
    await asyncio.sleep(0)
    request.reply(body=bytes(400 * KIB))


@asynccontextmanager
async def served(limits: Limits = LIMITS) -> AsyncIterator[tuple[Server, int]]:
    """Run a server with answers of several sizes; yield it and its port."""
    server = Server(
        {
            TASK: in_a_task,
            AT_ONCE: lambda request: request.reply(body=bytes(400 * KIB)),
            SMALL: lambda request: request.reply(body=b"small"),
            MIDDLE: lambda request: request.reply(body=bytes(LARGE - KIB)),
        },
        limits=limits,
    )
    try:
        yield server, await server.listen("127.0.0.1", 0)
    finally:
        await server.close()


def silent(port: int) -> socket.socket:
    """Return a connection whose other end can send little before somebody reads."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * KIB)
    found.connect(("127.0.0.1", port))
    return found


def asking(code: int, count: int) -> bytes:
    return b"".join(encode_command(request(code, opaque=number)) for number in range(1, count + 1))


async def settled(server: Server) -> int:
    """Wait until no request runs and nothing more is written; return the most unsent bytes of a connection."""
    sizes = [-1, 0]
    async with asyncio.timeout(30):
        while server.task_count or sizes[-1] != sizes[-2]:
            await asyncio.sleep(0.1)
            sizes.append(max(channel.unsent_size for channel in server.channels))
    return max(sizes)


async def codes_read(sock: socket.socket, count: int) -> Counter[int]:
    """Read answers; return how many have each code."""
    loop, receiver, found = asyncio.get_running_loop(), FrameReceiver(), Counter[int]()
    sock.setblocking(False)
    async with asyncio.timeout(30):
        while found.total() < count:
            frames = receiver.feed(await loop.sock_recv(sock, MIB))
            found.update(decode_command(one).code for one in frames)
    return found


@pytest.mark.parametrize("code", [TASK, AT_ONCE])
def test_answers_above_a_connection_s_limit_become_code_2(code: int) -> None:
    async def main() -> None:
        async with served() as (server, port):
            with silent(port) as slow:
                slow.sendall(asking(code, 120))  # 47 MiB of answers
                await asyncio.sleep(0.05)
                assert MIB < await settled(server) < MIB + 450 * KIB
                peers = Peers()
                assert len((await peers.request(f"127.0.0.1:{port}", AT_ONCE)).body) == 400 * KIB
                await peers.close()
                answered = await codes_read(slow, 120)
                assert answered.total() == 120
                if code == TASK:
                    assert answered[ResponseCode.SYSTEM_BUSY] > 80

    run(main())


def test_requests_to_a_client_that_does_not_read_are_refused_and_notices_dropped() -> None:
    async def main() -> None:
        async with served() as (server, port):
            with silent(port) as slow:
                slow.sendall(asking(SMALL, 1))
                assert (await codes_read(slow, 1)).total() == 1
                [channel] = server.channels
                pushed = [
                    asyncio.ensure_future(channel.request(326, body=bytes(200 * KIB), timeout_s=30)) for _ in range(150)
                ]
                await asyncio.sleep(0.05)
                before = await settled(server)
                assert MIB < before < MIB + 250 * KIB
                refused = [one.exception() for one in pushed if one.done()]
                assert len(refused) > 80
                assert all(isinstance(one, ChannelCongestedError) for one in refused)
                assert f"127.0.0.1:{slow.getsockname()[1]}: the client does not read" in str(refused[0])
                for _ in range(1_000):
                    channel.notify(40)
                assert channel.unsent_size <= before
                await codes_read(slow, len(pushed) - len(refused))  # it reads again: requests reach it again
                channel.notify(40)
                assert await codes_read(slow, 1) == Counter({40: 1})
                slow.close()
                await asyncio.gather(*pushed, return_exceptions=True)

    run(main())


def test_unsent_bytes_of_small_answers_count_for_all_and_clients_that_read_are_answered() -> None:
    async def main() -> None:
        async with served(Limits(unsent=MIB, all_unsent=2 * MIB)) as (server, port):
            slow = [silent(port) for _ in range(12)]

            def unsent() -> int:
                return sum(channel.unsent_size for channel in server.channels)

            async def ask_once(pause_s: float) -> None:
                for one in slow:
                    one.sendall(asking(MIDDLE, 1))
                await asyncio.sleep(pause_s)

            while unsent() < MIB:  # until the sockets are full
                await ask_once(0.005)
            for _ in range(30):
                await ask_once(0.03)  # the sum of all is 20 ms old at most
            assert 2 * MIB < unsent() < 4 * MIB, unsent()
            peers = Peers()
            address = f"127.0.0.1:{port}"
            assert (await peers.request(address, AT_ONCE)).code == ResponseCode.SYSTEM_BUSY
            assert (await peers.request(address, SMALL)).body == b"small"
            assert (await peers.request(address, MIDDLE)).code == ResponseCode.SUCCESS
            for one in slow:
                one.close()
            async with asyncio.timeout(30):
                while (await peers.request(address, AT_ONCE)).code != ResponseCode.SUCCESS:
                    await asyncio.sleep(0.02)
            await peers.close()

    run(main())
