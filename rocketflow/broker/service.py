"""Start and stop of a broker, and the processors of its requests.

RocketMQ's source: broker/BrokerController.java, BrokerStartup.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rocketflow.aio.loop import monotonic_ms
from rocketflow.aio.loop_lag import LoopLag
from rocketflow.aio.rpc_latency import RpcLatency
from rocketflow.aio.server import Limits, Processor, Server
from rocketflow.aio.steps import STEPS_SECONDS, Step, Steps
from rocketflow.broker.figures.counts import Counts, MessageCounts
from rocketflow.broker.figures.runtime_figures import RuntimeFigures
from rocketflow.broker.figures.stats import BrokerStats
from rocketflow.broker.figures.timer_figures import TimerFigures
from rocketflow.broker.groups.client_requests import ClientRequests
from rocketflow.broker.groups.clients import ConsumerTable, ProducerTable
from rocketflow.broker.groups.group_admin import GroupAdmin
from rocketflow.broker.groups.groups import Groups
from rocketflow.broker.groups.member_calls import MemberCalls
from rocketflow.broker.groups.offsets import GroupOffsets, OffsetRequests
from rocketflow.broker.groups.queue_locks import QueueLocks
from rocketflow.broker.operators.access import Access
from rocketflow.broker.operators.admin import Admin
from rocketflow.broker.operators.config_requests import ConfigRequests
from rocketflow.broker.operators.upkeep import Upkeep
from rocketflow.broker.puts.awaited_replies import AwaitedReplies
from rocketflow.broker.puts.put_gatherer import PutGatherer
from rocketflow.broker.puts.recalls import Recalls
from rocketflow.broker.puts.replies import Replies
from rocketflow.broker.puts.send_back import SendBacks
from rocketflow.broker.puts.sends import Sends
from rocketflow.broker.reads.pulls import Pulls
from rocketflow.broker.reads.queries import Queries
from rocketflow.broker.reads.range_pulls import RangePulls
from rocketflow.broker.settings import answered_settings_text
from rocketflow.broker.store_requests import StoreRequests
from rocketflow.broker.topics.attributes import unsupported
from rocketflow.broker.topics.registration import Registration
from rocketflow.broker.topics.topic_admin import TopicAdmin
from rocketflow.broker.topics.topics import Topics
from rocketflow.broker.transactions.transactions import Transactions
from rocketflow.process.health_step import health_step
from rocketflow.process.live_settings import LiveSettings
from rocketflow.remoting.codes import RequestCode
from rocketflow_store import StoreClosedError
from rocketflow_store.spi.broker import open_store
from rocketflow_store.spi.delivery import ScheduleMessageService, TimerMessageService
from rocketflow_store.spi.writing import when_free

if TYPE_CHECKING:
    from pathlib import Path

    from rocketflow.aio.channel import Channel
    from rocketflow.aio.tls import Tls
    from rocketflow.broker.figures.metrics import BrokerMetrics
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow_store import StoreConfig
    from rocketflow_store.spi.broker import Arrival, WritingStore

LOG: Final = logging.getLogger("rocketflow.broker")

FAST_PORT_DISTANCE: Final = 2
"""RocketMQ's second listener is this much below `listenPort`."""

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
        self._parts: _Parts | None = None
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
        self._parts = _Parts(self._store, settings, self._store_config, self._given, *tls, access, self._live)

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


class _Parts:
    """The parts of a broker above its open store."""

    def __init__(
        self,
        store: WritingStore,
        settings: BrokerSettings,
        config: StoreConfig,
        given: Mapping[str, Any],
        tls: Tls | None,
        client_tls: Tls | None,
        access: Access,
        live: LiveSettings,
    ) -> None:
        self._access = access
        self._settings = settings
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._topics = Topics(store, settings, lambda: self._registration.register_soon(), self._registered)
        self._tls = [one for one in (tls, client_tls) if one is not None]
        self._needs_tls = tls is not None and not tls.optional
        self._registration = Registration(settings, self._topics, client_tls)
        self._groups = Groups(store, settings)
        self._offsets = GroupOffsets(store)
        self._locks = QueueLocks()
        self._lag = LoopLag()
        exported = Counts() if settings.exports_metrics else None
        self._stats = BrokerStats(settings.broker_cluster_name)
        self._counts = MessageCounts(self._stats, exported)
        latency = RpcLatency() if settings.exports_metrics else None
        producers: ProducerTable[Channel] = ProducerTable()
        consumers: ConsumerTable[Channel] = ConsumerTable()
        self._gatherer = PutGatherer(
            store,
            sync_timeout_s=settings.sync_flush_timeout / 1000 if config.sync_flush else None,
            wait_limit_s=lambda: settings.send_wait_limit_s,
        )
        self._transactions = Transactions(
            *(store, self._gatherer, self._offsets, producers, self._topics, settings, self._counts, access),
        )
        awaited = AwaitedReplies(access.guard.sender) if access.has_rules else None
        self._sends = Sends(
            *(self._gatherer, self._topics, self._groups, self._locks, settings, self._counts),
            *(self._transactions.recent, awaited),
        )
        self._replies = Replies(self._sends, producers, settings, awaited, access)
        self._pulls = Pulls(store, self._topics, self._groups, consumers, self._offsets, settings, self._counts, access)
        self._clients = ClientRequests(producers, consumers, self._locks, self._topics, self._groups, settings, access)
        self._range_pulls = RangePulls(store, self._groups, self._pulls.checks, self._counts, access)
        self._deliveries: dict[str, ScheduleMessageService | TimerMessageService] = {}
        self._timers = TimerFigures(store, self._deliveries)
        self._figures = RuntimeFigures(store, self._gatherer, self._pulls, self._timers)
        self._admin = Admin(
            *(self._topics, self._groups, self._offsets, producers, consumers, settings),
            self._figures,
            self._stats,
        )
        self._config = ConfigRequests(live, lambda: answered_settings_text(settings, config, given), self._topics)
        self._topic_admin = TopicAdmin(store, self._topics, self._offsets, settings, self._stats, self._pulls)
        self._group_admin = GroupAdmin(
            store, self._topics, self._groups, self._offsets, consumers, settings, self._stats
        )
        self._member_calls = MemberCalls(store, consumers, settings, access)
        self._upkeep = Upkeep(store, self._topics, self._groups)
        self._store_requests = StoreRequests(store, self._topics, settings)
        processors = access.guarded(self._processors())
        pulls = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
        limits = Limits(connections=settings.max_connections, idle_s=settings.server_channel_max_idle_time_seconds)
        self._server = Server(processors, on_closed=self._channel_closed, limits=limits, tls=tls, latency=latency)
        self._fast_server = Server(
            {code: one for code, one in processors.items() if code not in pulls},
            on_closed=self._channel_closed,
            limits=limits,
            tls=tls,
            latency=latency,
        )
        self._metrics: BrokerMetrics | None = None
        if exported is not None and latency is not None:
            from rocketflow.broker.figures.metrics import BrokerMetrics, Sources

            self._metrics = BrokerMetrics(
                Sources(
                    *(store, self._topics, self._groups, self._offsets, producers, consumers, self._gatherer),
                    *(self._pulls, self._registration, (self._server, self._fast_server)),
                    deliveries=self._deliveries,
                    jobs=self._store_requests,
                    transactions=self._transactions,
                    timers=self._timers,
                    counts=exported,
                    latency=latency,
                    lag=self._lag,
                ),
                settings,
            )
        self._tasks: list[asyncio.Task[None]] = []

    def _processors(self) -> dict[int, Processor]:
        code = RequestCode
        offsets = OffsetRequests(self._store, self._offsets, self._topics, self._groups)
        queries = Queries(self._store, self._access)
        max_delay_ms = self._store.config.timer_max_delay_sec * 1000
        recalls = Recalls(self._gatherer, self._topics, self._settings, max_delay_ms)
        send_backs = SendBacks(
            *(self._store, self._gatherer, self._topics, self._groups, self._settings, self._counts, self._access),
        )
        return {
            **self._admin.by_code(),
            **self._config.by_code(),
            **self._topic_admin.by_code(),
            **self._group_admin.by_code(),
            **self._member_calls.by_code(),
            **self._upkeep.by_code(),
            **self._store_requests.by_code(),
            **self._transactions.by_code(),
            code.SEND_MESSAGE: self._sends.send,
            code.SEND_MESSAGE_V2: self._sends.send,
            code.SEND_BATCH_MESSAGE: self._sends.send,
            code.RECALL_MESSAGE: recalls.recall,
            code.SEND_REPLY_MESSAGE: self._replies.reply,
            code.SEND_REPLY_MESSAGE_V2: self._replies.reply,
            code.CONSUMER_SEND_MSG_BACK: send_backs.send_back,
            code.PULL_MESSAGE: self._pulls.pull,
            code.LITE_PULL_MESSAGE: self._pulls.pull,
            code.ROCKETFLOW_PULL_RANGE: self._range_pulls.pull,
            code.HEART_BEAT: self._clients.heartbeat,
            code.UNREGISTER_CLIENT: self._clients.unregister,
            code.GET_CONSUMER_LIST_BY_GROUP: self._clients.list_consumers,
            code.CHECK_CLIENT_CONFIG: self._clients.check_client,
            code.LOCK_BATCH_MQ: self._clients.lock,
            code.UNLOCK_BATCH_MQ: self._clients.unlock,
            code.QUERY_CONSUMER_OFFSET: offsets.query,
            code.UPDATE_CONSUMER_OFFSET: offsets.update,
            code.GET_MAX_OFFSET: offsets.end,
            code.GET_MIN_OFFSET: offsets.begin,
            code.SEARCH_OFFSET_BY_TIMESTAMP: offsets.search,
            code.GET_EARLIEST_MSG_STORETIME: offsets.earliest,
            code.QUERY_MESSAGE: queries.by_key,
            code.VIEW_MESSAGE_BY_ID: queries.by_place,
        }

    def steps(self) -> tuple[Step, ...]:
        """Return the steps of the start, in RocketMQ's order; the stop takes them back from the last to the first."""
        return (
            Step("system topics and groups", self._create_system_tables),
            Step("offsets", None, self._offsets.save, _OFFSETS_SECONDS),
            Step("arrivals", self._take_arrivals, lambda: self._store.notify_arrivals(None)),
            Step("deliveries", self._start_deliveries, self._stop_deliveries, _DELIVERY_SECONDS),
            Step("connections", self._listen, self._end_connections, _CONNECTION_SECONDS),
            Step("puts", None, lambda: self._gatherer.finish(_PUTS_SECONDS), _PUTS_SECONDS + _SLACK_SECONDS),
            Step("waiting requests", None, self._answer_waiting),
            Step("services", self._start_services, self._end_services),
            Step("registration", self._registration.start, self._registration.stop, _FAREWELL_SECONDS),
            Step("jobs", self._serve_jobs),
            Step("offsets before the rest", None, self._offsets.save, _FIRST_SECONDS),
        )

    async def _create_system_tables(self) -> None:
        for name, topic in self._topics.all().items():
            for why in unsupported(topic):
                LOG.warning("topic %s: %s; its messages are served as those of a usual topic", name, why)
        await asyncio.to_thread(self._topics.create_system_topics)
        await asyncio.to_thread(self._groups.create_system_groups)

    def _take_arrivals(self) -> None:
        self._store.notify_arrivals(self._arrived)

    def _start_deliveries(self) -> None:
        self._deliveries["delay"] = ScheduleMessageService(self._store)
        self._deliveries["timer"] = TimerMessageService(self._store)

    async def _stop_deliveries(self) -> None:
        for one in self._deliveries.values():
            await asyncio.to_thread(one.stop)

    async def _listen(self) -> None:
        settings = self._settings
        await self._server.listen(settings.listen_address, settings.listen_port)
        await self._fast_server.listen(settings.listen_address, settings.listen_port - FAST_PORT_DISTANCE)

    async def _end_connections(self) -> None:
        await asyncio.gather(*(one.close(_REQUESTS_SECONDS) for one in (self._server, self._fast_server)))

    def _start_services(self) -> None:
        self._run(self._lag.watch())
        self._run(self._figures.watch_midnights())
        self._run(self._stats.watch(monotonic_ms))
        self._run(self._pulls.expire())
        self._run(self._clients.expire())
        self._run(self._transactions.check())
        self._run(self._offsets.save_every(self._settings.flush_consumer_offset_interval / 1000))
        self._run(self._timers.watch())
        for one in self._tls:
            self._run(one.watch())
        for service in self._access.services():
            self._run(service)

    def _end_services(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _answer_waiting(self) -> None:
        """Accept no connection, answer the pulls that wait, and begin no further request of a job."""
        self._server.stop_listening()
        self._fast_server.stop_listening()
        self._pulls.answer_all()
        self._range_pulls.stop()
        self._store_requests.stop()

    async def _serve_jobs(self) -> None:
        """Let jobs on the store's directory find the broker."""
        address, secret = self._settings.broker_address, self._access.job_secret
        await asyncio.to_thread(self._store.serve_at, address, tls=self._needs_tls, secret=secret)

    def unready(self) -> str:
        """Return why the broker is not ready, "" if it is."""
        if not self._registration.was_tried:
            return "the broker has not tried to register yet"
        state = self._store.put_state()
        return state.why if state.fenced or state.closed else ""

    async def figures(self) -> bytes:
        """Return the text of `/metrics`, empty without metrics."""
        return b"" if self._metrics is None else await self._metrics.render()

    def _run(self, service: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(self._loop.create_task(service))

    async def _registered(self) -> None:
        await self._registration.registered()

    def _arrived(self, arrivals: Sequence[Arrival]) -> None:
        """Pass new messages to the loop, from whichever thread dispatched them."""
        self._loop.call_soon_threadsafe(self._pulls.arrived, list(arrivals))

    def _channel_closed(self, channel: Channel) -> None:
        self._clients.channel_closed(channel)
        self._pulls.channel_closed(channel)
