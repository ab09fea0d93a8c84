"""The step of a server's start that serves its health and figures over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from rocketflow.aio.steps import Step

if TYPE_CHECKING:
    from rocketflow.aio.http import HttpServer
    from rocketflow.process.server_settings import ServerSettings

_HTTP_SECONDS: Final = 1.3
"""The share of this step in the time of a stop."""


def health_step(settings: ServerSettings, unready: Callable[[], str], figures: Callable[[], Awaitable[bytes]]) -> Step:
    """Return the step; it does nothing unless the settings export metrics. See `HttpServer` for both functions."""
    servers: list[HttpServer] = []

    async def start() -> None:
        if settings.exports_metrics:
            from rocketflow.aio.http import HttpServer

            servers.append(HttpServer(unready, figures))
            await servers[-1].start(settings.metrics_prom_exporter_host, settings.metrics_prom_exporter_port)

    async def stop() -> None:
        for one in servers:
            await one.stop()

    return Step("health and figures", start, stop, _HTTP_SECONDS)
