"""What is kept of a message that the other side would not take: where it is, why, its key and headers, how it begins.

Key and headers are cut to what always fits; what was left out is said. The whole message stays where it came from.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketflow.kafka.client.partition_rows import HeaderRows
from rocketflow.kafka.into_store.to_rows import Properties, QueueRule, sink_rows
from rocketflow.kafka.shared import property_names as names
from rocketflow.kafka.shared.record_sizes import batch_size, header_size
from rocketflow_store.records.arrow.gather import int_array, values_array

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from rocketflow.kafka.client.partition_rows import KafkaRows
    from rocketflow.kafka.shared.record_sizes import Header

    Ints = npt.NDArray[np.int64]

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
    some = np.array(sorted(refused), np.intp)
    whole = rows.take(some)
    every = np.arange(len(whole), dtype=np.int64)
    told = Properties()
    told.add(every, names.REFUSED_BECAUSE, _texts([refused[row][:_MAX_WHY] for row in some.tolist()]))
    sizes = pc.binary_length(whole.values).fill_null(0)
    told.add(every, names.VALUE_SIZE, sizes.cast(pa.string()).cast(pa.binary()))
    digests = [hashlib.sha256(value.as_buffer() or b"").hexdigest() for value in whole.values]
    told.add(every, names.VALUE_SHA256, _texts(digests))
    key_sizes = np.asarray(pc.binary_length(whole.keys).fill_null(0))
    _add_counts(told, names.KEY_SIZE, np.where(key_sizes > _MAX_KEY, key_sizes, 0))
    headers, left_out = _first_headers(whole)
    _add_counts(told, names.HEADERS_LEFT_OUT, left_out)
    cut = replace(
        whole,
        keys=pc.binary_slice(whole.keys, 0, _MAX_KEY),
        values=pc.binary_slice(whole.values, 0, MAX_BODY),
        headers=headers,
    )
    return sink_rows(cut, QueueRule(queues=1), told)


def _first_headers(rows: KafkaRows) -> tuple[HeaderRows | None, Ints]:
    """Each row's first headers, as far as there is room for them, and how many are left out."""
    headers = rows.headers
    if headers is None:
        return None, np.zeros(len(rows), np.int64)
    spent = np.cumsum(_costs(headers))
    firsts = np.searchsorted(headers.rows, headers.rows)
    before = np.where(firsts > 0, spent[firsts - 1], 0)
    fits = spent - before <= _MAX_HEADERS
    kept = int_array(np.flatnonzero(fits), pa.int64())
    first = HeaderRows(headers.rows[fits], headers.names.take(kept), headers.values.take(kept))
    return (first if len(kept) else None), np.bincount(headers.rows[~fits], minlength=len(rows))


def _costs(headers: HeaderRows) -> Ints:
    """Most bytes of properties that each header takes."""
    coded = pc.dictionary_encode(headers.names)
    known: list[bytes] = coded.dictionary.to_pylist()
    codes = np.asarray(coded.indices)
    of_names = np.array([2 * len(json.dumps(name.decode("utf-8", "replace"))) for name in known], np.int64)[codes]
    of_values = 4 * np.asarray(pc.binary_length(headers.values).fill_null(0)).astype(np.int64) // 3
    times = np.array([1 + name.startswith(names.ROCKETMQ.encode()) for name in known], np.int64)[codes]
    costs: Ints = times * (of_names + of_values + 24)
    return costs


def _add_counts(told: Properties, name: str, counts: Ints) -> None:
    """Add `counts` as property `name` where they are not 0."""
    some = np.flatnonzero(counts).astype(np.int64)
    told.add(some, name, _texts([str(one) for one in counts[some].tolist()]))


def _texts(values: Sequence[str]) -> pa.Array:
    return values_array([one.encode() for one in values], pa.binary())


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
