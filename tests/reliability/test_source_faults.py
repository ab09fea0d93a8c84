"""Rows P12 and P14: all that can happen to a store while it is read as a stream, and damaged records."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import MessageStore, StoreConfig, StoreReader
from tests.reliability.copying import BATCH_ROWS, Begin, Copying
from tests.support.checker import Verdict, check_copy
from tests.support.driver_process import Driver
from tests.support.planned_query import PlannedQuery
from tests.support.results import Tally
from tests.support.spark_stores import append, numbered, remove_first_log_file
from tests.support.trials import LEVEL, places, seeds
from tests.support.workload import SMALL, number_of

ACTIONS = ("append", "append", "queue", "topic", "step", "step", "step", "restart", "replay", "retention")
BODY_AT = 88
"""Offset of the body in a record with addresses of four bytes."""


def test_random_actions(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    """P12: data, queues, topics, restarts, replays, limits and retention of read messages, in any order."""
    counts = tally("P12")
    for seed in seeds(12, 60):
        rng = random.Random(seed)
        store = tmp_path / str(seed)
        append(store, numbered("t0", range(5), queues=1))
        written, topics, queues = 5, 1, 1
        query = PlannedQuery(store, subscribePattern="t.*", maxOffsetsPerTrigger="40")
        for _ in range(60):
            match rng.choice(ACTIONS):
                case "append":
                    count = rng.randrange(1, 120)
                    topic = f"t{rng.randrange(topics)}"
                    append(store, numbered(topic, range(written, written + count), queues=queues))
                    written += count
                case "queue":
                    queues = min(queues + 1, 6)
                case "topic":
                    topics = min(topics + 1, 4)
                case "step":
                    query.step()
                case "restart":
                    limit = rng.choice(["7", "40", "400"])
                    rows, log, batches = query.rows, query.log, query.batches
                    query = PlannedQuery(store, subscribePattern="t.*", maxOffsetsPerTrigger=limit)
                    query.rows, query.log, query.batches = rows, log, batches
                case "replay":
                    if query.batches:
                        assert query.replay() == query.batches[-1], seed
                case "retention":
                    query.drain()
                    if len(list((store / "commitlog").iterdir())) > 2:
                        remove_first_log_file(store)
                        query.batches.clear()
        query.drain()
        there = Counter(query.numbers())
        verdict = Verdict(
            lost=sorted(set(range(written)) - set(there)),
            phantom=sorted(set(there) - set(range(written))),
            doubled=sorted(number for number, count in there.items() if count > 1),
        )
        counts.trial(verdict, f"seed {seed}")


@pytest.mark.skipif(LEVEL == "sample", reason="half a minute of Spark: RF_FAULTS=1 runs it")
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("begin", "variant"), places(), indirect=["begin"])
def test_a_damaged_record_in_the_range(
    begin: Begin, variant: str, driver: Driver, tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    """P14: the query fails and names the position; if loss is accepted, only that message is skipped."""
    counts = tally("P14", variant)
    for seed in seeds(8, 20, least=2):
        rng = random.Random(seed)
        rows = rng.randint(BATCH_ROWS + 1, 3 * BATCH_ROWS)
        copying = begin(driver, tmp_path / "c")
        copying.put(range(rows))
        target = copying.directory / "target"
        with MessageStore.open(target, StoreConfig(**SMALL)):  # type: ignore[arg-type]
            pass
        queue, offset, number = damage(copying, rng)
        context = f"seed {seed}: queue {queue}, queue offset {offset}, message {number}"
        sink = {"path": str(target)}
        refused = copying.run(2, sink=sink)
        assert not refused.ok, context
        assert f"topic {copying.topic}, queue {queue}, queue offset {offset}" in refused.error, (context, refused.error)
        before = check_copy(target, range(rows), copying.target)
        assert (before.doubled, before.phantom, before.findings) == ([], [], []), (context, before)
        going_on = copying.run(2, source={"failOnDataLoss": "false"}, sink=sink)
        going_on.must_be_ok(context)
        counts.trial(
            check_copy(target, set(range(rows)) - {number}, copying.target), context, hit=number in before.lost
        )
        copying.remove()
    assert counts.hits == counts.trials


def damage(copying: Copying, rng: random.Random) -> tuple[int, int, int]:
    """Change a byte of a record's magic, CRC or body; return the message's (queue, offset, number)."""
    with StoreReader(copying.store) as reader:
        queue = rng.choice(reader.queues(copying.topic))
        low, high = reader.bounds(copying.topic, queue)
        offset = rng.randrange(low, high)
        (batch,) = reader.read(copying.topic, queue, offset, offset + 1, ["body"])
        body = batch.column(0)[0].as_py()
        phy_offset = int(reader.read_units(copying.topic, queue, offset, offset + 1)["phy_offset"][0])
        file = next(one for one in reversed(reader.log_files) if one.file_from_offset <= phy_offset)
    at = phy_offset - file.file_from_offset + rng.choice([rng.randrange(4, 12), BODY_AT + rng.randrange(len(body))])
    with open(file.path, "r+b") as log:
        log.seek(at)
        octet = log.read(1)[0]
        log.seek(at)
        log.write(bytes([octet ^ 1 << rng.randrange(8)]))
    return queue, offset, number_of(body)
