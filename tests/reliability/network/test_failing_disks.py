"""Rows S16 to S18 on a broker: its disk fails while clients send; sends are refused, pulls are served."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketflow.aio.channel import Channel
from rocketflow.aio.loop import EXIT_CUT, run
from rocketflow.aio.peers import Peers
from rocketflow.remoting.codes import ResponseCode
from rocketflow_store.spi.messages import decode_records
from tests.reliability.network.wire import CODE, asked
from tests.support.checker import Place, check
from tests.support.disk_calls import needs_strace
from tests.support.http_get import get
from tests.support.ports import free_port
from tests.support.request_headers import pull_header, send_header, topic_header
from tests.support.results import Tally
from tests.support.servers import RunningServer, no_traceback, running_broker
from tests.support.trials import sampled, seeds
from tests.support.workload import body, number_of

pytestmark = [pytest.mark.slow, needs_strace]

SYNCS = "msync,fdatasync,fsync"
WRITES = "pwrite64"
FLUSHES = ("SYNC_FLUSH", "ASYNC_FLUSH")
QUEUES = 2
UNKNOWN = (ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SYSTEM_ERROR)
"""Answers to sends that may be stored all the same."""


@contextmanager
def failing(pid: int, calls: str) -> Iterator[None]:
    """Make these calls of a process fail with EIO until the end of the block."""
    options = ["-f", "-o", "/dev/null", "-e", f"trace={calls}", "-e", f"inject={calls}:error=EIO"]
    with subprocess.Popen(["strace", *options, "-p", str(pid)], stderr=subprocess.PIPE, text=True) as strace:
        assert strace.stderr is not None
        line = strace.stderr.readline()
        assert "attached" in line, line
        try:
            yield
        finally:
            strace.send_signal(signal.SIGINT)
            strace.stderr.read()


class Sends:
    """Senders on one connection, each with one message at a time; they end when the broker refuses one."""

    def __init__(self) -> None:
        self.acked: dict[int, Place] = {}
        self.attempted: set[int] = set()
        self.refused: dict[int, int] = {}
        """The codes of the refusals, by number."""

    async def run(self, channel: Channel, senders: int) -> None:
        """Send until each sender was refused."""
        await asyncio.gather(*(self._sender(channel, number % QUEUES) for number in range(senders)))

    async def _sender(self, channel: Channel, queue_id: int) -> None:
        while await self.one(channel, queue_id) in (ResponseCode.SUCCESS, *UNKNOWN):
            pass

    async def one(self, channel: Channel, queue_id: int = 0) -> int:
        """Send the next message; return the code of the answer."""
        number = len(self.attempted)
        self.attempted.add(number)
        header = send_header("t", queue_id, properties=f"KEYS\x01k{number}\x02")
        answer = await asked(channel, CODE.SEND_MESSAGE, header, body(number))
        if answer.code == ResponseCode.SUCCESS:
            self.acked[number] = int(answer.fields["queueId"]), int(answer.fields["queueOffset"])
        elif answer.code not in UNKNOWN:
            self.refused[number] = answer.code
        return answer.code


async def pulled(channel: Channel) -> dict[int, Place]:
    """Return the messages that the broker serves, by number."""
    found: dict[int, Place] = {}
    for queue_id in range(QUEUES):
        offset = 0
        while True:
            answer = await asked(channel, CODE.PULL_MESSAGE, pull_header("t", queue_id, offset))
            if answer.code != ResponseCode.SUCCESS:
                assert answer.code in (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED), answer.remark
                break
            found |= {number_of(one.body): (queue_id, one.queue_offset) for one in decode_records(answer.body)}
            offset = int(answer.fields["nextBeginOffset"])
    return found


class Trial:
    """A broker whose disk fails under load, until it has refused sends or until it has stopped."""

    def __init__(self, home: Path, flush: str) -> None:
        self.home = home
        self.sends = Sends()
        self._port = free_port()
        exporter = ("metricsExporterType=PROM", f"metricsPromExporterPort={self._port}")
        self._settings = (f"flushDiskType={flush}", *exporter)

    def fail(self, calls: str, first: int, *, lasting: bool) -> None:
        """Let calls fail once `first` messages are acknowledged; stop the broker at the end."""
        with running_broker(self.home, *self._settings) as broker:
            run(self._fail(broker, calls, first, lasting=lasting))
            no_traceback(broker)

    async def _fail(self, broker: RunningServer, calls: str, first: int, *, lasting: bool) -> None:
        peers = Peers()
        channel = await peers.channel(broker.address)
        await asked(channel, CODE.UPDATE_AND_CREATE_TOPIC, topic_header("t", QUEUES))
        await pulled(channel)  # a broker whose disk fails makes no group
        sending = asyncio.ensure_future(self.sends.run(channel, 8))
        while len(self.sends.acked) < first:
            await asyncio.sleep(0.01)
        with failing(broker.process.pid, calls):
            await asyncio.wait_for(sending, 60)
            await self._check(channel, is_fenced=calls == SYNCS)
            if lasting:
                self._stop(broker, is_written=calls == SYNCS)
        if not lasting:
            if calls == SYNCS:
                await self._check(channel, is_fenced=True)  # a sync that works again proves nothing
            else:
                assert await self.sends.one(channel) == ResponseCode.SUCCESS
            self._stop(broker, is_written=True)
        await peers.close()

    def _stop(self, broker: RunningServer, *, is_written: bool) -> None:
        """Stop the broker; if its last writes fail, it says so."""
        code, said = broker.stop(), broker.log.read_text().splitlines()[-1]
        unclean = code == EXIT_CUT and "the stop was not clean: store: failed" in said
        assert (code, said) == (0, "stopped") or (not is_written and unclean), (code, said)

    async def _check(self, channel: Channel, *, is_fenced: bool) -> None:
        """Check a broker that stores nothing more: what it has acknowledged is served, and what it refused is not."""
        for queue_id in range(QUEUES):
            assert await self.sends.one(channel, queue_id) == ResponseCode.SERVICE_NOT_AVAILABLE
        assert set(self.sends.refused.values()) == {ResponseCode.SERVICE_NOT_AVAILABLE}
        served = await pulled(channel)
        assert {number: served.get(number) for number in self.sends.acked} == self.sends.acked
        assert not served.keys() & self.sends.refused.keys()
        assert (await asyncio.to_thread(get, self._port, "/health/live"))[0] == 200
        status, why = await asyncio.to_thread(get, self._port, "/health/ready")
        assert (status, "fenced" in why) == ((503, True) if is_fenced else (200, False)), why

    def start_again(self) -> None:
        """Check that the broker is ready and stores messages after a restart."""

        async def again(broker: RunningServer) -> None:
            peers = Peers()
            assert await self.sends.one(await peers.channel(broker.address)) == ResponseCode.SUCCESS
            assert (await asyncio.to_thread(get, self._port, "/health/ready"))[0] == 200
            await peers.close()

        with running_broker(self.home, *self._settings) as broker:
            run(again(broker))
            broker.stop_in_order()


CASES = [
    *(("S17", SYNCS, False, flush) for flush in FLUSHES),
    *(("S18", SYNCS, True, flush) for flush in FLUSHES),
    *(("S16", WRITES, flush == "SYNC_FLUSH", flush) for flush in FLUSHES),
]


@pytest.mark.parametrize(("row", "calls", "lasting", "flush"), sampled(CASES, 5))
def test_a_broker_whose_disk_fails_refuses_sends_and_serves_pulls(
    tmp_path: Path, row: str, calls: str, lasting: bool, flush: str, tally: Callable[..., Tally]
) -> None:
    counts = tally(row, f"broker, {flush}")
    for seed in seeds(2, 10):
        one = Trial(tmp_path / str(seed), flush)
        one.home.mkdir()
        one.fail(calls, random.Random(seed).randrange(20, 200), lasting=lasting)
        one.start_again()
        verdict = check(one.home / "store", one.sends.acked, one.sends.attempted, refused=one.sends.refused)
        counts.trial(verdict, f"seed {seed}")
