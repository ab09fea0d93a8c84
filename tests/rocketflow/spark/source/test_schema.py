"""Schemas that the source accepts, and the errors of the others."""

from __future__ import annotations

import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from rocketflow.spark.source.columns import (
    ColumnNameError,
    ColumnTypeError,
    Projection,
    RepeatedColumnError,
)

BODY = StructField("body", BinaryType())


def test_a_projection_has_the_columns_asked_for_in_their_order() -> None:
    found = Projection.of(StructType([StructField("queueOffset", LongType()), BODY]))
    assert found.columns == ("queueOffset", "body")
    assert [str(field.type) for field in found.arrow_schema] == ["int64", "binary"]


@pytest.mark.parametrize(
    ("field", "error", "message"),
    [
        (StructField("Body", BinaryType()), ColumnNameError, "unknown column 'Body'"),
        (StructField("tag", StringType()), ColumnNameError, "did you mean tags?"),
        (StructField("queueOffset", IntegerType()), ColumnTypeError, "queueOffset is bigint, not int; ask for"),
        (BODY, RepeatedColumnError, "column body is in the schema more than once"),
    ],
)
def test_wrong_schema_raises_and_names_the_column(field: StructField, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Projection.of(StructType([BODY, field]))
