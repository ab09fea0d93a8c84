"""Room in a record for the properties of a quarantined row: at most 32,767 bytes with its tags and keys.

If the row's own ones take most of them, parts are omitted: first observed values, then expectations that do not fit,
the row's own properties, the longer of tags and keys, both of them. Origin, suite and reason always stay.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketflow_store.spi.json_text import parse_json
from rocketflow_store.spi.records import MAX_PROPERTIES_SIZE, PROPERTY_CRC_SIZE
from rocketflow_store.spi.requeue import QUARANTINED

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

VIOLATIONS: Final = "QUALITY_VIOLATIONS"
LEFT_OUT: Final = "QUALITY_{}_LEFT_OUT"
"""Property that marks a part of the row as omitted: PROPERTIES, TAGS, KEYS."""
_ALWAYS: Final = frozenset(QUARANTINED)
_ROOM: Final = MAX_PROPERTIES_SIZE - PROPERTY_CRC_SIZE - 512
"""512 bytes are for names, separators and an id that the store adds."""

Pairs = list[tuple[str, str]]


def fitted(rows: pa.RecordBatch, quarantine: str) -> pa.RecordBatch:
    """Return the sink's rows; rows of the topic `quarantine` that are too large for a record lose parts."""
    bad = np.flatnonzero(np.asarray(pc.equal(rows["topic"], quarantine).fill_null(False).cast(pa.uint8())))
    if len(bad) == 0:
        return rows
    some = rows.select(["tags", "keys", "properties"]).take(pa.array(bad))
    sizes = _lengths(some["tags"]) + _lengths(some["keys"]) + _map_lengths(some["properties"])
    large = np.flatnonzero(sizes > _ROOM)
    if len(large) == 0:
        return rows
    picked = some.take(pa.array(large)).to_pylist()
    changed = [_fitted(one["tags"], one["keys"], one["properties"]) for one in picked]
    order = np.arange(rows.num_rows)
    order[bad[large]] = rows.num_rows + np.arange(len(large))
    for at, name in enumerate(("tags", "keys", "properties")):
        both = pa.concat_arrays([rows[name], pa.array([one[at] for one in changed], rows[name].type)])
        rows = rows.set_column(rows.schema.get_field_index(name), name, both.take(pa.array(order)))
    return rows


def _fitted(tags: str | None, keys: str | None, properties: Pairs) -> tuple[str | None, str | None, Pairs]:
    added = {name: value for name, value in properties if name in _ALWAYS}
    own = [pair for pair in properties if pair[0] not in added]
    violations = parse_json(added.pop(VIOLATIONS, "[]"))
    names = [json.dumps({"expectation": one["expectation"]}, ensure_ascii=False) for one in violations]
    columns = {"TAGS": tags, "KEYS": keys}
    longer, shorter = ("TAGS", "KEYS") if _size(tags) >= _size(keys) else ("KEYS", "TAGS")
    for without in ((), (longer,), (longer, shorter)):
        for kept in (own, []):
            lost = [*(one for one in without if columns[one]), *(["PROPERTIES"] if own and not kept else [])]
            pairs = [*kept, *added.items(), *((LEFT_OUT.format(one), "true") for one in lost)]
            stays = {name: None if name in without else text for name, text in columns.items()}
            room = _ROOM - sum(map(_size, stays.values())) - _pairs_size(pairs)
            if room >= _pairs_size([(VIOLATIONS, f"[{','.join(names[:1])}]")]):
                while _pairs_size([(VIOLATIONS, f"[{','.join(names)}]")]) > room:
                    names.pop()
                return stays["TAGS"], stays["KEYS"], [*pairs, (VIOLATIONS, f"[{','.join(names)}]")]
    return None, None, [*added.items(), (VIOLATIONS, "[]")]  # a suite's name may be of any length


def _pairs_size(pairs: Pairs) -> int:
    return sum(_size(name) + _size(value) + 2 for name, value in pairs)


def _size(text: str | None) -> int:
    return len((text or "").encode("utf-8", "surrogatepass"))


def _lengths(column: pa.Array) -> Ints:
    return np.asarray(pc.fill_null(pc.binary_length(column), 0)).astype(np.int64)


def _map_lengths(column: pa.MapArray) -> Ints:
    """Return the bytes of each row's pairs, with their separators, (n,) int64."""
    pairs = _lengths(column.keys) + _lengths(column.items) + 2
    ends = np.concatenate([[0], np.cumsum(pairs)])
    offsets = np.asarray(column.offsets)
    return np.asarray(ends[offsets[1:]] - ends[offsets[:-1]], np.int64)
