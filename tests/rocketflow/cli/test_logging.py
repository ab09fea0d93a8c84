"""A file sets the targets of log lines, for commands and jobs."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from rocketflow.cli.app import run
from rocketflow.process.json_lines import JsonLines
from rocketflow_store import Message, MessageStore, StoreConfig
from tests.support.trials import COMMAND_LINE, ROOT, environment

SHIPPED = ROOT / "conf" / "logging.json"


def command(*words: object, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    arguments = [sys.executable, "-c", COMMAND_LINE, *map(str, words)]
    env = environment(**more)
    return subprocess.run(arguments, env=env, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def without_its_queues(tmp_path: Path) -> Path:
    """Make a store whose next open logs an event, RF-HEAL."""
    path = tmp_path / "store"
    with MessageStore.open(path, StoreConfig(mapped_file_size_commit_log=1 << 16)) as store:
        store.put_message(Message("t", b"x", queue_id=0))
    (path / "consumequeue" / "t" / "0").rename(path / "moved")
    return path


@pytest.mark.parametrize("by", ["option", "environment"])
def test_log_lines_go_to_the_target_in_the_file(tmp_path: Path, without_its_queues: Path, by: str) -> None:
    settings = json.loads(SHIPPED.read_bytes())
    settings["handlers"] = {
        "file": {"class": "logging.FileHandler", "filename": str(tmp_path / "log"), "formatter": "line"}
    }
    settings["root"]["handlers"] = ["file"]
    file = tmp_path / "logging.json"
    file.write_text(json.dumps(settings))
    words = ("store", "recover", without_its_queues)
    ended = command("--logging", file, *words) if by == "option" else command(*words, ROCKETFLOW_LOGGING=str(file))
    assert "RF-HEAL" not in ended.stderr
    (line,) = (tmp_path / "log").read_text().splitlines()
    time, level, logger, code = line.split()[:4]
    assert (level, logger, code) == ("WARNING", "rocketflow_store:", "RF-HEAL")
    assert time[10] == "T"
    assert time[19] in "+-"


def test_shipped_logging_file_works(without_its_queues: Path) -> None:
    ended = command("--logging", SHIPPED, "store", "recover", without_its_queues)
    assert " WARNING rocketflow_store: RF-HEAL " in ended.stderr


def test_shipped_file_with_rotation_writes_below_the_current_directory(
    tmp_path: Path, without_its_queues: Path
) -> None:
    file = SHIPPED.with_name("logging-file.json")
    ended = command("--logging", file, "store", "recover", without_its_queues, cwd=tmp_path)
    assert "RF-HEAL" not in ended.stderr
    assert " WARNING rocketflow_store: RF-HEAL " in (tmp_path / "rocketflow.log").read_text("utf-8")
    assert json.loads(file.read_bytes())["handlers"]["file"]["backupCount"] == 10


@pytest.mark.parametrize(
    "text", ["", "3", "{", '{"version": 2}', '{"version": 1, "handlers": {"a": {"class": "no.B"}}}']
)
def test_unusable_logging_file_is_one_error_line(
    tmp_path: Path, text: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "logging.json"
    if text:
        file.write_text(text)
    monkeypatch.setenv("ROCKETFLOW_LOGGING", "")  # the option sets it for jobs
    ends = [(run(["--logging", str(file), "version"]), *capfd.readouterr())]
    if not text:
        job = subprocess.run(
            [sys.executable, ROOT / "jobs" / "stream.py", "--help"],
            env=environment(ROCKETFLOW_LOGGING=str(file)),
            capture_output=True,
            text=True,
            check=False,
        )
        ended = command("--logging", file, "version")
        ends += [(one.returncode, one.stdout, one.stderr) for one in (ended, job)]
    for code, out, err in ends:
        assert (code, out) == (2, "")
        assert err.startswith(f"error: logging configuration {file} cannot be used (")
        assert len(err.splitlines()) == 1


def test_shipped_file_with_json_writes_an_object_a_line(tmp_path: Path, without_its_queues: Path) -> None:
    file = SHIPPED.with_name("logging-json.json")
    command("--logging", file, "store", "recover", without_its_queues, cwd=tmp_path)
    (line,) = (tmp_path / "rocketflow.log").read_text().splitlines()
    found = json.loads(line)
    assert (found["level"], found["logger"], found["message"].split()[0]) == ("WARNING", "rocketflow_store", "RF-HEAL")
    assert datetime.fromisoformat(found["time"]).tzinfo is not None
    assert found.keys() == {"time", "level", "logger", "message"}


def test_a_json_line_has_the_traceback_and_no_line_break() -> None:
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        raised = sys.exc_info()
    record = logging.LogRecord("a.logger", logging.ERROR, __file__, 1, "it %s", ("fäils\n",), raised)
    line = JsonLines().format(record)
    assert "\n" not in line
    found = json.loads(line)
    assert found["message"] == "it fäils\n"
    assert found["error"].endswith("ValueError: first\nsecond")
