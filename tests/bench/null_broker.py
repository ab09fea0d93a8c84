"""A broker that repeats what another one has answered: its rates are those that a client reaches at most.

    python -m tests.bench.null_broker NAMES BROKER

It stands for the NameServer and the broker at these addresses, at two free ports, which it prints. Sends and pulls that
find messages get the answer that the broker gave to the first of their kind; ends of transactions are dropped, since
they have no answer. All other requests are passed on.
"""

from __future__ import annotations

import asyncio
import re
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, cast

from rocketflow.aio.loop import run
from rocketflow.remoting.frame import Frame, FrameReceiver, HeaderType, frame_bytes

_CODE: Final = re.compile(rb'"code":(\d+)')
_OPAQUE: Final = re.compile(rb'"opaque":(-?\d+)')
_PLACE: Final = re.compile(rb'"(?:topic|queueId|queueOffset)":"[^"]*"')
_SENDS: Final = (b"10", b"310", b"320")
_PULLS: Final = (b"11", b"361")
_END: Final = b"37"
_FOUND: Final = b"0"


class Answer(NamedTuple):
    """The header of an answer before and after the number of its request, and its body."""

    before: bytes
    after: bytes
    body: bytes

    def frame(self, opaque: bytes) -> bytes:
        return frame_bytes(HeaderType.JSON, self.before + opaque + self.after, self.body)


class Side(asyncio.Protocol):
    """One connection, whose frames are given to `received`; `peer` is that of the other side."""

    def __init__(self, received: Callable[[Side, Frame], None], peer: Side | None = None) -> None:
        self._received, self.peer = received, peer
        if peer is not None:
            peer.peer = self
        self._receiver = FrameReceiver()
        self.waiting: dict[bytes, bytes] = {}
        """Kinds of the requests that were passed on, by their numbers."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        for frame in self._receiver.feed(data):
            self._received(self, frame)

    def connection_lost(self, error: Exception | None) -> None:
        if self.peer is not None:
            self.peer.close()

    def write(self, frame: bytes) -> None:
        self._transport.write(frame)

    def close(self) -> None:
        self._transport.close()


class NullBroker:
    """Connections of clients, each with one to the server; `renamed` changes the bodies of its answers."""

    def __init__(self, server: str, renamed: Callable[[bytes], bytes] = lambda body: body) -> None:
        self._host, _, port = server.rpartition(":")
        self._port = int(port)
        self._renamed = renamed
        self._answers: dict[bytes, Answer] = {}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port = int(self._listener.getsockname()[1])

    async def serve(self) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            accepted, _ = await loop.sock_accept(self._listener)
            _, server = await loop.create_connection(lambda: Side(self._answered), self._host, self._port)
            await loop.connect_accepted_socket(partial(Side, self._request, server), accepted)

    def _request(self, client: Side, frame: Frame) -> None:
        code, opaque = _group(_CODE, frame.header), _group(_OPAQUE, frame.header)
        kind = _kind(code, frame.header)
        known = self._answers.get(kind)
        if known is not None:
            client.write(known.frame(opaque))
        elif code != _END:
            if kind:
                client.waiting[opaque] = kind
            cast("Side", client.peer).write(frame_bytes(*_parts(frame)))

    def _answered(self, server: Side, frame: Frame) -> None:
        client = cast("Side", server.peer)
        header_type, header, body = _parts(frame)
        opaque = _OPAQUE.search(header)
        kind = client.waiting.pop(opaque[1], b"") if opaque is not None else b""
        if kind and opaque is not None and _group(_CODE, header) == _FOUND:
            self._answers[kind] = Answer(header[: opaque.start(1)], header[opaque.end(1) :], body)
        client.write(frame_bytes(header_type, header, self._renamed(body)))


def _parts(frame: Frame) -> tuple[HeaderType, bytes, bytes]:
    return frame.header_type, frame.header, frame.body


def _group(pattern: re.Pattern[bytes], header: bytes) -> bytes:
    found = pattern.search(header)
    return b"" if found is None else found[1]


def _kind(code: bytes, header: bytes) -> bytes:
    """Return what names the answer to a request; nothing if it has to be passed on."""
    if code in _SENDS:
        return code + (b" half" if b"TRAN_MSG" in header else b"")
    return b" ".join(sorted(_PLACE.findall(header))) if code in _PULLS else b""


async def serve(names: str, server: str) -> None:
    """Serve until the process is killed."""
    broker = NullBroker(server)
    said, here = server.encode(), f"127.0.0.1:{broker.port}".encode()

    known = NullBroker(names, lambda body: body.replace(said, here))
    print(known.port, broker.port, flush=True)
    await asyncio.gather(known.serve(), broker.serve())


if __name__ == "__main__":
    run(serve(*sys.argv[1:]))
