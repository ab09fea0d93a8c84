"""One connection: bytes to commands and back, and requests in both directions.

RocketMQ's source: remoting/netty/NettyRemotingAbstract.java, NettyRemotingServer.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol, cast

from rocketflow.errors import RocketFlowError
from rocketflow.remoting.command import RESPONSE_FLAG, Command, decode_command, encode_command, encode_parts, request
from rocketflow.remoting.errors import RemotingError
from rocketflow.remoting.frame import MAX_FRAME_SIZE, Frame, FrameReceiver, TakeFrames, TakenFrames
from rocketflow.remoting.pending import PendingRequests

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Sequence

    from rocketflow.remoting.headers.header import Header
    from rocketflow.remoting.prepared_frame import PreparedFrame
    from rocketflow.remoting.rpc_hook import RpcHook

LOG: Final = logging.getLogger("rocketflow.aio")

UNSENT_LIMIT: Final = 16 * 1024 * 1024
"""Bytes that may wait for a peer that reads slowly; above it nothing more is read from that peer."""

RUNNING_LIMIT: Final = 256
"""Requests of one connection that may run as tasks; above it nothing more is read from that peer."""

LARGE: Final = 64 * 1024
"""This many unsent bytes, or bytes of an incomplete frame, are reported to the owner, which adds up those of all."""

_FLUSH_AT: Final = 16 * 1024
"""So many bytes go out at once: the peer works on them while more are made."""


class ChannelError(RocketFlowError):
    """A request gets no answer on a connection."""


class ChannelClosedError(ChannelError):
    """The connection ended before the answer came."""


class ChannelCongestedError(ChannelError):
    """A request was not sent: too many bytes wait for the client already."""


class ChannelOwner(Protocol):
    """Receiver of a channel's events: a server, or the connections to other servers."""

    @property
    def is_congested(self) -> bool:
        """Return whether too many bytes wait for all peers together."""

    @property
    def limits_requests(self) -> bool:
        """Return whether requests to a peer that does not read are refused, as a server's to its clients are."""

    def opened(self, channel: Channel) -> None:
        """Take note of a new connection."""

    def received(self, channel: Channel, command: Command) -> None:
        """Take a request of the peer."""

    def closed(self, channel: Channel) -> None:
        """Take note that the connection has ended."""

    def wrote_much(self, channel: Channel) -> None:
        """Take note that many bytes may wait for the peer."""

    def unread_changed(self, channel: Channel, size: int) -> None:
        """Take note how many bytes of an incomplete frame have arrived, 0 for fewer than LARGE."""


class TakesTogether(Protocol):
    """Takes the frames of requests that arrive together before they are decoded."""

    def taker(self, address: str) -> TakeFrames | None:
        """Return what takes the frames of a peer at an address, None for nothing."""

    def received_together(self, channel: Channel, taken: TakenFrames) -> bytes:
        """Serve what was taken, and return the frames that are to be decoded and received one by one."""


class Channel(asyncio.Protocol):
    """One connection.

    What is sent within one iteration of the loop goes out in one write, in several where it is much. While more than
    `unsent_limit` bytes wait for the peer, or RUNNING_LIMIT of its requests run, nothing is read from it and the frames
    that have arrived wait. `hooks` run, in their order, before the requests of `ask`, `request` and `notify` and after
    their answers. `together` is offered the frames of the peer before they are decoded.
    """

    def __init__(
        self,
        owner: ChannelOwner,
        *,
        hooks: Sequence[RpcHook] = (),
        max_frame_size: int = MAX_FRAME_SIZE,
        unsent_limit: int = UNSENT_LIMIT,
        together: TakesTogether | None = None,
    ) -> None:
        self._owner = owner
        self._together = together
        self._taker: TakeFrames | None = None
        self._receiver = FrameReceiver(max_frame_size)
        self._unsent_limit = unsent_limit
        self._frames: Iterator[Frame | TakenFrames] | None = None
        self._unread: deque[bytes] = deque()
        self._writing_paused = False
        self._resumed = asyncio.Event()
        self._unsent_before = 0
        self._budget_paused = False
        self._running = 0
        self._pending: PendingRequests[asyncio.Future[Command]] = PendingRequests()
        self._loop = asyncio.get_running_loop()
        self.now: Final = self._loop.time
        """The loop's clock: to ask for the running loop costs more than the time itself."""
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes | memoryview] = []
        self._out_size = 0
        self.address = ""
        self._hooks = tuple(hooks)
        self.last_heard = self._loop.time()
        self._has_heard = False
        self._frame_begun: float | None = None
        self._reported = 0

    @property
    def is_open(self) -> bool:
        """Return whether the connection stands."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def frame_begun(self) -> float | None:
        """Return the loop's time at which the frame began whose rest the peer owes, or None."""
        return None if self.is_held else self._frame_begun

    @property
    def unsent_size(self) -> int:
        """Return the number of bytes that wait for the peer."""
        return self._out_size + (0 if self._transport is None else self._transport.get_write_buffer_size())

    @property
    def is_held(self) -> bool:
        """Return whether the peer has to wait: it reads too slowly, or too many of its requests run."""
        return self._writing_paused or self._running >= RUNNING_LIMIT

    @property
    def is_congested(self) -> bool:
        """Return whether no large answer is to be sent: too many bytes wait for this peer, or for all together."""
        return self.unsent_size > self._unsent_limit or self._owner.is_congested

    def has_room_for(self, size: int) -> bool:
        """Return whether `size` bytes more may wait for this peer; for one that reads, fewer than LARGE always may."""
        return self.unsent_size + size < LARGE or not self.is_congested

    # --- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection."""
        self._transport = stream = cast("asyncio.Transport", transport)  # uvloop's derives from nothing of asyncio's
        stream.set_write_buffer_limits(high=self._unsent_limit, low=self._unsent_limit // 4)
        self.address = address_text(stream.get_extra_info("peername"))
        self._taker = None if self._together is None else self._together.taker(self.address)
        self._owner.opened(self)

    def data_received(self, data: bytes) -> None:
        """Take the next bytes; close the connection where they are no frames."""
        self.last_heard = self._loop.time()
        self._has_heard = True
        self._unread.append(data)
        self._take_frames()

    def pause_writing(self) -> None:
        """Stop reading from a peer that does not read."""
        self._writing_paused = True
        self._resumed.clear()
        self._pause_reading()

    def resume_writing(self) -> None:
        """Read again."""
        self._writing_paused = False
        self._resumed.set()
        self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the requests that wait for answers."""
        why = f"{self.address}: the connection ended before the answer came"
        if not self._has_heard and self._is_client_without_tls:
            why += "; nothing has come from the server at all, which may demand TLS (tls.server.mode=enforcing)"
        self._transport = self._frames = None
        self._writing_paused = False
        self._resumed.set()
        self._unread.clear()
        self._out.clear()
        self._out_size = 0
        for waiter in self._pending.pop_all():
            if not waiter.done():
                waiter.set_exception(ChannelClosedError(why))
        self._owner.closed(self)

    @property
    def _is_client_without_tls(self) -> bool:
        if self._owner.limits_requests or self._transport is None:
            return False
        return self._transport.get_extra_info("sslcontext") is None

    # --- what others call

    def send(self, command: Command, data: memoryview | None = None) -> None:
        """Send a request or an answer, with `data` instead of its body; nothing happens if the connection has ended."""
        for part in _parts_of(command) if data is None else encode_parts(command, data):
            self.send_frame(part)

    def send_frame(self, frame: bytes | memoryview) -> None:
        """Send a frame or its next part; nothing happens if the connection has ended."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(frame)
        self._out_size += len(frame)
        if self._out_size >= _FLUSH_AT:
            self._flush()

    async def wait_for_peer(self, timeout_s: float) -> None:
        """Wait until the peer has read, if too much waits for it, or the connection has ended.

        Raises TimeoutError after `timeout_s` seconds.
        """
        if self._writing_paused:
            async with asyncio.timeout(timeout_s):
                while self._writing_paused:
                    await self._resumed.wait()

    async def request(self, code: int, header: Header | None = None, *, body: bytes = b"", timeout_s: float) -> Command:
        """Send a request and return the peer's answer.

        Raises ChannelClosedError, TimeoutError after `timeout_s` seconds, and ChannelCongestedError from a server to a
        client that does not read.
        """
        return await self.ask(request(code, header, body=body), timeout_s=timeout_s)

    async def ask(self, command: Command, *, timeout_s: float) -> Command:
        """Send a request under an `opaque` of this connection and return the answer; raises as `request` does."""
        command.opaque = self._pending.next_opaque()
        self._run_hooks(command)
        response = await self._answer_to(command.opaque, _parts_of(command), command.code, timeout_s)
        for hook in self._hooks:
            hook.after_response(self.address, command, response)
        return response

    def ask_prepared(
        self, prepared: PreparedFrame, values: tuple[bytes, ...], body: bytes, *, timeout_s: float
    ) -> Awaitable[Command]:
        """Send a prepared request, which no hook sees, and return the answer; raises as `request` does."""
        opaque = self._pending.next_opaque()
        return self._answer_to(opaque, (prepared.frame(opaque, values, body),), prepared.code, timeout_s)

    async def _answer_to(
        self, opaque: int, frame: tuple[bytes | memoryview, ...], code: int, timeout_s: float
    ) -> Command:
        if not self.is_open:
            raise ChannelClosedError(f"{self.address}: the connection has ended")
        if self._owner.limits_requests and not self.has_room_for(sum(map(len, frame))):
            raise ChannelCongestedError(f"{self.address}: the client does not read: {self.unsent_size:,} bytes wait")
        waiter: asyncio.Future[Command] = self._loop.create_future()
        self._pending.add(opaque, waiter)
        timer = self._loop.call_later(timeout_s, self._end_waiting, waiter, code, timeout_s)
        for part in frame:
            self.send_frame(part)
        try:
            return await waiter
        finally:
            timer.cancel()
            self._pending.pop(opaque)

    def _end_waiting(self, waiter: asyncio.Future[Command], code: int, timeout_s: float) -> None:
        if not waiter.done():
            waiter.set_exception(TimeoutError(f"{self.address}: no answer to request {code} within {timeout_s:g} s"))

    def notify(self, code: int, header: Header | None = None, *, body: bytes = b"") -> None:
        """Send a request that wants no answer; a server's to a client that does not read is dropped."""
        command = request(code, header, body=body, opaque=self._pending.next_opaque(), one_way=True)
        self._run_hooks(command)
        self._notify(_parts_of(command), len(body))

    def notify_prepared(self, prepared: PreparedFrame, values: tuple[bytes, ...], body: bytes) -> None:
        """Send a prepared request, which no hook sees, as `notify` does."""
        self._notify((prepared.frame(self._pending.next_opaque(), values, body),), len(body))

    def _run_hooks(self, command: Command) -> None:
        for hook in self._hooks:
            hook.before_request(self.address, command)

    def _notify(self, frame: tuple[bytes | memoryview, ...], body_size: int) -> None:
        if not self._owner.limits_requests or self.has_room_for(body_size):
            for part in frame:
                self.send_frame(part)

    def look(self) -> None:
        """Take note of a peer that reads, however slowly: it is not silent."""
        if self._writing_paused:
            size = self.unsent_size
            if size < self._unsent_before:
                self.last_heard = self._loop.time()
            self._unsent_before = size

    def task_begun(self) -> None:
        """Count a request that runs as a task."""
        self._running += 1
        if self._running == RUNNING_LIMIT:
            self._pause_reading()

    def task_ended(self) -> None:
        """Count a request no more, and read again if too many ran."""
        self._running -= 1
        if self._running == RUNNING_LIMIT // 2:
            self._go_on()

    def pause_for_budget(self) -> None:
        """Read nothing until `resume_for_budget`: all connections together hold too much."""
        self._budget_paused = True
        self._pause_reading()

    def resume_for_budget(self) -> None:
        """Read again."""
        if self._budget_paused:
            self._budget_paused = False
            self._read_on()

    def close(self) -> None:
        """End the connection after all that was sent has been written."""
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def abort(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def _take_frames(self) -> None:
        """Take the frames that have arrived, until the peer has to wait."""
        try:
            while not self.is_held:
                if self._frames is None:
                    if not self._unread:
                        break
                    self._frames = self._receiver.divide(self._unread.popleft(), self._taker)
                frame = next(self._frames, None)
                if frame is None:
                    self._frames = None
                    continue
                self._frame_begun = None
                if isinstance(frame, Frame):
                    self._take(decode_command(frame))
                elif self._together is not None:
                    left_over = self._together.received_together(self, frame)
                    self._frames = chain(FrameReceiver().feed(left_over), self._frames) if left_over else self._frames
        except RemotingError as error:
            LOG.warning("%s: %s; the connection is closed", self.address, error)
            self._unread.clear()
            self.close()
            return
        size = self._receiver.pending_size if self._frames is None else 0
        if size and self._frame_begun is None:
            self._frame_begun = self._loop.time()
        reported = size if size >= LARGE else 0
        if reported != self._reported:
            self._reported = reported
            self._owner.unread_changed(self, reported)

    def _pause_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def _go_on(self) -> None:
        """Take the frames that waited, and read again unless the peer has to wait still."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._frame_begun is not None:
            self._frame_begun = self._loop.time()  # the peer could not go on meanwhile
        self._take_frames()
        self._read_on()

    def _read_on(self) -> None:
        if self._transport is not None and not (self.is_held or self._budget_paused or self._transport.is_closing()):
            self._transport.resume_reading()

    def _take(self, command: Command) -> None:
        if not command.flag & RESPONSE_FLAG:
            self._owner.received(self, command)
            return
        waiter = self._pending.pop(command.opaque)
        if waiter is None:
            LOG.info("%s: an answer came too late (opaque %d)", self.address, command.opaque)
        elif not waiter.done():
            waiter.set_result(command)

    def _flush(self) -> None:
        out, self._out = self._out, []
        self._out_size = 0
        if out and self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(out)
            if self._transport.get_write_buffer_size() >= LARGE:
                self._owner.wrote_much(self)


def _parts_of(command: Command) -> tuple[bytes | memoryview, ...]:
    return encode_parts(command, command.body) if len(command.body) >= LARGE else (encode_command(command),)


def address_text(peer: object) -> str:
    """Return `host:port` of a socket's address, IPv6 hosts in brackets; "" for an address that is neither."""
    if not isinstance(peer, tuple) or len(peer) < 2:
        return ""
    host, port = str(peer[0]), peer[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
