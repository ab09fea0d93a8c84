"""Row N13 with transactions: the broker is killed while producers repeat what was not answered."""

from __future__ import annotations

import random
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow.testing.cluster import SMALL_FILES
from rocketflow.testing.errors import ServerStartError
from rocketflow.testing.server_process import set_options
from tests.support.disk_calls import CALLS, KillPoint, kill_points, needs_strace, stretches
from tests.support.ports import free_port
from tests.support.results import Tally, measured
from tests.support.servers import RunningServer, no_traceback, running_broker, until
from tests.support.transaction_load import (
    NEVER_DECIDED,
    QUICK_CHECKS,
    TransactionLoad,
    is_left_open,
    judged,
    producing,
    seen,
)
from tests.support.trials import FULL, LEVEL, SEED, seeds

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7_200 if FULL else 900)]

TRANSACTIONS = 24
SYNCED = (*QUICK_CHECKS, "flushDiskType=SYNC_FLUSH", "flushConsumerOffsetInterval=200")
KILL_POINTS = 200 if FULL else 20
CHECKS_S = 300.0
"""How long the broker may take to ask about all that producers of a hundred killed brokers have left open."""

ATTEMPTS = 3
"""How many calls of a part of the run are tried: one of its last calls may not come a second time."""


def test_no_half_message_is_visible_and_no_answered_end_is_lost_when_the_broker_is_killed(
    tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    counts = tally("N13", "transactions, SIGKILL")
    port, store = free_port((-2, 1)), tmp_path / "store"
    load = TransactionLoad(f"127.0.0.1:{port}", senders=8)
    kills = seeds(12, 100, least=2)
    with producing(load) as stop:
        for seed in kills:
            with running_broker(tmp_path, *QUICK_CHECKS, port=port) as broker:
                answered, chance = len(load.answered), random.Random(seed)
                assert until(lambda: len(load.answered) > answered + chance.randrange(400))  # noqa: B023
                broker.process.send_signal(signal.SIGKILL)
                broker.process.wait(30)
                no_traceback(broker)
        with running_broker(tmp_path, *QUICK_CHECKS, port=port) as broker:
            answered = len(load.answered)
            assert until(lambda: len(load.answered) > answered + 50)
            assert until(lambda: any(is_left_open(one) for one in seen(store)))
            last = load.begun
            assert until(lambda: {one for one in load.committed() if one < last} <= seen(store).keys(), CHECKS_S)
            stop()
            broker.stop_in_order()
    verdict, doubles = judged(store, load, last)
    facts = {"kills": len(kills), "messages": load.begun, "doubles": doubles, "repeats": load.repeats}
    measured("transactionKills", **facts, checks=load.asked.total())
    counts.trial(verdict, f"seeds {kills}: {facts}", hit=load.repeats > 0)
    assert load.asked


def life(home: Path, load: TransactionLoad, port: int, *strace: str) -> bool:
    """Run a traced broker until all transactions are begun and decided, and stop it in order.

    Return whether strace has killed it. `-D` leaves the broker this process's child.
    """
    settings = set_options([f"storePathRootDir={home}/store", *(f"{k}={v}" for k, v in SMALL_FILES.items()), *SYNCED])
    prefix = ("strace", "-D", "-f", *strace)
    broker = RunningServer("broker", home / "broker.log", port, settings, prefix=prefix)
    broker.start()
    try:
        broker.wait_until_ready()
        assert until(lambda: broker.process.poll() is not None or is_decided(load, home / "store"), 120)
        broker.process.terminate()
        code = broker.process.wait(120)
    except ServerStartError as error:
        code = error.code or 0
    finally:
        broker.stop()
    no_traceback(broker)
    assert code in (0, -signal.SIGKILL), broker.log.read_text()[-3000:]
    return code != 0


def is_decided(load: TransactionLoad, store: Path) -> bool:
    """Return whether consumers see all that is to be committed, and the producers were asked about what is not."""
    return load.is_begun and all(load.asked[one] for one in NEVER_DECIDED) and load.committed() <= seen(store).keys()


def points_of(home: Path, port: int) -> list[KillPoint]:
    """Return the disk calls of a broker from its start to its stop."""
    home.mkdir()
    log = home / "strace.log"
    load = TransactionLoad(f"127.0.0.1:{port}", 4, TRANSACTIONS)
    with producing(load):
        assert not life(home, load, port, "-o", str(log), "-s", "512", "-e", f"trace={CALLS}")
    assert until(lambda: "+++ exited with 0 +++" in log.read_text("utf-8", "replace").splitlines()[-1])
    return kill_points(log, home)


def is_recovered(load: TransactionLoad, before: Counter[int], store: Path) -> bool:
    """Return whether all is decided, and the producers were asked again about what is not."""
    return all(load.asked[one] > before[one] for one in NEVER_DECIDED) and is_decided(load, store)


@pytest.mark.skipif(LEVEL == "sample", reason="traces a broker for ten seconds first: RF_FAULTS=1 runs it")
@needs_strace
def test_no_half_message_is_visible_and_nothing_decided_is_lost_when_the_broker_is_killed_at_a_disk_call(
    tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    """Each kill has a store of its own: so its doubles are those of this kill."""
    counts = tally("N13", "transactions, kill at a disk call")
    port, home = free_port((-2, 1)), tmp_path / "home"
    points = points_of(home, port)
    doubles: list[int] = []

    def trial(point: KillPoint) -> bool:
        shutil.rmtree(home)
        home.mkdir()
        load = TransactionLoad(f"127.0.0.1:{port}", 4, TRANSACTIONS)
        with producing(load) as stop:
            was_killed = life(home, load, port, "-o", "/dev/null", *point.arguments())
            before = load.asked.copy()
            with running_broker(home, *SYNCED, port=port) as broker:
                recovered = until(lambda: is_recovered(load, before, home / "store"), 60)
                stop()
                broker.stop_in_order()
        verdict, doubled = judged(home / "store", load, load.begun)
        context = f"seed {SEED}, {point} of {len(points)} points, {doubled} doubles"
        counts.trial(verdict, context, hit=was_killed)
        assert recovered, context
        if was_killed:
            doubles.append(doubled)
        return was_killed

    parts = stretches(points, KILL_POINTS, SEED)
    for part in parts:
        any(trial(point) for point in part[:ATTEMPTS])
    measured("transactionCallKills", doubles=doubles, messages=TRANSACTIONS)
    assert len(doubles) >= len(parts) / 2, f"{len(doubles)} kills in {counts.trials} trials"
