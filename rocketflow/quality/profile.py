"""A suite drafted from a sample of a topic: types, nulls, ranges, sets, lengths. The user edits it.

What the sample shows is not what the data must be: ranges are widened, sets are only made of few and repeated values,
and every expectation says in its notes what it was drafted from.
"""

from __future__ import annotations

import io
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rocketflow.errors import UsageError
from rocketflow_store import StoreReader
from rocketflow_store.errors import UnknownTopicError

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_SET: Final = 25
_REPEATED: Final = 20
"""A set is drafted where a value comes so often on the average."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A suite as JSON, and what it was drafted from."""

    suite: dict[str, Any]
    sampled: int
    unreadable: int
    schema: str


def draft_suite(store: str, topic: str, sample: int = 10_000, body_format: str = "json") -> Draft:
    """Draft a suite from about `sample` of the newest messages of a topic; UsageError where no body can be read."""
    bodies = _sample(store, topic, sample)
    if not bodies:
        raise UsageError(f"topic {topic} of {store} has no messages: there is nothing to draft a suite from")
    table, unreadable = _table(bodies, body_format)
    if table is None or table.num_rows == 0:
        raise UsageError(f"no body of topic {topic} is {body_format}; give --body-format json, csv or text")
    fields = [(name, _spark_type(table[name].type)) for name in table.schema.names]
    ddl = ", ".join(f"{name if name.isidentifier() else f'`{name}`'} {kind}" for name, kind in fields)
    expectations = [one for name in table.schema.names for one in _of_column(name, table[name].combine_chunks())]
    suite = {
        "name": topic,
        "expectations": [*expectations, _row_count()],
        "meta": {"rocketflow": {"bodyFormat": body_format, "bodySchema": ddl}},
        "notes": f"drafted from {table.num_rows} of the newest messages of topic {topic}: edit before use",
    }
    return Draft(suite, table.num_rows, unreadable, ddl)


def _sample(store: str, topic: str, sample: int) -> list[bytes]:
    found: list[bytes] = []
    with StoreReader(store) as reader:
        if topic not in reader.topics():
            raise UnknownTopicError(topic)
        queues = reader.queues(topic)
        for queue in queues:
            low, high = reader.bounds(topic, queue)
            start = max(low, high - max(1, sample // len(queues)))
            for batch in reader.read(topic, queue, start, high, columns=["body"]):
                found += batch["body"].to_pylist()
    return found


def _table(bodies: list[bytes], body_format: str) -> tuple[pa.Table | None, int]:
    """The bodies as columns, and how many could not be read."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.json

    if body_format == "text":
        texts = [_text(body) for body in bodies]
        return pa.table({"body": [one for one in texts if one is not None]}), sum(one is None for one in texts)
    if body_format == "csv":
        readable = [body for body in bodies if _text(body)]
        widths = [len(body.split(b",")) for body in readable]
        width = max(set(widths), key=widths.count) if widths else 0
        kept = [body for body, one in zip(readable, widths, strict=True) if one == width]
        if not kept:
            return None, len(bodies)
        names = [f"c{number}" for number in range(1, width + 1)]
        made = pyarrow.csv.read_csv(
            io.BytesIO(b"\n".join(kept)),
            read_options=pyarrow.csv.ReadOptions(column_names=names),
            convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True),
        )
        return made, len(bodies) - len(kept)
    objects = [found for body in bodies if (found := _object(body)) is not None]
    if not objects:
        return None, len(bodies)
    names = list(dict.fromkeys(name for one in objects for name in one))
    return pa.table({name: _column([one.get(name) for one in objects]) for name in names}), len(bodies) - len(objects)


def _text(body: bytes) -> str | None:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(body)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _column(values: list[Any]) -> pa.Array:
    """Of one type; text where the sample has several, or nested values."""
    import pyarrow as pa

    kinds = {type(one) for one in values if one is not None}
    if kinds <= {int}:
        return pa.array(values, pa.int64()) if kinds else pa.array(values, pa.string())
    if kinds <= {int, float}:
        return pa.array([None if one is None else float(one) for one in values], pa.float64())
    if kinds <= {bool}:
        return pa.array(values, pa.bool_())
    told = [one if one is None or isinstance(one, str) else json.dumps(one) for one in values]
    return pa.array(told, pa.string())


def _spark_type(kind: pa.DataType) -> str:
    import pyarrow as pa

    if pa.types.is_integer(kind):
        return "bigint"
    if pa.types.is_floating(kind):
        return "double"
    return "boolean" if pa.types.is_boolean(kind) else "string"


def _of_column(name: str, values: pa.Array) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    made: list[dict[str, Any]] = []
    total, nulls = len(values), values.null_count
    if nulls == 0:
        made.append(_expectation("expect_column_values_to_not_be_null", {"column": name}, f"no null in {total}"))
    elif nulls < total:
        most = math.floor((1 - 1.5 * nulls / total) * 1000) / 1000
        if most > 0:
            told = f"{nulls} nulls in {total}"
            made.append(_expectation("expect_column_values_to_not_be_null", {"column": name, "mostly": most}, told))
    values = values.drop_null()
    if len(values) == 0:
        return made
    different = pc.unique(values)
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        bounds = pc.min_max(values).as_py()
        low, high = _wider(bounds["min"], bounds["max"])
        told = f"observed {bounds['min']} to {bounds['max']}"
        made.append(
            _expectation(
                "expect_column_values_to_be_between", {"column": name, "min_value": low, "max_value": high}, told
            )
        )
    elif pa.types.is_string(values.type):
        if len(different) <= _MOST_SET and len(values) >= _REPEATED * len(different):
            kwargs = {"column": name, "value_set": sorted(different.to_pylist())}
            made.append(_expectation("expect_column_values_to_be_in_set", kwargs, f"{len(different)} different values"))
        else:
            lengths = pc.min_max(pc.utf8_length(values)).as_py()
            kwargs = {"column": name, "min_value": lengths["min"], "max_value": lengths["max"]}
            told = f"{len(different)} different values"
            made.append(_expectation("expect_column_value_lengths_to_be_between", kwargs, told))
    return made


def _wider(low: float, high: float) -> tuple[float, float]:
    """The range with a tenth of its width on both sides; what is not negative stays so."""
    if isinstance(low, float) and not (math.isfinite(low) and math.isfinite(high)):
        return low, high
    room = (high - low) / 10
    if isinstance(low, int) and isinstance(high, int):
        room = math.ceil(room)
    wide = low - room
    return (max(wide, type(low)(0)) if low >= 0 else wide), high + room


def _row_count() -> dict[str, Any]:
    told = "of a batch: raise it to what a batch must have"
    return _expectation("expect_table_row_count_to_be_between", {"min_value": 0}, told, "warning")


def _expectation(kind: str, kwargs: dict[str, Any], notes: str, severity: str = "critical") -> dict[str, Any]:
    return {"type": kind, "kwargs": kwargs, "severity": severity, "meta": {"notes": notes}}
