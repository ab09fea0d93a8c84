"""Columns that are made once and selected from every batch: each Column costs calls into the JVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def quoted(name: str) -> str:
    """A column's name as Spark reads it, whatever is in it."""
    return f"`{name.replace('`', '``')}`"


@dataclass(frozen=True, slots=True)
class Projection:
    """What is selected, step by step; a later step may use what an earlier one made."""

    steps: tuple[tuple[Column | str, ...], ...]

    def of(self, rows: DataFrame) -> DataFrame:
        """The rows with these columns."""
        for step in self.steps:
            rows = rows.select(*step)
        return rows
