"""Messages as the suite sees them: the body's fields, the message's columns, and whether the body could be read.

Spark's parsers run in permissive mode with a column for refused text: they never raise, ANSI mode or not. If a body
could not be read, every column of its message is null, and no expectation is evaluated on it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from rocketflow.quality.bodies.csv_bodies import csv_dialect
from rocketflow.quality.bodies.malformed import BodyReasons
from rocketflow.quality.errors import BodySchemaError
from rocketflow.quality.pass_columns import (
    BODY_ERROR,
    CARRIED,
    HIDDEN,
    MESSAGE,
    PROPERTIES,
    SOURCE_COLUMNS,
    WELL_FORMED,
)
from rocketflow.quality.projection import Projection, quoted
from rocketflow_store import OnBadBody

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column
    from pyspark.sql.types import StructType

    from rocketflow.quality.bodies.body_schema import BodySpec
    from rocketflow.quality.suites.suite import Suite

_BODY: Final = "__rf_body"
_SEEN: Final = "__rf_seen"
_MORE_AFTER: Final = r"\}\s*(,\s*\{|[^\s,\]}])"
"""An object, and after it something that may be another value."""
_MOST_COLUMNS: Final = 20_000
_CORRUPT: Final = "__rf_corrupt"


def body_type(spec: BodySpec) -> StructType:
    """Return the fields of a body; raise BodySchemaError if Spark cannot parse the schema."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    if not spec.ddl:
        return StructType([])
    try:
        found = StructType.fromDDL(spec.ddl)
    except PySparkException as error:
        raise BodySchemaError(f"--body-schema {spec.ddl!r}: {str(error).strip().splitlines()[0]}") from error
    assert isinstance(found, StructType)
    return found


def reasons(spec: BodySpec) -> BodyReasons:
    """Return the parser that finds why a body was refused."""
    return BodyReasons(
        spec.format,
        fields=tuple((one.name, one.dataType.simpleString()) for one in body_type(spec).fields),
        required=spec.required,
        present=spec.present,
        closed=spec.closed,
        strings=spec.strings,
        dialect=csv_dialect(spec.options),
    )


def suite_columns(spec: BodySpec, source: StructType) -> StructType:
    """Return the columns that a suite may name: the body's fields, and the message's that no field hides."""
    from pyspark.sql.types import StructField, StructType

    own = body_type(spec).fields
    taken = {one.name.lower() for one in own}
    more = [one for one in source.fields if one.name.lower() not in taken and one.name not in HIDDEN]
    return StructType([StructField(one.name, one.dataType, True) for one in [*own, *more]])


def quarantining(options: Mapping[str, str]) -> tuple[dict[str, str], bool]:
    """Return the options of the source, and whether messages whose body cannot be decoded are quarantined.

    They are then read as they are stored, with the reason: the pass writes them to the quarantine topic.
    """
    found = {name: value for name, value in options.items() if name.lower() != "onbadbody"}
    given = [value for name, value in options.items() if name.lower() == "onbadbody"]
    if not given or given[0].strip().lower() != OnBadBody.QUARANTINE.value:
        return dict(options), False
    return {**found, "onBadBody": OnBadBody.RAW.value}, True


def source_columns(suite: Suite, *, properties: bool = False, body_error: bool = False) -> StructType:
    """Return the columns to read of a message: those that are written on, and others that the suite names."""
    from pyspark.sql.types import StructType

    from rocketflow.spark.source.columns import source_schema

    words = set(re.findall(r"\w+", json.dumps([one.kwargs for one in suite.expectations])))
    added = [*(["properties"] if properties else []), *([BODY_ERROR] if body_error else [])]
    wanted = {*SOURCE_COLUMNS, *added, *(words - HIDDEN)}
    return StructType([one for one in source_schema(properties, body_error).fields if one.name in wanted])


def parsing(spec: BodySpec, source: StructType) -> Projection:
    """Return the projection of the source's rows to the suite's columns and `CARRIED`."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = suite_columns(spec, source)
    own = {one.name for one in body_type(spec).fields}
    message = F.struct(*[F.col(name) for name in source.fieldNames() if name != "properties"]).alias(MESSAGE)
    properties = F.col("properties") if "properties" in source.fieldNames() else F.lit(None).cast("map<string,string>")
    parsed = (*([_parsed(spec).alias(_BODY)] if own else []), message, properties.alias(PROPERTIES))
    readable = _readable(spec)
    if BODY_ERROR in source.fieldNames():
        readable = F.col(f"{MESSAGE}.{BODY_ERROR}").isNull() & readable
    judged = ("*", readable.alias(WELL_FORMED))
    seen = [F.when(F.col(WELL_FORMED), F.col(MESSAGE)).alias(_SEEN)]
    if own:  # one condition for the struct instead of one for each field: every batch is planned again
        seen.append(F.when(F.col(WELL_FORMED), F.col(_BODY)).alias(_BODY))
    shown = [
        F.col(f"{_BODY if one.name in own else _SEEN}.{quoted(one.name)}").alias(one.name) for one in columns.fields
    ]
    return Projection((parsed, judged, (*seen, *CARRIED), (*shown, *CARRIED)))


def _parsed(spec: BodySpec) -> Column:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StringType, StructField, StructType

    text = F.col("body").cast("string")
    fields = body_type(spec)
    if spec.format == "text":
        return F.struct(text.alias(fields.fields[0].name))
    with_corrupt = StructType([*fields.fields, StructField(_CORRUPT, StringType(), True)])
    options = {**spec.options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    if spec.format == "csv":
        dialect = csv_dialect(spec.options)
        line = F.when(text.endswith("\n"), F.regexp_replace(text, r"\r?\n\z", "")).otherwise(text)
        # with too many columns Spark's parser raises instead of marking the row as corrupt
        without = F.length(F.replace(text, F.lit(dialect.separator), F.lit("")))
        line = F.when(F.length(text) - without < _MOST_COLUMNS * len(dialect.separator), line)
        ddl = ", ".join(f"{quoted(one.name)} {one.dataType.simpleString()}" for one in with_corrupt.fields)
        return F.from_csv(line, ddl, {**options, **dialect.spark_options()})
    if not any(name.lower() == "allowsinglequotes" for name in options):
        options["allowSingleQuotes"] = "false"
    return F.from_json(text, with_corrupt, options)


def _place(path: tuple[str, ...]) -> str:
    """Return the path of a variant's field in Spark's syntax."""
    return "$" + "".join(f'["{name}"]' if "'" in name else f"['{name}']" for name in path)


def _field(path: tuple[str, ...]) -> Column:
    """Return a field of the parsed body."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.col(".".join([_BODY, *map(quoted, path)]))


def _where_held(path: tuple[str, ...], held: Column) -> Column:
    """Return `held`, or true if the object that holds the field at `path` does not exist."""
    return held if len(path) == 1 else _field(path[:-1]).isNull() | held


def _ends_once(text: Column) -> Column:
    """Return true if the text is UTF-8, begins with a brace, and its first closing brace is its last byte, as in most.

    Spark's own searches go byte by byte, which takes as long as parsing. Java's split at one character does not; it
    decodes the text before it, and bytes that are not UTF-8 differ when they are encoded again.
    """
    from pyspark.sql import functions as F  # noqa: N812

    return text.startswith("{") & (F.concat(F.split(text, r"\}", 2)[0], F.lit("}")) == text)


def _one_object(text: Column) -> Column:
    """Return true if the text is no array, of which Spark would take the first element, and ends with the object.

    Spark ignores text after an object: within brackets such text is no JSON, or a second element; a bracket is not
    valid as a field. Each expression is used once and inside a CASE: Spark evaluates one that occurs twice in a
    condition for every row, needed or not.
    """
    from pyspark.sql import functions as F  # noqa: N812

    opened, closed = (F.length(F.replace(text, F.lit(one), F.lit(""))) for one in "{}")
    more = ~text.rlike(r"\}\s*$") | text.rlike(_MORE_AFTER) | (opened != closed)
    elements = F.try_variant_get(F.try_parse_json(F.concat(F.lit("["), text, F.lit("]"))), "$", "array<variant>")
    as_field = F.try_parse_json(F.concat(F.lit('{"x":'), text, F.lit("}")))
    alone = F.when(more, F.coalesce(F.size(elements) == 1, F.lit(False)) & as_field.isNotNull()).otherwise(True)
    return ~text.rlike(r"\A\s*\[") & alone


def _readable(spec: BodySpec) -> Column:
    """Return a column that is true if the body could be read; it is never null."""
    from pyspark.sql import functions as F  # noqa: N812

    if spec.format == "none":
        return F.lit(True)
    text = F.col(f"{MESSAGE}.body").cast("string")
    valid = F.is_valid_utf8(text)
    if spec.format == "text":
        return F.coalesce(valid, F.lit(False))
    if spec.format == "json":
        valid = F.when(_ends_once(text), True).otherwise(valid & _one_object(text))
    fine = valid & F.col(_BODY).isNotNull() & F.col(f"{_BODY}.{_CORRUPT}").isNull()
    if spec.format == "csv":  # check by pattern only those lines that Spark would guess at
        dialect = csv_dialect(spec.options)
        plain = (F.length(text) > 0) & ~text.contains("\n") & ~text.contains("\r")
        if dialect.quote:
            plain = plain & ~text.contains(dialect.quote)
        fine = fine & (plain | text.rlike(r"[^\r\n]") & text.rlike(dialect.pattern))
    for path in spec.required:
        fine = fine & _where_held(path, _field(path).isNotNull())
    if spec.closed:
        names = F.array(*[F.lit(one.name) for one in body_type(spec).fields])
        fine = fine & (F.size(F.array_except(F.json_object_keys(text), names)) == 0)
    parsed = F.try_parse_json(text)
    for path in spec.strings:
        kind = F.schema_of_variant(F.try_variant_get(parsed, _place(path), "variant"))
        fine = fine & F.coalesce(kind.isin("STRING", "VOID"), F.lit(True))
    for path in spec.present:
        fine = fine & _where_held(path, F.try_variant_get(parsed, _place(path), "variant").isNotNull())
    return F.coalesce(fine, F.lit(False))
