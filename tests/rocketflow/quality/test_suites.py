"""Suites and body schemas that cannot be used are refused, and all their problems are named."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocketflow.cli.app import run
from rocketflow.errors import UsageError
from rocketflow.process.job_entry import run_job
from rocketflow.quality.bodies.body_schema import BodySpec, body_spec
from rocketflow.quality.bodies.csv_bodies import CsvDialect
from rocketflow.quality.bodies.malformed import BodyReasons
from rocketflow.quality.errors import BodySchemaError, SuiteRefusedError
from rocketflow.quality.jobs.draft_suite import Draft, draft_suite
from rocketflow.quality.jobs.range_check import RangeCheck, preflight
from rocketflow.quality.results.trend import percent
from rocketflow.quality.suites.suite import Action, load_suite
from rocketflow_store import Message, MessageStore
from tests.rocketflow.quality.topics import fill, suite, suite_json
from tests.support.output_fields import check_fields

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_file_that_is_no_suite_is_refused_with_all_problems(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    for text, problems in (
        ("{", ["is not JSON"]),
        ("[]", ["is no JSON object"]),
        ('{"name": "x"}', ["has no list of expectations"]),
        (
            json.dumps(
                {
                    "naem": "x",
                    "expectations": [
                        {"kwargs": {}},
                        {"type": "t", "kwarg": {}},
                        {"type": "t", "severity": "fatal"},
                        {"type": "t", "meta": {"rocketflow": {"action": "explode"}}},
                        {"type": "t", "kwargs": {"max_value": {"$PARAMETER": "p"}}},
                    ],
                }
            ),
            ["'naem'", "no name", "1: has no type", "kwarg", "fatal", "explode", r"\$PARAMETER"],
        ),
    ):
        file.write_text(text)
        with pytest.raises(SuiteRefusedError) as caught:
            load_suite(file)
        assert len(caught.value.problems) == len(problems)
        for problem in problems:
            assert caught.match(problem)


@pytest.mark.parametrize("meta", ["warn", ["warn"], {"bodySchema": 5}])
def test_invalid_rocketflow_settings_of_a_suite_are_refused(tmp_path: Path, meta: object) -> None:
    raw = suite_json(("expect_table_row_count_to_be_between", {"min_value": 0}))
    (tmp_path / "s.json").write_text(json.dumps({**raw, "meta": {"rocketflow": meta}}))
    with pytest.raises(SuiteRefusedError, match=r"meta\.rocketflow"):
        load_suite(tmp_path / "s.json")


def test_suite_has_unique_labels_a_version_and_actions() -> None:
    one = ("expect_column_values_to_be_between", {"column": "i", "min_value": 0})
    made = suite(one, one, {"type": "expect_table_row_count_to_be_between", "kwargs": {}, "severity": "warning"})
    assert [each.label for each in made.expectations[:2]] == [
        "expect_column_values_to_be_between(i)",
        "expect_column_values_to_be_between(i)#2",
    ]
    actions = [made.action_of(each, Action.FAIL) for each in made.expectations]
    assert actions == [Action.FAIL, Action.FAIL, Action.WARN]
    assert (
        made.version
        == suite(
            one,
            one,
            {
                **suite_json(one)["expectations"][0],
                "severity": "warning",
                "type": "expect_table_row_count_to_be_between",
                "kwargs": {},
            },
        ).version
    )
    assert made.version != suite(one).version


@pytest.mark.spark
def test_all_expectations_that_cannot_be_applied_are_named(spark: SparkSession) -> None:
    from pyspark.sql.types import StructType

    from rocketflow.quality.check.suite_trial import plan_suite

    between = "expect_column_values_to_be_between"
    query = "SELECT * FROM {batch} WHERE "
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("expect_column_values_to_not_be_nul", {"column": "i"}, "did you mean expect_column_values_to_not_be_null"),
        ("expect_column_values_to_not_be_null", {"column": "delya"}, "unknown column 'delya' .did you mean delay"),
        (between, {"column": "i"}, "min_value and max_value cannot both be None"),
        (between, {"column": "delay", "min_value": 0, "foo": 1}, "foo: extra fields"),
        (between, {"column": "s", "min_value": 3}, "cannot be computed on column of type StringType"),
        ("expect_column_values_to_be_in_set", {"column": "i", "value_set": ["a"]}, "CAST_INVALID_INPUT"),
        ("expect_column_values_to_be_in_set", {"column": "i", "value_set": [1, None]}, "value_set holds null"),
        ("expect_column_values_to_match_regex", {"column": "s", "regex": "("}, "`regexp` in `rlike` is invalid"),
        ("expect_column_values_to_be_increasing", {"column": "i"}, "have no order"),
        ("unexpected_rows_expectation", {"unexpected_rows_query": query + "nowhere > 1"}, "UNRESOLVED_COLUMN"),
        ("unexpected_rows_expectation", {"unexpected_rows_query": query + "i >"}, "PARSE_SYNTAX_ERROR"),
    ]
    fine = ("expect_column_values_to_not_be_null", {"column": "i"})
    asked = suite(fine, *[(kind, kwargs) for kind, kwargs, _ in wrong])
    with pytest.raises(SuiteRefusedError) as caught:
        plan_suite(spark, asked, StructType.fromDDL("i int, delay int, s string"))  # type: ignore[arg-type]
    assert len(caught.value.problems) == len(wrong)
    for kind, _, problem in wrong:
        assert caught.match(f"{kind}.*: .*{problem}")
    assert caught.value.exit_code == 2


def test_json_schema_file_gives_fields_and_refuses_checks(tmp_path: Path) -> None:
    file = tmp_path / "flight.json"
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "required": ["carrier"],
        "properties": {
            "carrier": {"type": "string"},
            "delay": {"type": ["integer", "null"], "description": "minutes"},
            "when": {"type": "string", "format": "date-time"},
            "legs": {
                "type": "array",
                "items": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "boolean"}}},
            },
        },
    }
    file.write_text(json.dumps(schema))
    ddl = "`carrier` string, `delay` bigint, `when` timestamp, `legs` array<struct<`a`: double, `b`: boolean>>"
    assert body_spec(str(file)) == BodySpec("json", ddl, (("carrier",),), strings=(("carrier",), ("when",)))
    schema["properties"]["delay"]["minimum"] = 0  # type: ignore[index]
    file.write_text(json.dumps(schema))
    with pytest.raises(BodySchemaError, match="delay: minimum is a check, not a type; write it as an expectation"):
        body_spec(str(file))


def test_requirements_of_inner_objects_of_a_json_schema(tmp_path: Path) -> None:
    file = tmp_path / "flight.json"
    inner: dict[str, Any] = {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}
    schema = {"type": "object", "properties": {"a": inner}, "additionalProperties": False}
    file.write_text(json.dumps(schema))
    assert body_spec(str(file)) == BodySpec("json", "`a` struct<`b`: bigint>", (("a", "b"),), closed=True)
    for asked, why in (
        ({"a": {"type": "array", "items": inner}}, r"a\[\]: required is a check"),
        ({"a": {**inner, "additionalProperties": False}}, "a: additionalProperties is a check"),
        ({"a": {**inner, "required": ["c"]}}, "a.required names a field that properties does not have"),
    ):
        file.write_text(json.dumps({"type": "object", "properties": asked}))
        with pytest.raises(BodySchemaError, match=why):
            body_spec(str(file))


@pytest.mark.parametrize(
    ("schema", "body_format", "why"),
    [
        (None, "json", "needs --body-schema"),
        ("a int", "xml", "one of json"),
        ("a int", "text", "one column"),
        ("a int", "none", "needs"),
    ],
)
def test_body_schema_that_does_not_fit_its_format_raises(schema: str | None, body_format: str, why: str) -> None:
    with pytest.raises(BodySchemaError, match=why):
        body_spec(schema, body_format)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "is empty"),
        (b"\xff\xfe", "is not UTF-8: byte 0 is 0xff"),
        (b"{", "is not JSON: Expecting property name"),
        (b"[1]", "is no JSON object but [1]"),
        (b'{"i": "x"}', 'field i is no int: "x"'),
        (b'{"i": 3000000000}', "field i is no int: 3000000000"),
        (b'{"i": 1}', "has no field n, which is required"),
    ],
)
def test_reason_of_an_unreadable_body_names_the_problem(body: bytes, why: str) -> None:
    reasons = BodyReasons("json", (("i", "int"), ("n", "string")), ("n",) if b": 1}" in body else ())
    assert reasons.why(body).startswith(why)
    assert BodyReasons("csv", (("a", "int"), ("b", "string"))).why(b"x,y") == 'field a is no int: "x"'
    assert BodyReasons("csv", (("a", "int"), ("b", "string"))).why(b"1") == "has 1 fields, the body schema has 2"


@pytest.mark.parametrize(
    ("body_format", "separator", "body"),
    [
        ("json", ",", b'{"a":' + b"[" * 100_000),
        ("csv", ",", b"x" * 200_000 + b",yy"),
        ("csv", "||", b"AA||x"),
    ],
)
def test_reason_of_any_body_is_found_without_an_error(body_format: str, separator: str, body: bytes) -> None:
    reasons = BodyReasons(body_format, (("a", "string"), ("b", "int")), dialect=CsvDialect(separator))
    assert reasons.why(body) == "could not be read with the body schema"


def drafted_from(path: Path, bodies: list[bytes], body_format: str) -> Draft:
    with MessageStore.open(path) as store:
        for body in bodies:
            store.put_message(Message("odd", body, queue_id=0))
    return draft_suite(str(path), "odd", body_format=body_format)


def test_suite_is_drafted_from_csv_lines_with_quotes(tmp_path: Path) -> None:
    bodies = [b'1,"a, b"', b'2,"two\nlines"', b'3,"say ""x"""', b"4,plain,more", b'5,"open', b"\xff,x", b""]
    draft = drafted_from(tmp_path / "s", bodies, "csv")
    assert (draft.sampled, draft.unreadable, draft.schema) == (3, 4, "c1 bigint, c2 string")


def test_suite_is_drafted_from_unusual_objects(tmp_path: Path) -> None:
    fields = {"größe": 1, "a`b": True, "": 3, "huge": 1 << 70, "beyond": 10**400}
    bodies = [json.dumps(fields).encode(), b'{"a": "\\ud800"}', b"[" * 100_000, b"3"]
    draft = drafted_from(tmp_path / "s", bodies, "json")
    assert (draft.sampled, draft.unreadable) == (1, 3)
    assert draft.schema == "`größe` bigint, huge double, beyond double"
    assert draft.left_out == ("a`b",), "Great Expectations cannot name it"


def test_suite_is_drafted_from_a_topic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "store"
    rows = [{"i": at, "s": "ab"[at % 2], "n": None if at % 10 == 0 else at / 4, "free": f"x{at}"} for at in range(100)]
    fill(store, "data", [*rows, b"no json"])
    file = tmp_path / "conf" / "data.json"
    assert run(["quality", "init", "data", "--store", str(store), "--to", str(file)]) == 0
    assert "1 could not be read" in capsys.readouterr().out
    made = load_suite(file)
    assert made.body_schema == "i bigint, s string, n double, free string"
    asked = {each.label: each.kwargs for each in made.expectations}
    assert asked["expect_column_values_to_be_in_set(s)"]["value_set"] == ["a", "b"]
    assert asked["expect_column_values_to_not_be_null(n)"]["mostly"] == 0.85
    assert "expect_column_values_to_be_in_set(free)" not in asked
    bounds = asked["expect_column_values_to_be_between(i)"]
    assert (bounds["min_value"], bounds["max_value"]) == (0, 109)
    assert run(["quality", "init", "data", "--store", str(store), "--to", str(file)]) == 2, "it may be edited already"
    assert "--force" in capsys.readouterr().err
    assert run(["quality", "init", str(store), "--topic", "data", "--to", str(file), "--force", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    check_fields("quality init", printed)
    assert (printed["sampled"], printed["unreadable"], printed["leftOut"]) == (100, 1, [])
    assert draft_suite(str(store), "data").unreadable == 1


def test_draft_samples_the_complete_topic_and_uses_warnings_for_ranges_and_sets(tmp_path: Path) -> None:
    store = tmp_path / "store"
    fill(store, "data", [{"i": at, "s": "ab"[at % 2]} for at in range(3000)], queues=3)
    draft = draft_suite(str(store), "data", sample=600)
    assert 600 <= draft.sampled <= 620
    asked = {one["type"]: one for one in draft.suite["expectations"]}
    bounds = asked["expect_column_values_to_be_between"]
    assert bounds["kwargs"]["min_value"] == 0
    assert bounds["kwargs"]["max_value"] >= 2999
    assert {name: one["severity"] for name, one in asked.items()} == {
        "expect_column_values_to_not_be_null": "critical",
        "expect_column_values_to_be_between": "warning",
        "expect_column_values_to_be_in_set": "warning",
        "expect_table_row_count_to_be_between": "warning",
    }


@pytest.mark.parametrize(
    ("rate", "shown"), [(1.0, "100.0%"), (1 - 32 / 336_776, "99.9%"), (0.9994, "99.9%"), (0.0, "0.0%"), (0.5, "50.0%")]
)
def test_percent_shows_100_for_all_rows_only(rate: float, shown: str) -> None:
    assert percent(rate) == shown


def test_wrong_arguments_exit_with_2_and_start_no_jvm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rocketflow.quality.jobs.quality_job import main

    store = tmp_path / "store"
    fill(store, "data", [{"i": 1}])
    file = tmp_path / "s.json"
    file.write_text(json.dumps(suite_json(("expect_column_to_exist", {"column": "i"}), schema="i int")))
    common = ["--subscribe", "data", "--quarantine-topic", "bad", "--checkpoint", str(tmp_path / "cp")]
    for wrong in (
        ["--source", str(store), "--suite", str(tmp_path / "none.json")],
        ["--source", str(tmp_path), "--suite", str(file)],
        ["--source", str(store), "--suite", str(file), "--good-topic", "data"],
        ["--source", str(store), "--suite", str(file), "--good-topic", "bad"],
        ["--source", str(store), "--suite", str(file), "--good-foreach", "json:nothing"],
        ["--source", str(store), "--suite", str(file), "--option", "startingOfsets=earliest"],
        ["--source", str(store), "--suite", str(file), "--body-format", "csv"],
    ):
        assert run_job(partial(main, [*wrong, *common])) == 2, wrong
        assert capsys.readouterr().err.startswith("error: ")
    assert run(["quality", "check", str(store), "--topic", "other", "--suite", str(file)]) == 2
    assert run(["quality", "docs", str(store), "--to", str(tmp_path / "site")]) == 2
    assert not (tmp_path / "cp").exists()


def test_range_that_ends_before_its_start_is_refused(tmp_path: Path) -> None:
    """A gate with swapped bounds would check no message, and pass."""
    check = RangeCheck(str(tmp_path), "t", "suite.json", from_ms=2, to_ms=1)
    with pytest.raises(UsageError, match="--begin 2 is after --end 0"):
        preflight(check)


def test_draft_of_lists_alone_raises(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"hold lists or have no usable name \(a, b\): write the suite"):
        drafted_from(tmp_path / "s", [b'{"a": [{"x": 1}], "b": [1]}'], "json")


def test_draft_uses_the_body_options_and_keeps_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, file = str(tmp_path / "store"), tmp_path / "s.json"
    fill(tmp_path / "store", "data", [f"{one};'a;''{one % 2}';NA".encode() for one in range(40)])
    asked = ["quality", "init", "data", "--store", store, "--to", str(file), "--body-format", "csv", "--body-option"]
    assert run([*asked, "sep=;", "--body-option", "quote='", "--body-option", "nullValue=NA"]) == 0
    made = load_suite(file)
    assert (made.body_schema, made.body_options) == (
        "c1 bigint, c2 string, c3 string",
        {"sep": ";", "quote": "'", "nullValue": "NA"},
    )
    kinds = {each.label: each.kwargs for each in made.expectations}
    assert kinds["expect_column_values_to_be_in_set(c2)"]["value_set"] == ["a;'0", "a;'1"]
    for option in ("dateFormat=yyyy", "sep=||", "separator=x"):
        assert run([*asked, option, "--force"]) == 2, option
    assert "--body-option" in capsys.readouterr().err


def test_misspelt_topic_is_an_error_of_every_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A command that read no message would look successful."""
    from rocketflow.quality.jobs.quality_job import main

    store, file = str(tmp_path / "store"), tmp_path / "s.json"
    fill(tmp_path / "store", "flights", [{"i": 1}])
    file.write_text(json.dumps(suite_json(("expect_column_to_exist", {"column": "i"}), schema="i int")))
    asked = ["--source", store, "--suite", str(file), "--quarantine-topic", "bad", "--checkpoint", str(tmp_path / "cp")]
    assert run_job(partial(main, [*asked, "--subscribe", "flihgts"])) == 2
    assert "did you mean flights?" in capsys.readouterr().err
    assert run(["quality", "check", store, "--topic", "flihgts", "--suite", str(file)]) == 2
    assert "did you mean flights?" in capsys.readouterr().err
    assert run(["quality", "init", "flihgts", "--store", store, "--to", str(tmp_path / "d.json")]) == 2
    assert run(["quality", "results", store, "--topic", "flihgts"]) == 2
    assert run(["quality", "results", store, "--topic", "flights"]) == 0
