"""Row N16: servers and clients in simulated time, under cuts, silence, kills and suspended processes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketflow.broker.groups.queue_locks import EXPIRY_MS
from rocketflow.client.push.held_queue import LOCK_LIVES_S
from rocketflow_store.delivery.delay import service as delay_service
from rocketflow_store.delivery.timer import timer_message_service
from rocketflow_store.engine import clean_rounds, flush_services
from tests.reliability.simulated.chaos import CONSUMERS, FAULTS, KEEPING_LOCKS, LOSING_POWER, Fault, afflict
from tests.reliability.simulated.history import History
from tests.reliability.simulated.world import BROKERS, NAME_SERVERS, TOPIC, Stores, World, make_topic
from tests.support.results import Tally
from tests.support.simulated_loop import SimulatedLoop, SimulatedServiceThread, simulated_time
from tests.support.simulated_network import simulated_network
from tests.support.trials import LEVEL, seeds

_KINDS = {False: "concurrent", True: "orderly"}
BUSY_S = 60.0 if LEVEL != "sample" else 30.0
BACKLOG_S = 60.0
"""How long messages pile up before orderly consumers begin: they hold more than they consume before locks expire."""

PATIENCE_S = 5_000.0
LOCK_S = EXPIRY_MS / 1000 - LOCK_LIVES_S
"""A consumer trusts a lock that is younger than LOCK_LIVES_S; so long after that the broker frees it."""


@pytest.fixture(autouse=True)
def _service_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the store's threads run in the loop."""
    for module in (delay_service, timer_message_service, clean_rounds, flush_services):
        monkeypatch.setattr(module, "ServiceThread", SimulatedServiceThread)


@contextmanager
def world(seed: int, directory: Path, *, orderly: bool, loses_power: bool) -> Iterator[World]:
    """Yield a cluster without nodes."""
    random.seed(seed)
    loop = SimulatedLoop(seed)
    directory.mkdir()
    try:
        with simulated_time(loop), simulated_network(loop, seed) as network:
            stores = Stores(directory, seed, loses_power=loses_power)
            made = World(loop, network, directory, stores, seed, orderly)
            try:
                yield made
            finally:
                loop.run_until_complete(made.abandon())
                stores.close()
    finally:
        loop.close()


async def start(cluster: World) -> None:
    """Start all nodes."""
    for name in NAME_SERVERS:
        cluster.start_name_server(name)
    await asyncio.sleep(1.0)
    for name in BROKERS:
        cluster.start_broker(name)
    await asyncio.sleep(2.0)
    cluster.check()
    await make_topic(cluster)
    for name in ("producer-a", "producer-b"):
        cluster.start_producer(name)
    if cluster.orderly:
        await asyncio.sleep(BACKLOG_S)
    for _ in range(CONSUMERS):
        cluster.start_consumer()


async def finish(cluster: World) -> None:
    """Wait until sends succeed again and all acknowledged messages are consumed; stop all nodes in order."""
    loop, history = cluster.loop, cluster.history
    before, end = history.acknowledged, loop.time() + PATIENCE_S
    while history.acknowledged < before + 20:
        assert loop.time() < end, "no send succeeds after the faults have healed"
        cluster.check()
        await asyncio.sleep(1.0)
    cluster.is_quiet = True
    while missing := history.missing():
        assert loop.time() < end, f"{len(missing)} acknowledged messages are not consumed: {sorted(missing)[:5]}"
        cluster.check()
        await asyncio.sleep(1.0)
    for kind in ("producer", "consumer", "broker", "names"):
        for name in cluster.alive(kind):
            await cluster.stop(name)


def run(
    seed: int,
    directory: Path,
    faults: tuple[Fault, ...],
    *,
    orderly: bool = False,
    loses_power: bool = False,
    seconds: float = BUSY_S,
) -> tuple[History, int]:
    """Run a cluster under faults; return what its nodes did, and how many faults there were.

    Nothing acknowledged is lost, nothing is consumed that was not sent, and queues are read in order.
    """

    async def main(cluster: World) -> int:
        await start(cluster)
        happened = await afflict(cluster, faults, seconds)
        await finish(cluster)
        return happened

    with world(seed, directory, orderly=orderly, loses_power=loses_power) as cluster:
        happened = cluster.loop.run_until_complete(main(cluster))
    history, where = cluster.history, f"seed {seed}"
    stored = cluster.stores.messages(TOPIC)
    assert not history.not_stored(stored), where
    assert not history.never_sent(stored), where
    assert not history.otherwise_consumed(stored), where
    assert not (orderly and history.disordered()), where
    return history, happened


@pytest.mark.parametrize("orderly", [False, True], ids=lambda one: _KINDS[one])
def test_each_message_is_consumed_once_without_faults(orderly: bool, tmp_path: Path) -> None:
    for seed in seeds(6, 50):
        history, _ = run(seed, tmp_path / str(seed), (), orderly=orderly, seconds=30.0)
        assert not history.repeated(), f"seed {seed}"
        assert not history.failures, f"seed {seed}"


@pytest.mark.parametrize("orderly", [False, True] if LEVEL != "sample" else [False], ids=lambda one: _KINDS[one])
def test_nothing_acknowledged_is_lost(orderly: bool, tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counts = tally("N16", _KINDS[orderly])
    for seed in seeds(6, 100):
        _, happened = run(seed, tmp_path / str(seed), FAULTS, orderly=orderly)
        counts.trial(None, f"seed {seed}", hit=happened > 0)


def test_nothing_acknowledged_is_lost_with_the_power(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counts = tally("N16", "power")
    for seed in seeds(6, 100):
        _, happened = run(seed, tmp_path / str(seed), LOSING_POWER, loses_power=True)
        counts.trial(None, f"seed {seed}", hit=happened > 0)


def test_a_queue_is_read_by_one_consumer_at_a_time(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counts = tally("N16", "locks")
    for seed in seeds(6, 100):
        history, happened = run(seed, tmp_path / str(seed), KEEPING_LOCKS, orderly=True)
        assert not history.overlapping(LOCK_S), f"seed {seed}"
        counts.trial(None, f"seed {seed}", hit=happened > 0)


def test_the_same_seed_is_the_same_run(tmp_path: Path) -> None:
    (seed,) = seeds(1, 1)
    first, second = (run(seed, tmp_path / name, FAULTS, seconds=10.0)[0] for name in ("first", "second"))
    assert first.events == second.events
