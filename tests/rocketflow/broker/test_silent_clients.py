"""Clients that do not read, of a broker in this process: neither queries nor replies fill its memory."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rocketflow.aio.channel import UNSENT_LIMIT
from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.broker.service import Broker
from rocketflow.broker.settings import load_broker_settings
from rocketflow.remoting.bodies import HeartbeatData, ProducerData, encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command, decode_command, encode_command, request
from rocketflow.remoting.frame import FrameReceiver
from rocketflow.remoting.headers.pull import QueryMessageRequestHeader
from tests.rocketflow.broker.test_runtime_figures import options_at
from tests.support.request_headers import send_header

CODE = RequestCode
KIB = 1 << 10
KERNEL = 12 * KIB * KIB
"""Bytes that the sockets of one connection may take."""


@asynccontextmanager
async def running_broker(home: Path) -> AsyncIterator[tuple[int, Peers]]:
    """Run a broker; yield its port and connections to it."""
    settings, config, given = load_broker_settings(None, options_at(home), {})
    broker, peers = Broker(settings, config, given), Peers()
    await broker.start()
    try:
        yield settings.listen_port, peers
    finally:
        await peers.close()
        await broker.stop()


async def answers(sock: socket.socket, count: int) -> list[int]:
    """Read answers; return their codes."""
    loop, receiver, found = asyncio.get_running_loop(), FrameReceiver(), list[int]()
    async with asyncio.timeout(60):
        while len(found) < count:
            frames = receiver.feed(await loop.sock_recv(sock, 1 << 20))
            found += [decode_command(one).code for one in frames]
    return found


def silent(port: int) -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * KIB)
    found.connect(("127.0.0.1", port))
    found.setblocking(False)
    return found


def test_queries_of_a_client_that_does_not_read_are_answered_with_2(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(tmp_path) as (port, peers):
            address = f"127.0.0.1:{port}"
            header = send_header("t", properties="KEYS\x01k\x02")
            for _ in range(16):
                sent = await peers.request(address, CODE.SEND_MESSAGE, header, body=bytes(30 * KIB))
                assert sent.code == ResponseCode.SUCCESS, sent.remark
            wanted = QueryMessageRequestHeader(topic="t", key="k", max_num=64, begin_timestamp=0, end_timestamp=1 << 60)
            async with asyncio.timeout(30):
                while len((await peers.request(address, CODE.QUERY_MESSAGE, wanted)).body) < 480 * KIB:
                    await asyncio.sleep(0.05)
            count = 100  # 47 MiB of answers
            with silent(port) as slow:
                asked = [encode_command(request(CODE.QUERY_MESSAGE, wanted, opaque=one)) for one in range(count)]
                await asyncio.get_running_loop().sock_sendall(slow, b"".join(asked))
                for _ in range(10):  # queries of others wait for those before them, and are answered
                    other = await peers.request(address, CODE.QUERY_MESSAGE, wanted, timeout_s=30)
                    assert other.code == ResponseCode.SUCCESS
                found = await answers(slow, count)
            assert found.count(ResponseCode.SUCCESS) * 480 * KIB < UNSENT_LIMIT + KERNEL
            assert found.count(ResponseCode.SUCCESS) + found.count(ResponseCode.SYSTEM_BUSY) == count

    run(main())


def test_replies_to_a_client_that_does_not_read_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(tmp_path) as (port, peers):
            address = f"127.0.0.1:{port}"
            body = encode_body(HeartbeatData(client_id="silent", producer_data_set=[ProducerData(group_name="p")]))
            header = send_header("t", properties="REPLY_TO_CLIENT\x01silent\x02")
            with silent(port) as slow:
                await asyncio.get_running_loop().sock_sendall(slow, encode_command(request(CODE.HEART_BEAT, body=body)))
                assert await answers(slow, 1) == [ResponseCode.SUCCESS]
                replies = [
                    asyncio.ensure_future(
                        peers.request(address, CODE.SEND_REPLY_MESSAGE, header, body=bytes(1 << 20), timeout_s=60)
                    )
                    for _ in range(50)
                ]
                done, waiting = set[asyncio.Task[Command]](), set(replies)
                async with asyncio.timeout(60):
                    while len(waiting) << 20 > UNSENT_LIMIT + KERNEL:
                        done, waiting = await asyncio.wait(replies, timeout=0.1)
                for one in done:
                    assert one.result().code == ResponseCode.SYSTEM_ERROR
                    remark = one.result().remark or ""
                    assert remark.startswith("push reply message to silent fail"), remark
                    assert "does not read" in remark
            for late in waiting:
                assert (await late).code == ResponseCode.SYSTEM_ERROR

    run(main())
