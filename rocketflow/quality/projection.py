"""Columns that are built once and selected from every batch: each Column costs calls into the JVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def quoted(name: str) -> str:
    """Return a column's name quoted for Spark, with any characters in it."""
    return f"`{name.replace('`', '``')}`"


@dataclass(frozen=True, slots=True)
class Projection:
    """Columns to select, step by step; a later step may use columns of an earlier one."""

    steps: tuple[tuple[Column | str, ...], ...]

    def of(self, rows: DataFrame) -> DataFrame:
        """Return the rows with these columns."""
        for step in self.steps:
            rows = rows.select(*step)
        return rows
