"""The window of ASYNC_FLUSH (1.A): the messages that a power loss loses with the default flush settings."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import MessageStore, StoreConfig
from tests.reliability.power import Instant, Run, after_power_loss
from tests.support.results import Tally, measured
from tests.support.simulated_disk import SimulatedDisk
from tests.support.trials import seeds

pytestmark = pytest.mark.slow

LOSSES = 10
"""Power losses in one run, a fifth of a second apart on average."""
APART_S = 0.2
DEFAULT_FLUSHES = {
    **{
        name: getattr(StoreConfig(), name)
        for name in ("flush_interval_commit_log", "flush_commit_log_least_pages", "flush_interval_consume_queue")
    },
    "mapped_file_size_commit_log": 1 << 20,  # the simulated disk keeps every file in memory, several times
    "mapped_file_size_consume_queue": 60_000,
    "max_hash_slot_num": 5_000,
    "max_index_num": 20_000,
}


def losses_of(directory: Path, seed: int) -> tuple[Run, list[tuple[Instant, float]]]:
    """Put as fast as possible; return the run, and the disk at random times, with no flushes but the store's own."""
    directory.mkdir(parents=True)
    rng, found, done = random.Random(seed), [], threading.Event()
    with SimulatedDisk(directory) as disk:
        run = Run(disk, "async", random.Random(seed), lambda _: False, DEFAULT_FLUSHES)

        def look() -> None:
            try:
                for _ in range(LOSSES):
                    time.sleep(rng.uniform(0, 2 * APART_S))  # the random instant is the fault here
                    with disk.held():
                        found.append((run.now(), time.monotonic()))
            finally:
                done.set()

        def put(_: MessageStore) -> None:
            looking = threading.Thread(target=look)
            looking.start()
            while not done.is_set():
                run.put_some(1)
            looking.join()

        run.before_close = put
        run.go(0)
    assert len(found) == LOSSES
    return run, found


def test_power_loss_loses_the_messages_since_the_last_flush(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    """Lose all that was written since the last sync (p = 0), the most that a power loss can lose."""
    counts = tally("S06", "async, its own flushes")
    times: list[float] = []
    messages: list[int] = []
    for seed in seeds(3, 30):
        run, found = losses_of(tmp_path / "live", seed)
        for number, (instant, now) in enumerate(found):
            context = f"seed {seed}, power loss {number}"
            instant.state.crash(tmp_path / "image", seed, 0.0)
            missing, _ = after_power_loss(tmp_path / "image", instant, run, context, keys=False)
            lost = {*missing}
            oldest = min((ack.at for ack in instant.acks if ack.number in lost), default=now)
            times.append(round(1000 * (now - oldest), 1))
            messages.append(len(missing))
            counts.trial(None, context, hit=bool(missing))
            shutil.rmtree(tmp_path / "image")
        shutil.rmtree(tmp_path / "live")
    assert any(messages), "the store flushed before every power loss"
    measured("asyncWindow", ms=times, messages=messages)
    print(f"ASYNC window: at most {max(times):.0f} ms, {max(messages)} messages in {len(times)} power losses")
