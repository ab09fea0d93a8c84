"""Listening sockets, and requests passed to the processors of their codes.

RocketMQ's source: remoting/netty/NettyRemotingServer.java, NettyRemotingAbstract.java (processRequestCommand).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rocketflow.aio.channel import LARGE, UNSENT_LIMIT, Channel
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command, answer
from rocketflow.remoting.errors import BodyError, HeaderError

if TYPE_CHECKING:
    from rocketflow.remoting.headers.header import Header

LOG: Final = logging.getLogger("rocketflow.aio")

MAX_CONNECTIONS: Final = 10_000
IDLE_SECONDS: Final = 120.0
FRAME_SECONDS: Final = 30.0
ALL_LIMIT: Final = 256 * 1024 * 1024
"""Bytes of incomplete frames, and bytes that wait for peers, of all connections together."""

TASK_LIMIT: Final = 1_000
TASK_BYTES_LIMIT: Final = 64 * 1024 * 1024
OVERLOAD: Final = "[OVERLOAD]system busy, start flow control for a while"

_LOOK_SECONDS: Final = 2.0
_DRAIN_SECONDS: Final = 1.0
_SUM_SECONDS: Final = 0.02


class RefusedError(Exception):
    """A request is refused with a response code and a text for people."""

    def __init__(self, code: int, remark: str, header: Header | None = None) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark
        self.header = header


class Request(NamedTuple):
    """One request and the connection that it came on."""

    channel: Channel
    command: Command

    def reply(
        self, code: int = 0, header: Header | None = None, *, body: bytes = b"", remark: str | None = None
    ) -> None:
        """Send the answer, unless the request is one-way."""
        if not self.command.is_one_way:
            self.channel.send(answer(self.command, code, header, body=body, remark=remark))

    def refuse(self, error: RefusedError) -> None:
        """Send a refusal, unless the request is one-way."""
        self.reply(error.code, error.header, remark=error.remark)


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
    unsent: int = UNSENT_LIMIT
    all_unsent: int = ALL_LIMIT
    all_unread: int = ALL_LIMIT


class Server:
    """Accepts connections and passes each request to the processor of its code; unknown codes are answered with 3.

    `on_closed` is called with each connection that ends. Connections above `limits.connections` are closed at once;
    those that are silent for `limits.idle_s`, or whose frame takes longer than `limits.frame_s`, are closed as well.
    While more than `limits.all_unsent` bytes wait for peers, requests of the codes `large_answers` are answered with 2;
    so are requests that would run as tasks while TASK_LIMIT of them run. While incomplete frames take more than
    `limits.all_unread` bytes, the largest of them are not read on.
    """

    def __init__(
        self,
        processors: Mapping[int, Processor],
        *,
        on_closed: Callable[[Channel], None] = lambda channel: None,
        limits: Limits | None = None,
        large_answers: Iterable[int] = (),
    ) -> None:
        self._processors = dict(processors)
        self._on_closed = on_closed
        self._limits = limits or Limits()
        self._large_answers = frozenset(large_answers)
        self._channels: set[Channel] = set()
        self._slow: set[Channel] = set()
        self._unsent = 0
        self._unsent_at = 0.0
        self._large: dict[Channel, int] = {}
        self._unread = 0
        self._task_bytes = 0
        self._refused = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._listeners: list[asyncio.Server] = []
        self._watch: asyncio.Task[None] | None = None

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
        listener = await loop.create_server(
            lambda: Channel(self, unsent_limit=self._limits.unsent), host, port, backlog=1024
        )
        self._listeners.append(listener)
        if self._watch is None:
            self._watch = loop.create_task(self._watch_connections())
        return int(listener.sockets[0].getsockname()[1])

    def stop_listening(self) -> None:
        """Accept no more connections; those that stand are served on."""
        for listener in self._listeners:
            listener.close()

    async def close(self, timeout_s: float = 3.0) -> None:
        """End all connections; requests under way have `timeout_s` seconds to be answered."""
        self.stop_listening()
        if self._watch is not None:
            self._watch.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)
        for task in self._tasks:
            task.cancel()
        for channel in list(self._channels):
            channel.close()
        loop = asyncio.get_running_loop()
        end = loop.time() + _DRAIN_SECONDS
        while self._channels and loop.time() < end:
            await asyncio.sleep(0.01)
        for channel in list(self._channels):
            channel.abort()

    # --- what channels call

    @property
    def is_congested(self) -> bool:
        """Return whether too many bytes wait for all peers together."""
        return bool(self._slow) and self._all_unsent() > self._limits.all_unsent

    def opened(self, channel: Channel) -> None:
        """Take note of a new connection."""
        self._channels.add(channel)
        if len(self._channels) > self._limits.connections:
            self._refused += 1
            channel.abort()

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
        request = Request(channel, command)
        processor = self._processors.get(command.code)
        if processor is None:
            unknown = f"request code {command.code} is not supported"
            request.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=unknown)
            return
        if command.code in self._large_answers and self.is_congested:
            request.reply(ResponseCode.SYSTEM_BUSY, remark=OVERLOAD)
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
            LOG.error("%s: request %s failed", request.channel.address, _name(request.command.code), exc_info=error)
        request.reply(ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}")

    def _all_unsent(self) -> int:
        """Return the bytes that wait for all peers together, a few milliseconds old."""
        now = time.monotonic()  # the loop's own clock stands still within an iteration
        if now - self._unsent_at > _SUM_SECONDS:
            sizes = {channel: channel.unsent_size for channel in self._slow}
            self._slow = {channel for channel, size in sizes.items() if size >= LARGE}
            self._unsent, self._unsent_at = sum(sizes.values()), now
        return self._unsent

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
            if self._refused:
                LOG.warning("%d connections above the limit of %d were closed", self._refused, limits.connections)
                self._refused = 0

    def _close_silent(self, now: float) -> None:
        for channel in list(self._channels):
            channel.look()
            begun = channel.frame_begun
            if now - channel.last_heard > self._limits.idle_s or (
                begun is not None and now - begun > self._limits.frame_s
            ):
                LOG.info("%s: silent for too long; the connection is closed", channel.address)
                channel.abort()


def _name(code: int) -> str:
    try:
        return f"{code} {RequestCode(code).name}"
    except ValueError:
        return str(code)
