"""A suite drafted from a sample of a topic: types, nulls, ranges, sets, lengths. The user edits it.

The data may differ from the sample: ranges are widened, sets are only drafted of few and repeated values, and the
notes of every expectation name what it was drafted from. Fields that hold objects or lists are omitted: no
expectation of Great Expectations checks their contents.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from rocketflow.errors import UsageError
from rocketflow.process.nearest import did_you_mean
from rocketflow.quality.bodies.body_options import check_options
from rocketflow.quality.bodies.csv_bodies import CsvDialect, csv_dialect
from rocketflow.quality.projection import quoted
from rocketflow_store import OnBadBody, RaiseFaults, StoreConfig, StoreReader
from rocketflow_store.spi.json_text import parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

_MOST_SET: Final = 25
_PIECE: Final = 100
"""Messages in a row that are sampled; each such piece costs a seek."""
_REPEATED: Final = 20
"""Least mean number of occurrences of a value for which a set is drafted."""
_HEEDED: Final = frozenset({"sep", "delimiter", "quote", "escape", "nullvalue"})
"""Options of bodies that a draft uses."""
_MOST_DIGITS: Final = 38
"""Precision of a decimal."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A suite as JSON, and counts of its sample; `left_out` are fields that hold objects or lists."""

    suite: dict[str, Any]
    sampled: int
    unreadable: int
    schema: str
    left_out: tuple[str, ...] = ()


def draft_suite(
    store: str, topic: str, sample: int = 10_000, body_format: str = "json", options: Mapping[str, str] | None = None
) -> Draft:
    """Draft a suite from about `sample` messages of all queues of a topic, from the oldest to the newest.

    Ranges, sets and lengths are warnings: what a sample lacks is no error yet.
    `options` are those of CSV that separate fields; the suite gets them too.
    """
    options = dict(options or {})
    check_options(body_format, options)
    dialect = csv_dialect(options)
    other = sorted(name for name in options if name.lower() not in _HEEDED)
    if other or (body_format == "csv" and len(dialect.separator) != 1):
        unused = other[0] if other else "sep of several characters"
        raise UsageError(f"--body-option {unused}: a draft does not use it; give it to the check")
    bodies = _sample(store, topic, max(sample, 1))
    if not bodies:
        raise UsageError(f"topic {topic} of {store} has no messages: there is nothing to draft a suite from")
    if body_format == "json":
        table, unreadable, left_out = _of_objects(bodies)
    else:
        table, unreadable = _of_texts(bodies) if body_format == "text" else _of_bodies(bodies, dialect)
        left_out = ()
    if left_out and not (table and table.num_columns):
        raise UsageError(f"all fields of topic {topic} hold objects or lists ({', '.join(left_out)}): write the suite")
    if table is None or table.num_rows == 0:
        raise UsageError(f"no body of topic {topic} is {body_format}; give --body-format json, csv or text")
    fields = [(name, _spark_type(table[name].type)) for name in table.schema.names]
    ddl = ", ".join(f"{_quoted(name)} {kind}" for name, kind in fields)
    expectations = [one for name in table.schema.names for one in _of_column(name, table[name].combine_chunks())]
    own = {"bodyFormat": body_format, "bodySchema": ddl, **({"bodyOptions": options} if options else {})}
    suite = {
        "name": topic,
        "expectations": [*expectations, _row_count()],
        "meta": {"rocketflow": own},
        "notes": f"drafted from {table.num_rows} messages of all parts of topic {topic}: edit before use"
        + (f"; omitted, because they hold objects or lists: {', '.join(left_out)}" if left_out else ""),
    }
    return Draft(suite, table.num_rows, unreadable, ddl, left_out)


def _sample(store: str, topic: str, sample: int) -> list[bytes]:
    found: list[bytes] = []
    faults = RaiseFaults(OnBadBody.QUARANTINE)  # a sample without them
    with StoreReader(store, StoreConfig.load()) as reader:
        if topic not in reader.topics():
            raise UsageError(f"no topic {topic!r} in this store: {did_you_mean(topic, reader.topics())}")
        bounds = [(queue, *reader.bounds(topic, queue)) for queue in reader.queues(topic)]
        total = sum(high - low for _, low, high in bounds)
        for queue, low, high in bounds:
            for start, stop in _pieces(low, high, -(-sample * (high - low) // max(total, 1))):
                for batch in reader.read(topic, queue, start, stop, columns=["body"], faults=faults):
                    found += batch["body"].to_pylist()
    return found


def _pieces(low: int, high: int, most: int) -> list[tuple[int, int]]:
    """Return ranges of about `most` offsets in all, spread evenly over [low, high)."""
    if high - low <= most:
        return [(low, high)]
    count = max(1, most // _PIECE)
    size = -(-most // count)
    firsts = [low + (high - low - size) * number // max(count - 1, 1) for number in range(count)]
    return [(first, first + size) for first in firsts]


def _of_texts(bodies: list[bytes]) -> tuple[pa.Table, int]:
    """Return the bodies as one column, and the number that could not be read."""
    import pyarrow as pa

    texts = [one for body in bodies if (one := _text(body)) is not None]
    return pa.table({"body": texts}), len(bodies) - len(texts)


def _of_objects(bodies: list[bytes]) -> tuple[pa.Table | None, int, tuple[str, ...]]:
    """Return the fields of JSON objects as columns, the number of unreadable bodies, and the omitted fields."""
    import pyarrow as pa

    objects = [found for body in bodies if (found := _object(body)) is not None]
    names = list(dict.fromkeys(name for one in objects for name in one if name))
    if not names:
        return None, len(bodies), ()
    nested = tuple(name for name in names if any(isinstance(one.get(name), (dict, list)) for one in objects))
    made = {name: _column([one.get(name) for one in objects]) for name in names if name not in nested}
    return pa.table(made), len(bodies) - len(objects), nested


def _of_bodies(bodies: list[bytes], dialect: CsvDialect) -> tuple[pa.Table | None, int]:
    """Return CSV as columns c1, c2, ... of inferred types, of the bodies with the most frequent number of fields."""
    lines = [line for body in bodies if (line := _line(body, dialect))]
    if not lines:
        return None, len(bodies)
    (width, kept), *_ = Counter(map(len, lines)).most_common(1)
    return _of_lines([line for line in lines if len(line) == width], dialect.null), len(bodies) - kept


def _of_lines(lines: list[list[str]], null: str) -> pa.Table:
    """Return columns of lines of one width; a field that is `null` has no value."""
    import pyarrow as pa
    import pyarrow.csv

    written = io.StringIO()
    csv.writer(written).writerows(lines)
    made = pyarrow.csv.read_csv(
        io.BytesIO(written.getvalue().encode()),
        read_options=pyarrow.csv.ReadOptions(column_names=[f"c{number}" for number in range(1, len(lines[0]) + 1)]),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=pyarrow.csv.ConvertOptions(null_values=[null], strings_can_be_null=True),
    )
    for at, name in enumerate(made.schema.names):
        if pa.types.is_floating(made[name].type):
            texts = [line[at] for line in lines]
            made = made.set_column(at, name, _column([None if one == null else _number(one) for one in texts]))
    return made


def _line(body: bytes, dialect: CsvDialect) -> list[str] | None:
    """Return the fields of a body that is one line of CSV, or None."""
    text = _text(body)
    try:
        lines = dialect.lines(text) if text else []
    except csv.Error:
        return None
    return lines[0] if len(lines) == 1 and lines[0] else None


def _quoted(name: str) -> str:
    """Return a column's name as Spark's DDL needs it."""
    return name if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) else quoted(name)


def _text(body: bytes) -> str | None:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        found = parse_json(body, allow_nan=True, parse_float=_number)
        json.dumps(found, ensure_ascii=False, default=str).encode()  # half a surrogate pair is no text
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _number(text: str) -> float | Decimal:
    """Return a double if it is exact, else the decimal: a double would change its last digits."""
    number = float(text)
    try:
        exact = Decimal(text)
    except ArithmeticError:  # not a number, infinite
        return number
    return number if not exact.is_finite() or Decimal(repr(number)) == exact else exact


def _column(values: list[Any]) -> pa.Array:
    """Return values as a column of one type; text if the sample has several types."""
    import pyarrow as pa

    kinds = {type(one) for one in values if one is not None}
    if not kinds:
        return pa.array(values, pa.string())
    if kinds <= {int} and all(one is None or -(1 << 63) <= one < 1 << 63 for one in values):
        return pa.array(values, pa.int64())
    if kinds <= {int, float, Decimal}:
        if (decimals := _decimals(values)) is not None:
            return decimals
        return pa.array([None if one is None else _double(one) for one in values], pa.float64())
    if kinds <= {bool}:
        return pa.array(values, pa.bool_())
    texts = [one if one is None or isinstance(one, str) else json.dumps(one, default=str) for one in values]
    return pa.array(texts, pa.string())


def _decimals(values: list[Any]) -> pa.Array | None:
    """Return the numbers as decimals if doubles would change them and a decimal has room for all, else None."""
    import pyarrow as pa

    numbers = [one for one in values if one is not None]
    if not all(math.isfinite(one) for one in numbers if isinstance(one, float)):
        return None
    if not any(isinstance(one, Decimal) or (isinstance(one, int) and one != _double(one)) for one in numbers):
        return None
    exact = [Decimal(repr(one)) if isinstance(one, float) else Decimal(one) for one in numbers]
    scale = max(max(0, -int(one.as_tuple().exponent)) for one in exact)
    if max(max(0, one.adjusted() + 1) for one in exact) + scale > _MOST_DIGITS:
        return None
    left = iter(exact)
    return pa.array([None if one is None else next(left) for one in values], pa.decimal128(_MOST_DIGITS, scale))


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
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
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
            notes = f"{nulls} nulls in {total}"
            made.append(_expectation("expect_column_values_to_not_be_null", {"column": name, "mostly": most}, notes))
    values = values.drop_null()
    if len(values) == 0:
        return made
    different = pc.unique(values)
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type) or pa.types.is_decimal(values.type):
        bounds = pc.min_max(values).as_py()
        if not (math.isfinite(bounds["min"]) and math.isfinite(bounds["max"])):
            return made
        low, high = _wider(bounds["min"], bounds["max"])
        notes = f"observed {bounds['min']} to {bounds['max']}"
        made.append(
            _expectation(
                "expect_column_values_to_be_between",
                {"column": name, "min_value": low, "max_value": high},
                notes,
                "warning",
            )
        )
    elif pa.types.is_string(values.type):
        if len(different) <= _MOST_SET and len(values) >= _REPEATED * len(different):
            kwargs = {"column": name, "value_set": sorted(different.to_pylist())}
            notes = f"{len(different)} different values"
            made.append(_expectation("expect_column_values_to_be_in_set", kwargs, notes, "warning"))
        else:
            lengths = pc.min_max(pc.utf8_length(values)).as_py()
            kwargs = {"column": name, "min_value": lengths["min"], "max_value": lengths["max"]}
            notes = f"{len(different)} different values"
            made.append(_expectation("expect_column_value_lengths_to_be_between", kwargs, notes, "warning"))
    return made


def _wider(low: float | Decimal, high: float | Decimal) -> tuple[float, float]:
    """Return the range widened by a tenth of its width on both sides; a range without negative values stays so."""
    if isinstance(low, Decimal) or isinstance(high, Decimal):  # the doubles around it
        low, high = math.nextafter(float(low), -math.inf), math.nextafter(float(high), math.inf)
        low = 0.0 if -1e-300 < low < 0 else low
    room = (high - low) / 10
    if isinstance(low, int) and isinstance(high, int):
        room = math.ceil(room)
    wide = low - room
    return (max(wide, type(low)(0)) if low >= 0 else wide), high + room


def _row_count() -> dict[str, Any]:
    notes = "of a batch: raise it to what a batch must have"
    return _expectation("expect_table_row_count_to_be_between", {"min_value": 0}, notes, "warning")


def _expectation(kind: str, kwargs: dict[str, Any], notes: str, severity: str = "critical") -> dict[str, Any]:
    return {"type": kind, "kwargs": kwargs, "severity": severity, "meta": {"notes": notes}}
