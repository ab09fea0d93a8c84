"""Validation results: one message a batch in a system topic, committed with its rows.

Read them as any topic: `spark.read.format("rocketflow").option("subscribe", "rmq_sys_ROCKETFLOW_QUALITY")`. Tags are
`passed` or `failed`, keys the topics and the suite, the body is JSON: see README.md.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rocketflow.errors import UsageError
from rocketflow_store import SkipFaults, StoreConfig, StoreReader
from rocketflow_store.spi.json_text import parse_json
from rocketflow_store.spi.names import CHECK_RESULTS_TOPIC
from rocketflow_store.spi.records import encode_message

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rocketflow_store.spi.records import EncodedChunk


RESULT_TOPIC: Final = CHECK_RESULTS_TOPIC
RESULT_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class BatchResult:
    """One batch's result from its message; `stored_ms` is its commit time."""

    fields: dict[str, Any]
    stored_ms: int

    @property
    def name(self) -> str:
        """Name of the batch: query and batch id."""
        return f"{self.fields['query']}-{self.fields['batchId']}"


def result_chunk(config: StoreConfig, fields: dict[str, Any], born_ms: int, *, property_crc: bool) -> EncodedChunk:
    """Encode the message of a result: only the store's own code writes to a system topic."""
    topics = sorted({one["topic"] for one in fields["ranges"]})
    keys = " ".join([*topics, fields["suite"]["name"].replace(" ", "_")])
    body = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
    properties = {"KEYS": keys, "TAGS": "passed" if fields["success"] else "failed"}
    return encode_message(config, RESULT_TOPIC, body, properties, born_ms=born_ms, property_crc=property_crc)


def read_results(store: str, topic: str | None = None, most: int | None = None) -> list[BatchResult]:
    """Read the last `most` results in a store, oldest first, of all topics or of one."""
    found = [
        one for one in _results(store) if topic is None or any(part["topic"] == topic for part in one.fields["ranges"])
    ]
    return found if most is None else found[-most:] if most else []


def quarantine_reasons(fields: dict[str, Any]) -> dict[str, int]:
    """Return {reason: rows} of a result: expectations that quarantined rows, and kinds of malformed bodies."""
    found: dict[str, int] = {}
    for one in fields["expectations"]:
        if one["action"] == "warn":
            continue
        if one["unexpected"]:
            found[one["label"]] = one["unexpected"]
        elif one["unexpected"] is None and not one["success"]:
            found[one["label"]] = fields["rows"]
    known = fields.get("malformedBy", {})  # results of earlier releases hold only the sum
    found |= {f"body {why}": rows for why, rows in known.items()}
    unknown = fields["malformed"] - sum(known.values())
    return found | ({"body could not be read": unknown} if unknown else {})


def reasons_text(reasons: Mapping[str, int]) -> str:
    """Return reasons and their counts in one line, the most frequent first."""
    return "; ".join(f"{why}: {rows}" for why, rows in sorted(reasons.items(), key=lambda one: (-one[1], one[0])))


def _results(store: str) -> Iterator[BatchResult]:
    with StoreReader(store, StoreConfig.load()) as reader:
        if RESULT_TOPIC not in reader.topics():
            return
        bounds = reader.bounds(RESULT_TOPIC, 0)
        for batch in reader.read(RESULT_TOPIC, 0, *bounds, columns=["body", "storeTimestamp"], faults=SkipFaults()):
            times = batch["storeTimestamp"].cast(pa.int64()).to_pylist()
            for body, stored_us in zip(batch["body"].to_pylist(), times, strict=True):
                fields = fields_of(body, store)
                if fields.get("version") != RESULT_VERSION:
                    raise UsageError(f"{store}: a result of version {fields.get('version')!r}; use the newer release")
                yield BatchResult(fields, stored_us // 1000)


def fields_of(body: bytes, store: str) -> dict[str, Any]:
    """Parse a stored result; raise UsageError if it is none."""
    try:
        fields = parse_json(body, allow_nan=True)
    except ValueError as error:
        raise UsageError(f"{store}: a message of {RESULT_TOPIC} is not a result of a check: {error}") from error
    if not isinstance(fields, dict):
        raise UsageError(f"{store}: a message of {RESULT_TOPIC} is not a result of a check: no JSON object")
    return fields
