"""Start and stop of a NameServer.

RocketMQ's source: namesrv/NamesrvController.java, NamesrvStartup.java.
"""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketflow.access.guard import Guard
from rocketflow.access.served import served_by
from rocketflow.aio.channel import Channel
from rocketflow.aio.loop_lag import LoopLag
from rocketflow.aio.rpc_latency import RpcLatency
from rocketflow.aio.server import Limits, Server
from rocketflow.aio.steps import Step, Steps
from rocketflow.namesrv.kv_config import KvConfig
from rocketflow.namesrv.processors import Processors
from rocketflow.namesrv.route_table import RouteTable
from rocketflow.process.health_step import health_step
from rocketflow.process.live_settings import LiveSettings

if TYPE_CHECKING:
    from rocketflow.namesrv.settings import NamesrvSettings

LOG: Final = logging.getLogger("rocketflow.namesrv")

_CONNECTION_SECONDS: Final = 4.5


class NameServer:
    """One NameServer. `port` is the one it listens at, once it has started."""

    def __init__(self, settings: NamesrvSettings, file: Path | None = None) -> None:
        """Load the texts by key, and the TLS files; blocks. `file` is the one that the settings come from.

        Raises OSError and BodyError if the file of texts cannot be used, UsageError if a file of TLS or accounts cannot
        be used.
        """
        self._settings = settings
        self._routes = RouteTable(
            acting_master=settings.support_acting_master, delete_topics=settings.delete_topic_with_broker_registration
        )
        processors = Processors(
            self._routes, KvConfig(Path(settings.kv_config_path)), settings, LiveSettings(settings, file)
        )
        limits = Limits(connections=settings.max_connections, idle_s=settings.server_channel_max_idle_time_seconds)
        self._tls = settings.server_tls()
        self._lag = LoopLag()
        self._latency = RpcLatency() if settings.exports_metrics else None
        self._rules = settings.plain_files()
        guarded = Guard(self._rules).guarded(served_by(processors))
        self._server = Server(
            guarded, on_closed=self._channel_closed, limits=limits, tls=self._tls, latency=self._latency
        )
        self._stopping = False
        self._steps = Steps()
        self._tasks: list[asyncio.Task[None]] = []
        self.port = 0

    async def start(self) -> None:
        """Listen. Raises OSError if an address cannot be used."""
        await self._steps.start(
            (
                health_step(self._settings, self._unready, self._figures),
                Step("connections", self._listen, self._server.close, _CONNECTION_SECONDS),
                Step("services", self._start_services, self._end_services),
            )
        )

    async def stop(self) -> None:
        """End all connections. Raises UncleanStopError."""
        self._stopping = True
        await self._steps.stop()

    async def _listen(self) -> None:
        self.port = await self._server.listen(self._settings.bind_address, self._settings.listen_port)

    def _start_services(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks += [loop.create_task(self._expire()), loop.create_task(self._lag.watch())]
        if self._tls is not None:
            self._tasks.append(loop.create_task(self._tls.watch()))
        if self._rules is not None:
            self._tasks.append(loop.create_task(self._rules.watch()))

    def _end_services(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _unready(self) -> str:
        if self._stopping:
            return "the NameServer stops"
        return "" if self.port else "the NameServer does not listen yet"

    async def _figures(self) -> bytes:
        from rocketflow.aio.exposition import Exposition

        shown = Exposition(cluster="", node_type="nameserver", node_id=f"{self._settings.bind_address}:{self.port}")
        if self._latency is not None:
            shown.rpc_latency(self._latency)
        shown.gauge("rocketmq_topic_number", "Topics", [((), len(self._routes.topics()))])
        shown.gauge("rocketflow_live_brokers", "Brokers that are registered", [((), len(list(self._routes.live())))])
        shown.gauge("rocketflow_connections", "Open connections", [((), self._server.connection_count)])
        shown.histogram("rocketflow_loop_lag_seconds", "Lag of the event loop", [((), self._lag.histogram)])
        return await asyncio.to_thread(shown.render)

    def _channel_closed(self, channel: Channel) -> None:
        if self._routes.channel_closed(channel):
            LOG.warning("%s: the broker's connection ended; its routes are removed", channel.address)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(self._settings.scan_not_active_broker_interval / 1000)
            for channel in self._routes.expired(int(time.monotonic() * 1000)):
                assert isinstance(channel, Channel)
                LOG.warning("%s: the broker was silent for too long; its routes are removed", channel.address)
                channel.abort()
