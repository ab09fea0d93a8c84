"""Listening sockets, and requests passed to the processors of their codes.

RocketMQ's source: remoting/netty/NettyRemotingServer.java, NettyRemotingAbstract.java (processRequestCommand).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec

from rocketflow.aio.channel import LARGE, UNSENT_LIMIT, Channel, address_text
from rocketflow.aio.rpc_latency import ONE_WAY, SUCCESS, WRITE_FAILED, Rpc, RpcLatency
from rocketflow.aio.slow_requests import SLOW_SECONDS, SlowRequests
from rocketflow.aio.tls import HANDSHAKE_RECORD
from rocketflow.errors import RocketFlowError
from rocketflow.remoting.codes import OWN_CODES, UNSUPPORTED, ResponseCode, code_name
from rocketflow.remoting.command import Command, answer, decode_command
from rocketflow.remoting.errors import BodyError, HeaderError
from rocketflow.remoting.frame import FrameReceiver, TakeFrames, TakenFrames

if TYPE_CHECKING:
    import ssl

    from rocketflow.aio.tls import Tls
    from rocketflow.remoting.headers.header import Header

LOG: Final = logging.getLogger("rocketflow.aio")

MAX_CONNECTIONS: Final = 10_000
IDLE_SECONDS: Final = 120.0
FRAME_SECONDS: Final = 30.0
HANDSHAKE_SECONDS: Final = 10.0
ALL_LIMIT: Final = 256 * 1024 * 1024
"""Bytes of incomplete frames, and bytes that wait for peers, of all connections together."""

TASK_LIMIT: Final = 1_000
TASK_BYTES_LIMIT: Final = 64 * 1024 * 1024
GO_AWAY_SINCE: Final = 476
"""Version ordinal of the first release after V5_3_1: its clients open another connection after GO_AWAY."""

STOPPING: Final = "the server stops: ask another one"
OVERLOAD: Final = "[OVERLOAD]system busy, start flow control for a while"

_LOOK_SECONDS: Final = 2.0
_DRAIN_SECONDS: Final = 1.0
_SUM_SECONDS: Final = 0.02
_ACCEPT_AGAIN_SECONDS: Final = 1.0
_BACKLOG: Final = 1024
_MOST_KEPT_DESCRIPTORS: Final = 256


class RefusedError(RocketFlowError):
    """A request is refused with a response code and a text for people."""

    def __init__(self, code: int, remark: str, header: Header | None = None) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark
        self.header = header


class Request(msgspec.Struct, frozen=True, eq=False):
    """One request and the connection that it came on; with `latency`, the time until its answer is counted there.

    `arrived` is the loop's time of the arrival; `was_held` is set of a pull that waits. `slow` notes a late answer.
    """

    channel: Channel
    command: Command
    arrived: float = 0.0
    slow: SlowRequests | None = None
    latency: RpcLatency | None = None
    was_held: bool = False

    def reply(
        self,
        code: int = 0,
        header: Header | None = None,
        *,
        body: bytes = b"",
        data: memoryview | None = None,
        remark: str | None = None,
    ) -> None:
        """Send the answer, unless the request is one-way; `data` stands for a large body and is not copied."""
        if self.command.is_one_way:
            self._count(code)
        else:
            self.send(answer(self.command, code, header, body=body, remark=remark), data)

    def send(self, response: Command, data: memoryview | None = None) -> None:
        """Send an answer that was built elsewhere, with `data` instead of its body.

        A client that does not read gets code 2 instead of a body.
        """
        size = len(response.body) if data is None else len(data)
        if size and not self.channel.has_room_for(size):
            response, data = answer(self.command, ResponseCode.SYSTEM_BUSY, remark=OVERLOAD), None
        self._count(response.code)
        self.channel.send(response, data)

    def send_frame(self, code: int, frame: bytes, *, body_size: int = 0) -> None:
        """Send the frame of an answer with this code, and with a body of some size.

        A client that does not read gets code 2 instead of a body.
        """
        if body_size and not self.channel.has_room_for(body_size):
            self.reply(ResponseCode.SYSTEM_BUSY, remark=OVERLOAD)
            return
        self._count(code)
        self.channel.send_frame(frame)

    def _count(self, code: int) -> None:
        if self.slow is None:
            return
        seconds = self.channel.now() - self.arrived
        if seconds >= SLOW_SECONDS and not self.was_held:
            self.slow.note(self.command.code, self.channel.address, seconds)
        if self.latency is not None:
            written = SUCCESS if self.channel.is_open else WRITE_FAILED
            result = ONE_WAY if self.command.is_one_way else written
            self.latency.record(Rpc(self.command.code, code, self.was_held, result), seconds)

    def held(self) -> Request:
        """Return the request as one that waits: its answer is not a late one."""
        return msgspec.structs.replace(self, was_held=True)

    def refuse(self, error: RefusedError) -> None:
        """Send a refusal, unless the request is one-way."""
        self.reply(error.code, error.header, remark=error.remark)


class Arrived(NamedTuple):
    """The connection and the time of requests that arrived together; see `Request`."""

    channel: Channel
    at: float
    slow: SlowRequests
    latency: RpcLatency | None

    def took(self, code: int, count: int) -> None:
        """Count `count` requests of one code as served together."""
        if self.latency is not None:
            self.latency.took_together(code, count)

    def send_answers(self, code: int, answers: bytes, count: int) -> None:
        """Send the frames of `count` answers with code 0 to requests of one code, one after the other."""
        self._count(code, 0, SUCCESS if self.channel.is_open else WRITE_FAILED, count)
        self.channel.send_frame(answers)

    def end_one_way(self, code: int, result: int, count: int) -> None:
        """Count `count` one-way requests of one code whose answers would have the code `result`."""
        self._count(code, result, ONE_WAY, count)

    def _count(self, code: int, result: int, how: str, count: int) -> None:
        seconds = self.channel.now() - self.at
        if seconds >= SLOW_SECONDS:
            self.slow.note(code, self.channel.address, seconds, count)
        if self.latency is not None:
            self.latency.record(Rpc(code, result, False, how), seconds, count)

    def requests(self, frames: bytes) -> list[Request]:
        """Return the requests of whole frames one by one."""
        received = FrameReceiver().feed(frames)
        return [Request(self.channel, decode_command(one), self.at, self.slow, self.latency) for one in received]


class ServesTogether(Protocol):
    """Serves the frames of requests that arrive together; see `TakesTogether`."""

    def taker(self, address: str) -> TakeFrames | None:
        """Return what takes the frames of a peer at an address, None for nothing."""

    def received(self, arrived: Arrived, taken: TakenFrames) -> bytes:
        """Serve what was taken, and return the frames that are to be received one by one."""


Processor = Callable[[Request], Coroutine[Any, Any, None] | None]
"""Handles a request and sends its answer by `Request.reply`, now or later.

A coroutine runs as a task of its own. RefusedError is answered with its code, HeaderError and BodyError and any other
exception with 1.
"""


class Limits(NamedTuple):
    """Limits of a server; times are in seconds, sizes in bytes."""

    connections: int = MAX_CONNECTIONS
    idle_s: float = IDLE_SECONDS
    frame_s: float = FRAME_SECONDS
    handshake_s: float = HANDSHAKE_SECONDS
    unsent: int = UNSENT_LIMIT
    all_unsent: int = ALL_LIMIT
    all_unread: int = ALL_LIMIT


class Server:
    """Accepts connections and passes each request to the processor of its code; unknown codes are answered with 3.

    `on_closed` is called with each connection that ends. Connections above `limits.connections` are closed at once, and
    so are those that take one of the process's last descriptors, which files need; those that are silent for
    `limits.idle_s`, or whose frame takes longer than `limits.frame_s`, are closed as well. While more than
    `limits.unsent` bytes wait for a client, or `limits.all_unsent` for all together, code 2 takes the place of answers
    with a body, and requests to the client are refused; what is small still reaches a client that reads. Requests
    that would run as tasks while TASK_LIMIT of them run are answered with 2. While incomplete frames take more than
    `limits.all_unread` bytes, the largest of them are not read on.

    Once it stops, requests of clients that understand it are answered with GO_AWAY. One-way requests, those of older
    clients and RocketFlow's own, whose processors know another answer, are served until the end.

    With `tls`, connections begin with a handshake of at most `limits.handshake_s`; if it is optional, the first byte of
    a connection decides. With `latency`, the times of requests with a processor are counted; requests that take
    SLOW_SECONDS or longer are logged. `together` serves requests before they are decoded, until the server stops.
    """

    def __init__(
        self,
        processors: Mapping[int, Processor],
        *,
        on_closed: Callable[[Channel], None] = lambda channel: None,
        limits: Limits | None = None,
        tls: Tls | None = None,
        latency: RpcLatency | None = None,
        together: ServesTogether | None = None,
    ) -> None:
        self._together = together
        self._latency = latency
        self._slow_requests = SlowRequests()
        self._processors = dict(processors)
        self._on_closed = on_closed
        self._limits = limits or Limits()
        self._tls = tls
        self._accepting: list[asyncio.Task[None]] = []
        self._beginning: dict[Channel, asyncio.Task[None]] = {}
        self._channels: set[Channel] = set()
        self._slow: set[Channel] = set()
        self._unsent = 0
        self._unsent_at = 0.0
        self._large: dict[Channel, int] = {}
        self._unread = 0
        self._task_bytes = 0
        self._refused: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def channels(self) -> tuple[Channel, ...]:
        """Return the open connections."""
        return tuple(self._channels)

    @property
    def task_count(self) -> int:
        """Return the number of requests that run as tasks."""
        return len(self._tasks)

    @property
    def connection_count(self) -> int:
        """Return the number of open connections."""
        return len(self._channels)

    async def listen(self, host: str, port: int) -> int:
        """Listen at an address and return its port (port 0: any free one). Raises OSError."""
        loop = asyncio.get_running_loop()
        if self._watch is None:
            self._watch = loop.create_task(self._watch_connections())
        listener = socket.create_server((host, port), family=_family(host), backlog=_BACKLOG)
        listener.setblocking(False)
        self._accepting.append(loop.create_task(self._accept(listener)))
        return int(listener.getsockname()[1])

    def stop_listening(self) -> None:
        """Accept no more connections; clients that understand GO_AWAY get it, the others are served on."""
        self._stopping = True
        for task in self._accepting:
            task.cancel()

    async def close(self, timeout_s: float = 3.0) -> None:
        """End all connections; requests under way have `timeout_s` seconds to be answered."""
        self.stop_listening()
        if self._watch is not None:
            self._watch.cancel()
        beginning = (*self._accepting, *self._beginning.values())
        for task in beginning:
            task.cancel()
        await asyncio.gather(*beginning, return_exceptions=True)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)
        for task in self._tasks:
            task.cancel()
        for channel in list(self._channels):
            channel.close()
        loop = asyncio.get_running_loop()
        end = loop.time() + _DRAIN_SECONDS
        while self._channels and loop.time() < end:  # noqa: ASYNC110 once, at the stop
            await asyncio.sleep(0.01)
        for channel in list(self._channels):
            channel.abort()

    # --- what channels call

    @property
    def is_congested(self) -> bool:
        """Return whether too many bytes wait for all peers together."""
        return bool(self._slow) and self._all_unsent() > self._limits.all_unsent

    @property
    def limits_requests(self) -> bool:
        """Return True: a client that does not read gets no further requests."""
        return True

    def opened(self, channel: Channel) -> None:
        """Take note of a new connection."""
        self._channels.add(channel)
        self._beginning.pop(channel, None)

    def taker(self, address: str) -> TakeFrames | None:
        """Return what takes the frames of a client's requests before they are decoded."""
        return None if self._together is None else self._together.taker(address)

    def received_together(self, channel: Channel, taken: TakenFrames) -> bytes:
        """Serve requests that were taken before they were decoded, and return the frames that are to be decoded."""
        if self._together is None or self._stopping:
            return taken.frames()
        return self._together.received(Arrived(channel, channel.last_heard, self._slow_requests, self._latency), taken)

    def closed(self, channel: Channel) -> None:
        """Take note that a connection has ended."""
        self._channels.discard(channel)
        self._slow.discard(channel)
        self._unread -= self._large.pop(channel, 0)
        self._on_closed(channel)

    def wrote_much(self, channel: Channel) -> None:
        """Take note that many bytes may wait for a peer."""
        self._slow.add(channel)

    @property
    def unread(self) -> int:
        """Return the bytes of all large incomplete frames."""
        return self._unread

    def unread_changed(self, channel: Channel, size: int) -> None:
        """Take note how many bytes of an incomplete frame have arrived; read no further if all have too many."""
        self._unread += size - self._large.pop(channel, 0)
        if size:
            self._large[channel] = size
            if self._unread > self._limits.all_unread:
                channel.pause_for_budget()

    def received(self, channel: Channel, command: Command) -> None:
        """Pass a request to the processor of its code."""
        processor = self._processors.get(command.code)
        if processor is None:
            reason = UNSUPPORTED.get(command.code)
            unknown = f"request code {command.code} is not supported{f': {reason}' if reason else ''}"
            Request(channel, command).reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=unknown)
            return
        request = Request(channel, command, channel.last_heard, self._slow_requests, self._latency)
        if self._stopping and _may_go_away(command):
            request.reply(ResponseCode.GO_AWAY, remark=STOPPING)
            return
        try:
            later = processor(request)
        except Exception as error:
            self._answer_failure(request, error)
            return
        if later is None:
            return
        if len(self._tasks) >= TASK_LIMIT or self._task_bytes + len(command.body) > TASK_BYTES_LIMIT:
            later.close()
            request.reply(ResponseCode.SYSTEM_BUSY, remark=OVERLOAD)
            return
        task = asyncio.ensure_future(self._finish(request, later))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._task_bytes += len(command.body)
        channel.task_begun()

    async def _finish(self, request: Request, later: Coroutine[Any, Any, None]) -> None:
        try:
            await later
        except Exception as error:
            self._answer_failure(request, error)
        finally:
            self._task_bytes -= len(request.command.body)
            request.channel.task_ended()

    def _answer_failure(self, request: Request, error: Exception) -> None:
        if isinstance(error, RefusedError):
            request.refuse(error)
            return
        if not isinstance(error, HeaderError | BodyError):
            LOG.error("%s: request %s failed", request.channel.address, code_name(request.command.code), exc_info=error)
        request.reply(ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}")

    def _all_unsent(self) -> int:
        """Return the bytes that wait for all peers together, a few milliseconds old."""
        now = time.monotonic()  # the loop's own clock stands still within an iteration
        if now - self._unsent_at > _SUM_SECONDS:
            sizes = {channel: channel.unsent_size for channel in self._slow}
            self._slow = {channel for channel, size in sizes.items() if size >= LARGE}
            self._unsent, self._unsent_at = sum(sizes.values()), now
        return self._unsent

    # --- connections that begin

    async def _accept(self, listener: socket.socket) -> None:
        """Accept connections until cancelled; those that begin count for the limit."""
        loop = asyncio.get_running_loop()
        last_descriptor = _last_descriptor()
        with listener:
            while True:
                try:
                    sock, _ = await loop.sock_accept(listener)
                except OSError as error:
                    LOG.warning("no connection can be accepted: %s", error)
                    await asyncio.sleep(_ACCEPT_AGAIN_SECONDS)
                    continue
                if len(self._channels) + len(self._beginning) >= self._limits.connections:
                    self._refuse(sock, f"there is a limit of {self._limits.connections}")
                elif sock.fileno() > last_descriptor:
                    self._refuse(sock, "few file descriptors are left for files (ulimit -n)")
                else:
                    channel = Channel(self, unsent_limit=self._limits.unsent, together=self)
                    self._beginning[channel] = loop.create_task(self._begin(channel, sock))

    def _refuse(self, sock: socket.socket, why: str) -> None:
        sock.close()
        self._refused[why] += 1

    async def _begin(self, channel: Channel, sock: socket.socket) -> None:
        """Let a connection be a channel's, after its handshake; close it if that fails or takes too long."""
        address = address_text(_peer(sock))
        tls = self._tls
        context: ssl.SSLContext | None = tls.context if tls is not None else None
        try:
            if tls is not None and tls.optional:
                async with asyncio.timeout(self._limits.idle_s):
                    first = await _first_byte(sock)
                if not first:
                    sock.close()
                    return
                context = tls.context if first == HANDSHAKE_RECORD else None
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: channel, sock, ssl=context, ssl_handshake_timeout=self._limits.handshake_s if context else None
            )
        except OSError as error:  # TimeoutError and ssl.SSLError are OSErrors
            why = str(error) or type(error).__name__
            if "WRONG_VERSION_NUMBER" in why or "HTTP_REQUEST" in why:
                why = "it began without TLS, which tls.server.mode=enforcing demands"
            LOG.info("%s: the connection is closed before it has begun: %s", address, why)
            sock.close()
        except BaseException:
            sock.close()
            raise
        finally:
            self._beginning.pop(channel, None)

    async def _watch_connections(self) -> None:
        loop = asyncio.get_running_loop()
        limits = self._limits
        look_s = min(_LOOK_SECONDS, limits.idle_s / 4, limits.frame_s / 4)
        while True:
            await asyncio.sleep(look_s)
            self._close_silent(loop.time())
            if self._large and self._unread <= limits.all_unread:
                for channel in self._channels:
                    channel.resume_for_budget()
            for why, count in self._refused.items():
                LOG.warning("%d connections were closed: %s", count, why)
            self._refused.clear()

    def _close_silent(self, now: float) -> None:
        for channel in list(self._channels):
            channel.look()
            begun = channel.frame_begun
            if now - channel.last_heard > self._limits.idle_s or (
                begun is not None and now - begun > self._limits.frame_s
            ):
                LOG.info("%s: silent for too long; the connection is closed", channel.address)
                channel.abort()


def _may_go_away(command: Command) -> bool:
    """Return whether a client understands GO_AWAY as the answer to a request."""
    return command.version >= GO_AWAY_SINCE and not command.is_one_way and command.code not in OWN_CODES


def _last_descriptor() -> int:
    """Return the highest descriptor that a connection may have: the kernel gives the lowest that is free.

    A fourth of all, and at most _MOST_KEPT_DESCRIPTORS, are kept for files: a store that can open none stops writing.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return 1 << 31
    return limit - 1 - min(limit // 4, _MOST_KEPT_DESCRIPTORS)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _peer(sock: socket.socket) -> object:
    with contextlib.suppress(OSError):
        return sock.getpeername()
    return None


async def _first_byte(sock: socket.socket) -> bytes:
    """Return the first byte of a connection, which stays to be read, or b"" at its end. Raises OSError."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Future[None] = loop.create_future()
    loop.add_reader(sock, arrived.set_result, None)
    try:
        await arrived
    finally:
        loop.remove_reader(sock)
    return sock.recv(1, socket.MSG_PEEK)
