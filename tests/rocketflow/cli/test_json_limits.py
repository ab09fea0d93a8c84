"""Deep JSON from outside raises one typed error that names its position, never a RecursionError."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rocketflow.airflow.audit import HISTORY, AuditReports
from rocketflow.airflow.outcome import json_result
from rocketflow.cli.app import run
from rocketflow.environment import LOGGING
from rocketflow.errors import RocketFlowError
from rocketflow.kafka.into_store.to_rows import held_properties
from rocketflow.kafka.shared.mark import decode_mark
from rocketflow.quality.bodies.body_schema import body_spec
from rocketflow.quality.results.results import RESULT_TOPIC, fields_of
from rocketflow.quality.suites.suite import load_suite
from rocketflow.spark.shared.checkpoint import query_id
from rocketflow.spark.shared.option_values import OptionError, OptionValues
from rocketflow_store import MessageStore
from rocketflow_store.files.json_text import MAX_JSON_DEPTH, parse_json

DEEP = {"lists": "[" * 200_000, "objects": '{"a":' * 200_000, "closed": "[" * 200_000 + "]" * 200_000}
deep = pytest.mark.parametrize("text", DEEP.values(), ids=DEEP.keys())


@deep
@pytest.mark.parametrize(
    ("read", "named"),
    [
        (load_suite, "file.json"),
        (lambda path: body_spec(str(path), "json"), "file.json"),
        (lambda path: decode_mark(path.read_bytes(), "marks-0 at 7"), "marks-0 at 7"),
        (lambda path: fields_of(path.read_bytes(), "/data/store"), f"/data/store: a message of {RESULT_TOPIC}"),
    ],
    ids=["suite", "schema", "mark", "result"],
)
def test_deep_json_raises_a_typed_error_that_names_its_position(
    tmp_path: Path, text: str, read: Callable[[Path], object], named: str
) -> None:
    file = tmp_path / "file.json"
    file.write_text(text)
    with pytest.raises(RocketFlowError, match="nested too deeply") as caught:
        read(file)
    assert named in str(caught.value)


@deep
def test_deep_json_of_an_optional_value_is_ignored(tmp_path: Path, text: str) -> None:
    assert held_properties(text.encode()) == {}
    assert json_result(['{"done": true}', text if text[0] == "{" else '{"a": ' + text]) == {"done": True}
    (tmp_path / "metadata").write_text(text)
    assert query_id(str(tmp_path)) is None
    reports = AuditReports(tmp_path, "store")
    reports.home.mkdir()
    (reports.home / "20260101T000000Z.json").write_text(text)
    reports.keep(datetime(2026, 1, 2, tzinfo=UTC), {"exitCode": 0}, 10)
    broken, complete = json.loads((reports.home / HISTORY).read_text())["reports"]
    assert broken.keys() - complete.keys() == {"unreadable"}
    with pytest.raises(OptionError, match=r"startingOffsets.* characters\)") as caught:
        OptionValues({"startingOffsets": text}).json_object("startingOffsets", "an object")
    assert len(str(caught.value)) < 500


@deep
def test_append_refuses_a_deep_line_and_appends_the_next(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "lines"
    lines.write_text(f'{text}\n{{"body": "b"}}\n')
    assert run(["store", "append", str(tmp_path / "s"), "--topic", "t", "--create", "--input", str(lines)]) == 1
    printed = capsys.readouterr()
    assert "error: line 1: nested too deeply" in printed.err
    assert "PUT_OK" in printed.out


@deep
def test_deep_logging_file_is_refused_by_name(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    MessageStore.open(tmp_path / "s").close()
    file = tmp_path / "logging.json"
    file.write_text(text)
    monkeypatch.setenv(LOGGING.key, str(file))
    assert run(["store", "info", str(tmp_path / "s")]) == 2
    err = capsys.readouterr().err
    assert f"logging configuration {file} cannot be used (nested too deeply" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("depth", [1, MAX_JSON_DEPTH, MAX_JSON_DEPTH + 1, 300])
def test_depth_of_files_is_limited(depth: int) -> None:
    """Python parses 300 nested lists, but recursive functions over the result could fail."""
    for text in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
        assert parse_json(text) is not None
        if depth <= MAX_JSON_DEPTH:
            assert parse_json(text, max_depth=MAX_JSON_DEPTH) is not None
            continue
        with pytest.raises(ValueError, match="nested too deeply"):
            parse_json(text, max_depth=MAX_JSON_DEPTH)
