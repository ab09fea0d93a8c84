"""The parts of the provider that need no Airflow: outcomes, plans, positions, reports, connections, tied commands."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rocketflow.airflow.audit import AuditReports
from rocketflow.airflow.command import RunningCommand, child_environment
from rocketflow.airflow.connection import StoreConnection, StoreConnectionError
from rocketflow.airflow.outcome import FINDING_CODES, CommandEnd, Verdict, json_result
from rocketflow.airflow.positions import Goal, TopicPosition, position_of
from rocketflow.airflow.rebuild_plan import plan_rebuild, summarise

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("code", "result", "verdict"),
    [
        (0, None, Verdict.DONE),
        (1, {"findings": []}, Verdict.FINDINGS),
        (3, {"findings": []}, Verdict.FINDINGS),
        (1, None, Verdict.FAIL),
        (2, {}, Verdict.FAIL),
        (75, None, Verdict.RETRY),
        (-9, None, Verdict.RETRY),
        (143, None, Verdict.RETRY),
        (127, None, Verdict.FAIL),
    ],
)
def test_verdict_of_an_exit_code(code: int, result: dict[str, object] | None, verdict: Verdict) -> None:
    assert CommandEnd(("rocketflow",), code, result).verdict(FINDING_CODES) is verdict


def test_findings_are_a_failure_unless_accepted() -> None:
    assert CommandEnd(("rocketflow",), 3, {}).verdict() is Verdict.FAIL


def test_result_is_the_last_json_object() -> None:
    assert json_result(['{"a": 1}', "{no", '{"b": 2}', "[3]", "bye"]) == {"b": 2}
    assert json_result(["[1]", "1"]) is None
    odd = RunningCommand([sys.executable, "-c", 'print(\'{"a": "x\\u2028y"}\')'], os.environ)
    assert odd.wait(lambda _: None).result == {"a": "x\u2028y"}


def finding(kind: str, file: str) -> dict[str, object]:
    return {"kind": kind, "file": file, "offset": 0, "length": 0, "detail": ""}


@pytest.mark.parametrize(
    ("findings", "selections"),
    [
        ([], []),
        ([("record", "/s/commitlog/00000000000000000000")], []),
        ([("file-size", "/s/commitlog/00000000000000000000")], []),
        (
            [("missing-unit", "/s/consumequeue/a/0/00000000000000000000")],
            [["--only", "consumequeue", "--topic", "a"]],
        ),
        (
            [
                ("wrong-unit", "/s/consumequeue/b/0/00000000000000000000"),
                ("stray-unit", "/s/batchconsumequeue/a/12/00000000000000000000"),
                ("missing-entry", "/s/commitlog/00000000000000000000"),
            ],
            [["--only", "consumequeue", "--topic", "a", "--topic", "b"], ["--only", "index"]],
        ),
        ([("file-size", "/s/consumequeue/b/0/00000000000000000000")], [["--only", "consumequeue"]]),
        ([("file-size", "/s/index/20260101000000000")], [["--only", "index"]]),
        ([("missing-unit", "/s/consumequeue/%LMQ%x/0/00000000000000000000")], [["--only", "consumequeue"]]),
        (
            [
                ("missing-unit", "/s/consumequeue/%LMQ%x/0/00000000000000000000"),
                ("index-chain", "/s/index/20260101000000000"),
            ],
            [[]],
        ),
    ],
)
def test_plan_has_only_damaged_topics_and_index(findings: list[tuple[str, str]], selections: list[list[str]]) -> None:
    result = {"findings": [finding(*one) for one in findings], "unlistedFindings": 0}
    plan = plan_rebuild(result)
    assert plan.selections() == selections
    assert bool(plan) == bool(selections)


def test_plan_is_complete_if_findings_are_unlisted_or_many() -> None:
    assert plan_rebuild({"findings": [], "unlistedFindings": 1}).selections() == [[]]
    many = [finding("missing-unit", f"/s/consumequeue/t{number}/0/00000000000000000000") for number in range(21)]
    assert plan_rebuild({"findings": many}).selections() == [["--only", "consumequeue"]]


def test_summary_has_counts_and_few_findings() -> None:
    found = [finding("record", f"f{number}") for number in range(1000)]
    summary = summarise(
        {"records": 1, "bytes": 2, "seconds": 3, "lostRecords": 4, "findings": found, "unlistedFindings": 5}
    )
    assert summary["findingCount"] == 1005
    assert summary["findingsByKind"] == {"record": 1000}
    assert len(summary["findings"]) == 20


def test_end_and_lag_are_computed_by_queue_and_in_total() -> None:
    info = {
        "topics": [
            {
                "topic": "t",
                "queues": [
                    {"queueId": 0, "minOffset": 5, "maxOffset": 20},
                    {"queueId": 1, "minOffset": 0, "maxOffset": 7},
                ],
            }
        ]
    }
    tables = [{"offsetTable": {"t@g": {"0": 12, "1": 7}}}, {"offsetTable": {"t@g": {"0": 15}, "u@g": {"1": 1}}}, {}]
    lmq = {"lmqOffsetTable": {"t@%LMQ%g": 9}, "offsetTable": {"t@g": {"0": 1}}}
    found = position_of(info, "t", "g", tables)
    assert (found.end(), found.end(1), found.end(9)) == (27, 7, 0)
    assert (found.lag(), found.lag(0), found.lag(1)) == (5, 5, 0)
    assert position_of(info, "t", "%LMQ%g", [*tables, lmq]).lag(0) == 11
    assert position_of(info, "t", "g", [*tables, lmq]).lag(0) == 5
    assert position_of(info, "t", "h", tables).lag() == 22  # messages that retention deleted do not count
    assert Goal("t", offset=27).reached(found)
    assert not Goal("t", offset=28).reached(found)
    assert Goal("t", group="g", lag_below=6).reached(found)
    assert not Goal("t", group="g", lag_below=5).reached(found)
    assert not Goal("t", group="g", lag_below=5).reached(TopicPosition("t"))  # a topic that does not exist yet


@pytest.mark.parametrize(
    "wrong",
    [{}, {"offset": 1, "group": "g", "lag_below": 1}, {"group": "g"}, {"lag_below": 1}, {"offset": 1, "group": "g"}],
)
def test_goal_needs_either_offset_or_lag(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="lag_below"):
        Goal("t", **wrong)  # type: ignore[arg-type]


def test_reports_are_kept_and_pruned(tmp_path: Path) -> None:
    reports = AuditReports(tmp_path, "store/../a")
    first = datetime(2026, 1, 1, tzinfo=UTC)
    for day in (3, 1, 2, 0, 3):
        reports.keep(first + timedelta(days=day), {"store": "/s", "runId": str(day), "exitCode": 0}, most=3)
    assert reports.home.parent == tmp_path
    assert [one.name for one in reports.kept()] == [f"2026010{day}T000000Z.json" for day in (2, 3, 4)]
    history = json.loads((reports.home / "history.json").read_text())["reports"]
    assert [one["runId"] for one in history] == ["1", "2", "3"]
    assert sorted(one.name for one in reports.home.iterdir())[-1] == "history.json"


def test_invalid_connection_raises_and_names_the_extra() -> None:
    with pytest.raises(StoreConnectionError, match="connection c names no store"):
        StoreConnection.of("c", {})
    with pytest.raises(StoreConnectionError, match="connection c: unknown extra 'pth'"):
        StoreConnection.of("c", {"pth": "/s"})
    with pytest.raises(StoreConnectionError, match="'environment'"):
        StoreConnection.of("c", {"path": "/s", "environment": {"a": 1}})


def test_command_lines_of_a_connection(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    full = StoreConnection.of(
        "c", {"path": "/s", "config": "/b.conf", "command": "env A=1 /x/rocketflow", "spark_arguments": "--master m"}
    )
    assert full.command_words() == ["env", "A=1", "/x/rocketflow"]
    assert full.store_words("verify", "--workers", "2") == [
        *("store", "verify", "/s", "--workers", "2", "--config", "/b.conf", "--json"),
    ]
    assert full.job_words("requeue", "--until", "now") == [
        *("submit", "requeue", "--store", "/s", "--config", "/b.conf", "--until", "now", "--", "--master", "m"),
    ]
    plain = StoreConnection.of("c", {"path": "/s", "command": ""})
    monkeypatch.setenv("ROCKETFLOW_COMMAND", "/y/rocketflow")
    assert plain.command_words() == ["/y/rocketflow"]
    monkeypatch.delenv("ROCKETFLOW_COMMAND")
    beside = tmp_path / "rocketflow"
    beside.write_text("")
    beside.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", "/nowhere/bin/python")
    assert plain.command_words() == [str(beside)]
    beside.unlink()
    with pytest.raises(StoreConnectionError, match="ROCKETFLOW_COMMAND"):
        plain.command_words()


def test_dag_files_import_only_airflow_at_module_level() -> None:
    allowed = {"airflow", "rocketflow_dag_parts", *sys.stdlib_module_names}
    files = sorted((ROOT / "airflow_dags").glob("*.py"))
    assert files
    for path in files:
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.Import):
                assert {one.name.split(".")[0] for one in node.names} <= allowed, path
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] in allowed, path


def test_command_does_not_inherit_airflows_secrets() -> None:
    own = {"AIRFLOW__CORE__FERNET_KEY": "s", "_AIRFLOW_X": "1", "PYTHONPATH": "/p", "PATH": "/bin", "A": "1"}
    assert child_environment(own, {"A": "2", "PYTHONPATH": "/q"}) == {"PATH": "/bin", "A": "2", "PYTHONPATH": "/q"}


def test_command_passes_on_stderr_lines_and_returns_its_result() -> None:
    heard: list[str] = []
    script = "import sys; print('one', file=sys.stderr); print('noise'); print('{\"rows\": 3}'); sys.exit(1)"
    end = RunningCommand([sys.executable, "-c", script], os.environ).wait(heard.append)
    assert (end.code, end.result, heard, end.last_line) == (1, {"rows": 3}, ["one"], "one")
    missing = RunningCommand(["/nowhere/rocketflow"], os.environ).wait(heard.append)
    assert missing.code == 2
    assert missing.last_line == "error: /nowhere/rocketflow cannot be run: No such file or directory"


def test_stop_ends_all_processes_of_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that ignores SIGTERM is killed together with its child."""
    monkeypatch.setattr("rocketflow.airflow.command.STOP_S", 0.5)
    running = RunningCommand(["sh", "-c", "trap '' TERM; sleep 600 & echo $! >&2; wait; sleep 600"], os.environ)
    heard: list[str] = []

    def stop(line: str) -> None:
        heard.append(line)
        running.stop()

    assert running.wait(stop).code == -signal.SIGKILL
    assert has_ended(int(heard[0]))


def test_command_ends_when_its_parent_is_killed() -> None:
    script = textwrap.dedent(
        """
        import os
        from rocketflow.airflow.command import RunningCommand
        running = RunningCommand(["sleep", "600"], os.environ)
        print(running.pid, flush=True)
        running.wait(print)
        """
    )
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=variables)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    while not Path(f"/proc/{child}/cmdline").read_bytes().startswith(b"sleep"):
        time.sleep(0.01)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert has_ended(child)


def has_ended(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            if ") Z " in Path(f"/proc/{pid}/stat").read_text():
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False
