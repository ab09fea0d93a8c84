"""The source's columns as Spark types, and the projection that a user's schema asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rocketflow_store import StoreError, UnknownColumnError
from rocketflow_store.spi.records import SOURCE_SCHEMA
from rocketflow_store.spi.setting_rows import nearest_name

if TYPE_CHECKING:
    import pyarrow as pa

PROPERTIES_COLUMN: Final = "properties"
BODY_ERROR_COLUMN: Final = "bodyError"

_SPARK_TYPES: Final[dict[str, DataType]] = {
    "string": StringType(),
    "int32": IntegerType(),
    "int64": LongType(),
    "binary": BinaryType(),
    "timestamp[us, tz=UTC]": TimestampType(),
    "map<string, string>": MapType(StringType(), StringType()),
}

COLUMN_TYPES: Final[dict[str, DataType]] = {field.name: _SPARK_TYPES[str(field.type)] for field in SOURCE_SCHEMA}
"""Spark type of every source column, in the default schema's order, those that options add last."""


class ColumnTypeError(StoreError):
    """A schema asks for a source column with another type than it has."""

    exit_code = 2

    def __init__(self, column: str, asked: str, actual: str) -> None:
        super().__init__(f"column {column} is {actual}, not {asked}; ask for {column} {actual} and cast in the query")
        self.column, self.asked, self.actual = column, asked, actual


class ColumnNameError(UnknownColumnError):
    """A schema names a column that the source does not have; the error names the nearest one."""

    def __init__(self, column: str, allowed: tuple[str, ...]) -> None:
        super().__init__(column, allowed)
        nearest = nearest_name(column, allowed)
        if nearest:
            self.args = (f"{self.args[0]} (did you mean {nearest}?)",)


class RepeatedColumnError(StoreError):
    """A schema names a column of the source more than once."""

    exit_code = 2

    def __init__(self, column: str) -> None:
        super().__init__(f"column {column} is in the schema more than once; read it once and copy it in the query")
        self.column = column


@dataclass(frozen=True, slots=True)
class Projection:
    """The columns to read, in order, and the exact Arrow schema of the result."""

    columns: tuple[str, ...]
    arrow_schema: pa.Schema

    @classmethod
    def of(cls, schema: StructType) -> Projection:
        """Return the projection of a schema in any order; raise for an unknown or repeated column or a wrong type."""
        from pyspark.sql.pandas.types import to_arrow_schema

        seen: set[str] = set()
        for field in schema.fields:
            if field.name in seen:
                raise RepeatedColumnError(field.name)
            if field.name not in COLUMN_TYPES:
                raise ColumnNameError(field.name, tuple(name for name in COLUMN_TYPES if name not in seen))
            seen.add(field.name)
            actual = COLUMN_TYPES[field.name]
            if not _same_type(field.dataType, actual):
                raise ColumnTypeError(field.name, field.dataType.simpleString(), actual.simpleString())
        return cls(tuple(field.name for field in schema.fields), to_arrow_schema(schema, timezone="UTC"))


def _same_type(asked: DataType, actual: DataType) -> bool:
    if isinstance(actual, MapType):
        return isinstance(asked, MapType) and asked.keyType == actual.keyType and asked.valueType == actual.valueType
    return asked == actual


def source_schema(include_properties: bool, body_error: bool = False) -> StructType:
    """Return the default schema of the source, with the columns that its options add."""
    added = {PROPERTIES_COLUMN: include_properties, BODY_ERROR_COLUMN: body_error}
    return StructType(
        [StructField(name, kind, nullable=True) for name, kind in COLUMN_TYPES.items() if added.get(name, True)]
    )
