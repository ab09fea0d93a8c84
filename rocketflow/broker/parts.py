"""The contribution of a folder to the broker: the requests that it serves, its services, its figures."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rocketflow.access.served import Served, served_by

if TYPE_CHECKING:
    from rocketflow.aio.channel import Channel
    from rocketflow.aio.exposition import Exposition

Services = Iterable[Coroutine[Any, Any, None]]


class Parts:
    """The parts of one folder; the methods of `serving` process requests. A folder overrides what it has."""

    def __init__(self, *serving: object) -> None:
        self._serving = serving

    def served(self) -> list[Served]:
        """Return the requests that the parts process."""
        return served_by(*self._serving)

    def services(self) -> Services:
        """Return what runs beside the requests until it is cancelled."""
        return ()

    def end_waiting(self) -> None:
        """Answer the requests that wait, and begin no long one: the broker stops."""

    def channel_closed(self, channel: Channel) -> None:
        """Take note that a connection has ended."""

    def waiting(self) -> Mapping[str, int]:
        """Return how many requests wait or run in a thread, by RocketMQ's name of their processor."""
        return {}

    def runtime_figures(self) -> Mapping[str, str]:
        """Return figures for mqadmin's `brokerStatus`."""
        return {}

    def add_figures(self, shown: Exposition) -> Callable[[], None] | None:
        """Add figures for Prometheus; what takes long is a function that is called in a thread."""
        return None
