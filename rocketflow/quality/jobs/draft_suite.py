"""A suite drafted from a sample of a topic: types, nulls, ranges, sets, lengths. The user edits it.

The data may differ from the sample: ranges are widened, sets are only drafted of few and repeated values, and the
notes of every expectation name what it was drafted from. Fields of objects are drafted by dotted paths. Lists are
omitted, and so are fields that a suite cannot name.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import sys
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rocketflow.errors import UsageError
from rocketflow.process.nearest import did_you_mean
from rocketflow.quality.bodies.body_options import check_options
from rocketflow.quality.bodies.csv_bodies import CsvDialect, csv_dialect
from rocketflow.quality.projection import quoted
from rocketflow_store import OnBadBody, RaiseFaults, StoreConfig, StoreReader
from rocketflow_store.spi.json_text import parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST_SET: Final = 25
_PIECE: Final = 100
"""Messages in a row that are sampled; each such piece costs a seek."""
_REPEATED: Final = 20
"""Least mean number of occurrences of a value for which a set is drafted."""
_HEEDED: Final = frozenset({"sep", "delimiter", "quote", "escape", "nullvalue"})
"""Options of bodies that a draft uses."""
_MIXED: Final = pa.large_string()
"""Type of a column of texts that were several types: Spark may write these values otherwise."""
_UNNAMED: Final = "`."
"""Characters of names that Great Expectations cannot pass on to Spark."""
_INTEGER: Final = re.compile(r"[+-]?\d+")
_REAL: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|NaN|-?Inf")
_BOOLEANS: Final = ["true", "True", "TRUE"], ["false", "False", "FALSE"]
"""Texts that Spark's CSV parser takes for booleans, as Arrow may write them."""
_MOST_DOUBLE: Final = sys.float_info.max
_MOST_DIGITS: Final = 38
"""Precision of a decimal."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A suite as JSON, and counts of its sample; `left_out` are fields that the draft omits."""

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
        raise UsageError(
            f"all fields of topic {topic} hold lists or have no usable name ({', '.join(left_out)}): write the suite"
        )
    if table is None or table.num_rows == 0:
        raise UsageError(f"no body of topic {topic} is {body_format}; give --body-format json, csv or text")
    ddl = ", ".join(_fields({name: table[name].type for name in table.schema.names}, " "))
    expectations = [one for name in table.schema.names for one in _of_column(name, table[name].combine_chunks())]
    own = {"bodyFormat": body_format, "bodySchema": ddl, **({"bodyOptions": options} if options else {})}
    suite = {
        "name": topic,
        "expectations": [*expectations, _row_count()],
        "meta": {"rocketflow": own},
        "notes": f"drafted from {table.num_rows} messages of all parts of topic {topic}: edit before use"
        + (
            f"; omitted, because they hold lists or a suite cannot name them: {', '.join(left_out)}" if left_out else ""
        ),
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
    texts = [one for body in bodies if (one := _text(body)) is not None]
    return pa.table({"body": texts}), len(bodies) - len(texts)


def _of_objects(bodies: list[bytes]) -> tuple[pa.Table | None, int, tuple[str, ...]]:
    """Return the fields of JSON objects as columns, the number of unreadable bodies, and the omitted fields."""
    objects = [found for body in bodies if (found := _object(body)) is not None]
    made, left_out = _columns(objects, "")
    if not made and not left_out:
        return None, len(bodies), ()
    return pa.table(made), len(bodies) - len(objects), tuple(left_out)


def _columns(objects: Sequence[dict[str, Any] | None], above: str) -> tuple[dict[str, pa.Array], list[str]]:
    """Return the fields of objects below the path `above` as columns by path, and the paths of the omitted fields."""
    names = list(dict.fromkeys(name for one in objects if one is not None for name in one if name))
    seen: set[str] = set()
    made: dict[str, pa.Array] = {}
    left_out: list[str] = []
    for name in names:
        path, values = above + name, [None if one is None else one.get(name) for one in objects]
        kinds = {type(one) for one in values if one is not None}
        if name.lower() in seen or set(name) & set(_UNNAMED) or list in kinds or (dict in kinds and len(kinds) > 1):
            left_out.append(path)  # Spark does not distinguish names by their case
            continue
        seen.add(name.lower())
        if dict in kinds:
            inner, omitted = _columns(values, f"{path}.")
            made |= inner
            left_out += omitted
        else:
            made[path] = _column(values)
    return made, left_out


def _fields(kinds: Mapping[str, pa.DataType], mark: str) -> list[str]:
    """Return the DDL of fields by path, with `mark` between name and type; those of one object become a struct."""
    groups: dict[str, dict[str, pa.DataType]] = {}
    found: dict[str, str] = {}
    for path, kind in kinds.items():
        name, dot, rest = path.partition(".")
        if dot:
            groups.setdefault(name, {})[rest] = kind
        found[name] = "" if dot else _spark_type(kind)
    for name, inner in groups.items():
        found[name] = f"struct<{', '.join(_fields(inner, ': '))}>"
    return [f"{_quoted(name)}{mark}{kind}" for name, kind in found.items()]


def _of_bodies(bodies: list[bytes], dialect: CsvDialect) -> tuple[pa.Table | None, int]:
    """Return CSV as columns c1, c2, ... of inferred types, of the bodies with the most frequent number of fields."""
    lines = [line for body in bodies if (line := _line(body, dialect))]
    if not lines:
        return None, len(bodies)
    (width, kept), *_ = Counter(map(len, lines)).most_common(1)
    return _of_lines([line for line in lines if len(line) == width], dialect.null), len(bodies) - kept


def _of_lines(lines: list[list[str]], null: str) -> pa.Table:
    """Return columns of lines of one width; a field that is `null` has no value."""
    import pyarrow.csv

    written = io.StringIO()
    csv.writer(written).writerows(lines)
    made = pyarrow.csv.read_csv(
        io.BytesIO(written.getvalue().encode()),
        read_options=pyarrow.csv.ReadOptions(column_names=[f"c{number}" for number in range(1, len(lines[0]) + 1)]),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=pyarrow.csv.ConvertOptions(
            null_values=[null],
            strings_can_be_null=True,
            true_values=_BOOLEANS[0],
            false_values=_BOOLEANS[1],
        ),
    )
    for at, name in enumerate(made.schema.names):
        kind = made[name].type
        texts = [line[at] for line in lines]
        number = _INTEGER if pa.types.is_integer(kind) else _REAL if pa.types.is_floating(kind) else None
        if number and not all(one == null or number.fullmatch(one) for one in texts):  # Spark reads fewer as numbers
            made = made.set_column(at, name, pa.array([None if one == null else one for one in texts], pa.string()))
        elif pa.types.is_floating(kind):
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
    return pa.array(texts, pa.string() if kinds <= {str} else _MIXED)


def _decimals(values: list[Any]) -> pa.Array | None:
    """Return the numbers as decimals if doubles would change them and a decimal has room for all, else None."""
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
    if pa.types.is_integer(kind):
        return "bigint"
    if pa.types.is_floating(kind):
        return "double"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return "boolean" if pa.types.is_boolean(kind) else "string"


def _of_column(name: str, values: pa.Array) -> list[dict[str, Any]]:
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
        if pa.types.is_floating(values.type) and not pc.all(pc.is_finite(values)).as_py():  # NaN is above every bound
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
    room: float
    wide: float
    most: float
    if isinstance(low, int) and isinstance(high, int):
        room = -(-(high - low) // 10)
        wide, most = low - room, high + room
    else:
        room = high / 10 - low / 10
        wide, most = max(low - room, -_MOST_DOUBLE), min(high + room, _MOST_DOUBLE)
    return (max(wide, type(low)(0)) if low >= 0 else wide), most


def _row_count() -> dict[str, Any]:
    notes = "of a batch: raise it to what a batch must have"
    return _expectation("expect_table_row_count_to_be_between", {"min_value": 0}, notes, "warning")


def _expectation(kind: str, kwargs: dict[str, Any], notes: str, severity: str = "critical") -> dict[str, Any]:
    return {"type": kind, "kwargs": kwargs, "severity": severity, "meta": {"notes": notes}}
