"""A suite drafted from a sample of a topic: types, nulls, ranges, sets, lengths. The user edits it.

What the sample shows is not what the data must be: ranges are widened, sets are only made of few and repeated values,
and every expectation says in its notes what it was drafted from.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
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
    ddl = ", ".join(f"{_quoted(name)} {kind}" for name, kind in fields)
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

    if body_format == "text":
        texts = [_text(body) for body in bodies]
        return pa.table({"body": [one for one in texts if one is not None]}), sum(one is None for one in texts)
    if body_format == "csv":
        made, kept = _of_lines([line for body in bodies if (line := _line(body))])
        return made, len(bodies) - kept
    objects = [found for body in bodies if (found := _object(body)) is not None]
    names = list(dict.fromkeys(name for one in objects for name in one if name))
    if not names:
        return None, len(bodies)
    return pa.table({name: _column([one.get(name) for one in objects]) for name in names}), len(bodies) - len(objects)


def _of_lines(lines: list[list[str]]) -> tuple[pa.Table | None, int]:
    """The lines that are as wide as most as columns c1, c2, ... of the types that they look like, and how many."""
    import pyarrow.csv

    if not lines:
        return None, 0
    (width, count), *_ = Counter(map(len, lines)).most_common(1)
    written = io.StringIO()
    csv.writer(written).writerows(line for line in lines if len(line) == width)
    made = pyarrow.csv.read_csv(
        io.BytesIO(written.getvalue().encode()),
        read_options=pyarrow.csv.ReadOptions(column_names=[f"c{number}" for number in range(1, width + 1)]),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True),
    )
    return made, count


def _line(body: bytes) -> list[str] | None:
    """The fields of a body that is one line of CSV."""
    text = _text(body)
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), strict=True)) if text else []
    except csv.Error:
        return None
    return lines[0] if len(lines) == 1 and lines[0] else None


def _quoted(name: str) -> str:
    """A column's name as Spark's DDL takes it."""
    return name if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) else f"`{name.replace('`', '``')}`"


def _text(body: bytes) -> str | None:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(body)
        json.dumps(found, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _column(values: list[Any]) -> pa.Array:
    """Of one type; text where the sample has several, or nested values."""
    import pyarrow as pa

    kinds = {type(one) for one in values if one is not None}
    if not kinds:
        return pa.array(values, pa.string())
    if kinds <= {int} and all(one is None or -(1 << 63) <= one < 1 << 63 for one in values):
        return pa.array(values, pa.int64())
    if kinds <= {int, float}:
        return pa.array([None if one is None else _double(one) for one in values], pa.float64())
    if kinds <= {bool}:
        return pa.array(values, pa.bool_())
    told = [one if one is None or isinstance(one, str) else json.dumps(one) for one in values]
    return pa.array(told, pa.string())


def _double(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


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
        if not (math.isfinite(bounds["min"]) and math.isfinite(bounds["max"])):
            return made
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
