"""Start and stop of a broker, and the processors of its requests.

RocketMQ's source: broker/BrokerController.java, BrokerStartup.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from rocketflow.aio.steps import STEPS_SECONDS, Step, Steps
from rocketflow.broker.figures import FigureParts
from rocketflow.broker.groups import GroupParts
from rocketflow.broker.operators import Access, Listeners, OperatorParts
from rocketflow.broker.puts import Deliveries, PutGatherer, PutParts
from rocketflow.broker.reads import ReadParts
from rocketflow.broker.settings import answered_settings_text
from rocketflow.broker.store_requests import StoreRequests
from rocketflow.broker.topics import TopicParts
from rocketflow.broker.transactions import Transactions
from rocketflow.process.health_step import health_step
from rocketflow.process.live_settings import LiveSettings
from rocketflow_store import StoreClosedError
from rocketflow_store.spi.broker import open_store
from rocketflow_store.spi.writing import when_free

if TYPE_CHECKING:
    from pathlib import Path

    from rocketflow.aio.tls import Tls
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow_store import StoreConfig
    from rocketflow_store.spi.broker import WritingStore

_FIRST_SECONDS: Final = 1.0
_FAREWELL_SECONDS: Final = 1.5
_PUTS_SECONDS: Final = 1.4
_SLACK_SECONDS: Final = 0.2
_REQUESTS_SECONDS: Final = 1.0
_CONNECTION_SECONDS: Final = 2.2
_DELIVERY_SECONDS: Final = 1.0
_OFFSETS_SECONDS: Final = 0.5
"""Shares of the steps in the time of a stop; what they leave is the store's, which is closed last."""

_LOCK_SECONDS: Final = 5.0
"""How long the store may be locked at the start: a job that found no broker commits by itself."""


class Broker:
    """One broker. Its settings have the port that it listens at; `file` is the one that they come from."""

    def __init__(
        self,
        settings: BrokerSettings,
        store_config: StoreConfig,
        given: Mapping[str, Any],
        file: Path | None = None,
    ) -> None:
        self._settings = settings
        self._store_config = store_config
        self._given = dict(given)
        self._live = LiveSettings(settings, file)
        self._store: WritingStore | None = None
        self._parts: _Running | None = None
        self._stopping = False
        self._steps = Steps()

    async def start(self) -> None:
        """Open the store, listen, and register; with metrics, health is served before the store is open.

        Raises StoreError if the store cannot be opened, and OSError if an address cannot be used.
        """
        await self._steps.start(
            (
                health_step(self._settings, self._unready, self._figures),
                Step("store", self._open_store, self._close_store, STEPS_SECONDS, vital=True),
                Step("accounts and certificates", self._make_parts),
            )
        )
        assert self._parts is not None
        await self._steps.start(self._parts.steps())

    async def stop(self) -> None:
        """Unregister, answer what waits, write the offsets and close the store. Raises UncleanStopError."""
        self._stopping = True
        await self._steps.stop()

    async def _open_store(self) -> None:
        settings, config = self._settings, self._store_config
        path, address = settings.store_path_root_dir, settings.broker_address
        self._store = await asyncio.to_thread(
            when_free, lambda: open_store(path, config, store_host=address), _LOCK_SECONDS
        )

    async def _close_store(self) -> None:
        if self._store is not None:
            await asyncio.to_thread(self._store.close)

    async def _make_parts(self) -> None:
        assert self._store is not None
        settings = self._settings
        tls = await asyncio.to_thread(settings.server_tls), await asyncio.to_thread(settings.client_tls)
        access = await asyncio.to_thread(Access, settings, self._store)
        config, given = self._store_config, self._given
        self._parts = _Running(
            self._store, settings, tls, access, self._live, lambda: answered_settings_text(settings, config, given)
        )

    def _unready(self) -> str:
        """Return why the broker is not ready, "" if it is."""
        if self._stopping:
            return "the broker stops"
        return "the store is not open yet" if self._parts is None else self._parts.unready()

    async def _figures(self) -> bytes:
        if self._parts is None or self._stopping:
            return b""
        try:
            return await self._parts.figures()
        except StoreClosedError:  # the stop has begun meanwhile
            return b""


class _Running:
    """A broker above its open store: the parts of its folders, and the listeners that pass requests to them."""

    def __init__(
        self,
        store: WritingStore,
        settings: BrokerSettings,
        tls: tuple[Tls | None, Tls | None],
        access: Access,
        live: LiveSettings,
        settings_text: Callable[[], str],
    ) -> None:
        self._store, self._tls = store, tls
        self._loop = asyncio.get_running_loop()
        self._services: list[asyncio.Task[None]] = []
        self._deliveries = Deliveries(store)
        self._figures = figures = FigureParts(store, settings, self._deliveries.running)
        self._topics = TopicParts(store, settings, figures.stats, tls[1])
        topics, counts = self._topics.topics, figures.counts
        operators = OperatorParts(store, settings, topics, figures, access, live, settings_text)
        groups = GroupParts(store, settings, topics, figures.stats, access)
        self._tables = tables = groups.tables
        self._gatherer = gatherer = PutGatherer.of(store, settings)
        transactions = Transactions(store, settings, tables, gatherer, counts, access)
        puts = PutParts(store, settings, tables, gatherer, counts, access, transactions)
        self._reads = ReadParts(store, settings, tables, counts, access)
        self._jobs = StoreRequests(
            store, settings, topics, access, needs_tls=tls[0] is not None and not tls[0].optional
        )
        self._folders = figures, self._topics, operators, groups, transactions, puts, self._reads, self._jobs
        self._listeners = Listeners(settings, access, self._folders, tls[0], figures.latency, puts.together)
        figures.others += (*self._folders, self._listeners)

    def steps(self) -> tuple[Step, ...]:
        """Return the steps of the start, in RocketMQ's order; the stop takes them back from the last to the first."""
        store, tables, save = self._store, self._tables, self._tables.offsets.save
        deliveries, listeners, registration = self._deliveries, self._listeners, self._topics.registration
        pulls = self._reads.pulls
        return (
            Step("system topics and groups", lambda: asyncio.to_thread(tables.create_system_tables)),
            Step("offsets", None, save, _OFFSETS_SECONDS),
            Step("arrivals", lambda: store.notify_arrivals(pulls.stored), lambda: store.notify_arrivals(None)),
            Step("deliveries", deliveries.start, deliveries.stop, _DELIVERY_SECONDS),
            Step("connections", listeners.listen, lambda: listeners.close(_REQUESTS_SECONDS), _CONNECTION_SECONDS),
            Step("puts", None, lambda: self._gatherer.finish(_PUTS_SECONDS), _PUTS_SECONDS + _SLACK_SECONDS),
            Step("waiting requests", None, listeners.end_waiting),
            Step("services", self._start_services, self._end_services),
            Step("registration", registration.start, registration.stop, _FAREWELL_SECONDS),
            Step("jobs", self._jobs.serve),
            Step("offsets before the rest", None, save, _FIRST_SECONDS),
        )

    def _start_services(self) -> None:
        of_folders = (service for folder in self._folders for service in folder.services())
        of_tls = (one.watch() for one in self._tls if one is not None)
        self._services += [self._loop.create_task(one) for one in (*of_folders, *of_tls)]

    def _end_services(self) -> None:
        for task in self._services:
            task.cancel()

    def unready(self) -> str:
        """Return why the broker is not ready, "" if it is."""
        if not self._topics.registration.was_tried:
            return "the broker has not tried to register yet"
        state = self._store.put_state()
        return state.why if state.fenced or state.closed else ""

    async def figures(self) -> bytes:
        """Return the text of `/metrics`, empty without metrics."""
        return b"" if self._figures.metrics is None else await self._figures.metrics.render()
