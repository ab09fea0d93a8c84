"""Clients of a server under test: raw sockets, and senders that remember what was acknowledged."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from rocketflow.aio.channel import Channel, ChannelClosedError
from rocketflow.aio.peers import Peers
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command, encode_command, request
from rocketflow.remoting.headers.header import Header
from tests.support.checker import Place
from tests.support.request_headers import pull_header, send_header
from tests.support.servers import RunningServer
from tests.support.workload import body

CODE = RequestCode
ANSWER_SECONDS = 30.0


def frame(code: int, header: Header | None = None, body: bytes = b"", opaque: int = 1) -> bytes:
    """Return the bytes of a request."""
    return encode_command(request(code, header, body=body, opaque=opaque))


def connected(server: RunningServer, timeout_s: float = ANSWER_SECONDS) -> socket.socket:
    """Return a connection to a server."""
    found = socket.create_connection(("127.0.0.1", server.port), timeout=timeout_s)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


async def asked(channel: Channel, code: int, header: Header | None = None, body: bytes = b"") -> Command:
    """Return the answer to a request."""
    return await channel.request(code, header, body=body, timeout_s=ANSWER_SECONDS)


async def is_served(channel: Channel, number: int, topic: str = "good") -> None:
    """Check that a good client can send and read what it sent."""
    sent = await asked(channel, CODE.SEND_MESSAGE, send_header(topic), body(number))
    assert sent.code == ResponseCode.SUCCESS, (sent.code, sent.remark)
    offset = int(sent.fields["queueOffset"])
    found = await asked(channel, CODE.PULL_MESSAGE, pull_header(topic, offset=offset))
    assert found.code == ResponseCode.SUCCESS, (found.code, found.remark)
    assert body(number) in found.body


class Load:
    """Senders on several connections; numbers of messages, and the places that were acknowledged."""

    def __init__(self, address: str, *, topic: str = "t", first: int = 0) -> None:
        self.attempted: set[int] = set()
        self.acked: dict[int, Place] = {}
        self.refused: set[int] = set()
        self._address = address
        self._topic = topic
        self._next = first

    async def run(self, connections: int, senders: int) -> None:
        """Send until the server ends the connections; each sender sends its next message after the answer."""
        await asyncio.gather(*(self._connection(senders) for _ in range(connections)))

    async def _connection(self, senders: int) -> None:
        peers = Peers()
        try:
            channel = await peers.channel(self._address)
            await asyncio.gather(*(self._sender(channel, number) for number in range(senders)))
        except OSError:
            pass
        finally:
            await peers.close()

    async def _sender(self, channel: Channel, queue_id: int) -> None:
        while channel.is_open:
            number, self._next = self._next, self._next + 1
            self.attempted.add(number)
            header = send_header(self._topic, queue_id % 2, properties=f"KEYS\x01k{number}\x02")
            try:
                answer = await asked(channel, CODE.SEND_MESSAGE, header, body(number))
            except (ChannelClosedError, OSError):
                return
            if answer.code == ResponseCode.SUCCESS:
                self.acked[number] = int(answer.fields["queueId"]), int(answer.fields["queueOffset"])
            elif answer.code != ResponseCode.FLUSH_DISK_TIMEOUT:  # such a message is in the log, on the disk or not
                self.refused.add(number)
                if answer.code == ResponseCode.SERVICE_NOT_AVAILABLE:
                    return


class RetryingLoad:
    """Senders that repeat a message, with its unique key, until it is acknowledged: as RocketMQ's producers do."""

    def __init__(self, address: str) -> None:
        self.acked: dict[int, Place] = {}
        self.attempted: set[int] = set()
        self.repeats = 0
        self.ends = False
        """Set by the caller: the senders end after the messages that they send."""
        self._address = address

    async def run(self, senders: int) -> None:
        """Send, each sender on a connection of its own, until `ends` is set."""
        peers = [Peers() for _ in range(senders)]
        await asyncio.gather(*(self._sender(one, number) for number, one in enumerate(peers)))
        await asyncio.gather(*(one.close() for one in peers))

    async def _sender(self, peers: Peers, queue_id: int) -> None:
        while not self.ends:
            number = len(self.attempted)
            self.attempted.add(number)
            properties = f"KEYS\x01k{number}\x02UNIQ_KEY\x01U{number}\x02"
            header = send_header("t", queue_id % 2, properties=properties)
            while number not in self.acked:
                try:
                    answer = await asked(await peers.channel(self._address), CODE.SEND_MESSAGE, header, body(number))
                except (ChannelClosedError, OSError):
                    self.repeats += 1
                    await asyncio.sleep(0.05)
                    continue
                if answer.code == ResponseCode.SUCCESS:
                    self.acked[number] = int(answer.fields["queueId"]), int(answer.fields["queueOffset"])


def descriptors(pid: int) -> int:
    """Return the number of open files of a process."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
