"""Steps and checks that the demos share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rocketflow.errors import RocketFlowError

StreamJob = Callable[[Sequence[str]], dict[str, Any]]
"""Runs jobs/stream.py with arguments and returns its last JSON line."""

FLIGHTS_TOPIC: Final = "flights"
DELAYS_TOPIC: Final = "flight-delays"
DELAYS_SQL: Final = """
SELECT to_json(named_struct('origin', f.origin, 'carrier', f.carrier, 'dest', f.dest,
                            'tailnum', f.tailnum, 'delay', f.dep_delay)) AS body,
       tags, concat(f.origin, '-', f.carrier) AS keys, f.origin AS shardingKey, bornTimestamp
FROM (SELECT from_json(cast(body AS string),
                       'origin string, carrier string, dest string, tailnum string, dep_delay int') AS f,
             tags, bornTimestamp FROM messages)
WHERE f.dep_delay > 0
"""


class DemoFailedError(RocketFlowError):
    """A result of the demo differs from the expected one."""


@dataclass(slots=True)
class DemoReport:
    """The steps and results of a demo run."""

    store: str
    delays_store: str = ""
    """The store of the delay events, if it is another one."""
    steps: list[tuple[str, str]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def add(self, step: str, what: str, **facts: Any) -> None:
        self.steps.append((step, what))
        self.facts |= facts
        print(f"{step:<28} {what}", flush=True)


def delays_of(path: Path) -> tuple[int, int]:
    """Return (events, minutes) of the topic flight-delays, read from the store."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from rocketflow_store import StoreReader

    events, minutes = 0, 0
    with StoreReader(path) as reader:
        for queue in reader.queues(DELAYS_TOPIC):
            for batch in reader.read(DELAYS_TOPIC, queue, *reader.bounds(DELAYS_TOPIC, queue), columns=["body"]):
                found = pc.extract_regex(batch["body"].cast(pa.string()), r'"delay":(?P<delay>-?\d+)')
                events += batch.num_rows
                minutes += pc.sum(pc.struct_field(found, 0).cast(pa.int64())).as_py() or 0
    return events, minutes


def expect(what: str, found: int, wanted: int) -> None:
    if found != wanted:
        raise DemoFailedError(f"{what}: {found}, expected {wanted}")


def verify(path: Path, report: DemoReport) -> None:
    from rocketflow_store.spi.maintenance import verify_store

    result = verify_store(path)
    if result.findings:
        raise DemoFailedError(f"store verify has {len(result.findings)} findings, first: {result.findings[0]}")
    report.add(
        "store verify",
        f"clean: {result.records:,} records, {result.bytes / 1e6 / result.seconds:,.0f} MB/s",
        verified=True,
    )
