"""What is kept of a message that the other side would not take: where it is, why, its key and headers, how it begins.

Key and headers are cut to what always fits; what was left out is said. The whole message stays where it came from.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from rocketflow.kafka import property_names as names
from rocketflow.kafka.record_sizes import batch_size, header_size
from rocketflow.kafka.rows import HeaderRows, KafkaRows
from rocketflow.kafka.to_store import QueueRule, sink_rows
from rocketflow_store.columnar.gather import values_array

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocketflow.kafka.record_sizes import Header

MAX_BODY: Final = 64 << 10
_MAX_KEY: Final = 4 << 10
_MAX_HEADERS: Final = 12 << 10
"""As JSON with base64 values, and some twice: together with a key less than the 32 KiB that properties may have."""
_MAX_WHY: Final = 1000
_ROOM: Final = 64
"""More than the numbers that tell of lengths change by when a body is cut."""


# -- into the store


def refused_rows(rows: KafkaRows, refused: Mapping[int, str]) -> pa.RecordBatch:
    """Sink rows (queue 0) for the rows that are refused, and why: the mapping of every message, and `KAFKA_REFUSED`."""
    kept = [_refused_row(rows.take(np.array([row])), refused[row]) for row in sorted(refused)]
    together = pa.concat_tables(map(pa.Table.from_batches, ([one] for one in kept)), promote_options="default")
    return together.combine_chunks().to_batches()[0]


def _refused_row(one: KafkaRows, why: str) -> pa.RecordBatch:
    key, value, headers = one.keys[0].as_py(), one.values[0].as_py(), _headers_of(one)
    kept, room = [], _MAX_HEADERS
    for name, item in headers:
        room -= _cost(name, item)
        if room < 0:
            break
        kept.append((name, item))
    cut = KafkaRows(
        one.topic,
        one.partition,
        one.offsets,
        one.timestamps,
        one.log_append,
        values_array([None if key is None else key[:_MAX_KEY]], pa.binary()),
        values_array([None if value is None else value[:MAX_BODY]], pa.binary()),
        _header_rows(kept),
    )
    batch = sink_rows(cut, QueueRule())
    value = value or b""
    told = {
        names.REFUSED_BECAUSE: why[:_MAX_WHY],
        names.VALUE_SIZE: str(len(value)),
        names.VALUE_SHA256: hashlib.sha256(value).hexdigest(),
    }
    if key is not None and len(key) > _MAX_KEY:
        told[names.KEY_SIZE] = str(len(key))
    if len(kept) < len(headers):
        told[names.HEADERS_LEFT_OUT] = str(len(headers) - len(kept))
    properties = [[*batch.column("properties")[0].as_py(), *told.items()]]
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns["properties"] = pa.array(properties, pa.map_(pa.string(), pa.string()))
    columns["queueId"] = pa.array([0], pa.int32())
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _headers_of(one: KafkaRows) -> list[tuple[bytes, bytes | None]]:
    if one.headers is None:
        return []
    return list(zip(one.headers.names.to_pylist(), one.headers.values.to_pylist(), strict=True))


def _header_rows(headers: Sequence[tuple[bytes, bytes | None]]) -> HeaderRows | None:
    if not headers:
        return None
    columns = (values_array([one[at] for one in headers], pa.binary()) for at in (0, 1))
    return HeaderRows(np.zeros(len(headers), np.int64), *columns)


def _cost(name: bytes, value: bytes | None) -> int:
    """Most bytes of properties that a header takes."""
    size = 2 * len(json.dumps(name.decode("utf-8", "replace"))) + 4 * len(value or b"") // 3 + 24
    return 2 * size if name.startswith(names.ROCKETMQ.encode()) else size


# -- into Kafka


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """What is sent in place of a message of the store."""

    key: bytes | None
    value: bytes
    headers: list[Header]


def refused_record(
    where: str,
    why: str,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header],
    stamp: int | None,
    most: int,
) -> RefusedRecord:
    """The record for a message at `where` (topic:queue:offset): its key and headers as far as `most` bytes allow.

    `most` is what a record batch may have; headers `refused.*` tell what became of the message.
    """
    whole = value or b""
    told: list[Header] = [
        (names.ORIGIN_HEADER, where.encode()),
        ("refused", why[:_MAX_WHY].encode()),
        ("refused.value-size", str(len(whole)).encode()),
        ("refused.value-sha256", hashlib.sha256(whole).hexdigest().encode()),
    ]
    if stamp is not None:
        told.append(("refused.timestamp", str(stamp).encode()))
    kept_key = None if key is None else key[: min(_MAX_KEY, most // 4)]
    if key is not None and kept_key != key:
        told.append(("refused.key-size", str(len(key)).encode()))
    left_out: Header = ("refused.headers-left-out", str(len(headers)).encode())
    room = min(most - batch_size(kept_key, b"", [*told, left_out]) - _ROOM, _MAX_HEADERS)
    kept: list[Header] = []
    for one in headers:
        room -= header_size(*one)
        if room < 0:
            told.append((left_out[0], str(len(headers) - len(kept)).encode()))
            break
        kept.append(one)
    room = most - batch_size(kept_key, b"", [*told, *kept]) - _ROOM
    return RefusedRecord(kept_key, whole[: max(min(room, MAX_BODY), 0)], [*told, *kept])
