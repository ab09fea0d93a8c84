"""Rows S23 and S31 on brokers: two of them in one directory; the store of a running one is moved or deleted."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow.aio.loop import EXIT_CUT, run
from rocketflow.aio.peers import Peers
from rocketflow.remoting.codes import ResponseCode
from rocketflow.testing.cluster import NEIGHBOURS, SMALL_FILES
from rocketflow.testing.ports import free_port
from rocketflow.testing.server_process import set_options
from rocketflow_store import StoreReader
from tests.reliability.network.test_failing_disks import QUEUES, Sends, pulled
from tests.reliability.network.wire import CODE, asked
from tests.support.checker import check
from tests.support.http_get import get
from tests.support.ports import free_port as port_of_http
from tests.support.request_headers import topic_header
from tests.support.results import Tally
from tests.support.servers import RunningServer, no_traceback, running_broker, store_of
from tests.support.trials import COMMAND_LINE, environment, sampled, seeds

pytestmark = pytest.mark.slow


def away(path: Path) -> None:
    path.rename(path.with_name("away"))


def emptied(path: Path) -> None:
    """Rename a directory, and put an empty one in its place."""
    away(path)
    path.mkdir()


def back(path: Path) -> None:
    if path.exists():
        path.rmdir()
    path.with_name("away").rename(path)


class Moving:
    """A broker whose store leaves its place under load."""

    def __init__(self, home: Path, flush: str) -> None:
        self.home, self.store, self.sends = home, home / "store", Sends()
        self._http = port_of_http()
        self._settings = (
            *(f"flushDiskType={flush}", "flushConsumerOffsetInterval=50", "metricsExporterType=PROM"),
            f"metricsPromExporterPort={self._http}",
        )

    def run(self, name: str, change: Callable[[Path], None], first: int) -> None:
        """Let `name` leave its place once `first` messages are acknowledged; stop the broker at the end."""
        with running_broker(self.home, *self._settings) as broker:
            run(self._move(broker, name, change, first))
            code, said = broker.stop(), broker.log.read_text()
            assert (code, "Traceback" in said) in ((0, False), (EXIT_CUT, False)), said[-3000:]
            assert f"RF-MOVED {self.store} " in said
            assert f"{self.store / name} was renamed, replaced or deleted" in said

    async def _move(self, broker: RunningServer, name: str, change: Callable[[Path], None], first: int) -> None:
        peers = Peers()
        channel = await peers.channel(broker.address)
        await asked(channel, CODE.UPDATE_AND_CREATE_TOPIC, topic_header("t", QUEUES))
        await pulled(channel)
        sending = asyncio.ensure_future(self.sends.run(channel, 8))
        while len(self.sends.acked) < first:
            await asyncio.sleep(0.01)
        change(self.store / name)
        await asyncio.wait_for(sending, 60)
        assert set(self.sends.refused.values()) == {ResponseCode.SERVICE_NOT_AVAILABLE}
        served = await pulled(channel)
        assert {number: served.get(number) for number in self.sends.acked} == self.sends.acked
        assert not served.keys() & self.sends.refused.keys()
        created = await asked(channel, CODE.UPDATE_AND_CREATE_TOPIC, topic_header("later", QUEUES))
        assert created.code == ResponseCode.SERVICE_NOT_AVAILABLE
        status, why = await asyncio.to_thread(get, self._http, "/health/ready")
        assert (status, "put it back" in why) == (503, True), why
        await peers.close()

    def start_again(self) -> None:
        with running_broker(self.home, *self._settings) as broker:
            run(self._again(broker))
            broker.stop_in_order()

    async def _again(self, broker: RunningServer) -> None:
        peers = Peers()
        assert await self.sends.one(await peers.channel(broker.address)) == ResponseCode.SUCCESS
        await peers.close()


CASES = [
    (name, change, flush)
    for flush in ("SYNC_FLUSH", "ASYNC_FLUSH")
    for name, change in (("", away), ("", emptied), ("commitlog", away), ("config", away))
]


@pytest.mark.parametrize(("name", "change", "flush"), sampled(CASES, 6))
def test_broker_whose_store_moves_refuses_sends_and_writes_nothing_at_the_old_path(
    tmp_path: Path, name: str, change: Callable[[Path], None], flush: str, tally: Callable[..., Tally]
) -> None:
    counts = tally("S31", f"broker, {flush}")
    for seed in seeds(2, 10):
        one = Moving(tmp_path / str(seed), flush)
        one.home.mkdir()
        one.run(name, change, random.Random(seed).randrange(20, 200))
        left = one.store / name
        assert not left.exists() or list(left.iterdir()) == []
        back(left)
        one.start_again()
        verdict = check(one.store, one.sends.acked, one.sends.attempted, refused=one.sends.refused)
        counts.trial(verdict, f"seed {seed}")


def test_second_broker_in_a_directory_of_a_running_one_ends_with_75_and_names_it(tmp_path: Path) -> None:
    """Also after `lock` was deleted, which the first one notices."""
    with running_broker(tmp_path) as broker:
        store = store_of(broker)
        pid = broker.process.pid
        (store / "lock").unlink()
        wanted = (
            (f"storePathRootDir={store}",),
            (f"storePathRootDir={tmp_path}/second", f"storePathCommitLog={store}/commitlog"),
        )
        seconds = [_start(*settings) for settings in wanted]
        for second, name in zip(seconds, ("store", "commitlog")):
            said = second.communicate(timeout=60)[0]
            assert (second.returncode, f"{name}: locked by " in said, f"pid {pid} " in said) == (75, True, True), said
        assert not (store / "lock").exists()
        assert not (tmp_path / "second").exists()
        assert run(_send_once(broker)) == ResponseCode.SERVICE_NOT_AVAILABLE
        assert broker.stop() in (0, EXIT_CUT)
        no_traceback(broker)
        assert f"{store}/lock was renamed, replaced or deleted" in broker.log.read_text()
    with StoreReader(store) as reader:
        assert reader.state == "unclean"


async def _send_once(broker: RunningServer) -> int:
    peers = Peers()
    code = await Sends().one(await peers.channel(broker.address))
    await peers.close()
    return code


def _start(*settings: str) -> subprocess.Popen[str]:
    port = free_port(NEIGHBOURS)
    given = [f"listenPort={port}", *(f"{key}={value}" for key, value in SMALL_FILES.items()), *settings]
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND_LINE, "broker", *set_options(given)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
    )
