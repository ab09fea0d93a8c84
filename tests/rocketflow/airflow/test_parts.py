"""What Airflow's side decides without Airflow: outcomes, plans, positions, reports, connections, tied commands."""

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
        (75, None, Verdict.AGAIN),
        (-9, None, Verdict.AGAIN),
        (143, None, Verdict.AGAIN),
        (127, None, Verdict.FAIL),
    ],
)
def test_what_an_exit_code_means(code: int, result: dict[str, object] | None, verdict: Verdict) -> None:
    assert CommandEnd(("rocketflow",), code, result).verdict(FINDING_CODES) is verdict


def test_findings_are_a_failure_where_nobody_expects_them() -> None:
    assert CommandEnd(("rocketflow",), 3, {}).verdict() is Verdict.FAIL


def test_the_result_is_the_last_object() -> None:
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
def test_only_what_is_hit_is_made_again(findings: list[tuple[str, str]], selections: list[list[str]]) -> None:
    result = {"findings": [finding(*one) for one in findings], "unlistedFindings": 0}
    plan = plan_rebuild(result)
    assert plan.selections() == selections
    assert bool(plan) == bool(selections)


def test_what_was_not_listed_makes_everything_again() -> None:
    assert plan_rebuild({"findings": [], "unlistedFindings": 1}).selections() == [[]]
    many = [finding("missing-unit", f"/s/consumequeue/t{number}/0/00000000000000000000") for number in range(21)]
    assert plan_rebuild({"findings": many}).selections() == [["--only", "consumequeue"]]


def test_a_summary_is_small() -> None:
    found = [finding("record", f"f{number}") for number in range(1000)]
    told = summarise(
        {"records": 1, "bytes": 2, "seconds": 3, "lostRecords": 4, "findings": found, "unlistedFindings": 5}
    )
    assert told["findingCount"] == 1005
    assert told["findingsByKind"] == {"record": 1000}
    assert len(told["findings"]) == 20


def test_lag_and_end() -> None:
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
    light = {"lmqOffsetTable": {"t@%LMQ%g": 9}, "offsetTable": {"t@g": {"0": 1}}}
    found = position_of(info, "t", "g", tables)
    assert (found.end(), found.end(1), found.end(9)) == (27, 7, 0)
    assert (found.lag(), found.lag(0), found.lag(1)) == (5, 5, 0)
    assert position_of(info, "t", "%LMQ%g", [*tables, light]).lag(0) == 11
    assert position_of(info, "t", "g", [*tables, light]).lag(0) == 5
    assert position_of(info, "t", "h", tables).lag() == 22  # what retention took counts no more
    assert Goal("t", offset=27).reached(found)
    assert not Goal("t", offset=28).reached(found)
    assert Goal("t", group="g", lag_below=6).reached(found)
    assert not Goal("t", group="g", lag_below=5).reached(found)
    assert not Goal("t", group="g", lag_below=5).reached(TopicPosition("t"))  # a topic that is not there yet


@pytest.mark.parametrize(
    "wrong",
    [{}, {"offset": 1, "group": "g", "lag_below": 1}, {"group": "g"}, {"lag_below": 1}, {"offset": 1, "group": "g"}],
)
def test_a_goal_is_one_thing(wrong: dict[str, object]) -> None:
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


def test_a_connection_tells_what_it_lacks() -> None:
    with pytest.raises(StoreConnectionError, match="connection c names no store"):
        StoreConnection.of("c", {})
    with pytest.raises(StoreConnectionError, match="extra 'pth' is not known"):
        StoreConnection.of("c", {"pth": "/s"})
    with pytest.raises(StoreConnectionError, match="'environment'"):
        StoreConnection.of("c", {"path": "/s", "environment": {"a": 1}})


def test_the_words_of_a_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = StoreConnection.of(
        "c", {"path": "/s", "config": "/b.conf", "command": "env A=1 /x/rocketflow", "spark_arguments": "--master m"}
    )
    assert told.command_words() == ["env", "A=1", "/x/rocketflow"]
    assert told.store_words("verify", "--workers", "2") == [
        *("store", "verify", "/s", "--workers", "2", "--config", "/b.conf", "--json"),
    ]
    assert told.job_words("requeue", "--until", "now") == [
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


def test_dag_files_import_only_airflow_when_they_are_parsed() -> None:
    allowed = {"airflow", "rocketflow_dag_parts", *sys.stdlib_module_names}
    files = sorted((ROOT / "airflow_dags").glob("*.py"))
    assert files
    for path in files:
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.Import):
                assert {one.name.split(".")[0] for one in node.names} <= allowed, path
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] in allowed, path


def test_a_command_does_not_get_airflows_secrets() -> None:
    own = {"AIRFLOW__CORE__FERNET_KEY": "s", "_AIRFLOW_X": "1", "PYTHONPATH": "/p", "PATH": "/bin", "A": "1"}
    assert child_environment(own, {"A": "2", "PYTHONPATH": "/q"}) == {"PATH": "/bin", "A": "2", "PYTHONPATH": "/q"}


def test_a_command_is_told_and_its_result_comes_back() -> None:
    heard: list[str] = []
    script = "import sys; print('one', file=sys.stderr); print('noise'); print('{\"rows\": 3}'); sys.exit(1)"
    end = RunningCommand([sys.executable, "-c", script], os.environ).wait(heard.append)
    assert (end.code, end.result, heard, end.last_words) == (1, {"rows": 3}, ["one"], "one")
    missing = RunningCommand(["/nowhere/rocketflow"], os.environ).wait(heard.append)
    assert missing.code == 2
    assert missing.last_words == "error: /nowhere/rocketflow cannot be run: No such file or directory"


def test_a_stop_ends_the_whole_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child of a command that ignores SIGTERM is killed with it."""
    monkeypatch.setattr("rocketflow.airflow.command.STOP_S", 0.5)
    running = RunningCommand(["sh", "-c", "trap '' TERM; sleep 600 & echo $! >&2; wait; sleep 600"], os.environ)
    heard: list[str] = []

    def stop(line: str) -> None:
        heard.append(line)
        running.stop()

    assert running.wait(stop).code == -signal.SIGKILL
    assert gone(int(heard[0]))


def test_a_command_ends_with_whoever_waits_for_it() -> None:
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
    assert gone(child)


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            if ") Z " in Path(f"/proc/{pid}/stat").read_text():
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False
