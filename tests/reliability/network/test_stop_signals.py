"""Row S27 on a broker: signals that ask for a stop under load, twice, and while the store is loading."""

from __future__ import annotations

import asyncio
import random
import signal
import urllib.error
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.testing.server_process import set_options
from rocketflow_store import MessageStore
from tests.reliability.network.wire import CODE, Load, asked, is_served
from tests.support.checker import check
from tests.support.http_get import get
from tests.support.network_stores import SIZES
from tests.support.ports import free_port
from tests.support.request_headers import topic_header
from tests.support.results import Tally
from tests.support.servers import RunningServer, no_traceback, running_broker, until
from tests.support.trials import sampled, seeds

pytestmark = pytest.mark.slow

STOPS = {
    "SIGTERM": [signal.SIGTERM],
    "SIGINT": [signal.SIGINT],
    "SIGHUP": [signal.SIGHUP],
    "SIGTERM twice": [signal.SIGTERM, signal.SIGTERM],
    "SIGINT, SIGTERM": [signal.SIGINT, signal.SIGTERM],
}


def is_open_in_order(store: Path) -> bool:
    """Return whether the last stop of a store was an orderly one."""
    with MessageStore.open(store, SIZES) as opened:
        return not opened.recovery.abort_found


def ends_in_order(broker: RunningServer, signals: list[signal.Signals]) -> None:
    """Wait for the end of a broker: exit code 0 and its last word, or after a second signal 1 and the reason."""
    code, said = broker.process.wait(60), broker.log.read_text()
    no_traceback(broker)
    if len(signals) == 1 or code == 0:
        assert (code, said.splitlines()[-1]) == (0, "stopped"), said[-3000:]
    else:
        assert (code, said.splitlines()[-1].startswith("error: the st")) == (1, True), said[-3000:]


async def signalled(broker: RunningServer, load: Load, seconds: float, signals: list[signal.Signals]) -> None:
    """Send from several connections, and signals to the broker meanwhile."""
    peers = Peers()
    await asked(await peers.channel(broker.address), CODE.UPDATE_AND_CREATE_TOPIC, topic_header("t", 2))
    sending = asyncio.ensure_future(load.run(connections=2, senders=4))
    while len(load.acked) < 20:
        await asyncio.sleep(0.01)
    await asyncio.sleep(seconds)
    for one in signals:
        broker.process.send_signal(one)
    await asyncio.wait_for(sending, 60)
    await peers.close()


@pytest.mark.parametrize("name", sampled(list(STOPS), 3))
def test_a_broker_under_load_stops_in_order(tmp_path: Path, name: str, tally: Callable[..., Tally]) -> None:
    counts = tally("S27", f"broker, {name}")
    for seed in seeds(2, 10):
        home = tmp_path / str(seed)
        home.mkdir()
        with running_broker(home, "flushDiskType=SYNC_FLUSH") as broker:
            load = Load(broker.address)
            run(signalled(broker, load, random.Random(seed).uniform(0, 0.3), STOPS[name]))
            ends_in_order(broker, STOPS[name])
        assert is_open_in_order(home / "store")
        verdict = check(home / "store", load.acked, load.attempted, refused=load.refused)
        counts.trial(verdict, f"seed {seed}, {name}")


@pytest.mark.parametrize("name", sampled(list(STOPS), 3))
def test_a_broker_that_waits_for_its_store_stops_in_order(
    tmp_path: Path, name: str, tally: Callable[..., Tally]
) -> None:
    """The store is locked while the signals come, as one that takes long to load; a second one ends the broker."""
    counts = tally("S27", f"broker that loads, {name}")
    store, port = tmp_path / "store", free_port()
    exporter = ("metricsExporterType=PROM", f"metricsPromExporterPort={port}")
    options = set_options([f"storePathRootDir={store}", "mappedFileSizeCommitLog=16777216", *exporter])
    broker = RunningServer("broker", tmp_path / "broker.log", free_port((-2, 1)), options)
    with MessageStore.open(store, SIZES):
        broker.start()
        assert until(lambda: why_not_ready(port) == "the store is not open yet"), broker.log.read_text()
        for one in STOPS[name]:
            broker.process.send_signal(one)
    try:
        ends_in_order(broker, STOPS[name])
    finally:
        broker.stop()
    assert is_open_in_order(store)  # nothing was written
    counts.trial(None, name)


def why_not_ready(port: int) -> str:
    """Return what a broker says to a question whether it is ready; nothing while it does not answer."""
    try:
        return get(port, "/health/ready")[1].strip()
    except (urllib.error.URLError, OSError):
        return ""


def test_a_broker_started_under_nohup_goes_on_after_a_hangup(tmp_path: Path) -> None:
    async def served(address: str) -> None:
        peers = Peers()
        await is_served(await peers.channel(address), 1)
        await peers.close()

    with running_broker(tmp_path, shell="trap '' HUP; exec") as broker:
        broker.process.send_signal(signal.SIGHUP)
        run(served(broker.address))
        broker.stop_in_order()
