"""Topics of JSON bodies, suites, and what a store holds, for the tests of this folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from rocketflow.quality.suites.suite import Suite, suite_of
from rocketflow_store import MessageStore, StoreReader


def fill(store: Path, topic: str, bodies: list[Any], queues: int = 2, **columns: list[Any]) -> None:
    """Append bodies (objects become JSON) to a topic, in turn over its queues."""
    encoded = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in bodies]
    with MessageStore.open(store) as opened:
        opened.create_topic(topic, queues)
        rows = {
            "body": pa.array(encoded, pa.binary()),
            "queueId": pa.array([at % queues for at in range(len(bodies))], pa.int32()),
        }
        opened.append_batch(
            pa.table({**rows, **{name: pa.array(values) for name, values in columns.items()}}), topic=topic
        )


def suite_json(*expectations: tuple[str, dict[str, Any]] | dict[str, Any], schema: str | None = None) -> dict[str, Any]:
    """Return a suite's JSON of (type, kwargs) pairs."""
    made = [one if isinstance(one, dict) else {"type": one[0], "kwargs": one[1]} for one in expectations]
    meta = {"rocketflow": {"bodySchema": schema, "bodyFormat": "json"}} if schema else {}
    return {"name": "tested", "expectations": made, "meta": meta}


def suite(*expectations: tuple[str, dict[str, Any]] | dict[str, Any]) -> Suite:
    return suite_of(suite_json(*expectations), "tested.json")


def write_suite(
    path: Path, *expectations: tuple[str, dict[str, Any]] | dict[str, Any], schema: str | None = None
) -> str:
    path.write_text(json.dumps(suite_json(*expectations, schema=schema)))
    return str(path)


def rows_of(store: Path, topic: str, columns: list[str]) -> list[dict[str, Any]]:
    """Return all rows of a topic, queue by queue; none if it does not exist."""
    found: list[dict[str, Any]] = []
    with StoreReader(store) as reader:
        for queue in reader.queues(topic) if topic in reader.topics() else []:
            for batch in reader.read(topic, queue, *reader.bounds(topic, queue), columns=columns):
                found += batch.to_pylist()
    return found


def origins(store: Path, topic: str) -> list[tuple[str, int, int]]:
    """Return the (topic, queue, offset) that quarantined rows name as their origin, in their order."""
    return [
        (one["ORIGIN_TOPIC"], int(one["ORIGIN_QUEUE_ID"]), int(one["ORIGIN_QUEUE_OFFSET"]))
        for one in (dict(row["properties"]) for row in rows_of(store, topic, ["properties"]))
    ]
