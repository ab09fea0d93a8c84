"""Which schemas the source takes, and what it says of the others."""

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
    ("field", "error", "told"),
    [
        (StructField("Body", BinaryType()), ColumnNameError, "unknown column 'Body'"),
        (StructField("tag", StringType()), ColumnNameError, "did you mean tags?"),
        (StructField("queueOffset", IntegerType()), ColumnTypeError, "queueOffset is bigint, not int; ask for"),
        (BODY, RepeatedColumnError, "column body is in the schema more than once"),
    ],
)
def test_a_schema_that_is_not_the_sources(field: StructField, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        Projection.of(StructType([BODY, field]))
