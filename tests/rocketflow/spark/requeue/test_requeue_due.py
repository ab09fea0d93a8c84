"""`jobs/requeue.py` delivers messages of every kind that are due, without a JVM if none is needed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rocketflow.errors import UsageError
from rocketflow.process.job_entry import run_job
from rocketflow.spark.requeue import requeue_job
from rocketflow.spark.requeue.requeue_arguments import parse_arguments
from rocketflow.spark.requeue.requeue_job import main, run_with_spark
from rocketflow_store import FlushDiskType, Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.delivery.requeue.send_back import SendBack, consumer_send_msgs_back
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.clock import ManualClock, SystemClock
from tests.support.output_fields import check_fields
from tests.support.trials import COMMAND_LINE, environment

pytestmark = pytest.mark.spark

HOUR_MS = 3_600_000


def waiting(path: Path) -> int:
    """Fill a store: 5 delayed messages, 4 retries, 3 timer messages that are due, and one of each that is not."""
    now_ms = SystemClock().now_ms()
    clock = ManualClock(now_ms - HOUR_MS)
    sizes = {"mapped_file_size_commit_log": 1 << 20, "mapped_file_size_consume_queue": 20_000}
    index = {"max_hash_slot_num": 5_000, "max_index_num": 20_000, "flush_disk_type": FlushDiskType.ASYNC_FLUSH}
    with MessageStore.open(path, StoreConfig(clock=clock, **sizes, **index)) as store:  # type: ignore[arg-type]
        store.create_topic("orders", 2)
        done = store.put_messages(Message("orders", b"plain %d" % n) for n in range(5))
        offsets = [one.physical_offset for one in done]
        store.put_messages(Message("orders", b"delayed %d" % n, delay_time_level=1 + n) for n in range(5))
        store.put_message(Message("orders", b"delayed later", delay_time_level=18))
        consumer_send_msgs_back(store, SendBack("g"), offsets[:4])
        consumer_send_msgs_back(store, SendBack("g", 18), offsets[4:])
        for number, due_ms in enumerate([*[now_ms - HOUR_MS // 2] * 3, now_ms + HOUR_MS]):
            store.put_message(Message("orders", b"timer %d" % number, deliver_timestamp=due_ms))
    return now_ms


def bodies(path: Path, topic: str) -> Counter[str]:
    found: Counter[str] = Counter()
    with StoreReader(path) as reader:
        for queue_id in reader.queues(topic):
            for batch in reader.read(topic, queue_id, *reader.bounds(topic, queue_id), columns=["body"]):
                found.update(body.decode() for body in batch.column(0).to_pylist())
    return found


ORDERS = Counter(
    [f"plain {n}" for n in range(5)] + [f"delayed {n}" for n in range(5)] + [f"timer {n}" for n in range(3)]
)
RETRIES = Counter(f"plain {n}" for n in range(4))


def run(capsys: pytest.CaptureFixture[str], path: Path, *more: str, code: int = 0) -> dict[str, Any]:
    assert run_job(partial(main, ["--store", str(path), *more])) == code
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_all_kinds_are_delivered_once_without_a_jvm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketflow.spark.session.build_session", lambda *_, **__: pytest.fail("a session was begun"))
    path = tmp_path / "s"
    now_ms = waiting(path)
    size = sum(one.stat().st_size for one in path.rglob("*"))
    preview = run(capsys, path, "--dry-run")
    assert (preview["rows"], preview["byKind"]) == (12, {"delay": 5, "retry": 4, "timer": 3})
    assert (preview["dryRun"], len(preview["timers"]["sample"])) == (True, 3)
    assert sum(one.stat().st_size for one in path.rglob("*")) == size
    early = run(capsys, path, "--kinds", "delay,retry", "--until", str(now_ms - HOUR_MS + 7_000))
    assert early["byKind"] == {"delay": 2, "retry": 0, "timer": 0}
    assert bodies(path, "orders")["delayed 1"] == 1
    result = run(capsys, path)
    expected = {"job": "requeue", "kind": "due", "rows": 10, "batches": 2, "engine": "local", "skipped": 0}
    assert expected.items() <= result.items()
    assert result["byKind"] == {"delay": 3, "retry": 4, "timer": 3}
    assert now_ms < result["nextDueMs"] <= now_ms + HOUR_MS
    assert (bodies(path, "orders"), bodies(path, "%RETRY%g")) == (ORDERS, RETRIES)
    again = run(capsys, path)
    assert (again["rows"], again["batches"]) == (0, 0)
    none = run(capsys, path, "--kinds", "delay")
    assert (none["rows"], none["engine"], none["nextDueMs"] > now_ms) == (0, "none", True)
    check_fields("submit requeue", preview, early, result, again, none)
    assert bodies(path, "orders") == ORDERS
    assert verify_store(path).findings == []
    command = [sys.executable, "-c", COMMAND_LINE, "store", "ledger", str(path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["kind"], one["from"], one["rows"]) for one in lines] == [
        ("delay", "SCHEDULE_TOPIC_XXXX", 2),
        ("delay", "SCHEDULE_TOPIC_XXXX", 7),
        ("timer", "rmq_sys_wheel_timer", 3),
    ]


@pytest.mark.parametrize(
    "lost", [["consumequeue/SCHEDULE_TOPIC_XXXX"], ["consumequeue/rmq_sys_wheel_timer"], ["consumequeue", "rocketflow"]]
)
def test_due_messages_of_lost_queues_are_delivered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lost: list[str]
) -> None:
    path = tmp_path / "s"
    waiting(path)
    for one in lost:
        shutil.rmtree(path / one)
    result = run(capsys, path)
    assert result["byKind"] == {"delay": 5, "retry": 4, "timer": 3}
    assert (bodies(path, "orders"), bodies(path, "%RETRY%g")) == (ORDERS, RETRIES)
    assert run(capsys, path)["rows"] == 0


def test_spark_delivers_the_same_messages(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "s"
    waiting(path)
    job = parse_arguments(["--store", str(path), "--engine", "spark"])
    assert requeue_job.run_without_spark(job) is None
    result, code = run_with_spark(spark, job)
    assert (result["rows"], result["byKind"], code) == (12, {"delay": 5, "retry": 4, "timer": 3}, 0)
    assert (bodies(path, "orders"), bodies(path, "%RETRY%g")) == (ORDERS, RETRIES)


def test_job_on_a_locked_store_exits_with_75_or_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s"
    waiting(path)
    monkeypatch.setattr(requeue_job, "COMMITS_TAKE_S", 0.05)
    store = MessageStore.open(path)
    try:
        assert run_job(partial(main, ["--store", str(path)])) == 75
        out, err = capsys.readouterr()
        assert (out, "locked by" in err) == ("", True)
        assert run(capsys, path, "--dry-run")["rows"] == 12
        closing = threading.Timer(0.3, store.close)
        closing.start()
        assert run(capsys, path, "--wait")["rows"] == 12
        closing.join()
    finally:
        store.close()


def test_submit_starts_no_jvm_without_work_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rocketflow.spark import submit

    path = tmp_path / "s"
    waiting(path)
    commands: list[list[str]] = []

    def child(command: list[str], *_: object) -> subprocess.CompletedProcess[bytes]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 7)

    monkeypatch.setattr(submit, "run_child", child)
    assert submit.submit_job("requeue", ["--store", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 12
    with pytest.raises(UsageError, match="--kinds 'nope'"):
        submit.submit_job("requeue", ["--store", str(path), "--kinds", "nope"])
    assert commands == []
    assert submit.submit_job("requeue", ["--store", str(path), "--from-topic", "orders", "--to-topic", "x"]) == 7
    assert submit.submit_job("requeue", ["--store", str(path), "--", "--master", "local[1]"]) == 7
    assert [command[-1] for command in commands] == ["x", str(path)]
