"""A streaming query without Spark: the driver's planner and its tasks run in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rocketflow.spark.source.columns import Projection, source_schema
from rocketflow.spark.source.row_reader import RowReader
from rocketflow.spark.source.source_options import SourceOptions
from rocketflow.spark.source.stores import open_stores
from rocketflow.spark.source.stream_offset import StreamOffset
from rocketflow.spark.source.stream_planner import StreamPlanner
from rocketflow_store.model.clock import ManualClock

Row = tuple[str, int, int, bytes]


class PlannedQuery:
    """Drives a source as Spark does, with an offset log of JSON texts."""

    def __init__(self, path: Path | str | None, clock: ManualClock | None = None, **options: str) -> None:
        """Read the store at `path`; None for the brokers that the option namesrvAddr names."""
        place = {} if path is None else {"path": str(path)}
        self.options = SourceOptions.parse({**place, "startingOffsets": "earliest", **options}, streaming=True)
        self.clock = clock
        self.log: list[str] = []
        self.rows: list[Row] = []
        self.batches: list[list[Row]] = []
        self.restart()

    def restart(self) -> None:
        self.planner = StreamPlanner(self.options, clock=self.clock, long_poll_s=0.0)

    def replay(self) -> list[Row]:
        """Read the newest batch again, as a restarted query does."""
        self.restart()
        start, end = json.loads(self.log[-2]), json.loads(self.log[-1])
        return self.read(start, end)

    def step(self, *, limited: bool = True) -> bool:
        """Plan and read one batch; return False if there is none."""
        if not self.log:
            self.log.append(json.dumps(self.planner.initial().to_json()))
        start = json.loads(self.log[-1])
        end = self.planner.latest(StreamOffset.from_json(start), limited=limited)
        if end is None:
            return False
        assert json.dumps(end.to_json()) != self.log[-1]
        self.log.append(json.dumps(end.to_json()))
        self.batches.append(self.read(start, json.loads(self.log[-1])))
        self.rows += self.batches[-1]
        return True

    def drain(self) -> None:
        while self.step():
            pass

    def read(self, start: dict[str, Any], end: dict[str, Any]) -> list[Row]:
        reader = RowReader.of(self.options, open_stores(self.options), Projection.of(source_schema(False)))
        rows: list[Row] = []
        for task in self.planner.tasks(StreamOffset.from_json(start), StreamOffset.from_json(end)):
            for batch in reader.read(task):
                assert batch.schema == reader.projection.arrow_schema
                table = batch.select(["topic", "queueId", "queueOffset", "body"]).to_pydict()
                rows += zip(*table.values(), strict=True)
        return rows

    def numbers(self) -> list[int]:
        return sorted(int(row[3]) for row in self.rows)
