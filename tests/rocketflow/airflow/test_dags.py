"""Every DAG in a real Airflow, end to end on real stores: damaged, clean, locked, and with killed processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rocketflow.starter.starter import PROJECT
from rocketflow_store import Message, MessageStore, StoreReader
from rocketflow_store.files.lock import DirectoryLock
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.clock import ManualClock, SystemClock
from tests.rocketflow.airflow.conftest import SIZES, AirflowProcess, derived, lose_queues_and_index
from tests.rocketflow.airflow.environment import DAGS
from tests.support.trials import FULL, LEVEL

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(900)]

REBUILD = "rocketflow_index_rebuild"
_WAIT_S = 200.0


def states(run: dict[str, Any]) -> dict[str, str]:
    return {name: one["state"] for name, one in run["tasks"].items()}


def commands(parent: int, word: str) -> list[int]:
    """Return the descendants of `parent` whose command line has `word`."""
    found = []
    for child in children(parent):
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        found += [child] if word in words and "tied_process.py" not in " ".join(words) else []
    return found


def children(pid: int) -> list[int]:
    found = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(one) for one in tasks.read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def wait_for(what: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + _WAIT_S
    while not (found := what()):
        assert time.monotonic() < deadline, f"not within {_WAIT_S} s"
        time.sleep(0.005)
    return found


def test_dag_files_import_no_heavy_modules(airflow: AirflowProcess) -> None:
    found = airflow.ask("imported", folder=str(DAGS))
    assert found["errors"] == {}
    assert found["loaded"] == []
    assert {one.stem for one in DAGS.glob("rocketflow_*.py")} - {"rocketflow_dag_parts"} == set(found["dags"])
    print({Path(file).name: round(seconds, 3) for file, seconds in found["seconds"].items()})
    for name, dag in found["dags"].items():
        assert dag["doc"], name
        assert dag["undocumented"] == [], name
        assert dag["max_active_runs"] == 1, name
        assert not dag["catchup"], name
        assert dag["deadline"], name
        assert "rocketflow" in dag["tags"], name
        assert dag["params"]["conn_id"] == "rocketflow_default", name
        assert min(dag["retries"].values()) >= 3, name


def test_connection_type_is_registered_and_testable(airflow: AirflowProcess, store: Path) -> None:
    found = airflow.ask("provider")
    assert found["hook"] == "rocketflow.airflow.hook.RocketFlowStoreHook"
    assert "extra__rocketflow__path" in found["fields"]
    assert airflow.ask("test_connection", conn_id="rocketflow_default")["ok"]
    shutil.rmtree(store)
    refused = airflow.ask("test_connection", conn_id="rocketflow_default")
    assert not refused["ok"]
    assert str(store) in refused["message"]


def test_lost_queues_and_index_are_rebuilt_byte_for_byte(airflow: AirflowProcess, store: Path, intact: Path) -> None:
    """The first rebuild is killed, and retried; a repeated run finds nothing to do."""
    lose_queues_and_index(store)
    airflow.begin_run(REBUILD)
    os.kill(wait_for(lambda: commands(airflow.process.pid, "rebuild"))[0], signal.SIGKILL)
    run = airflow.answer()
    assert run["state"] == "success"
    assert run["tasks"]["rebuild"]["tries"] == 2
    assert f"store {store} (connection rocketflow_default): `" in airflow.log_text()
    assert "was killed by signal 9" in airflow.log_text()
    assert derived(store) == derived(intact)
    assert verify_store(store).clean
    repeated = airflow.run(REBUILD)
    assert repeated["state"] == "success"
    assert states(repeated) == {
        "verify": "success",
        "needs_rebuild": "success",
        "rebuild": "skipped",
        "verify_again": "skipped",
    }


@pytest.mark.skipif(LEVEL == "sample", reason="test_parts.py checks the plan: RF_FAULTS=1 runs it")
def test_only_missing_queues_are_rebuilt(airflow: AirflowProcess, store: Path, intact: Path) -> None:
    shutil.rmtree(store / "consumequeue" / "paid" / "2")
    kept = {one: one.stat().st_mtime_ns for one in (store / "consumequeue" / "orders").rglob("*")}
    run = airflow.run(REBUILD)
    assert run["state"] == "success"
    assert run["xcoms"]["verify"]["selections"] == [["--only", "consumequeue", "--topic", "paid"]]
    assert [one["changedFiles"] for one in run["xcoms"]["rebuild"]] == [1]
    assert derived(store) == derived(intact)
    assert {one: one.stat().st_mtime_ns for one in (store / "consumequeue" / "orders").rglob("*")} == kept


@pytest.mark.skipif(LEVEL == "sample", reason="a minute of Airflow: RF_FAULTS=1 runs it")
def test_command_of_a_killed_worker_ends_and_the_run_can_be_repeated(
    another_airflow: Callable[[Path], AirflowProcess], airflow: AirflowProcess, store: Path, intact: Path
) -> None:
    lose_queues_and_index(store)
    with another_airflow(store) as other:
        other.begin_run(REBUILD)
        (command,) = wait_for(lambda: commands(other.process.pid, "rebuild"))
        other.process.kill()
        other.process.wait()
        wait_for(lambda: not Path(f"/proc/{command}").exists())
    run = airflow.run(REBUILD)
    assert run["state"] == "success"
    assert derived(store) == derived(intact)
    assert verify_store(store).clean


def test_locked_store_is_retried(airflow: AirflowProcess, store: Path) -> None:
    lock = DirectoryLock(store / "lock")
    try:
        airflow.begin_run("rocketflow_retention")
        wait_for(lambda: "ended with exit code 75 (the store is locked by another process)" in airflow.log_text())
    finally:
        lock.release()
    run = airflow.answer()
    assert run["state"] == "success"
    assert run["tasks"]["clean"]["tries"] > 1


def test_path_without_a_store_fails_without_retry(airflow: AirflowProcess, store: Path) -> None:
    shutil.rmtree(store)
    store.write_text("no store")
    before = len(airflow.log_text())
    run = airflow.run("rocketflow_retention")
    store.unlink()
    assert run["state"] == "failed"
    assert run["tasks"]["clean"] == {"state": "failed", "tries": 1}
    log = airflow.log_text()[before:]
    assert f"store {store} (connection rocketflow_default): `" in log
    assert f"store clean {store} --json` ended with exit code 2: error: " in log


@pytest.mark.skipif(LEVEL == "sample", reason="a run of a DAG: RF_FAULTS=1 runs it")
def test_audit_with_findings_keeps_its_report_and_fails(airflow: AirflowProcess, store: Path) -> None:
    home = airflow.home / "audit" / "rocketflow_default"
    dates = ["2026-01-02T05:00:00+00:00", "2026-01-03T05:00:00+00:00", "2026-01-04T05:00:00+00:00"]
    assert airflow.run("rocketflow_store_audit", date=dates[0])["state"] == "success"
    log = sorted((store / "commitlog").iterdir())[0]
    with log.open("r+b") as out:
        out.seek(5000)
        out.write(b"\0\1\2\3")
    assert airflow.run("rocketflow_store_audit", {"fail_on": "nothing"}, date=dates[1])["state"] == "success"
    for _ in range(1 if LEVEL == "sample" else 2):  # a run repeated for the same date overwrites its report
        run = airflow.run("rocketflow_store_audit", {"keep": 2}, date=dates[2])
        assert states(run) == {"verify_and_report": "success", "judge": "failed"}
    assert run["tasks"]["judge"]["tries"] == 1
    assert sorted(one.name for one in home.iterdir()) == [
        "20260103T050000Z.json",
        "20260104T050000Z.json",
        "history.json",
    ]
    report = json.loads((home / "20260104T050000Z.json").read_text())
    found = verify_store(store)
    assert report["store"] == str(store)
    assert report["exitCode"] == found.exit_code == 3
    assert report["result"]["findings"] == [one.as_dict() for one in found.findings]
    history = json.loads((home / "history.json").read_text())["reports"]
    assert [one["file"] for one in history] == ["20260103T050000Z.json", "20260104T050000Z.json"]
    assert [one["summary"]["lostRecords"] for one in history] == [found.lost_records] * 2


def test_retention_deletes_expired_files(airflow: AirflowProcess, store: Path) -> None:
    old = sorted((store / "commitlog").iterdir())
    for one in old:
        os.utime(one, (1, 1))
    planned = airflow.run("rocketflow_retention", {"dry_run": True})["xcoms"]["clean"]
    assert [Path(one) for one in planned["commitLogFiles"]] == old[:-1]
    assert sorted((store / "commitlog").iterdir()) == old
    run = airflow.run("rocketflow_retention", {"reserved_hours": 1})
    assert run["state"] == "success"
    assert sorted((store / "commitlog").iterdir()) == old[-1:]
    assert verify_store(store).clean


def test_due_messages_are_delivered_once(airflow: AirflowProcess, store: Path) -> None:
    """The first job is killed; the run retries it, and a repeated run delivers nothing."""
    shutil.rmtree(store)
    hour_ago = ManualClock(SystemClock().now_ms() - 3_600_000)
    with MessageStore.open(store, replace(SIZES, clock=hour_ago)) as writer:
        writer.put_messages(Message("orders", b"%d" % number, delay_time_level=1 + number % 9) for number in range(40))
        writer.put_message(Message("orders", b"later", delay_time_level=18))
    airflow.begin_run("rocketflow_requeue")
    os.kill(wait_for(lambda: commands(airflow.process.pid, "requeue"))[0], signal.SIGKILL)
    run = airflow.answer()
    assert run["state"] == "success"
    assert run["tasks"]["requeue"]["tries"] == 2
    assert run["xcoms"]["requeue"]["rows"] == 40
    assert airflow.run("rocketflow_requeue", {"kinds": ["delay"]})["xcoms"]["requeue"]["rows"] == 0
    with StoreReader(store) as reader:
        found = [
            body.decode()
            for queue in reader.queues("orders")
            for batch in reader.read("orders", queue, *reader.bounds("orders", queue), columns=["body"])
            for body in batch.column(0).to_pylist()
        ]
    assert sorted(map(int, found)) == list(range(40))
    with pytest.raises(AssertionError, match="ParamValidationError: Invalid input for param kinds"):
        airflow.run("rocketflow_requeue", {"kinds": ["tomorrow"]})


@pytest.mark.skipif(LEVEL == "sample", reason="a minute of Airflow and Spark: RF_FAULTS=1 runs it")
def test_quality_gate_checks_the_messages_of_its_day(airflow: AirflowProcess, store: Path, tmp_path: Path) -> None:
    """The second of three days has two bad messages; a day without messages is skipped."""
    shutil.rmtree(store)
    suite = tmp_path / "suite.json"
    kwargs = {"column": "delay", "min_value": 0, "max_value": 100}
    meta = {"rocketflow": {"bodyFormat": "json", "bodySchema": "delay int"}}
    expectation = {"type": "expect_column_values_to_be_between", "kwargs": kwargs}
    suite.write_text(json.dumps({"name": "flights", "expectations": [expectation], "meta": meta}))
    first = int(datetime(2026, 1, 5, 12, tzinfo=UTC).timestamp() * 1000)
    for day, delays in enumerate(([5, 7, 9], [5, -1, 1000, 8], [1])):
        with MessageStore.open(store, replace(SIZES, clock=ManualClock(first + day * 86_400_000))) as writer:
            writer.put_messages(Message("flights", json.dumps({"delay": one}).encode()) for one in delays)
    params = {"suite": str(suite)}
    gate = "rocketflow_quality_gate"
    bad = airflow.run(gate, params, date="2026-01-07T00:00:00+00:00")
    assert states(bad) == {"check": "success", "gate": "failed"}
    assert (bad["xcoms"]["check"]["rows"], bad["xcoms"]["check"]["quarantined"]) == (4, 2)
    assert f"store {store}, topic flights, " in airflow.log_text()
    if FULL:
        good = airflow.run(gate, params, date="2026-01-06T00:00:00+00:00")
        assert states(good) == {"check": "success", "gate": "success"}
        assert (good["xcoms"]["gate"]["rows"], good["xcoms"]["gate"]["quarantined"]) == (3, 0)
        empty = airflow.run(gate, params, date="2026-01-05T00:00:00+00:00")
        assert states(empty) == {"check": "success", "gate": "skipped"}


@pytest.mark.skipif(LEVEL == "sample", reason="two runs of DAGs: RF_FAULTS=1 runs it")
def test_sensors_and_operators_in_a_users_dag(airflow: AirflowProcess, store: Path) -> None:
    """The offset is reached at once; the lag only after the group's offsets advance while the sensor is deferred."""
    offsets = {"offsetTable": {"orders@billing": dict.fromkeys(map(str, range(8)), 0)}}
    (store / "config" / "consumerOffset.json").write_text(json.dumps(offsets))
    airflow.begin_run("waiting", own=True)
    wait_for(lambda: "waiting for the lag of billing in orders to be below 10" in airflow.log_text())
    with MessageStore.open(store, SIZES) as writer:
        ends = {str(queue): writer.max_offset("orders", queue) for queue in range(8)}
        writer.put_message(Message("orders", b"one more", queue_id=0))
    offsets["offsetTable"]["orders@billing"] = ends
    (store / "config" / "consumerOffset.json").write_text(json.dumps(offsets))
    run = airflow.answer()
    assert run["state"] == "success"
    assert run["xcoms"]["lag"] == {"topic": "orders", "queue": None, "end": 15_001, "group": "billing", "lag": 1}
    assert run["xcoms"]["info"]["commitLog"]["files"] == len(list((store / "commitlog").iterdir()))


@pytest.mark.skipif(not FULL, reason="RF_FULL=1 runs it: a Spark session of its own")
def test_rebuild_with_spark_engine(airflow: AirflowProcess, store: Path, intact: Path) -> None:
    lose_queues_and_index(store)
    run = airflow.run(REBUILD, {"engine": "spark"})
    assert run["state"] == "success"
    assert {one["engine"] for one in run["xcoms"]["rebuild"]} == {"spark"}
    assert derived(store) == derived(intact)


@pytest.mark.skipif(not FULL, reason="RF_FULL=1 runs it: a Spark driver of its own")
def test_airflows_spark_operator_submits_the_job(airflow: AirflowProcess, store: Path, intact: Path) -> None:
    lose_queues_and_index(store)
    params = {"job": str(DAGS.parent / "jobs" / "rebuild_index.py"), "store": str(store)}
    run = airflow.run("on_a_cluster", params, own=True)
    assert run["state"] == "success"
    assert derived(store) == derived(intact)


def test_dag_of_a_new_project_is_imported(airflow: AirflowProcess) -> None:
    found = airflow.ask("imported", folder=str(PROJECT / "dags"))
    assert found["errors"] == {}
    assert {name: dag["tasks"] for name, dag in found["dags"].items()} == {
        "orders_pipeline": ["check", "copy_paid_orders"]
    }
