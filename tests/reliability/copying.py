"""A query that copies a topic of a small store to another topic of the same store; tests disturb it.

It reaches the store by path, or over the network alone through the broker that serves it.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rocketflow.aio.loop import run
from rocketflow.spark.shared.checkpoint import query_id
from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.metadata.layout.store_paths import StorePaths
from rocketflow_store.spi.messages import Message as Sent
from rocketflow_store.spi.table_rows import TopicConfig
from tests.reliability.faulty_source import staged_files
from tests.support.checker import Verdict, check_copy
from tests.support.driver_process import Driver, Outcome
from tests.support.network_stores import Brokers
from tests.support.servers import direct, put_batch
from tests.support.workload import SMALL, body

BATCH_ROWS = 40
QUEUES: Final = 4
_numbers = itertools.count()


class Copying:
    """Store, checkpoint and query of one trial."""

    topic, target = "in", "out"

    def __init__(self, driver: Driver, directory: Path) -> None:
        self.driver, self.directory = driver, directory
        self.store, self.checkpoint = directory / "store", directory / "checkpoint"
        self.numbers: set[int] = set()
        directory.mkdir()
        driver.faults.clear()

    def put(self, numbers: Iterable[int]) -> None:
        """Append rows for the query to its topic."""
        chosen = list(numbers)
        self.numbers |= set(chosen)
        self._append([body(number) for number in chosen])

    def _append(self, bodies: list[bytes]) -> None:
        with MessageStore.open(self.store, StoreConfig(**SMALL)) as store:  # type: ignore[arg-type]
            store.put_messages([Message(self.topic, one) for one in bodies])

    def place(self) -> dict[str, str]:
        """Return the options that name the store."""
        return {"path": str(self.store)}

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Close the store for the block, which may change it."""
        yield

    def run(
        self,
        partitions: int,
        *,
        driver: Driver | None = None,
        where: str = "true",
        select: Iterable[str] = ("body",),
        source: dict[str, Any] | None = None,
        sink: dict[str, Any] | None = None,
    ) -> Outcome:
        """Run the query until it has copied all rows; with an existing checkpoint this is a restart."""
        used = driver or self.driver
        used.faults.name_store(self.store)
        return used.run(
            source={
                **self.place(),
                "subscribe": self.topic,
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": str(BATCH_ROWS),
                **(source or {}),
            },
            where=where,
            select=list(select),
            partitions=partitions,
            sink={
                **({} if "path" in (sink or {}) else self.place()),
                "topic": self.target,
                "queues": "3",
                "checkpointLocation": str(self.checkpoint),
                **(sink or {}),
            },
        )

    def check(self) -> Verdict:
        """Check that every appended row was copied exactly once."""
        return check_copy(self.store, self.numbers, self.target)

    def leftovers(self) -> list[str]:
        """Return the query's staged parts that are left."""
        return staged_files(StorePaths(self.store).staging, query_id(str(self.checkpoint)) or "")

    def remove(self) -> None:
        """Delete the trial's directory."""
        shutil.rmtree(self.directory)


class ServedCopying(Copying):
    """The same over the network; the broker and its store are shared by trials, each with topics of its own."""

    def __init__(self, driver: Driver, directory: Path, served: Brokers) -> None:
        super().__init__(driver, directory)
        number = next(_numbers)
        self.topic, self.target = f"in{number}", f"out{number}"
        self._served, self.store = served, served.store(BROKER)
        config = TopicConfig(topic_name=self.topic, read_queue_nums=QUEUES, write_queue_nums=QUEUES)

        async def create() -> None:
            async with direct() as client:
                await client.create_topic(self._address, config)

        run(create())

    @property
    def _address(self) -> str:
        return self._served.running[BROKER].address

    def _append(self, bodies: list[bytes]) -> None:
        rows = [Sent(self.topic, one) for one in bodies]

        async def send() -> None:
            async with direct() as client:
                for queue_id in range(min(QUEUES, len(rows))):
                    await put_batch(client, self._address, queue_id, rows[queue_id::QUEUES])

        run(send())

    def place(self) -> dict[str, str]:
        """Return the options that name the broker's NameServer."""
        return {"namesrvAddr": self._served.address}

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Stop the broker for the block."""
        self._served.stop(BROKER)
        yield
        self._served.start(BROKER)


BROKER: Final = "a"
"""The name of the broker of trials over the network."""

Begin = Callable[..., Copying]
"""(driver, directory) -> the query of a new trial."""
