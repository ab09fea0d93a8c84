"""Rows P12 and P14: all that can happen to a store while it is read as a stream, and damaged records."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.client import Message
from rocketflow.spark.source.network.stores import close_reads
from rocketflow_store import MessageStore, StoreConfig, StoreReader
from rocketflow_store.spi.table_rows import TopicConfig
from tests.reliability.copying import BATCH_ROWS, Begin, Copying
from tests.support.checker import Verdict, check_copy
from tests.support.driver_process import Driver
from tests.support.network_stores import brokers
from tests.support.planned_query import PlannedQuery
from tests.support.results import Tally
from tests.support.servers import direct, put_batch
from tests.support.spark_stores import append, numbered, remove_first_log_file
from tests.support.trials import LEVEL, places, seeds
from tests.support.workload import SMALL, number_of

ACTIONS = ("append", "append", "queue", "topic", "step", "step", "step", "restart", "replay", "retention")
BODY_AT = 88
"""Offset of the body in a record with addresses of four bytes."""


class LocalSource:
    """A store that a query reads by path."""

    def __init__(self, home: Path) -> None:
        self.store = home / "x/store"
        self.store.parent.mkdir(parents=True)
        self.path: Path | None = self.store
        self.options: dict[str, str] = {}

    def put(self, topic: str, numbers: range, queues: int) -> None:
        append(self.store, numbered(topic, numbers, queues=queues))

    def look_again(self, query: PlannedQuery) -> None:
        """Let a query see new topics and queues with its next step: it does by path."""

    def remove_oldest(self) -> None:
        """Remove the oldest file of the log, unless it is one of the last two."""
        if len(list((self.store / "commitlog").iterdir())) > 2:
            remove_first_log_file(self.store)

    def close(self) -> None:
        """Stop what runs."""


class ServedSource(LocalSource):
    """A store that a broker serves, and that a query reads over the network."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self._stack = ExitStack()
        self._brokers = self._stack.enter_context(brokers(home))
        self._brokers.start("x", *_SMALL)
        self.path = None
        self.options = {"namesrvAddr": self._brokers.address, "networkTimeout": "60s"}

    def put(self, topic: str, numbers: range, queues: int) -> None:
        bodies = [[b"%d" % number for number in numbers if number % queues == queue] for queue in range(queues)]

        async def send() -> None:
            address = self._brokers.running["x"].address
            async with direct() as client:
                config = TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
                await client.create_topic(address, config)
                for queue, share in enumerate(bodies):
                    if share:
                        await put_batch(client, address, queue, [Message(topic, one) for one in share])

        run(send())

    def look_again(self, query: PlannedQuery) -> None:
        """Ask for routes with the next step: a query does so every few seconds."""
        assert query.options.network is not None
        close_reads(query.options.network)

    def remove_oldest(self) -> None:
        """Remove it while the broker is stopped, as retention does at a start."""
        self._brokers.stop("x")
        super().remove_oldest()
        self._brokers.start("x", *_SMALL)

    def close(self) -> None:
        """Stop the broker and the NameServer."""
        self._stack.close()


_SMALL = ("mappedFileSizeCommitLog=65536", "mappedFileSizeConsumeQueue=2000")


@pytest.mark.parametrize(("place", "variant"), places())
def test_random_actions(place: str, variant: str, tmp_path: Path, tally: Callable[..., Tally]) -> None:
    """P12: data, queues, topics, restarts, replays, limits and retention of read messages, in any order."""
    counts = tally("P12", variant)
    for seed in seeds(12, 60) if place == "path" else seeds(4, 20):
        source = LocalSource(tmp_path / str(seed)) if place == "path" else ServedSource(tmp_path / str(seed))
        try:
            counts.trial(random_actions(source, seed), f"seed {seed}")
        finally:
            source.close()


def random_actions(source: LocalSource, seed: int) -> Verdict:
    """Read a source while actions happen to it; return what the query got wrong in the end."""
    rng = random.Random(seed)
    source.put("t0", range(5), 1)
    written, topics, queues = 5, 1, 1

    def begun(limit: str) -> PlannedQuery:
        return PlannedQuery(source.path, subscribePattern="t.*", maxOffsetsPerTrigger=limit, **source.options)

    query = begun("40")
    for _ in range(60):
        match rng.choice(ACTIONS):
            case "append":
                count = rng.randrange(1, 120)
                source.put(f"t{rng.randrange(topics)}", range(written, written + count), queues)
                written += count
            case "queue":
                queues = min(queues + 1, 6)
            case "topic":
                topics = min(topics + 1, 4)
            case "step":
                query.step()
            case "restart":
                rows, log, batches = query.rows, query.log, query.batches
                query = begun(rng.choice(["7", "40", "400"]))
                query.rows, query.log, query.batches = rows, log, batches
            case "replay":
                if query.batches:
                    assert query.replay() == query.batches[-1], seed
            case "retention":
                source.look_again(query)
                query.drain()
                source.remove_oldest()
                query.batches.clear()
    source.look_again(query)
    query.drain()
    there = Counter(query.numbers())
    return Verdict(
        lost=sorted(set(range(written)) - set(there)),
        phantom=sorted(set(there) - set(range(written))),
        doubled=sorted(number for number, count in there.items() if count > 1),
    )


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
