"""One connection: bytes to commands and back, and requests in both directions.

RocketMQ's source: remoting/netty/NettyRemotingAbstract.java, NettyRemotingServer.java.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol, cast

from rocketflow.remoting.command import Command, decode_command, encode_command, request
from rocketflow.remoting.errors import RemotingError
from rocketflow.remoting.frame import MAX_FRAME_SIZE, FrameReceiver
from rocketflow.remoting.pending import PendingRequests

if TYPE_CHECKING:
    from rocketflow.remoting.headers.header import Header

LOG: Final = logging.getLogger("rocketflow.aio")

UNSENT_LIMIT: Final = 16 * 1024 * 1024
"""Bytes that may wait for a peer that reads slowly; above it nothing more is read from that peer."""

_RESUME_AT: Final = UNSENT_LIMIT // 4


class ChannelClosedError(Exception):
    """The connection ended before the answer came."""


class ChannelOwner(Protocol):
    """Receiver of a channel's events: a server, or the connections to other servers."""

    def opened(self, channel: Channel) -> None:
        """Take note of a new connection."""

    def received(self, channel: Channel, command: Command) -> None:
        """Take a request of the peer."""

    def closed(self, channel: Channel) -> None:
        """Take note that the connection has ended."""


class Channel(asyncio.Protocol):
    """One connection.

    What is sent within one iteration of the loop goes out in one write. Reading pauses while more than UNSENT_LIMIT
    bytes wait for the peer.
    """

    def __init__(self, owner: ChannelOwner, *, max_frame_size: int = MAX_FRAME_SIZE) -> None:
        self._owner = owner
        self._receiver = FrameReceiver(max_frame_size)
        self._pending: PendingRequests[asyncio.Future[Command]] = PendingRequests()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self.address = ""
        self.last_heard = self._loop.time()
        self._frame_begun: float | None = None

    @property
    def is_open(self) -> bool:
        """Return whether the connection stands."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def frame_begun(self) -> float | None:
        """Return the loop's time at which the frame began that has not arrived completely, or None."""
        return self._frame_begun

    # --- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection."""
        self._transport = stream = cast("asyncio.Transport", transport)  # uvloop's derives from nothing of asyncio's
        stream.set_write_buffer_limits(high=UNSENT_LIMIT, low=_RESUME_AT)
        self.address = address_text(stream.get_extra_info("peername"))
        self._owner.opened(self)

    def data_received(self, data: bytes) -> None:
        """Take the next bytes; close the connection where they are no frames."""
        self.last_heard = self._loop.time()
        try:
            for frame in self._receiver.feed(data):
                self._frame_begun = None
                self._take(decode_command(frame))
        except RemotingError as error:
            LOG.warning("%s: %s; the connection is closed", self.address, error)
            self.close()
            return
        if self._receiver.pending_size and self._frame_begun is None:
            self._frame_begun = self.last_heard

    def pause_writing(self) -> None:
        """Stop reading from a peer that does not read."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Read again."""
        if self._transport is not None:
            self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the requests that wait for answers."""
        self._transport = None
        for waiter in self._pending.pop_all():
            if not waiter.done():
                waiter.set_exception(ChannelClosedError(f"{self.address}: the connection ended before the answer came"))
        self._owner.closed(self)

    # --- what others call

    def send(self, command: Command) -> None:
        """Send a request or an answer; nothing happens if the connection has ended."""
        self.send_frame(encode_command(command))

    def send_frame(self, frame: bytes) -> None:
        """Send a frame; nothing happens if the connection has ended."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(frame)

    async def request(self, code: int, header: Header | None = None, *, body: bytes = b"", timeout_s: float) -> Command:
        """Send a request and return the peer's answer.

        Raises ChannelClosedError, and TimeoutError after `timeout_s` seconds.
        """
        if not self.is_open:
            raise ChannelClosedError(f"{self.address}: the connection has ended")
        opaque = self._pending.next_opaque()
        waiter: asyncio.Future[Command] = self._loop.create_future()
        self._pending.add(opaque, waiter)
        self.send(request(code, header, body=body, opaque=opaque))
        try:
            async with asyncio.timeout(timeout_s):
                return await waiter
        except TimeoutError:
            raise TimeoutError(f"{self.address}: no answer to request {code} within {timeout_s:g} s") from None
        finally:
            self._pending.pop(opaque)

    def notify(self, code: int, header: Header | None = None, *, body: bytes = b"") -> None:
        """Send a request that wants no answer."""
        self.send(request(code, header, body=body, opaque=self._pending.next_opaque(), one_way=True))

    def close(self) -> None:
        """End the connection after all that was sent has been written."""
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def abort(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def _take(self, command: Command) -> None:
        if not command.is_response:
            self._owner.received(self, command)
            return
        waiter = self._pending.pop(command.opaque)
        if waiter is None:
            LOG.info("%s: an answer came too late (opaque %d)", self.address, command.opaque)
        elif not waiter.done():
            waiter.set_result(command)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out and self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(out)


def address_text(peer: object) -> str:
    """Return `host:port` of a socket's address, IPv6 hosts in brackets; "" for an address that is neither."""
    if not isinstance(peer, tuple) or len(peer) < 2:
        return ""
    host, port = str(peer[0]), peer[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
