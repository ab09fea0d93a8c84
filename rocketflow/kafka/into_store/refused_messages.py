"""The quarantine rows of messages that the store refused: origin, reason, key, headers, begin of the value.

Key, headers and value are cut to limits that always fit, and properties name what was omitted. The complete message
stays in Kafka.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketflow.kafka.client.partition_rows import HeaderRows
from rocketflow.kafka.into_store.to_rows import Properties, QueueRule, sink_rows
from rocketflow.kafka.shared import property_names as names
from rocketflow.kafka.shared.refusal_limits import MAX_BODY, MAX_HEADERS, MAX_KEY, MAX_WHY
from rocketflow_store.spi.arrow import int_array, values_array

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from rocketflow.kafka.client.partition_rows import KafkaRows

    Ints = npt.NDArray[np.int64]


def refused_rows(rows: KafkaRows, refused: Mapping[int, str]) -> pa.RecordBatch:
    """Return the quarantine rows (queue 0) of the refused rows, a mapping of row to reason.

    They are mapped like every message, with the properties `KAFKA_REFUSED`, `KAFKA_VALUE_SIZE` and so on in addition.
    """
    some = np.array(sorted(refused), np.intp)
    uncut = rows.take(some)
    every = np.arange(len(uncut), dtype=np.int64)
    extra = Properties()
    extra.add(every, names.REFUSED_BECAUSE, _texts([refused[row][:MAX_WHY] for row in some.tolist()]))
    sizes = pc.binary_length(uncut.values).fill_null(0)
    extra.add(every, names.VALUE_SIZE, sizes.cast(pa.string()).cast(pa.binary()))
    digests = [hashlib.sha256(value.as_buffer() or b"").hexdigest() for value in uncut.values]
    extra.add(every, names.VALUE_SHA256, _texts(digests))
    key_sizes = np.asarray(pc.binary_length(uncut.keys).fill_null(0))
    _add_counts(extra, names.KEY_SIZE, np.where(key_sizes > MAX_KEY, key_sizes, 0))
    headers, omitted = _first_headers(uncut)
    _add_counts(extra, names.HEADERS_LEFT_OUT, omitted)
    cut = replace(
        uncut,
        keys=pc.binary_slice(uncut.keys, 0, MAX_KEY),
        values=pc.binary_slice(uncut.values, 0, MAX_BODY),
        headers=headers,
    )
    return sink_rows(cut, QueueRule(queues=1), extra)


def _first_headers(rows: KafkaRows) -> tuple[HeaderRows | None, Ints]:
    """Return the first headers of each row that fit into `MAX_HEADERS` bytes, and how many of each row are omitted."""
    headers = rows.headers
    if headers is None:
        return None, np.zeros(len(rows), np.int64)
    spent = np.cumsum(_costs(headers))
    firsts = np.searchsorted(headers.rows, headers.rows)
    before = np.where(firsts > 0, spent[firsts - 1], 0)
    fits = spent - before <= MAX_HEADERS
    kept = int_array(np.flatnonzero(fits), pa.int64())
    first = HeaderRows(headers.rows[fits], headers.names.take(kept), headers.values.take(kept))
    return (first if len(kept) else None), np.bincount(headers.rows[~fits], minlength=len(rows))


def _costs(headers: HeaderRows) -> Ints:
    """Return an upper bound of the property bytes that each header takes."""
    coded = pc.dictionary_encode(headers.names)
    known: list[bytes] = coded.dictionary.to_pylist()
    codes = np.asarray(coded.indices)
    of_names = np.array([2 * len(json.dumps(name.decode("utf-8", "replace"))) for name in known], np.int64)[codes]
    of_values = 4 * np.asarray(pc.binary_length(headers.values).fill_null(0)).astype(np.int64) // 3
    times = np.array([1 + name.startswith(names.ROCKETMQ.encode()) for name in known], np.int64)[codes]
    costs: Ints = times * (of_names + of_values + 24)
    return costs


def _add_counts(extra: Properties, name: str, counts: Ints) -> None:
    """Add `counts` as property `name` where they are not 0."""
    some = np.flatnonzero(counts).astype(np.int64)
    extra.add(some, name, _texts([str(one) for one in counts[some].tolist()]))


def _texts(values: Sequence[str]) -> pa.Array:
    return values_array([one.encode() for one in values], pa.binary())
