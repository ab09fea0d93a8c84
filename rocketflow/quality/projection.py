"""Columns that are built once and selected from every batch: each Column costs calls into the JVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType


def quoted(name: str) -> str:
    """Return a column's name quoted for Spark, with any characters in it."""
    return f"`{name.replace('`', '``')}`"


def columns_by_name(schema: StructType) -> dict[str, DataType]:
    """Return the types of all columns that a suite may name: the fields, and dotted paths into structs."""
    from pyspark.sql.types import StructType

    found: dict[str, DataType] = {}
    for one in schema.fields:
        if isinstance(one.dataType, StructType):
            inner = columns_by_name(one.dataType)
            found |= {f"{one.name}.{name}": kind for name, kind in inner.items() if "." not in one.name}
    return found | {one.name: one.dataType for one in schema.fields}


def placed(name: str, schema: StructType) -> str:
    """Return the quoted name of a field, or the quoted parts of a dotted path into structs."""
    return quoted(name) if name in schema.fieldNames() else ".".join(map(quoted, name.split(".")))


@dataclass(frozen=True, slots=True)
class Projection:
    """Columns to select, step by step; a later step may use columns of an earlier one."""

    steps: tuple[tuple[Column | str, ...], ...]

    def of(self, rows: DataFrame) -> DataFrame:
        """Return the rows with these columns."""
        for step in self.steps:
            rows = rows.select(*step)
        return rows
