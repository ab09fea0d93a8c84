"""`store backup` and `store verify` on the directory of a broker under load."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.cli.store.backup_store import back_up
from rocketflow.remoting.codes import ResponseCode
from rocketflow.remoting.headers.offset import UpdateConsumerOffsetRequestHeader
from rocketflow_store import MessageStore, StoreConfig
from rocketflow_store.fsck.verify import verify_store
from tests.reliability.network.wire import CODE, Load, asked, is_served
from tests.support.checker import Place, check
from tests.support.output_fields import check_fields
from tests.support.request_headers import GROUP, topic_header
from tests.support.results import Tally
from tests.support.servers import RunningServer, no_traceback, running_broker
from tests.support.trials import LEVEL, environment, seeds

pytestmark = pytest.mark.slow

BEFORE = 100
"""Messages that are acknowledged before a backup begins."""


async def rocketflow(*arguments: str) -> tuple[int, str]:
    """Run a command; return its exit code and its output."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rocketflow", *arguments),
        env=environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output = (await child.communicate())[0].decode()
    assert child.returncode is not None
    return child.returncode, output


async def begin(broker: RunningServer) -> tuple[Load, asyncio.Task[None]]:
    """Create the topic, commit an offset, and send until BEFORE messages are acknowledged, and further."""
    peers = Peers()
    channel = await peers.channel(broker.address)
    await asked(channel, CODE.UPDATE_AND_CREATE_TOPIC, topic_header("t", 2))
    load = Load(broker.address)
    sending = asyncio.create_task(load.run(connections=1, senders=4))
    while len(load.acked) < BEFORE:
        await asyncio.sleep(0.01)
    header = UpdateConsumerOffsetRequestHeader(consumer_group=GROUP, topic="t", queue_id=0, commit_offset=5)
    assert (await asked(channel, CODE.UPDATE_CONSUMER_OFFSET, header)).code == ResponseCode.SUCCESS
    await peers.close()
    return load, sending


MODES = ("ASYNC_FLUSH with a pool", *(() if LEVEL == "sample" else ("SYNC_FLUSH", "ASYNC_FLUSH")))


@pytest.mark.parametrize("mode", MODES)
def test_backup_under_load_holds_what_was_acknowledged_before(
    tmp_path: Path, mode: str, tally: Callable[..., Tally]
) -> None:
    counts = tally("N13", f"backup, {mode}")
    settings = [f"flushDiskType={mode.split()[0]}", *(["transientStorePoolEnable=true"] if "pool" in mode else [])]
    # offsets of groups are only written when a backup begins
    settings.append("flushConsumerOffsetInterval=3600000")

    async def back_up_under_load(home: Path, broker: RunningServer) -> tuple[Load, dict[int, Place]]:
        load, sending = await begin(broker)
        before = dict(load.acked)
        code, output = await rocketflow("store", "backup", str(home / "store"), str(home / "backup"), "--json")
        assert code == 0, output
        printed = json.loads(output)
        check_fields("store backup", printed)
        assert printed["broker"] == broker.address
        assert (await asyncio.to_thread(verify_store, home / "store")).exit_code == 0
        assert len(load.acked) > len(before)
        broker.process.send_signal(signal.SIGKILL)
        await asyncio.wait_for(sending, 60)
        return load, before

    for seed in seeds(3, 20):
        home = tmp_path / str(seed)
        with running_broker(home, *settings) as broker:
            load, before = run(back_up_under_load(home, broker))
            broker.process.wait(30)
            no_traceback(broker)
        counts.trial(check(home / "backup", before, load.attempted), f"seed {seed}", hit=True)
        with MessageStore.open(home / "backup", StoreConfig()) as store:
            assert not store.recovery.abort_found
            assert store.config_files.consumer_offsets.table()["t", GROUP] == {0: 5}


@pytest.mark.skipif(LEVEL == "sample", reason="backups under load are sampled: RF_FAULTS=1 runs it")
def test_broker_that_is_killed_during_the_copy_does_not_stop_the_backup(tmp_path: Path) -> None:
    async def kill_in_the_middle(broker: RunningServer) -> tuple[Load, dict[int, Place]]:
        load, sending = await begin(broker)
        before = dict(load.acked)

        def kill(done: int, total: int) -> None:
            if broker.process.poll() is None:
                broker.process.send_signal(signal.SIGKILL)
                broker.process.wait(30)

        paths = str(tmp_path / "store"), str(tmp_path / "backup")
        await asyncio.to_thread(back_up, *paths, StoreConfig(), 1, lambda: kill)
        await asyncio.wait_for(sending, 60)
        return load, before

    with running_broker(tmp_path) as broker:
        load, before = run(kill_in_the_middle(broker))
    assert check(tmp_path / "backup", before, load.attempted).clean
    with running_broker(tmp_path) as broker:  # the backup changed nothing of the store
        assert broker.stop() == 0
    assert check(tmp_path / "store", load.acked, load.attempted).clean
    (tmp_path / "restored").mkdir()
    (tmp_path / "backup").rename(tmp_path / "restored" / "store")
    with running_broker(tmp_path / "restored") as broker:
        run(use(broker))
        assert broker.stop() == 0
        no_traceback(broker)


async def use(broker: RunningServer) -> None:
    """Send to the restored topic, and read it."""
    peers = Peers()
    await is_served(await peers.channel(broker.address), 10**6, "t")
    await peers.close()
