"""Bodies that a parser would guess at: CSV with quotes, requirements of a JSON Schema, decimals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocketflow.cli.app import run
from rocketflow.quality.bodies.body_schema import body_spec
from rocketflow.quality.bodies.malformed import BodyReasons
from rocketflow.quality.bodies.parsed_bodies import parsing, reasons
from rocketflow.quality.errors import BodySchemaError
from rocketflow.quality.jobs.range_check import RangeCheck, check_range
from rocketflow.quality.pass_columns import CARRIED, MESSAGE, WELL_FORMED
from tests.rocketflow.quality.topics import fill, suite_json, write_suite
from tests.support.output_fields import check_fields
from tests.support.trials import LEVEL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rocketflow.quality.bodies.body_schema import BodySpec

LONG = '"' * 400_000


def _read(spark: SparkSession, spec: BodySpec, bodies: list[bytes]) -> list[tuple[Any, ...] | str]:
    """Return the fields of each body, or the reason why it has none."""
    from pyspark.sql.types import BinaryType, StructField, StructType

    source = StructType([StructField("body", BinaryType(), True)])
    rows = parsing(spec, source).of(spark.createDataFrame([(bytearray(one),) for one in bodies], source)).collect()
    explained = reasons(spec)
    return [
        tuple(row)[: -len(CARRIED)] if row[WELL_FORMED] else explained.why(bytes(row[MESSAGE].body)) for row in rows
    ]


@pytest.mark.spark
def test_csv_is_read_exactly_or_refused(spark: SparkSession) -> None:
    cases: list[tuple[bytes, tuple[Any, ...] | str]] = [
        (b'1,"a, b"', (1, "a, b")),
        (b'2,"say ""x"""', (2, 'say "x"')),
        (b'3,"two\nlines"', (3, "two\nlines")),
        (b'4,"two\r\nlines"\r\n', (4, "two\r\nlines")),
        (b"5,NA", (5, "NA")),
        (b"6,", (6, None)),
        (b'7,""', (7, None)),
        (b",x", (None, "x")),
        (b"8,x\n", (8, "x")),
        (b'9,5" pipe', (9, '5" pipe')),
        (b'10,a "q, b', "has 3 fields, the body schema has 2"),
        (b"11,  x ", (11, "  x ")),
        (b'12,"C:\\dir"', (12, "C:\\dir")),
        (b'13,""""', (13, '"')),
        (b'14,"' + LONG.encode() + b'"', (14, LONG[: len(LONG) // 2])),
        (b"NA,x", 'field n is no int: "NA"'),
        (b'15,"open', "is not CSV: unexpected end of data"),
        (b'16,"x""', "is not CSV: unexpected end of data"),
        (b'17,"ab"cd', "is not CSV: ',' expected after '\"'"),
        (b"18,x\n19,y", "has 2 lines, a body is one"),
        (b"20,x\ry", "has 2 lines, a body is one"),
        (b"\n21,x", "has 2 lines, a body is one"),
        (b"22", "has 1 fields, the body schema has 2"),
        (b"", "is empty"),
        (b"\r\n", "is empty"),
    ]
    found = _read(spark, body_spec("n int, s string", "csv"), [body for body, _ in cases])
    for (body, expected), got in zip(cases, found, strict=True):
        assert got == expected, body[:40]


@pytest.mark.spark
def test_csv_of_other_dialects_is_read(spark: SparkSession) -> None:
    options = {"sep": ";", "escape": "\\", "nullValue": "NA", "quote": "'"}
    bodies = [b"1;'a; \\'b\\''", b"NA;'NA'", b'2;a"b', b"3;'a''b'", b"4;'x"]
    found = _read(spark, body_spec("n int, s string", "csv", options), bodies)
    assert found[:3] == [(1, "a; 'b'"), (None, None), (2, 'a"b')]
    assert found[3:] == ["could not be read with the body schema", "is not CSV: unexpected end of data"]
    assert _read(spark, body_spec("n int, s string", "csv", {"sep": "||"}), [b'1||"a||b"', b"2||x|y", b"3||x\n4||y"])[
        :2
    ] == [(1, "a||b"), (2, "x|y")]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"seperator": ";"}, "seperator: no option of csv bodies"),
        ({"nulValue": "NA"}, "did you mean nullValue"),
        ({"mode": "FAILFAST"}, "mode: no option"),
        ({"quote": "''"}, "give it one character"),
    ],
)
def test_unknown_body_option_raises(options: dict[str, str], why: str) -> None:
    with pytest.raises(BodySchemaError, match=why):
        body_spec("a int", "csv", options)
    with pytest.raises(BodySchemaError, match="bodies of format text have no options"):
        body_spec("a string", "text", {"sep": ","})


@pytest.mark.spark
def test_required_fields_that_may_be_null_must_exist(spark: SparkSession, tmp_path: Path) -> None:
    maybe = {"type": ["string", "null"]}
    inner = {"type": ["object", "null"], "properties": {"b": {"type": ["integer", "null"]}}, "required": ["b"]}
    schema = {"type": "object", "properties": {"s": maybe, "k's": {"type": "integer"}, "a": inner}}
    file = tmp_path / "schema.json"
    file.write_text(json.dumps({**schema, "required": ["s", "k's"]}))
    cases: list[tuple[Any, str | None]] = [
        ({"s": "x", "k's": 1}, None),
        ({"s": None, "k's": 1, "a": None}, None),
        ({"s": None, "k's": 1, "a": {"b": None}}, None),
        ({"s": None, "k's": 1, "a": {"b": 5}}, None),
        ({"k's": 1}, "has no field s, which is required"),
        ({"s": None, "k's": None}, "has no field k's, which is required"),
        ({"s": "x", "k's": 1, "a": {}}, "has no field a.b, which is required"),
    ]
    found = _read(spark, body_spec(str(file)), [json.dumps(body).encode() for body, _ in cases])
    assert [one if isinstance(one, str) else None for one in found] == [why for _, why in cases]


@pytest.mark.parametrize("more", [{"type": "string"}, False])
def test_additional_properties_are_applied_or_refused(tmp_path: Path, more: Any) -> None:
    file = tmp_path / "schema.json"
    inner = {"type": "object", "properties": {"b": {"type": "integer"}}, "additionalProperties": more}
    file.write_text(json.dumps({"type": "object", "properties": {"a": inner}}))
    with pytest.raises(BodySchemaError, match="a: additionalProperties is a check"):
        body_spec(str(file))
    file.write_text(json.dumps(inner))
    if more is False:
        assert body_spec(str(file)).closed
    else:
        with pytest.raises(BodySchemaError, match="the schema: additionalProperties is a check"):
            body_spec(str(file))


@pytest.mark.spark
def test_draft_uses_decimals_and_omits_lists(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Numbers that a double would change are drafted as decimals; fields that no expectation checks are named."""
    store, file = str(tmp_path / "store"), tmp_path / "s.json"
    bodies = [f'{{"amount": {one}.123456789012345678, "in": {{"x": [{one}]}}, "s": "é"}}'.encode() for one in range(40)]
    fill(tmp_path / "store", "data", bodies, 1)
    assert run(["quality", "init", "data", "--store", store, "--to", str(file)]) == 0
    assert "omitted, because they hold lists or a suite cannot name them: in.x" in capsys.readouterr().out
    drafted = json.loads(file.read_text())
    assert "omitted, because they hold lists or a suite cannot name them: in.x" in drafted["notes"]
    assert drafted["meta"]["rocketflow"]["bodySchema"] == "amount decimal(38,18), s string"
    found = check_range(spark, RangeCheck(store, "data", str(file), validator="gx"))
    assert (found["success"], found["rows"], found["malformed"]) == (True, 40, 0)


@pytest.mark.skipif(LEVEL == "sample", reason="a third of a minute of Spark: RF_FAULTS=1 runs it")
@pytest.mark.spark
def test_decimals_are_judged_and_reported(spark: SparkSession, tmp_path: Path) -> None:
    bodies: list[Any] = [
        b'{"n": 0.10, "m": 0.1}', b'{"n": 2.50, "m": 2.5}', b'{"n": 12.34, "m": 1}', b'{"n": null}', b'{"n": 1e9}',
        b'{"n": "7.00", "m": 7}', b'{"n": "much"}',
    ]  # fmt: skip
    fill(tmp_path / "store", "data", bodies, 1)
    asked: list[tuple[str, dict[str, Any], int | None]] = [
        ("expect_column_values_to_be_between", {"column": "n", "min_value": 0.1, "max_value": 9.99}, 1),
        ("expect_column_values_to_be_in_set", {"column": "n", "value_set": [0.1, 2.5, 7]}, 1),
        ("expect_column_values_to_be_unique", {"column": "n"}, 0),
        ("expect_column_pair_values_to_be_equal", {"column_A": "n", "column_B": "m"}, 1),
        ("expect_column_max_to_be_between", {"column": "n", "max_value": 12.34}, None),
        ("expect_column_mean_to_be_between", {"column": "n", "min_value": 5.485, "max_value": 5.485}, None),
        ("expect_column_sum_to_be_between", {"column": "n", "min_value": 21.94, "max_value": 21.94}, None),
        ("expect_column_distinct_values_to_contain_set", {"column": "n", "value_set": [0.1, 2.5]}, None),
        ("expect_column_values_to_be_of_type", {"column": "n", "type_": "DecimalType"}, None),
    ]
    file = write_suite(
        tmp_path / "s.json", *[(kind, kwargs) for kind, kwargs, _ in asked], schema="n decimal(6,2), m decimal(4,1)"
    )
    found = check_range(spark, RangeCheck(str(tmp_path / "store"), "data", file, validator="gx"))
    assert (found["rows"], found["malformed"]) == (7, 2)
    assert [one["unexpected"] for one in found["expectations"]] == [unexpected for _, _, unexpected in asked]
    results = [one["result"] for one in found["result"]["results"]]
    assert results[0]["partial_unexpected_list"] == [12.34]
    assert [one["observed_value"] for one in results[4:7]] == [12.34, 5.485, 21.94]
    assert all(one["success"] for one in found["expectations"][4:])
    json.dumps(found)


@pytest.mark.parametrize(
    ("body", "why"),
    [(b'{"n": 1e9}', "field n is no decimal(6,2): 1000000000.0"), (b'{"n": [1]}', "field n is no decimal(6,2): [1]")],
)
def test_reason_of_an_unreadable_decimal_names_field_and_value(body: bytes, why: str) -> None:
    assert BodyReasons("json", (("n", "decimal(6,2)"),)).why(body) == why
    assert BodyReasons("csv", (("n", "decimal(6,2)"),)).why(b"12345.6") == 'field n is no decimal(6,2): "12345.6"'


@pytest.mark.spark
def test_check_uses_the_body_options_of_command_and_suite(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs the command in the tests' Spark session."""
    monkeypatch.setattr("rocketflow.quality.jobs.session.quality_session", lambda *_, **__: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    store = str(tmp_path / "store")
    fill(tmp_path / "store", "data", [b"1;x", b"NA;y"], 1)
    file = write_suite(tmp_path / "s.json", ("expect_column_values_to_not_be_null", {"column": "s"}))
    options = {"sep": ";", "nullValue": "NA"}
    line = ["quality", "check", store, "--topic", "data", "--suite", file, "--body-schema", "i int, s string"]
    line += ["--body-format", "csv"]
    assert run([*line, *(f"--body-option={name}={value}" for name, value in options.items()), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    check_fields("quality check", found)
    assert (found["rows"], found["malformed"], found["success"]) == (2, 0, True)
    assert run([*line, "--body-option", "seperator=;"]) == 2
    assert "--body-option seperator: no option of csv bodies" in capsys.readouterr().err
    raw = suite_json(("expect_column_values_to_not_be_null", {"column": "s"}))
    own = {"bodySchema": "i int, s string", "bodyFormat": "csv", "bodyOptions": options}
    Path(file).write_text(json.dumps({**raw, "meta": {"rocketflow": own}}))
    assert check_range(spark, RangeCheck(store, "data", file))["malformed"] == 0
