"""Convert stored messages into what a Kafka producer sends; the inverse of `into_store.to_rows`.

A message that came from Kafka is restored exactly. For any other message, the key is its sharding key or else its
KEYS, its properties become headers, and its TAGS, KEYS, flag and UNIQ_KEY become headers `rocketmq.*`. Properties that
a header of their name could not restore in a store (`property_names`) are in one more header, as JSON.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketflow.kafka.shared import property_names as names
from rocketflow.kafka.shared.record_sizes import Header
from rocketflow.kafka.shared.value_masks import text_mask
from rocketflow_store.spi.arrow import int_array
from rocketflow_store.spi.json_text import parse_json
from rocketflow_store.spi.names import PROPERTY_KEYS, PROPERTY_SHARDING_KEY, PROPERTY_TAGS, PROPERTY_UNIQ_KEY

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Codes = npt.NDArray[np.int64]

BODY_ERROR: Final = "bodyError"
COLUMNS: Final = ("queueOffset", "body", "flag", "bornTimestamp", "storeTimestamp", "properties")
"""The columns of the Spark source that `kafka_rows` needs."""

_NOT_PARTS: Final = frozenset(
    {
        names.ORIGIN_TOPIC,
        names.ORIGIN_PARTITION,
        names.ORIGIN_OFFSET,
        names.KEY_ENCODING,
        names.TOMBSTONE,
        names.TIMESTAMP_TYPE,
        names.TIMESTAMP,
        names.HEADERS,
    }
)


@dataclass(frozen=True, slots=True)
class ProducerRows:
    """The messages to send; with a timestamp of None the broker sets it.

    `faults` maps rows to the reason why a property of the bridge (`KAFKA_*`) is malformed.
    """

    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[list[Header]]
    timestamps: list[int | None]
    faults: dict[int, str]

    def __len__(self) -> int:
        return len(self.keys)


class _PropertyColumns:
    """Access by name to a map column of properties."""

    def __init__(self, maps: pa.Array) -> None:
        offsets = np.frombuffer(maps.buffers()[1], np.int32, len(maps) + 1, maps.offset * 4).astype(np.int64)
        first, last = int(offsets[0]), int(offsets[-1])
        self.count = len(maps)
        self.items = maps.items.slice(first, last - first)
        self.rows = np.repeat(np.arange(len(maps)), np.diff(offsets))
        coded = pc.dictionary_encode(maps.keys.slice(first, last - first))
        self.codes: Codes = np.asarray(coded.indices).astype(np.int64)
        self.names: list[str] = coded.dictionary.to_pylist()

    def of(self, name: str) -> dict[int, str]:
        """Return {row: value} of a property."""
        if name not in self.names:
            return {}
        at = np.flatnonzero(self.codes == self.names.index(name))
        values = self.items.take(int_array(at, pa.int64())).to_pylist()
        return dict(zip(self.rows[at].tolist(), values, strict=True))

    def column(self, name: str) -> list[bytes | None]:
        """Return a property of every row as bytes, None for rows without it."""
        if name not in self.names:
            return [None] * self.count
        at = np.flatnonzero(self.codes == self.names.index(name))
        values: list[bytes] = self.items.take(int_array(at, pa.int64())).cast(pa.binary()).to_pylist()
        if len(at) == self.count:
            return list(values)
        found: list[bytes | None] = [None] * self.count
        for row, value in zip(self.rows[at].tolist(), values, strict=True):
            found[row] = value
        return found

    def has(self, name: str) -> npt.NDArray[np.bool_]:
        """Return the mask of the rows that have a property."""
        mask = np.zeros(self.count, bool)
        if name in self.names:
            mask[self.rows[self.codes == self.names.index(name)]] = True
        return mask


def kafka_rows(batch: pa.RecordBatch) -> ProducerRows:
    """Convert the rows of a batch with `COLUMNS`; those with a `bodyError`, if the batch has it, get a header."""
    properties = _PropertyColumns(batch.column("properties"))
    from_kafka = properties.has(names.ORIGIN_OFFSET)
    keys = properties.column(PROPERTY_SHARDING_KEY)
    values: list[bytes | None] = batch.column("body").to_pylist()
    born = np.asarray(batch.column("bornTimestamp").cast(pa.int64()).fill_null(-1000)) // 1000
    timestamps: list[int | None] = born.tolist()
    headers = _headers(properties, from_kafka)

    def key(row: int, encoding: str) -> None:
        keys[row] = b"" if encoding == names.EMPTY_KEY else base64.b64decode(keys[row] or b"", validate=True)

    def value(row: int, _: str) -> None:
        values[row] = None

    def timestamp(row: int, text: str) -> None:
        if not -(1 << 63) <= int(text) < 1 << 63:
            raise ValueError("not a timestamp in ms")
        timestamps[row] = int(text)

    def listed(row: int, text: str) -> None:
        headers[row] = _listed(parse_json(text), dict(headers[row]))

    faults: dict[int, str] = {}
    parts: dict[str, Callable[[int, str], None]] = {
        names.KEY_ENCODING: key,
        names.TOMBSTONE: value,
        names.TIMESTAMP: timestamp,
        names.HEADERS: listed,
    }
    for name, take in parts.items():
        for row, text in properties.of(name).items():
            if from_kafka[row]:  # any sender may set such a property: without an origin it has no meaning
                try:
                    take(row, text)
                except (ValueError, TypeError, IndexError) as error:
                    faults[row] = f"its property {name} is malformed ({error})"
    own = np.flatnonzero(~from_kafka)
    if len(own):
        _add_rocketmq(own.tolist(), batch, properties, keys, headers)
    for row, why in body_errors(batch).items():
        headers[row].append((names.BODY_ERROR_HEADER, why.encode()))
    return ProducerRows(keys, values, headers, timestamps, faults)


def body_errors(batch: pa.RecordBatch) -> dict[int, str]:
    """Return {row: why} of the rows whose body is as it is stored, because it cannot be decoded."""
    at = batch.schema.get_field_index(BODY_ERROR)
    if at < 0 or batch.column(at).null_count == batch.num_rows:
        return {}
    return {row: why for row, why in enumerate(batch.column(at).to_pylist()) if why is not None}


def _headers(properties: _PropertyColumns, from_kafka: npt.NDArray[np.bool_]) -> list[list[Header]]:
    """Return the properties that become headers of their own.

    Names beginning with `rocketmq.` are included only for messages that came from Kafka.
    """
    plain = np.array([name not in _NOT_PARTS and not names.has_a_meaning(name) for name in properties.names], bool)
    reserved = np.array([name.startswith(names.ROCKETMQ) for name in properties.names], bool)
    headers: list[list[Header]] = [[] for _ in range(properties.count)]
    if plain.any():
        at = plain[properties.codes]
        if reserved.any():
            at &= ~reserved[properties.codes] | from_kafka[properties.rows]
        at = np.flatnonzero(at)
        values = properties.items.take(int_array(at, pa.int64())).cast(pa.binary()).to_pylist()
        texts, codes, rows = properties.names, properties.codes[at].tolist(), properties.rows[at].tolist()
        for row, code, value in zip(rows, codes, values, strict=True):
            headers[row].append((texts[code], value))
    return headers


def _listed(listed: Any, own: dict[str, bytes | None]) -> list[Header]:
    """Return the headers that KAFKA_HEADERS lists. Raise ValueError if it is malformed."""
    if not isinstance(listed, list):
        raise ValueError("not a list")
    found: list[Header] = []
    for one in listed:
        if isinstance(one, str):
            found.append((one, own.get(one)))
            continue
        name, value = one
        if not isinstance(name, str):
            raise ValueError(f"{name!r:.40} is not a name")
        found.append((name, None if value is None else base64.b64decode(value, validate=True)))
    return found


def _not_restorable(rows: list[int], properties: _PropertyColumns) -> dict[int, dict[str, str]]:
    """Return the properties of `rows` that headers of their names would not restore, by row."""
    carried = np.array([names.is_carried(name) for name in properties.names], bool)
    alone = np.array([names.is_restorable(name) for name in properties.names], bool)
    if not carried.any():
        return {}
    own = np.zeros(properties.count, bool)
    own[rows] = True
    wanted = carried[properties.codes] & own[properties.rows]
    wanted &= ~(alone[properties.codes] & text_mask(properties.items.cast(pa.binary())))
    found: dict[int, dict[str, str]] = {}
    at = np.flatnonzero(wanted)
    if len(at):
        values = properties.items.take(int_array(at, pa.int64())).to_pylist()
        for row, code, value in zip(properties.rows[at].tolist(), properties.codes[at].tolist(), values, strict=True):
            found.setdefault(row, {})[properties.names[code]] = value
    return found


def _add_rocketmq(
    rows: list[int],
    batch: pa.RecordBatch,
    properties: _PropertyColumns,
    keys: list[bytes | None],
    headers: list[list[Header]],
) -> None:
    """Set the keys and add the headers `rocketmq.*` of messages that did not come from Kafka."""
    flags = batch.column("flag").to_pylist()
    for row, held in _not_restorable(rows, properties).items():
        headers[row].append((names.PROPERTIES_HEADER, json.dumps(held, separators=(",", ":")).encode()))
    parts = [
        (names.TAGS_HEADER, properties.column(PROPERTY_TAGS)),
        (names.KEYS_HEADER, properties.column(PROPERTY_KEYS)),
        (names.UNIQ_KEY_HEADER, properties.column(PROPERTY_UNIQ_KEY)),
    ]
    for row in rows:
        if keys[row] is None:
            keys[row] = parts[1][1][row]
        headers[row] += [(name, column[row]) for name, column in parts if column[row] is not None]
        if flags[row]:
            headers[row].append((names.FLAG_HEADER, str(flags[row]).encode()))
