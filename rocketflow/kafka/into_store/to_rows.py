"""Convert Kafka messages into rows with the store's sink columns, column by column, without I/O.

`property_names` defines the mapping; `into_kafka.to_records` is its inverse.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketflow.kafka.shared import property_names as names
from rocketflow.kafka.shared.value_masks import text_mask, valid_mask
from rocketflow_store.spi.arrow import constant_string, crc32_column, int_array, values_array, with_validity
from rocketflow_store.spi.json_text import parse_json

if TYPE_CHECKING:
    import numpy.typing as npt

    from rocketflow.kafka.client.partition_rows import HeaderRows, KafkaRows

    Rows = npt.NDArray[np.int64]

_TIME: Final = pa.timestamp("ms", tz="UTC")
_FLAG: Final = (-(1 << 31), (1 << 31) - 1)


@dataclass(frozen=True, slots=True)
class QueueRule:
    """The choice of a message's queue: that of its partition, or with `queues` by its key (without a key by
    partition)."""

    queues: int | None = None

    def count(self, partitions: int) -> int:
        """Return the number of queues for a Kafka topic with this number of partitions."""
        return self.queues or partitions

    def queue_ids(self, rows: KafkaRows) -> npt.NDArray[np.int32]:
        """Return the queue of every row: messages with equal keys go to the same queue, in order."""
        if self.queues is None:
            return np.full(len(rows), rows.partition, np.int32)
        fixed = rows.partition % self.queues
        if rows.keys.null_count == len(rows):
            return np.full(len(rows), fixed, np.int32)
        hashed = crc32_column(rows.keys.fill_null(b"")).astype(np.int64) % self.queues
        return np.where(valid_mask(rows.keys), hashed, fixed).astype(np.int32)


class Properties:
    """The properties of all rows, collected by name."""

    def __init__(self) -> None:
        self._rows: list[Rows] = []
        self._names: list[pa.Array] = []
        self._values: list[pa.Array] = []

    def add(self, rows: Rows, name: str, values: pa.Array) -> None:
        """Add `values[i]` (binary) as property `name` of row `rows[i]`."""
        self.add_named(rows, constant_string(name, len(rows)).cast(pa.binary()), values)

    def add_named(self, rows: Rows, named: pa.Array, values: pa.Array) -> None:
        """Add `values[i]` as property `named[i]` of row `rows[i]`; both are binary."""
        if len(rows):
            self._rows.append(rows)
            self._names.append(named)
            self._values.append(values)

    def maps(self, count: int) -> pa.Array:
        """Return a map<string, string> for each of `count` rows, in the order in which properties were added."""
        rows = np.concatenate(self._rows)
        order = int_array(np.argsort(rows, kind="stable"), pa.int64())
        offsets = np.zeros(count + 1, np.int32)
        np.cumsum(np.bincount(rows, minlength=count), out=offsets[1:])
        taken = [pa.concat_arrays(one).take(order).cast(pa.string()) for one in (self._names, self._values)]
        return pa.MapArray.from_arrays(int_array(offsets, pa.int32()), *taken)


def sink_rows(rows: KafkaRows, rule: QueueRule, extra: Properties | None = None) -> pa.RecordBatch:
    """Return the rows with the sink's columns and the properties `extra` in addition.

    There is no topic column: all messages of a partition go to the same topic.
    """
    every = np.arange(len(rows), dtype=np.int64)
    properties = extra or Properties()
    constant = constant_string(rows.topic, len(rows)).cast(pa.binary())
    properties.add(every, names.ORIGIN_TOPIC, constant)
    properties.add(every, names.ORIGIN_PARTITION, constant_string(str(rows.partition), len(rows)).cast(pa.binary()))
    offsets = int_array(rows.offsets, pa.int64()).cast(pa.string()).cast(pa.binary())
    properties.add(every, names.ORIGIN_OFFSET, offsets)
    keys = _keys(rows.keys, properties)
    bodies = rows.values
    if bodies.null_count:
        _mark(properties, ~valid_mask(bodies), names.TOMBSTONE, names.TRUE)
        bodies = bodies.fill_null(b"")
    born = _times(rows, properties)
    found = {} if rows.headers is None else _headers(rows.headers, len(rows), properties)
    tags, keys_given, flags = (found.get(name) for name in (names.TAGS_HEADER, names.KEYS_HEADER, names.FLAG_HEADER))
    looked_up = pc.if_else(pc.greater(pc.binary_length(keys), names.MAX_KEYS_SIZE), None, keys)
    columns = {
        "body": bodies,
        "keys": looked_up if keys_given is None else pc.coalesce(keys_given, looked_up),
        "shardingKey": keys,
        "properties": properties.maps(len(rows)),
        "queueId": int_array(rule.queue_ids(rows), pa.int32()),
        "bornTimestamp": born,
    }
    if tags is not None:
        columns["tags"] = tags
    if flags is not None:
        columns["flag"] = pa.array([_flag(one) for one in flags.to_pylist()], pa.int32())
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _keys(keys: pa.Array, properties: Properties) -> pa.Array:
    """Return the keys as text: base64 for keys that are not plain text, null for missing and empty keys.

    Adds KAFKA_KEY_ENCODING for keys that are base64 or empty.
    """
    present = valid_mask(keys)
    odd = present & ~text_mask(keys)
    if not odd.any():
        return keys.cast(pa.string())
    empty = odd & (np.asarray(pc.binary_length(keys).fill_null(0)) == 0)
    coded = odd & ~empty
    _mark(properties, coded, names.KEY_ENCODING, names.BASE64)
    _mark(properties, empty, names.KEY_ENCODING, names.EMPTY_KEY)
    values: list[bytes | None] = keys.to_pylist()
    for row in np.flatnonzero(odd).tolist():
        values[row] = base64.b64encode(values[row] or b"") or None
    return values_array(values, pa.string())


def _times(rows: KafkaRows, properties: Properties) -> pa.Array:
    """Return bornTimestamp, null where Kafka's timestamp does not fit; such timestamps are added as KAFKA_TIMESTAMP."""
    if rows.log_append.any():
        _mark(properties, rows.log_append, names.TIMESTAMP_TYPE, names.LOG_APPEND_TIME)
    born = int_array(rows.timestamps, pa.int64())
    odd = (rows.timestamps < 0) | (rows.timestamps > names.MAX_BORN_MS)
    if odd.any():
        some = np.flatnonzero(odd).astype(np.int64)
        text = int_array(rows.timestamps[some], pa.int64()).cast(pa.string()).cast(pa.binary())
        properties.add(some, names.TIMESTAMP, text)
        born = with_validity(born, ~odd)
    return born.cast(_TIME)


def _headers(headers: HeaderRows, count: int, properties: Properties) -> dict[str, pa.Array]:
    """Add all headers as properties; return the string columns of the headers for tags, keys and flag."""
    coded = pc.dictionary_encode(headers.names)
    codes = np.asarray(coded.indices).astype(np.int64)
    known = coded.dictionary.to_pylist()
    plain = np.array([names.may_be_property(name) for name in known], bool)[codes]
    plain &= text_mask(headers.values)
    tagged = headers.rows * len(known) + codes
    _, first, times = np.unique(tagged, return_inverse=True, return_counts=True)
    once = times[first] == 1
    plain &= once
    own = np.flatnonzero(plain)
    wanted = int_array(own, pa.int64())
    properties.add_named(headers.rows[own], headers.names.take(wanted), headers.values.take(wanted))
    restored = _restore_held(headers, codes, known, plain, once, properties)
    if len(own) < len(plain) or len(restored):
        odd = np.union1d(headers.rows[~plain], restored)
        coded_headers = [_as_json(headers, plain, row) for row in odd.tolist()]
        properties.add(odd, names.HEADERS, values_array(coded_headers, pa.binary()))
    found = {}
    for name in (names.TAGS_HEADER, names.KEYS_HEADER, names.FLAG_HEADER):
        if name.encode() in known:
            present = np.flatnonzero(once & (codes == known.index(name.encode())))
            values: list[bytes | None] = [None] * count
            for at in present.tolist():
                values[int(headers.rows[at])] = _storable(headers.values[at].as_py())
            found[name] = values_array(values, pa.string())
    return found


def _storable(value: bytes | None) -> bytes | None:
    """Return a header's value if it may be a property's value, else None."""
    try:
        text = (value or b"").decode("utf-8")
    except UnicodeDecodeError:
        return None
    return value if names.may_be_stored(text) else None


def _restore_held(
    headers: HeaderRows,
    codes: npt.NDArray[np.int64],
    known: list[bytes],
    plain: npt.NDArray[np.bool_],
    once: npt.NDArray[np.bool_],
    properties: Properties,
) -> Rows:
    """Add the properties held by headers `rocketmq.properties`; return the rows that got some, ascending."""
    code = names.PROPERTIES_HEADER.encode()
    if code not in known:
        return np.zeros(0, np.int64)
    rows, titles, values = [], [], []
    for at in np.flatnonzero(once & (codes == known.index(code))).tolist():
        row = int(headers.rows[at])
        low, high = np.searchsorted(headers.rows, [row, row + 1]).tolist()
        taken = {known[codes[one]].decode() for one in range(low, high) if plain[one]}
        for name, value in held_properties(headers.values[at].as_py()).items():
            if name not in taken:
                rows.append(row)
                titles.append(name)
                values.append(value)
    found = np.array(rows, np.int64)
    properties.add_named(
        found, *(values_array([one.encode() for one in some], pa.binary()) for some in (titles, values))
    )
    return np.unique(found)


def held_properties(value: bytes | None) -> dict[str, str]:
    """Return the storable properties in a header `rocketmq.properties`; none if the bridge did not write it."""
    try:
        held = parse_json(value or b"")
    except ValueError:
        return {}
    if not isinstance(held, dict):
        return {}
    return {
        name: one
        for name, one in held.items()
        if isinstance(one, str) and names.is_carried(name) and names.may_be_stored(name) and names.may_be_stored(one)
    }


def _as_json(headers: HeaderRows, plain: npt.NDArray[np.bool_], row: int) -> bytes:
    low, high = np.searchsorted(headers.rows, [row, row + 1]).tolist()
    listed: list[object] = []
    for at in range(low, high):
        name, value = headers.names[at].as_py().decode("utf-8", "replace"), headers.values[at].as_py()
        if plain[at]:
            listed.append(name)
        else:
            listed.append([name, None if value is None else base64.b64encode(value).decode()])
    return json.dumps(listed, separators=(",", ":")).encode()  # ASCII, hence without property separators


def _flag(text: str | None) -> int:
    try:
        value = int(text or 0)
    except ValueError:
        return 0
    return value if _FLAG[0] <= value <= _FLAG[1] else 0


def _mark(properties: Properties, mask: npt.NDArray[np.bool_], name: str, value: str) -> None:
    some = np.flatnonzero(mask).astype(np.int64)
    if len(some):
        properties.add(some, name, constant_string(value, len(some)).cast(pa.binary()))
