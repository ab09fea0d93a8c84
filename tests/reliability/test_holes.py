"""Row S07: valid records after a hole; records that were cut never come back, however often the store crashes (B5)."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import MessageStore
from tests.reliability.power import Run, config
from tests.support.checker import check, numbers_in_topic
from tests.support.disk_layer import Call
from tests.support.independent_reader import Record, log_records
from tests.support.results import Tally
from tests.support.simulated_disk import SimulatedDisk, State
from tests.support.trials import seeds
from tests.support.workload import number_of

pytestmark = pytest.mark.slow


def store_with_a_hole(directory: Path, seed: int, rng: random.Random) -> tuple[Path, str, list[Record], int]:
    """Return (image, flush mode, its records, index of the hole): unsynced records of one size, one of them lost."""
    flush = ("sync", "async")[seed % 2]
    (directory / "live").mkdir(parents=True)
    with SimulatedDisk(directory / "live") as disk:

        def unsynced(call: Call) -> bool:
            return call.kind == "fdatasync" and "/commitlog/" in str(call.path)

        run = Run(disk, flush, rng, unsynced, equal=True)
        run.go(60)
    for instant in reversed(run.instants):
        image = directory / "image"
        instant.state.kill(image)
        records = list(log_records(image))
        lost = [number for number, one in enumerate(records) if not on_disk(instant.state, one)]
        if len(lost) > 2:
            hole = rng.choice(lost[:-1])
            dig(image, records[hole], rng)
            return image, flush, records, hole
        shutil.rmtree(image)
    raise AssertionError(f"seed {seed}: never more than two unsynced records")


def on_disk(state: State, record: Record) -> bool:
    size = 1 << 14
    start = record.phy_offset - record.phy_offset % size
    at = record.phy_offset - start
    return state.is_durable(f"commitlog/{start:020d}", at, at + record.size)


def dig(image: Path, record: Record, rng: random.Random) -> None:
    """Remove the record, or only its first bytes, as if they never reached the disk; later records stay."""
    size = 1 << 14
    start = record.phy_offset - record.phy_offset % size
    with (image / "commitlog" / f"{start:020d}").open("r+b") as file:
        file.seek(record.phy_offset - start)
        file.write(bytes(rng.choice((record.size, 8, 4, rng.randrange(4, record.size)))))


def test_cut_records_never_come_back(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counts = tally("S07")
    for seed in seeds(30, 300):
        rng = random.Random(seed)
        image, flush, records, hole = store_with_a_hole(tmp_path / "trial", seed, rng)
        context = f"seed {seed}, {flush}, record {hole} of {len(records)}"
        kept = {number_of(one.body): (one.queue_id, one.queue_offset) for one in records[:hole] if one.topic == "t"}
        attempted = set(kept)
        for crash in range(3):
            with SimulatedDisk(image) as disk:
                run = Run(disk, flush, rng, lambda _: False, equal=True, attempted=1000 * (crash + 1))
                with MessageStore.open(image, config(flush)) as run.store:
                    run.put_some(1)
                    state = disk.freeze()
            kept |= {ack.number: ack.place for ack in run.acks}
            attempted |= set(kept)
            image = tmp_path / "trial" / f"again{crash}"
            if flush == "async" or rng.random() < 0.5:
                state.kill(image)
            else:
                state.crash(image, seed, rng.choice((0.1, 0.5, 0.9)))
        MessageStore.open(image, config(flush)).close()
        assert set(numbers_in_topic(image, "t").values()) == set(kept), context
        counts.trial(check(image, kept, attempted), context)
        shutil.rmtree(tmp_path / "trial")
