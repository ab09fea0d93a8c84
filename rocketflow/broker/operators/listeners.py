"""The two listeners of a broker: requests come in here, and are checked before they reach their processors."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rocketflow.aio.server import Limits, Server
from rocketflow.broker.parts import Parts

if TYPE_CHECKING:
    from rocketflow.aio.channel import Channel
    from rocketflow.aio.exposition import Exposition
    from rocketflow.aio.rpc_latency import RpcLatency
    from rocketflow.aio.server import ServesTogether
    from rocketflow.aio.tls import Tls
    from rocketflow.broker.operators.access import Access
    from rocketflow.broker.settings import BrokerSettings

FAST_PORT_DISTANCE: Final = 2
"""RocketMQ's second listener is this much below `listenPort`; it takes no requests that may wait."""


class Listeners(Parts):
    """Pass requests to the parts of `folders`, if `access` allows them; `together` is that of `Server`."""

    def __init__(
        self,
        settings: BrokerSettings,
        access: Access,
        folders: Sequence[Parts],
        tls: Tls | None,
        latency: RpcLatency | None,
        together: ServesTogether | None,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._folders = folders
        served = [one for folder in folders for one in folder.served()]
        processors = access.guard.guarded(served)
        quick = {one.code: processors[one.code] for one in served if not one.row.may_wait}
        limits = Limits(connections=settings.max_connections, idle_s=settings.server_channel_max_idle_time_seconds)
        self._usual, self._fast = (
            Server(some, on_closed=self.channel_closed, limits=limits, tls=tls, latency=latency, together=together)
            for some in (processors, quick)
        )

    async def listen(self) -> None:
        """Take requests from now on. Raises OSError."""
        address, port = self._settings.listen_address, self._settings.listen_port
        await self._usual.listen(address, port)
        await self._fast.listen(address, port - FAST_PORT_DISTANCE)

    async def close(self, timeout_s: float) -> None:
        """End all connections; requests under way have `timeout_s` seconds to be answered."""
        await asyncio.gather(self._usual.close(timeout_s), self._fast.close(timeout_s))

    def end_waiting(self) -> None:
        """Accept no connection, and let the folders answer what waits."""
        self._usual.stop_listening()
        self._fast.stop_listening()
        for folder in self._folders:
            folder.end_waiting()

    def channel_closed(self, channel: Channel) -> None:
        """Forget what the folders know of a connection."""
        for folder in self._folders:
            folder.channel_closed(channel)

    def waiting(self) -> Mapping[str, int]:
        """Return how many requests run as tasks."""
        return {"admin": self._usual.task_count + self._fast.task_count}

    def add_figures(self, shown: Exposition) -> None:
        """Add the number of connections."""
        connections = self._usual.connection_count + self._fast.connection_count
        shown.gauge("rocketflow_connections", "Open connections", [((), connections)])
