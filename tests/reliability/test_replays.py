"""Rows P13 and P17: a log that was cut below the checkpoint, and a replay with other rows."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import MessageStore, StoreConfig, StoreReader
from tests.reliability.copying import BATCH_ROWS, Begin, Copying
from tests.support.checker import check_copy, numbers_in_topic
from tests.support.driver_process import Driver
from tests.support.results import Tally
from tests.support.trials import LEVEL, places, seeds
from tests.support.workload import SMALL

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FIRST, CUT = 300, 100


def ends(copying: Copying) -> dict[int, int]:
    with StoreReader(copying.store) as reader:
        return {queue: reader.max_offset(copying.topic, queue) for queue in reader.queues(copying.topic)}


@pytest.mark.skipif(LEVEL == "sample", reason="test_stream_read.py cuts a log too: RF_FAULTS=1 runs it")
@pytest.mark.parametrize(("begin", "variant"), places(), indirect=["begin"])
def test_log_that_was_cut_below_the_checkpoint(
    begin: Begin, variant: str, driver: Driver, tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    """P13: the last 100 messages are lost and others put: an error that names the position, or the query goes on."""
    counts = tally("P13", variant)
    for seed in seeds(5, 5):
        rng = random.Random(seed)
        others = rng.choice([0, 50, 200])
        context = f"seed {seed}, {others} others"
        copying = begin(driver, tmp_path / "c")
        copying.put(range(FIRST - CUT))
        kept, target = copying.directory / "kept", copying.directory / "target"
        shutil.copytree(copying.store, kept)
        copying.put(range(FIRST - CUT, FIRST))
        with MessageStore.open(target, StoreConfig(**SMALL)):  # type: ignore[arg-type]
            pass
        source, sink = {"maxOffsetsPerTrigger": "170"}, {"path": str(target)}
        first = copying.run(2, source=source, sink=sink)
        first.must_be_ok(context)
        read_to = ends(copying)
        with copying.closed():
            shutil.rmtree(copying.store)
            kept.rename(copying.store)
        copying.put(range(1000, 1000 + others))
        refused = copying.run(2, source=source, sink=sink)
        assert not refused.ok, context
        for part in ("data loss: ", f"topic {copying.topic} queue", "next offset was", "the queue now holds [0, "):
            assert part in refused.error, (context, refused.error)
        counts.trial(check_copy(target, range(FIRST), copying.target), context)
        copying.put(range(2000, 2000 + BATCH_ROWS))
        going_on = copying.run(2, source={**source, "failOnDataLoss": "false"}, sink=sink)
        going_on.must_be_ok(context)
        # A queue goes on at the offset it was read to; a shorter one, at its end.
        grown = ends(copying)
        resumed = {queue: min(offset, grown[queue]) for queue, offset in read_to.items()}
        there = numbers_in_topic(copying.store, copying.topic)
        wanted = {number for (queue, offset), number in there.items() if offset >= resumed[queue]}
        verdict = check_copy(target, {*range(FIRST), *wanted}, copying.target)
        assert verdict.clean, (context, verdict)
        copying.remove()


def forget_newest_commit(checkpoint: Path) -> None:
    newest = max(int(one.name) for one in (checkpoint / "commits").iterdir() if one.name.isdigit())
    for name in (str(newest), f".{newest}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)


@pytest.mark.skipif(LEVEL == "sample", reason="test_sink.py replays a batch with other rows: RF_FAULTS=1 runs it")
@pytest.mark.parametrize(("begin", "variant"), places(), indirect=["begin"])
def test_replay_with_other_rows(
    begin: Begin, variant: str, driver: Driver, tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    """P17: refused with both digests; `replayMismatch=skip` goes on if at least the number of rows is the same."""
    counts = tally("P17", variant)
    for seed in seeds(3, 3):
        rng = random.Random(seed)
        random_tags = ("body", "cast(rand() AS string) AS tags")
        copying = begin(driver, tmp_path / "c")
        copying.put(range(rng.randint(5, 2 * BATCH_ROWS)))
        first = copying.run(2, select=random_tags)
        first.must_be_ok(seed)
        forget_newest_commit(copying.checkpoint)
        refused = copying.run(3, select=random_tags)
        assert not refused.ok, seed
        assert refused.error.count("(digest ") == 2, (seed, refused.error)
        counts.trial(copying.check(), f"seed {seed}", hit="came again with" in refused.error)
        skipped = copying.run(2, select=random_tags, sink={"replayMismatch": "skip"})
        skipped.must_be_ok(seed)
        verdict = copying.check()
        assert verdict.clean, (seed, verdict)

        forget_newest_commit(copying.checkpoint)
        fewer = copying.run(2, where=f"rand({seed}) < 0.5", sink={"replayMismatch": "skip"})
        assert not fewer.ok, seed
        assert "came again with" in fewer.error, (seed, fewer.error)
        verdict = copying.check()
        assert verdict.clean, (seed, verdict)
        if not variant:  # a broker keeps the parts of a refused batch until the next one
            assert copying.leftovers() == [], seed
        copying.remove()
    assert counts.hits == counts.trials
