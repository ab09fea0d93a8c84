"""The pass gives the same counts as Great Expectations: every supported row-level expectation, over awkward data."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocketflow.quality.bodies.body_schema import body_spec
from rocketflow.quality.bodies.parsed_bodies import source_columns, suite_columns
from rocketflow.quality.check.suite_trial import plan_suite
from rocketflow.quality.check.verdicts import judgement
from rocketflow.quality.gx.gx_metrics import runtime_configuration
from rocketflow.quality.jobs.range_check import RangeCheck, check_range
from rocketflow.quality.suites.expectation_kinds import ROW_TYPES, UNIQUE_TYPES, Kind, kind_of, row_condition_of
from rocketflow.quality.suites.suite import load_suite
from tests.rocketflow.quality.topics import fill, write_suite
from tests.support.trials import LEVEL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "i int, j int, big bigint, d double, s string, t string, when_ string, b boolean, doc string"
WORDS = ["ORD-1", "ORD-22", "ord-3", "a\\b", "a.b", "a'b", 'q"q', "100%", "naïve", "", " x ", "[x]", "a\nb", "\\d+"]


def _bodies(count: int, seed: int) -> list[dict[str, Any]]:
    made = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if made.random() < 0.15 else value

    return [
        {
            "i": maybe(made.randint(-5, 20)),
            "j": maybe(made.randint(-5, 20)),
            "big": maybe(made.choice([0, 2**31, -(2**62), made.randint(0, 99)])),
            "d": maybe(made.choice([0.0, -0.0, 1.5, 1e300, made.random()])),
            "s": maybe(made.choice(WORDS)),
            "t": maybe(made.choice(WORDS)),
            "when_": maybe(made.choice(["2013-01-02", "2013-13-02", "yesterday"])),
            "b": maybe(made.random() < 0.5),
            "doc": maybe(made.choice(['{"a": 1}', '{"a": "x"}', "{", "3"])),
        }
        for _ in range(count)
    ]


ROWS: list[tuple[str, dict[str, Any]]] = [
    ("expect_column_values_to_not_be_null", {"column": "i"}),
    ("expect_column_values_to_not_be_null", {"column": "s", "mostly": 0.5}),
    ("expect_column_values_to_be_null", {"column": "j"}),
    ("expect_column_values_to_be_in_set", {"column": "s", "value_set": ["ORD-1", "a'b", 'q"q', "a\\b"]}),
    ("expect_column_values_to_be_in_set", {"column": "i", "value_set": [1, 2, 3, 4]}),
    ("expect_column_values_to_not_be_in_set", {"column": "t", "value_set": ["", "[x]"]}),
    ("expect_column_values_to_be_between", {"column": "big", "max_value": 2**31, "strict_max": True}),
    ("expect_column_values_to_be_between", {"column": "d", "min_value": 0.5}),
    ("expect_column_values_to_be_between", {"column": "i", "min_value": 0, "max_value": 10, "mostly": 0.9}),
    ("expect_column_values_to_match_regex", {"column": "s", "regex": r"^ORD-\d+$"}),
    (
        "expect_column_values_to_match_regex",
        {"column": "t", "regex": r"^[\w.'\\\"-]*$", "row_condition": 'col("i") > 3'},
    ),
    ("expect_column_values_to_not_match_regex", {"column": "s", "regex": r"\\"}),
    ("expect_column_values_to_match_regex_list", {"column": "s", "regex_list": ["^O", "b$"], "match_on": "any"}),
    ("expect_column_values_to_not_match_regex_list", {"column": "s", "regex_list": ["^O", "b$"]}),
    ("expect_column_value_lengths_to_be_between", {"column": "s", "min_value": 1, "max_value": 5}),
    ("expect_column_value_lengths_to_equal", {"column": "t", "value": 3}),
    (
        "expect_column_pair_values_to_be_equal",
        {"column_A": "i", "column_B": "j", "ignore_row_if": "either_value_is_missing"},
    ),
    ("expect_column_pair_values_a_to_be_greater_than_b", {"column_A": "i", "column_B": "j", "or_equal": True}),
    (
        "expect_column_pair_values_to_be_in_set",
        {"column_A": "s", "column_B": "t", "value_pairs_set": [("ORD-1", "a.b")]},
    ),
    (
        "expect_multicolumn_sum_to_equal",
        {"column_list": ["i", "j"], "sum_total": 7, "ignore_row_if": "any_value_is_missing"},
    ),
    ("expect_select_column_values_to_be_unique_within_record", {"column_list": ["s", "t"]}),
    ("expect_column_values_to_match_strftime_format", {"column": "when_", "strftime_format": "%Y-%m-%d"}),
    ("expect_column_values_to_be_json_parseable", {"column": "doc"}),
    ("expect_column_values_to_be_unique", {"column": "big"}),
    ("expect_column_values_to_be_unique", {"column": "i", "row_condition": 'col("b").notnull()'}),
    ("expect_compound_columns_to_be_unique", {"column_list": ["i", "j"]}),
    ("unexpected_rows_expectation", {"unexpected_rows_query": "SELECT * FROM {batch} WHERE i > j AND s LIKE 'a%'"}),
    (
        "unexpected_rows_expectation",
        {"unexpected_rows_query": "select * from {batch} where try_divide(i, j) > 2 or s = '{{'"},
    ),
]
TABLE: list[tuple[str, dict[str, Any]]] = [
    ("expect_table_row_count_to_be_between", {"min_value": 1, "max_value": 1000}),
    ("expect_column_mean_to_be_between", {"column": "i", "min_value": 0, "max_value": 5}),
    ("expect_column_max_to_be_between", {"column": "i", "max_value": 19}),
    ("expect_column_stdev_to_be_between", {"column": "i", "min_value": 0, "max_value": 3}),
    ("expect_column_distinct_values_to_be_in_set", {"column": "b", "value_set": [True]}),
    ("expect_column_values_to_be_of_type", {"column": "i", "type_": "IntegerType"}),
    ("unexpected_rows_expectation", {"unexpected_rows_query": "SELECT s FROM {batch} GROUP BY s HAVING count(*) > 30"}),
]


@pytest.mark.spark
def test_pass_and_great_expectations_agree(spark: SparkSession, tmp_path: Path) -> None:
    seed = 20261121
    bodies: list[Any] = _bodies(400, seed)
    bodies[7:7] = [b"no json", b'{"i": "x"}']
    fill(tmp_path / "store", "data", bodies, queues=3)
    conditions = [
        (kind, {**kwargs, "condition_parser": "great_expectations"} if "row_condition" in kwargs else kwargs)
        for kind, kwargs in ROWS
    ]
    if LEVEL == "sample":  # one of each type, the last
        conditions = list({kind: (kind, kwargs) for kind, kwargs in conditions}.values())
    file = write_suite(tmp_path / "suite.json", *conditions, *TABLE, schema=SCHEMA)
    # compares every count and verdict with GX's own validation of the batch, and raises ValidatorError if they differ
    found = check_range(spark, RangeCheck(str(tmp_path / "store"), "data", file, validator="gx"))
    by_rows = found["expectations"][: len(conditions)]
    assert found["rows"] == 402, f"seed {seed}"
    assert found["malformed"] == 2
    assert [one["label"] for one in by_rows if not one["unexpected"]] == [], "data that breaks nothing shows nothing"
    judged = {
        one["expectation_config"]["type"]: one["success"] for one in found["result"]["results"][: len(conditions)]
    }
    assert set(judged) >= (ROW_TYPES | UNIQUE_TYPES) - {
        "expect_multicolumn_values_to_be_equal",
        "expect_column_values_to_match_json_schema",
    }
    mostly = {one["label"]: one["success"] for one in by_rows}
    assert mostly["expect_column_values_to_not_be_null(s)"], "half of them are enough"
    good = [one for one in bodies if isinstance(one, dict)]
    counts = {one["label"]: one["unexpected"] for one in by_rows}
    assert counts["expect_column_values_to_be_between(i)"] == sum(
        one["i"] is not None and not 0 <= one["i"] <= 10 for one in good
    )
    assert counts["expect_column_values_to_match_regex(t)"] > 0
    assert found["success"] is False


@pytest.mark.skipif(LEVEL == "sample", reason="a third of a minute of Spark: RF_FAULTS=1 runs it")
@pytest.mark.spark
def test_value_that_is_no_json_breaks_every_json_schema(spark: SparkSession, tmp_path: Path) -> None:
    """Great Expectations' own condition would fail the query at such a value, and at every replay."""
    bodies: list[Any] = [{"s": one} for one in ('{"a": 1}', "abc", '{"a": "x"}', None, "[")]
    fill(tmp_path / "store", "data", bodies, queues=1)
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    rule = ("expect_column_values_to_match_json_schema", {"column": "s", "json_schema": schema})
    file = write_suite(tmp_path / "suite.json", rule, schema="s string")
    found = check_range(spark, RangeCheck(str(tmp_path / "store"), "data", file))
    assert found["expectations"][0]["unexpected"] == 3


@pytest.mark.parametrize(
    ("query", "condition"),
    [
        ("SELECT * FROM {batch} WHERE a > 1", "a > 1"),
        ("select *\nfrom {batch} where note = 'group by' ;", "note = 'group by'"),
        ("SELECT * FROM {batch} WHERE a = '{{x}}'", "a = '{x}'"),
        ("SELECT * FROM {batch} WHERE a IN (SELECT a FROM {batch})", None),
        ("SELECT * FROM {batch} WHERE a > 1 ORDER BY a LIMIT 3", None),
        ("SELECT a FROM {batch} WHERE a > 1", None),
        ("SELECT * FROM other WHERE a > 1", None),
    ],
)
def test_queries_over_single_rows_are_distinguished(query: str, condition: str | None) -> None:
    assert row_condition_of(query) == condition
    kind = kind_of("unexpected_rows_expectation", {"unexpected_rows_query": query})
    assert kind is (Kind.TABLE if condition is None else Kind.SQL)


@pytest.mark.spark
def test_judge_of_many_batches_agrees_with_great_expectations_on_each(spark: SparkSession, tmp_path: Path) -> None:
    """The judge gets other numbers each time, and results that GX has changed in the meantime."""
    suite = load_suite(write_suite(tmp_path / "suite.json", *ROWS[:7], *TABLE[:3], schema=SCHEMA))
    plan = plan_suite(spark, suite, suite_columns(body_spec(SCHEMA, "json", {}), source_columns(suite)))
    for number in range(3):
        for check in plan.checks:
            assert check.judge is not None
            values: dict[Any, Any] = dict.fromkeys(check.counters, 20 - number) | check.static
            values |= dict.fromkeys(check.observed, 4.5 * number)
            if check.samples is not None:
                values[check.samples] = list(range(number))
            expected = check.gx.metrics_validate(
                metrics=dict(values), execution_engine=plan.engine.engine, runtime_configuration=runtime_configuration()
            )
            found = check.judge.verdict(dict(values), runtime_configuration())
            assert judgement(found) == judgement(expected)
