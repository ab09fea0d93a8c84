"""Listening sockets, and requests passed to the processors of their codes.

RocketMQ's source: remoting/netty/NettyRemotingServer.java, NettyRemotingAbstract.java (processRequestCommand).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow.aio.channel import Channel
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command, answer
from rocketflow.remoting.errors import BodyError, HeaderError

if TYPE_CHECKING:
    from rocketflow.remoting.headers.header import Header

LOG: Final = logging.getLogger("rocketflow.aio")

MAX_CONNECTIONS: Final = 10_000
IDLE_SECONDS: Final = 120.0
FRAME_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 5.0


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


Processor = Callable[[Request], Awaitable[None] | None]
"""Handles a request and sends its answer by `Request.reply`, now or later.

A coroutine runs as a task of its own. RefusedError is answered with its code, HeaderError and BodyError and any other
exception with 1.
"""


class Server:
    """Accepts connections and passes each request to the processor of its code; unknown codes are answered with 3.

    `on_closed` is called with each connection that ends. Connections above `max_connections` are closed at once; those
    that are silent for IDLE_SECONDS, or whose frame takes longer than FRAME_SECONDS, are closed as well.
    """

    def __init__(
        self,
        processors: Mapping[int, Processor],
        *,
        on_closed: Callable[[Channel], None] = lambda channel: None,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        self._processors = dict(processors)
        self._on_closed = on_closed
        self._max_connections = max_connections
        self._channels: set[Channel] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listeners: list[asyncio.Server] = []
        self._watch: asyncio.Task[None] | None = None

    @property
    def connection_count(self) -> int:
        """Return the number of open connections."""
        return len(self._channels)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Return host and port of each listening socket."""
        return [one.getsockname()[:2] for listener in self._listeners for one in listener.sockets]

    async def listen(self, host: str, port: int) -> int:
        """Listen at an address and return its port (port 0: any free one). Raises OSError."""
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(lambda: Channel(self), host, port, backlog=1024)
        self._listeners.append(listener)
        if self._watch is None:
            self._watch = loop.create_task(self._close_silent())
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
        await asyncio.sleep(0)
        for channel in list(self._channels):
            channel.abort()

    # --- what channels call

    def opened(self, channel: Channel) -> None:
        """Take note of a new connection."""
        self._channels.add(channel)
        if len(self._channels) > self._max_connections:
            LOG.warning("%s: more than %d connections; this one is closed", channel.address, self._max_connections)
            channel.abort()

    def closed(self, channel: Channel) -> None:
        """Take note that a connection has ended."""
        self._channels.discard(channel)
        self._on_closed(channel)

    def received(self, channel: Channel, command: Command) -> None:
        """Pass a request to the processor of its code."""
        request = Request(channel, command)
        processor = self._processors.get(command.code)
        if processor is None:
            unknown = f"request code {command.code} is not supported"
            request.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=unknown)
            return
        try:
            later = processor(request)
        except Exception as error:
            self._answer_failure(request, error)
            return
        if inspect.isawaitable(later):
            task = asyncio.ensure_future(self._finish(request, later))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _finish(self, request: Request, later: Awaitable[None]) -> None:
        try:
            await later
        except Exception as error:
            self._answer_failure(request, error)

    def _answer_failure(self, request: Request, error: Exception) -> None:
        if isinstance(error, RefusedError):
            request.refuse(error)
            return
        if not isinstance(error, HeaderError | BodyError):
            LOG.error("%s: request %s failed", request.channel.address, _name(request.command.code), exc_info=error)
        request.reply(ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}")

    async def _close_silent(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = loop.time()
            for channel in list(self._channels):
                begun = channel.frame_begun
                if now - channel.last_heard > IDLE_SECONDS or (begun is not None and now - begun > FRAME_SECONDS):
                    LOG.info("%s: silent for too long; the connection is closed", channel.address)
                    channel.abort()


def _name(code: int) -> str:
    try:
        return f"{code} {RequestCode(code).name}"
    except ValueError:
        return str(code)
