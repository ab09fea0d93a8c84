"""Expectations that no batch can be judged by are refused at the start; batches without values are judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocketflow.quality.bodies.parsed_bodies import source_columns, suite_columns
from rocketflow.quality.check.batch_check import BatchChecker, CheckSettings
from rocketflow.quality.check.split import Route
from rocketflow.quality.check.suite_trial import plan_suite
from rocketflow.quality.errors import SuiteRefusedError
from rocketflow.quality.jobs.range_check import RangeCheck, preflight
from rocketflow.quality.suites.suite import Action
from tests.rocketflow.quality.topics import fill, suite, write_suite
from tests.support.trials import LEVEL, SEED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

VALUES = "expect_column_values_to_"
QUERY = "SELECT * FROM {batch} WHERE "
SCHEMA = "i int, s string, b boolean, d date, t timestamp, n decimal(10,2), a array<int>, m map<string,int>"


def _quantiles(quantiles: Any, ranges: Any) -> dict[str, Any]:
    return {"column": "i", "quantile_ranges": {"quantiles": quantiles, "value_ranges": ranges}}


WRONG: list[tuple[str, dict[str, Any], str]] = [
    (VALUES + "be_between", {"column": "i", "min_value": "2013-01-01"}, "values of i int: .DATATYPE_MISMATCH"),
    (VALUES + "be_between", {"column": "t", "min_value": 5}, "values of t timestamp: .DATATYPE_MISMATCH"),
    (VALUES + "be_between", {"column": "i", "min_value": 5, "max_value": 1}, "nothing is between them"),
    (VALUES + "be_between", {"column": "i", "min_value": 5, "max_value": 5, "strict_max": True}, "nothing is between"),
    (VALUES + "be_in_set", {"column": "s", "value_set": [1, 2]}, "values of s string: .CAST_INVALID_INPUT"),
    (VALUES + "be_in_set", {"column": "a", "value_set": [1, 2]}, "values of a array<int>: .DATATYPE_MISMATCH"),
    (VALUES + "match_regex", {"column": "a", "regex": "x"}, "values of a array<int>: .DATATYPE_MISMATCH"),
    (VALUES + "match_regex_list", {"column": "m", "regex_list": ["x"]}, "values of m map<string,int>: .DATATYPE_"),
    (VALUES + "match_strftime_format", {"column": "i", "strftime_format": "%Y"}, "values of i int: TypeError"),
    (
        VALUES + "match_json_schema",
        {"column": "b", "json_schema": {"type": "object"}},
        "b boolean: TypeError",
    ),
    (VALUES + "match_json_schema", {"column": "s", "json_schema": {"type": "objec"}}, "is no JSON Schema: 'objec'"),
    (VALUES + "be_of_type", {"column": "i", "type_": "Number"}, "No recognized spark types"),
    ("expect_column_value_lengths_to_equal", {"column": "a", "value": 2}, "values of a array<int>: .DATATYPE"),
    ("expect_column_value_lengths_to_equal", {"column": "s", "value": 2.5}, "value 2.5 is not a whole number"),
    (
        "expect_column_value_lengths_to_be_between",
        {"column": "s", "min_value": 3, "max_value": 1},
        "nothing is between",
    ),
    ("expect_column_pair_values_to_be_equal", {"column_A": "i", "column_B": "s"}, "values of i int, s string: .CAST_"),
    ("expect_column_pair_values_a_to_be_greater_than_b", {"column_A": "m", "column_B": "m"}, "values of m map"),
    ("expect_multicolumn_sum_to_equal", {"column_list": ["i", "s"], "sum_total": 3}, "values of i int, s string"),
    ("expect_column_mean_to_be_between", {"column": "s", "min_value": 0}, "Expected numeric column type"),
    ("expect_column_mean_to_be_between", {"column": "i", "min_value": 5, "max_value": 1}, "nothing is between them"),
    ("expect_column_sum_to_be_between", {"column": "s", "min_value": 0}, "values of s string: .CAST_INVALID_INPUT"),
    ("expect_column_stdev_to_be_between", {"column": "s", "min_value": 0}, "values of s string: .CAST_INVALID_INPUT"),
    ("expect_column_max_to_be_between", {"column": "s", "max_value": 9}, "values of s string: "),
    (
        "expect_column_min_to_be_between",
        {"column": "b", "min_value": "2013-01-01"},
        "b boolean: Could not parse",
    ),
    ("expect_column_median_to_be_between", {"column": "s", "min_value": 0}, "StringType is not supported"),
    ("expect_column_quantile_values_to_be_between", _quantiles([0.1], [[0, 5], [0, 9]]), "1 quantiles and 2 value_ran"),
    ("expect_column_quantile_values_to_be_between", _quantiles([1.5], [[0, 5]]), "they are from 0 to 1"),
    ("expect_column_quantile_values_to_be_between", _quantiles([0.5], [[5, 0]]), "nothing is between 5 and 0"),
    ("expect_column_quantile_values_to_be_between", _quantiles([0.5], [["a", "b"]]), "could not convert"),
    ("expect_table_row_count_to_equal", {"value": 2.5}, "value 2.5 is not a whole number"),
    ("unexpected_rows_expectation", {"unexpected_rows_query": QUERY + "i + 3"}, "DATATYPE_MISMATCH|FILTER_NOT_BOOLEAN"),
    ("unexpected_rows_expectation", {"unexpected_rows_query": QUERY + "count(i) > 3"}, "INVALID_WHERE_CONDITION"),
    ("unexpected_rows_expectation", {"unexpected_rows_query": QUERY + "i > 3 s"}, "PARSE_SYNTAX_ERROR"),
]
FINE: list[tuple[str, dict[str, Any]]] = [
    (VALUES + "be_between", {"column": "n", "min_value": 0.5, "max_value": 9.99}),
    (VALUES + "be_between", {"column": "d", "min_value": "2013-01-01"}),
    (VALUES + "be_in_set", {"column": "n", "value_set": [1.25, 3]}),
    (VALUES + "be_in_set", {"column": "d", "value_set": ["2013-01-01"]}),
    (VALUES + "match_regex", {"column": "i", "regex": "^[0-9]+$"}),
    (VALUES + "be_unique", {"column": "a"}),
    ("expect_column_value_lengths_to_equal", {"column": "i", "value": 1}),
    ("expect_column_max_to_be_between", {"column": "d", "max_value": "2030-01-01"}),
    ("unexpected_rows_expectation", {"unexpected_rows_query": QUERY + "try_cast(s AS int) > 3 OR i IS NULL"}),
]


def test_all_arguments_that_do_not_fit_a_columns_type_are_named(spark: SparkSession) -> None:
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(SCHEMA)
    wrong = WRONG if LEVEL != "sample" else WRONG[SEED % 3 :: 3]
    with pytest.raises(SuiteRefusedError) as caught:
        plan_suite(spark, suite(*FINE, *[(kind, kwargs) for kind, kwargs, _ in wrong]), schema)  # type: ignore[arg-type]
    problems = "\n".join(caught.value.problems)
    assert len(caught.value.problems) == len(wrong), problems
    for kind, _, problem in wrong:
        assert caught.match(f"{kind}.*: .*({problem})"), problems


TABLE: list[tuple[str, dict[str, Any]]] = [
    ("expect_column_kl_divergence_to_be_less_than", {"column": "i", "threshold": 0.5,
     "partition_object": {"bins": [0, 5, 10], "weights": [0.5, 0.5]}}),
    ("expect_column_kl_divergence_to_be_less_than", {"column": "s", "threshold": 0.5,
     "partition_object": {"values": ["a", "b"], "weights": [0.5, 0.5]}}),
    ("expect_column_quantile_values_to_be_between", _quantiles([0.5], [[0, 9]])),
    ("expect_column_median_to_be_between", {"column": "i", "min_value": 0}),
    ("expect_column_mean_to_be_between", {"column": "i", "min_value": 0}),
    ("expect_column_sum_to_be_between", {"column": "i", "min_value": 0}),
    ("expect_column_stdev_to_be_between", {"column": "i", "min_value": 0}),
    ("expect_column_min_to_be_between", {"column": "i", "min_value": 0}),
    ("expect_column_most_common_value_to_be_in_set", {"column": "s", "value_set": ["a", "b"]}),
    ("expect_column_proportion_of_unique_values_to_be_between", {"column": "i", "min_value": 0.1}),
    ("expect_column_proportion_of_non_null_values_to_be_between", {"column": "i", "min_value": 0.1}),
    ("expect_column_distinct_values_to_contain_set", {"column": "s", "value_set": ["a"]}),
]  # fmt: skip
EMPTY_IS_FINE: list[tuple[str, dict[str, Any]]] = [
    ("expect_column_distinct_values_to_be_in_set", {"column": "s", "value_set": ["a", "b"]}),
    ("expect_column_unique_value_count_to_be_between", {"column": "i", "max_value": 50}),
    ("expect_table_row_count_to_be_between", {"min_value": 0}),
]


@pytest.mark.skipif(LEVEL == "sample", reason="all expectations with Great Expectations: RF_FAULTS=1 runs it")
@pytest.mark.filterwarnings("ignore:Mean of empty slice:RuntimeWarning")  # Great Expectations, without values
@pytest.mark.filterwarnings("ignore:invalid value encountered in:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:Downcasting object dtype arrays:FutureWarning")
def test_batches_without_values_are_judged(spark: SparkSession, tmp_path: Path) -> None:
    """Without values, expectations about values are not met, and no validator fails."""
    bodies = [{"i": one % 10, "s": "a" if one < 6 else "b"} for one in range(10)]
    nulls = [{"i": None, "s": None}] * 3
    fill(tmp_path / "store", "data", [*bodies, *nulls], 1, tags=["full"] * 10 + ["nulls"] * 3)
    file = write_suite(tmp_path / "s.json", *TABLE, *EMPTY_IS_FINE, schema="i int, s string")
    asked = RangeCheck(str(tmp_path / "store"), "data", file)
    loaded, spec = preflight(asked)
    columns = source_columns(loaded)
    plan = plan_suite(spark, loaded, suite_columns(spec, columns))
    route = Route(("data",), None, "bad", properties=False)
    checker = BatchChecker(plan, CheckSettings(spec, route, Action.QUARANTINE))
    for tag, count in (("full", 10), ("nulls", 3), ("missing", 0)):
        rows = spark.read.format("rocketflow").schema(columns).options(**asked.source_options(), tags=tag).load()
        found = checker.check(checker.prepared(rows), 0)
        assert found.fields["rows"] == count
        met = [one.success for one in found.verdicts]
        assert met == [count == 10] * len(TABLE) + [True] * len(EMPTY_IS_FINE), (tag, met)
        json.dumps(found.fields)
