"""Rows of typical values: arguments that do not fit their column's type fail at them, not at a batch.

Rows without values are tried as well, to find the expectations that GX cannot judge then.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rocketflow.quality.gx.gx_metrics import GxEngine
from rocketflow.quality.pass_columns import MESSAGE, PROPERTIES, WELL_FORMED
from rocketflow.quality.projection import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

_TEXTS: Final = ("x{", "y")
"""Strings that are no number, no date and no JSON."""


class Probe:
    """Parsed rows of a schema: `values` has two rows of values and one of nulls, `nulls` one of nulls, `empty` none."""

    def __init__(self, spark: SparkSession, schema: StructType) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        nulls = tuple(None for _ in schema.fields)
        rows = [tuple(_sample(one.dataType, at) for one in schema.fields) for at in range(2)]
        self._names = [quoted(name) for name in schema.fieldNames()]

        def frame(rows: list[tuple[Any, ...]]) -> DataFrame:
            made = spark.createDataFrame(_table(rows, schema), schema)  # of a table: the plan holds it, without jobs
            without = [F.lit(None).alias(name) for name in (MESSAGE, PROPERTIES)]
            return made.select(*self._names, F.lit(True).alias(WELL_FORMED), *without)

        self.values, self.nulls, self.empty = frame([*rows, nulls]), frame([nulls]), frame([])
        self._spark = spark

    def engine(self, rows: DataFrame) -> GxEngine:
        """Return a GX engine over the suite's columns of these rows."""
        return GxEngine(self._spark, rows.select(*self._names))


def _table(rows: list[tuple[Any, ...]], schema: StructType) -> pa.Table:
    from pyspark.sql.pandas.types import to_arrow_schema

    types = to_arrow_schema(schema, timezone="UTC")
    columns = [pa.array([row[at] for row in rows], one.type) for at, one in enumerate(types)]
    return pa.Table.from_arrays(columns, schema=types)


def _sample(kind: DataType, at: int) -> Any:
    """Return a value of the type for Arrow, a different one for each `at`; None for a type that no body has."""
    from pyspark.sql import types as T  # noqa: N812

    if isinstance(kind, T.StringType):
        return _TEXTS[at]
    if isinstance(kind, T.BooleanType):
        return at == 0
    if isinstance(kind, T.IntegralType):
        return at + 1
    if isinstance(kind, T.DecimalType):
        return Decimal(at + 1).scaleb(-kind.scale)
    if isinstance(kind, T.FractionalType):
        return at + 1.5
    if isinstance(kind, T.BinaryType):
        return _TEXTS[at].encode()
    if isinstance(kind, T.DateType):
        return date(2013, 1, at + 1)
    if isinstance(kind, T.TimestampNTZType):
        return datetime(2013, 1, at + 1)  # noqa: DTZ001 the type has no time zone
    if isinstance(kind, T.TimestampType):
        return datetime(2013, 1, at + 1, tzinfo=UTC)
    if isinstance(kind, T.ArrayType):
        return [_sample(kind.elementType, at)]
    if isinstance(kind, T.MapType):
        return [(_sample(kind.keyType, at), _sample(kind.valueType, at))]
    if isinstance(kind, T.StructType):
        return tuple(_sample(one.dataType, at) for one in kind.fields)
    return None
