"""Health and figures over HTTP, in the loop of a server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from rocketflow.aio.exposition import CONTENT_TYPE

MAX_CONNECTIONS: Final = 64
"""Connections above it close the oldest one."""

_KEEP_ALIVE_SECONDS: Final = 15.0
_STOP_SECONDS: Final = 1.0


class HttpServer:
    """Serves `/health/live`, `/health/ready` and `/metrics`.

    `unready` returns why the server is not ready, "" if it is; `figures` returns the text of `/metrics`, empty if there
    are none yet. Answers to both are 503 until then. One text of figures is made at a time.
    """

    def __init__(self, unready: Callable[[], str], figures: Callable[[], Awaitable[bytes]]) -> None:
        self._unready = unready
        self._figures = figures
        self._rendering = asyncio.Lock()
        app = web.Application()
        app.router.add_get("/health/live", self._live)
        app.router.add_get("/health/ready", self._ready)
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(
            app, access_log=None, keepalive_timeout=_KEEP_ALIVE_SECONDS, shutdown_timeout=_STOP_SECONDS
        )
        self._listener: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port. Raises OSError if the address cannot be used."""
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._connection, host, port)
        return int(self._listener.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """End all connections."""
        if self._listener is not None:
            self._listener.close()
        await self._runner.cleanup()

    def _connection(self) -> asyncio.Protocol:
        server = self._runner.server
        assert server is not None
        if len(server.connections) >= MAX_CONNECTIONS:
            server.connections[0].force_close()
        found: asyncio.Protocol = server()
        return found

    async def _live(self, _: web.Request) -> web.Response:
        return web.Response(text="the event loop runs\n")

    async def _ready(self, _: web.Request) -> web.Response:
        why = self._unready()
        return web.Response(text=f"{why or 'ready'}\n", status=503 if why else 200)

    async def _metrics(self, _: web.Request) -> web.Response:
        async with self._rendering:
            body = await self._figures()
        if not body:
            return web.Response(text=f"{self._unready()}\n", status=503)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})
