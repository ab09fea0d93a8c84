"""Rows P01 to P04 of the reliability tests at a broker of Apache RocketMQ: nothing is lost, doubles are counted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from rocketflow.aio.loop import run
from rocketflow_store import StoreConfig
from rocketflow_store.spi.messages import Message
from rocketflow_store.spi.table_rows import TopicConfig
from tests.support.client_cluster import messages_of
from tests.support.driver_process import Driver, Outcome
from tests.support.real_broker import RealBroker
from tests.support.results import measured
from tests.support.servers import direct, put_batch, wait_for_a_broker
from tests.support.trials import LEVEL, seeds
from tests.support.workload import body, number_of

pytestmark = [
    pytest.mark.apache,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(LEVEL == "sample", reason="boots Apache's broker beside Spark: RF_FULL=1 runs it"),
]

VERSION: Final = "5.3.3"
SIZES: Final = StoreConfig(mapped_file_size_commit_log=64 << 20, max_hash_slot_num=1000, max_index_num=40_000)
BATCH_ROWS: Final = 4_000
ROWS: Final = 2 * BATCH_ROWS
"""Two batches, each of several waves of sends."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealBroker]:
    """Run a broker of Apache's whose topic `in` has the rows that queries copy."""
    home = tmp_path_factory.mktemp("apache")
    with RealBroker(VERSION, home / "store", SIZES, home / "work") as found:
        wait_for_a_broker(names_of(found))
        run(_filled(address_of(found)))
        yield found


def names_of(broker: RealBroker) -> str:
    return f"127.0.0.1:{broker.names_port}"


def address_of(broker: RealBroker) -> str:
    return f"127.0.0.1:{broker.port}"


async def _filled(address: str) -> None:
    async with direct() as client:
        await client.create_topic(address, TopicConfig(topic_name="in", read_queue_nums=4, write_queue_nums=4))
        for first in range(0, ROWS, 500):
            rows = [Message("in", body(number)) for number in range(first, first + 500)]
            await put_batch(client, address, first // 500 % 4, rows)


class Copy:
    """A query that copies topic `in` to a topic of its own."""

    def __init__(self, broker: RealBroker, home: Path, topic: str) -> None:
        self._broker, self._topic, self.checkpoint = broker, topic, home / f"checkpoint-{topic}"

    def run(self, driver: Driver, partitions: int) -> Outcome:
        """Run the query until it has copied all rows."""
        place = {"namesrvAddr": names_of(self._broker)}
        limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(BATCH_ROWS)}
        return driver.run(
            source={**place, "subscribe": "in", **limits},
            where="true",
            select=["body"],
            partitions=partitions,
            sink={**place, "topic": self._topic, "queues": "4", "checkpointLocation": str(self.checkpoint)},
        )

    def forget_last_commit(self) -> None:
        """Restore the checkpoint of a driver that was killed before it wrote that its last batch is done."""
        newest = max(int(one.name) for one in (self.checkpoint / "commits").iterdir() if one.name.isdigit())
        for name in (str(newest), f".{newest}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)

    def doubled(self) -> int:
        """Assert that every row was copied; return how many copies are more than one."""
        counts = run(self._copied())
        assert set(counts) == set(range(ROWS)), (len(counts), self._topic)
        return counts.total() - ROWS

    async def _copied(self) -> Counter[int]:
        async with direct(names_of(self._broker)) as admin:
            found: Counter[int] = Counter()
            for queue, bounds in (await admin.topic_status(self._topic)).items():
                found.update(number_of(one.body) for one in await messages_of(admin, queue, bounds.max_offset))
            return found


def report(row: str, doubled: list[int], **more: Any) -> None:
    """Report the doubled rows of each trial."""
    print(f"\n{row} at Apache's {VERSION}: doubled rows of {ROWS} in each trial: {doubled} {more or ''}")
    measured(f"{row} at Apache's", doubled=doubled)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with Driver(tmp_path_factory.mktemp("driver") / "d") as made:
        yield made


def test_a_batch_that_spark_forgot(broker: RealBroker, driver: Driver, tmp_path: Path) -> None:
    """P01 a: the batch is planned again with the same partitions, or with others."""
    same, others = [], []
    for seed in seeds(2, 10):
        rng = random.Random(seed)
        copy, partitions = Copy(broker, tmp_path, f"forgot{seed}"), rng.randint(1, 3)
        driver.faults.clear()
        copy.run(driver, partitions).must_be_ok(seed)
        copy.forget_last_commit()
        copy.run(driver, partitions).must_be_ok(seed)
        same.append(copy.doubled())
        copy.forget_last_commit()
        copy.run(driver, partitions + 1).must_be_ok(seed)
        others.append(copy.doubled())
    report("P01 a, same partitions", same)
    report("P01 a, other partitions", others)
    assert not any(same)


@pytest.mark.parametrize("point", ["sent-before", "sent-after"])
def test_a_commit_that_is_killed(broker: RealBroker, driver: Driver, tmp_path: Path, point: str) -> None:
    """P02: the commit, which does nothing at Apache's broker, is killed; all rows of its batch are sent."""
    found = []
    for seed in seeds(2, 5):
        rng = random.Random(seed)
        copy, partitions = Copy(broker, tmp_path, f"{point}{seed}"), rng.randint(1, 3)
        driver.faults.clear()
        driver.faults.plan(point, rng.randrange(2))
        assert not copy.run(driver, partitions).ok
        copy.run(driver, partitions).must_be_ok(seed)
        found.append(copy.doubled())
    report(f"P02 {point}", found)
    assert not any(found)


def test_a_driver_killed_after_its_rows_were_sent(broker: RealBroker, driver: Driver, tmp_path: Path) -> None:
    """P01 b: the commit kills the JVM; another driver goes on."""
    found = []
    for seed in seeds(1, 5):
        rng = random.Random(seed)
        copy, partitions = Copy(broker, tmp_path, f"killed{seed}"), rng.randint(1, 3)
        driver.faults.clear()
        with Driver(tmp_path / f"d{seed}") as killed:
            killed.faults.plan("sent-after", rng.randrange(2), jvm=True)
            assert copy.run(killed, partitions).died
        copy.run(driver, partitions).must_be_ok(seed)
        found.append(copy.doubled())
    report("P01 b", found)
    assert not any(found)


@pytest.mark.parametrize("jvm", [False, True])
def test_a_task_killed_after_some_of_its_rows_were_sent(
    broker: RealBroker, driver: Driver, tmp_path: Path, jvm: bool
) -> None:
    """P03: a Python worker is killed in the middle of a task; P04: with it the JVM of its executor."""
    found, row = [], "P04" if jvm else "P03"
    with Driver(tmp_path / "d", "local-cluster[2,1,700]" if jvm else "local[2,4]") as used:
        for seed in seeds(2, 8):
            rng = random.Random(seed)
            copy, batch_id = Copy(broker, tmp_path, f"{row}-{seed}"), rng.randrange(2)
            used.faults.clear()
            used.faults.plan("task", batch_id, row=rng.randint(1100, BATCH_ROWS // 2 - 1), jvm=jvm)
            copy.run(used, rng.randint(1, 2)).must_be_ok(seed)
            assert used.faults.happened("task", batch_id)
            found.append(copy.doubled())
    report(row, found)
    assert not any(found)
