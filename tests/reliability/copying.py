"""A query that copies topic `in` of a small store to topic `out` of the same store; tests disturb it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.metadata.layout.store_paths import StorePaths
from tests.reliability.driver_process import Driver, Outcome
from tests.reliability.faulty_source import staged_files
from tests.support.checker import Verdict, check_copy
from tests.support.workload import SMALL, body

BATCH_ROWS = 40


class Copying:
    """Store, checkpoint and query of one trial."""

    def __init__(self, driver: Driver, directory: Path) -> None:
        self.driver, self.directory = driver, directory
        self.store, self.checkpoint = directory / "store", directory / "checkpoint"
        self.numbers: set[int] = set()
        directory.mkdir()
        driver.faults.clear()

    def put(self, numbers: Iterable[int]) -> None:
        """Append rows for the query to topic `in`."""
        chosen = list(numbers)
        self.numbers |= set(chosen)
        with MessageStore.open(self.store, StoreConfig(**SMALL)) as store:  # type: ignore[arg-type]
            store.put_messages([Message("in", body(number)) for number in chosen])

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
        return (driver or self.driver).run(
            source={
                "path": str(self.store),
                "subscribe": "in",
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": str(BATCH_ROWS),
                **(source or {}),
            },
            where=where,
            select=list(select),
            partitions=partitions,
            sink={
                "path": str(self.store),
                "topic": "out",
                "queues": "3",
                "checkpointLocation": str(self.checkpoint),
                **(sink or {}),
            },
        )

    def check(self) -> Verdict:
        """Check that every appended row was copied exactly once."""
        return check_copy(self.store, self.numbers)

    def leftovers(self) -> list[str]:
        """Return the staged parts that are left."""
        return staged_files(StorePaths(self.store).staging)

    def remove(self) -> None:
        """Delete the trial's directory."""
        shutil.rmtree(self.directory)
