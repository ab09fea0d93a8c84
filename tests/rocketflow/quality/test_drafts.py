"""A drafted suite passes on the data that it was drafted from; suites may name fields of structs, and dates."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from rocketflow.quality.jobs.draft_suite import draft_suite
from rocketflow.quality.jobs.range_check import RangeCheck, check_range
from rocketflow.quality.results.results import quarantine_reasons, reasons_text
from rocketflow_store import MessageStore
from tests.rocketflow.quality.topics import fill, write_suite
from tests.support.trials import LEVEL, SEED, seeds

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_VALUES: list[list[Any]] = [
    [0, 1, (1 << 63) - 1, -(1 << 63)],
    [(1 << 63) - 1],
    [1 << 63, 5, -(1 << 70)],
    [0.0, -0.0, 1.7976931348623157e308, -1.7976931348623157e308],
    [float("nan"), 1.5, 2],
    [float("inf"), 1.0],
    [0.1, 12345678901234567, 3],
    ["", "naïve", "😀😀", "e\u0301", " x ", "a\nb", 'q"q', "\\"],
    ["2013-01-01", "2013-13-01", "2013-01-01T00:00:00Z"],
    [True, False],
    [True, 1, "x", 1e22, 0.5],
    ["x"],
]


def _bodies(made: random.Random, count: int) -> list[dict[str, Any]]:
    """Return objects whose fields are of one of the kinds each, absent or null now and then, nested and not."""
    kinds = {f"f{at}": values for at, values in enumerate(_VALUES)}
    absent = made.choice([0.0, 0.01, 0.4, 0.7])

    def fields() -> dict[str, Any]:
        found = {name: made.choice(values) for name, values in kinds.items() if made.random() >= absent}
        return {name: None if made.random() < absent / 3 else value for name, value in found.items()}

    return [
        {
            **fields(),
            "Case": 1,
            "case": "x",
            "a.b": 1,
            "a`b": 2,
            "list": [1],
            "order": {"city": "x", "deep": {"f0": made.choice(_VALUES[0]), "f4": made.choice(_VALUES[4])}},
        }
        for _ in range(count)
    ]


def _check_own_draft(spark: SparkSession, path: Path, bodies: list[Any], body_format: str, about: str) -> list[str]:
    path.mkdir()
    fill(path / "store", "data", bodies)
    draft = draft_suite(str(path / "store"), "data", body_format=body_format)
    file = path / "suite.json"
    file.write_text(json.dumps(draft.suite))
    found = check_range(spark, RangeCheck(str(path / "store"), "data", str(file)))
    failed = [one["label"] for one in found["expectations"] if not one["success"] or one["unexpected"]]
    nulls = [one for one in failed if one.startswith("expect_column_values_to_not_be_null")]
    assert found["success"], f"{about}: {failed}"
    assert [one for one in failed if one not in nulls] == [], about
    assert found["malformedBy"] == {}, about
    assert found["rows"] == draft.sampled, about
    return [one["label"] for one in found["expectations"]]


def test_suite_passes_on_the_objects_it_was_drafted_from(spark: SparkSession, tmp_path: Path) -> None:
    for number in seeds(6, 40):
        made = random.Random(number)
        bodies = _bodies(made, made.choice([1, 2, 300]) if number != SEED else 300)
        labels = _check_own_draft(spark, tmp_path / str(number), bodies, "json", f"seed {number}")
        assert number != SEED or "expect_column_values_to_be_between(order.deep.f0)" in labels


@pytest.mark.skipif(LEVEL == "sample", reason="that of objects is sampled: RF_FAULTS=1 runs it")
def test_suite_passes_on_the_lines_it_was_drafted_from(spark: SparkSession, tmp_path: Path) -> None:
    lines = [
        b"1, 1,0.5,nan,true,2013-01-01,1,x",
        b"2,2,1e5,1.5,False,2013-01-02,true,",
        b'-3,3,.5,2,TRUE,2013-01-03,0,"a ""b"""',
    ]
    _check_own_draft(spark, tmp_path / "csv", lines, "csv", "csv")


@pytest.mark.skipif(LEVEL == "sample", reason="half a minute of Spark: RF_FAULTS=1 runs it")
def test_suite_of_nested_fields_and_dates_agrees_with_great_expectations_and_flat_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = random.Random(7)
    flat = [
        {
            "price": made.choice([None, -1.0, 2.5, float("nan"), 9.0]),
            "city": made.choice([None, "ORD", "", "naïve"]),
            "day": made.choice([None, "2013-01-02", "2013-05-06"]),
            "at": f"2013-01-0{made.randint(1, 9)}T00:00:00Z",
            "id": made.randint(0, 60),
        }
        for _ in range(80)
    ]
    kinds = "price double, city string, day date, at timestamp, id int"
    nested = f"order struct<head: struct<{kinds.replace(' ', ': ').replace(',:', ',')}>>"
    fill(tmp_path / "store", "flat", flat)
    fill(tmp_path / "store", "nested", [{"order": {"head": one}} for one in flat])
    between = "expect_column_values_to_be_between"

    def rules(under: str) -> list[tuple[str, dict[str, Any]]]:
        return [
            ("expect_column_values_to_not_be_null", {"column": f"{under}city", "mostly": 0.5}),
            (between, {"column": f"{under}price", "min_value": 0, "max_value": 5}),
            ("expect_column_values_to_be_in_set", {"column": f"{under}city", "value_set": ["ORD", ""]}),
            (between, {"column": f"{under}day", "min_value": "2013-02-01", "max_value": "2013-12-31"}),
            (between, {"column": f"{under}at", "min_value": "2013-01-03T00:00:00", "max_value": "2013-01-05T12:00:00"}),
            ("expect_column_values_to_be_in_set", {"column": f"{under}day", "value_set": ["2013-01-02"]}),
            ("expect_column_values_to_be_unique", {"column": f"{under}id"}),
            ("expect_column_max_to_be_between", {"column": f"{under}id", "max_value": 10}),
            (
                "expect_column_pair_values_a_to_be_greater_than_b",
                {"column_A": f"{under}price", "column_B": f"{under}id", "ignore_row_if": "either_value_is_missing"},
            ),
            ("expect_column_distinct_values_to_be_in_set", {"column": f"{under}city", "value_set": ["ORD"]}),
        ]

    counts, shown = [], []
    for topic, under, schema in (("flat", "", kinds), ("nested", "order.head.", nested)):
        file = write_suite(tmp_path / f"{topic}.json", *rules(under), schema=schema)
        # compares every count and verdict with Great Expectations' own, and raises ValidatorError if they differ
        found = check_range(spark, RangeCheck(str(tmp_path / "store"), topic, file, validator="gx"))
        assert found["malformedBy"] == {}
        counts.append([(one["success"], one["unexpected"]) for one in found["expectations"]])
        shown.append([one["result"].get("partial_unexpected_list") for one in found["result"]["results"]])
    assert counts[0] == counts[1]
    assert shown[0] == shown[1]
    assert all(unexpected for _, unexpected in counts[0] if unexpected is not None)
    assert any(one != one or one == "NaN" for one in shown[0][1]), "NaN counts as unexpected, and is shown"


def test_check_of_a_configured_topic_without_messages_reads_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    fill(tmp_path / "store", "full", [{"i": 1}])
    with MessageStore.open(tmp_path / "store") as store:
        store.create_topic("empty", 2)
    file = write_suite(tmp_path / "s.json", ("expect_column_values_to_not_be_null", {"column": "i"}), schema="i int")
    found = check_range(spark, RangeCheck(str(tmp_path / "store"), "empty", file))
    assert (found["rows"], found["failed"]) == (0, [])


def test_check_names_the_reasons_of_malformed_bodies_with_their_counts(spark: SparkSession, tmp_path: Path) -> None:
    fill(tmp_path / "store", "data", [{"i": 1}, {"i": None}, b"{", b"no", {"i": "x"}, {"i": "y"}, {"i": "z"}, b"[1]"])
    file = write_suite(tmp_path / "s.json", ("expect_column_values_to_not_be_null", {"column": "i"}), schema="i int")
    found = check_range(spark, RangeCheck(str(tmp_path / "store"), "data", file))
    assert found["malformedBy"] == {"field i is no int": 3, "is not JSON": 2, "is no JSON object": 1}
    reasons = quarantine_reasons(found)
    assert reasons_text(reasons) == (
        "body field i is no int: 3; body is not JSON: 2; body is no JSON object: 1; "
        "expect_column_values_to_not_be_null(i): 1"
    )
    assert sum(reasons.values()) == found["quarantined"]
