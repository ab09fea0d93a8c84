"""Messages as the suite sees them: the body's fields and the message's own columns, and whether the body could be read.

Spark's parsers are asked in their permissive mode, with the column for what they refused: they never raise, ANSI mode
or not. Of a message whose body could not be read every column is null, and no expectation is asked about it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from rocketflow.quality.errors import BodySchemaError
from rocketflow.quality.malformed import BodyReasons
from rocketflow.quality.projection import Projection

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

    from rocketflow.quality.body_schema import BodySpec
    from rocketflow.quality.suite import Suite

MESSAGE: Final = "__rf_message"
"""The struct of the source's columns."""
WELL_FORMED: Final = "__rf_ok"
_BODY: Final = "__rf_body"
_MORE_BEHIND: Final = r"\}\s*(,\s*\{|[^\s,\]}])"
"""An object, and behind it something that may be another value."""
_MOST_COLUMNS: Final = 20_000
_CORRUPT: Final = "__rf_corrupt"
HIDDEN: Final = frozenset({"body", "properties"})
"""Columns of the source that a suite does not see."""


def body_type(spec: BodySpec) -> StructType:
    """The fields of a body; BodySchemaError where Spark does not know what was given."""
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
    """What tells why a body was refused."""
    fields = tuple((one.name, one.dataType.simpleString()) for one in body_type(spec).fields)
    return BodyReasons(spec.format, fields, spec.required, _separator(spec), spec.closed, spec.strings)


def _separator(spec: BodySpec) -> str:
    """Between the fields of a CSV body, as Spark reads the options."""
    given = spec.options.get("sep", spec.options.get("delimiter", ","))
    return {"\\t": "\t", "\\\\": "\\"}.get(given, given)


def suite_columns(spec: BodySpec, source: StructType) -> StructType:
    """Columns that a suite may name: the body's fields, then the message's whose name no field has."""
    from pyspark.sql.types import StructField, StructType

    own = body_type(spec).fields
    taken = {one.name.lower() for one in own}
    more = [one for one in source.fields if one.name.lower() not in taken and one.name not in HIDDEN]
    return StructType([StructField(one.name, one.dataType, True) for one in [*own, *more]])


def source_columns(suite: Suite, *, properties: bool = False) -> StructType:
    """What is read of a message: what goes on with it, and what else the suite names."""
    from pyspark.sql.types import StructType

    from rocketflow.quality.split import SOURCE_COLUMNS
    from rocketflow.spark.schema import source_schema

    words = set(re.findall(r"\w+", json.dumps([one.kwargs for one in suite.expectations])))
    wanted = {*SOURCE_COLUMNS, *(["properties"] if properties else []), *(words - HIDDEN)}
    return StructType([one for one in source_schema(properties).fields if one.name in wanted])


def parsing(spec: BodySpec, source: StructType) -> Projection:
    """Rows of the source with the suite's columns, `MESSAGE` and `WELL_FORMED`."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = suite_columns(spec, source)
    own = {one.name for one in body_type(spec).fields}
    message = F.struct(*[F.col(name) for name in source.fieldNames()]).alias(MESSAGE)
    parsed = (message, _parsed(spec).alias(_BODY)) if own else (message,)
    judged = ("*", _readable(spec).alias(WELL_FORMED))
    shown = [
        F.when(F.col(WELL_FORMED), F.col(f"{_BODY if one.name in own else MESSAGE}.`{_quoted(one.name)}`")).alias(
            one.name
        )
        for one in columns.fields
    ]
    return Projection((parsed, judged, (*shown, MESSAGE, WELL_FORMED)))


def _quoted(name: str) -> str:
    return name.replace("`", "``")


def _parsed(spec: BodySpec) -> Column:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StringType, StructField, StructType

    text = F.col("body").cast("string")
    fields = body_type(spec)
    if spec.format == "text":
        return F.struct(text.alias(fields.fields[0].name))
    with_corrupt = StructType([*fields.fields, StructField(_CORRUPT, StringType(), True)])
    quotes = {"allowSingleQuotes": "false"} if spec.format == "json" else {}
    options = {**quotes, **spec.options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    if spec.format == "csv":
        # of more columns than it has room for Spark's parser makes no bad row but an error
        separator = _separator(spec)
        without = F.length(F.replace(text, F.lit(separator), F.lit("")))
        text = F.when(F.length(text) - without < _MOST_COLUMNS * len(separator), text)
        ddl = ", ".join(f"`{_quoted(one.name)}` {one.dataType.simpleString()}" for one in with_corrupt.fields)
        return F.from_csv(text, ddl, options)
    return F.from_json(text, with_corrupt, options)


def _readable(spec: BodySpec) -> Column:
    """Never null."""
    from pyspark.sql import functions as F  # noqa: N812

    if spec.format == "none":
        return F.lit(True)
    text = F.col(f"{MESSAGE}.body").cast("string")
    fine = F.is_valid_utf8(text)
    if spec.format == "text":
        return F.coalesce(fine, F.lit(False))
    fine = fine & F.col(_BODY).isNotNull() & F.col(f"{_BODY}.{_CORRUPT}").isNull()
    if spec.format == "json":  # of an array Spark would take the first element
        fine = fine & ~F.ltrim(text).startswith("[")
        # and of what follows an object it takes no notice: within brackets that is no JSON, or a second element
        more = ~text.rlike(r"\}\s*$") | text.rlike(_MORE_BEHIND)
        opened, closed = (F.length(F.replace(text, F.lit(one), F.lit(""))) for one in "{}")
        more = more | (opened != closed)
        whole = F.try_parse_json(F.concat(F.lit("["), text, F.lit("]")))
        alone = whole.isNotNull() & F.variant_get(whole, "$[1]", "variant").isNull()
        fine = fine & (~more | alone)
    for path in spec.required:
        steps = [_BODY, *(f"`{_quoted(name)}`" for name in path)]
        there = F.col(".".join(steps)).isNotNull()
        fine = fine & (there if len(path) == 1 else F.col(".".join(steps[:-1])).isNull() | there)
    if spec.closed:
        names = F.array(*[F.lit(one.name) for one in body_type(spec).fields])
        fine = fine & (F.size(F.array_except(F.json_object_keys(text), names)) == 0)
    if spec.strings:
        parsed = F.try_parse_json(text)
        for path in spec.strings:
            place = "$" + "".join(f'["{name}"]' if "'" in name else f"['{name}']" for name in path)
            kind = F.schema_of_variant(F.try_variant_get(parsed, place, "variant"))
            fine = fine & F.coalesce(kind.isin("STRING", "VOID"), F.lit(True))
    return F.coalesce(fine, F.lit(False))
