"""Row N13: the broker is killed, or stopped, under the load of clients that check what they were promised."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.remoting.codes import ResponseCode
from rocketflow.remoting.headers import offset as offsets
from rocketflow_store import StoreReader
from tests.reliability.network.wire import CODE, Load, RetryingLoad, asked
from tests.support.checker import check
from tests.support.damage import Planted
from tests.support.independent_reader import log_records
from tests.support.killed_store import flip_bit
from tests.support.ports import free_port
from tests.support.request_headers import GROUP, pull_header, topic_header
from tests.support.results import Tally
from tests.support.servers import RunningServer, no_traceback, running_broker, until
from tests.support.trials import LEVEL, seeds
from tests.support.workload import number_of

pytestmark = pytest.mark.slow

STOP_SECONDS = 10.0


async def _under_load(broker: RunningServer, load: Load, seconds: float, how: signal.Signals) -> None:
    """Send from several connections, and send a signal to the broker meanwhile."""
    peers = Peers()
    await asked(await peers.channel(broker.address), CODE.UPDATE_AND_CREATE_TOPIC, topic_header("t", 2))
    running = asyncio.ensure_future(load.run(connections=4, senders=8))
    await asyncio.sleep(seconds)
    broker.process.send_signal(how)
    await asyncio.wait_for(running, 60)
    await peers.close()


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH"] if LEVEL == "sample" else ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_nothing_acknowledged_is_lost_when_the_broker_is_killed(
    tmp_path: Path, flush: str, tally: Callable[..., Tally]
) -> None:
    counts = tally("N13", f"{flush}, SIGKILL")
    port = free_port((-2, 1))
    attempted: set[int] = set()
    acked = {}
    refused: set[int] = set()
    for seed in seeds(10, 50):
        with running_broker(tmp_path, f"flushDiskType={flush}", port=port) as broker:
            load = Load(broker.address, first=max(attempted, default=-1) + 1)
            run(_under_load(broker, load, random.Random(seed).uniform(0.2, 1.0), signal.SIGKILL))
            broker.process.wait(30)
            no_traceback(broker)
        attempted |= load.attempted
        acked |= load.acked
        refused |= load.refused
        with running_broker(tmp_path, f"flushDiskType={flush}", port=port) as broker:
            assert broker.stop() == 0
        verdict = check(tmp_path / "store", acked, attempted, refused=refused)
        counts.trial(verdict, f"seed {seed}", hit=len(load.attempted) > len(load.acked))
    assert acked


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH"] if LEVEL == "sample" else ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_damage_after_a_kill_of_the_broker_loses_one_message(
    tmp_path: Path, flush: str, tally: Callable[..., Tally]
) -> None:
    """A bit flips in one of the last acknowledged records: the next start names it, and serves all others."""
    counts = tally("S09", f"broker, {flush}, SIGKILL, a bit flipped")
    for seed in seeds(4, 20):
        home, rng = tmp_path / f"{seed}", random.Random(seed)
        home.mkdir()
        with running_broker(home, f"flushDiskType={flush}") as broker:
            load = Load(broker.address)
            run(_under_load(broker, load, rng.uniform(0.2, 1.0), signal.SIGKILL))
            broker.process.wait(30)
        records = [one for one in log_records(home / "store") if one.topic == "t"]
        acked = [one for one in records if number_of(one.body) in load.acked]
        lost = rng.choice(acked[-20:])
        flip_bit(home / "store", lost.phy_offset + rng.randrange(lost.size), rng.randrange(8))
        with running_broker(home, f"flushDiskType={flush}") as broker:
            assert broker.stop() == 0
            log = broker.log.read_text()
        context = f"seed {seed}, {flush}, the record at {lost.phy_offset}"
        (reported,) = [line for line in log.splitlines() if "RF-QUAR" in line]
        file = lost.phy_offset - lost.phy_offset % (home / "store/commitlog" / f"{0:020d}").stat().st_size
        assert f"{file:020d} offset {lost.phy_offset - file} count {lost.size}: damaged" in reported, context
        assert "RF-CUT" not in log, context
        assert "RF-LOST" not in log, context
        found = Planted(home / "store", {}, {}).served()
        there = {number_of(body) for (topic, _, _), body in found.items() if topic == "t"}
        assert there == {number_of(one.body) for one in records} - {number_of(lost.body)}, context
        counts.trial(None, context)


def test_what_clients_repeat_after_a_kill_is_stored_and_doubles_have_one_unique_key(
    tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    counts = tally("N13", "SIGKILL, clients that retry")
    port = free_port((-2, 1))
    load = RetryingLoad(f"127.0.0.1:{port}")
    sending = threading.Thread(target=lambda: run(load.run(12)))
    kills = seeds(6, 100)
    for seed in kills:
        with running_broker(tmp_path, port=port) as broker:
            if not sending.is_alive():
                sending.start()
            acked, chance = len(load.acked), random.Random(seed)
            assert until(lambda: len(load.acked) > acked + chance.randrange(200))  # noqa: B023
            broker.process.send_signal(signal.SIGKILL)
            broker.process.wait(30)
            no_traceback(broker)
    with running_broker(tmp_path, port=port) as broker:
        load.ends = True
        sending.join(60)
        assert broker.stop() == 0
    assert load.attempted == set(load.acked)
    verdict = check(tmp_path / "store", load.acked, load.attempted)
    doubles = _unique_keys(tmp_path / "store", set(verdict.doubled))
    one_key = [number for number, keys in doubles.items() if keys == {f"U{number}"}]
    verdict = dataclasses.replace(verdict, doubled=sorted(set(verdict.doubled) - set(one_key)))
    counts.trial(verdict, f"seeds {kills}: {load.repeats} repeats, {len(one_key)} doubles", hit=load.repeats > 0)


def _unique_keys(store: Path, numbers: set[int]) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    with StoreReader(store) as reader:
        for queue in reader.queues("t"):
            for rows in reader.read("t", queue, *reader.bounds("t", queue), columns=["body", "properties"]):
                for row in rows.to_pylist():
                    if (number := number_of(row["body"])) in numbers:
                        found.setdefault(number, set()).add(dict(row["properties"])["UNIQ_KEY"])
    return found


@pytest.mark.parametrize("flush", ["SYNC_FLUSH"] if LEVEL == "sample" else ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_stop_under_load_is_quick_and_loses_nothing_acknowledged(
    tmp_path: Path, flush: str, tally: Callable[..., Tally]
) -> None:
    counts = tally("N13", f"{flush}, SIGTERM")
    for seed in seeds(4, 20):
        home = tmp_path / str(seed)
        with running_broker(home, f"flushDiskType={flush}") as broker:
            load = Load(broker.address)
            run(_under_load(broker, load, random.Random(seed).uniform(0.2, 1.0), signal.SIGTERM))
            began = time.monotonic()
            assert broker.process.wait(2 * STOP_SECONDS) == 0, broker.log.read_text()[-3000:]
            assert time.monotonic() - began < STOP_SECONDS
            no_traceback(broker)
            assert broker.log.read_text().rstrip().endswith("stopped")
        assert not (home / "store/abort").exists()
        counts.trial(check(home / "store", load.acked, load.attempted, refused=load.refused), f"seed {seed}")
        assert load.acked


def test_offsets_of_groups_survive_a_stop_and_forged_ones_do_not_lie_past_the_end(tmp_path: Path) -> None:
    update, query = offsets.UpdateConsumerOffsetRequestHeader, offsets.QueryConsumerOffsetRequestHeader

    async def commit(address: str) -> None:
        peers = Peers()
        channel = await peers.channel(address)
        await asked(channel, CODE.UPDATE_AND_CREATE_TOPIC, topic_header("t", 2))
        for queue_id, offset in ((0, 5), (1, 2**62)):
            header = update(consumer_group=GROUP, topic="t", queue_id=queue_id, commit_offset=offset)
            assert (await asked(channel, CODE.UPDATE_CONSUMER_OFFSET, header)).code == ResponseCode.SUCCESS
        load = Load(address)
        sending = asyncio.ensure_future(load.run(1, 2))
        while len(load.acked) < 20:
            await asyncio.sleep(0.01)
        sending.cancel()
        await peers.close()

    async def check_offsets(address: str) -> None:
        peers = Peers()
        channel = await peers.channel(address)
        found = await asked(channel, CODE.QUERY_CONSUMER_OFFSET, query(consumer_group=GROUP, topic="t", queue_id=0))
        assert found.fields["offset"] == "5"
        beyond = await asked(channel, CODE.PULL_MESSAGE, pull_header("t", 1, 2**62))
        assert beyond.code == ResponseCode.PULL_OFFSET_MOVED
        assert beyond.fields["nextBeginOffset"] == beyond.fields["maxOffset"]
        await peers.close()

    with running_broker(tmp_path) as broker:
        run(commit(broker.address))
        assert broker.stop() == 0
        no_traceback(broker)
    with running_broker(tmp_path) as broker:
        run(check_offsets(broker.address))
