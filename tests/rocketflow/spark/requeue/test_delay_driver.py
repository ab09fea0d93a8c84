"""Delayed messages delivered by Spark's tasks: the same messages, in the same order, once."""

from __future__ import annotations

import shutil
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from rocketflow.spark.requeue import delay_driver
from rocketflow.spark.requeue.delay_driver import DueRange, deliver_due_on_spark, stage_range
from rocketflow.spark.shared.shared_paths import PathNotSharedError
from rocketflow_store import FlushDiskType, MessageStore, StoreConfig, StoreReader
from rocketflow_store.commits.batch_commit import SinkCommitError
from rocketflow_store.commits.staged_part import load
from rocketflow_store.delivery.delay.delivery import DelayDelivery, deliver_due
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.config_files.delay_offsets import DelayOffsetsFile
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.errors import StoreLockedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOW = 1_700_000_000_000
COUNT = 3000


def config(now_ms: int) -> StoreConfig:
    return StoreConfig(clock=ManualClock(now_ms), flush_disk_type=FlushDiskType.ASYNC_FLUSH)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a store in which messages of levels 1 and 2 in turn wait, for two topics."""
    rows = {
        "body": [b"%d" % number for number in range(COUNT)],
        "topic": [("orders", "%RETRY%g")[number % 3 == 0] for number in range(COUNT)],
        "keys": [f"k{number}" for number in range(COUNT)],
        "delayTimeLevel": pa.array(1 + np.arange(COUNT) % 2, pa.int32()),
    }
    with MessageStore.open(tmp_path / "s", config(NOW)) as store:
        store.append_batch(pa.RecordBatch.from_pydict(rows))
    return tmp_path / "s"


def delivered(path: Path) -> dict[tuple[str, int], list[int]]:
    found = {}
    with StoreReader(path) as reader:
        for topic in ("orders", "%RETRY%g"):
            for queue in reader.queues(topic):
                batches = reader.read(topic, queue, *reader.bounds(topic, queue), columns=["body"])
                found[topic, queue] = [int(one) for batch in batches for one in batch.column(0).to_pylist()]
    return found


def test_tasks_deliver_the_same_messages_as_the_store(
    spark: SparkSession, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(path, tmp_path / "twin")
    monkeypatch.setattr(delay_driver, "UNITS_A_TASK", 500)
    dry = deliver_due_on_spark(spark, path, NOW + 1000, dry_run=True)
    assert (dry["rows"], dry["retries"], dry["nextDueMs"], dry["dryRun"]) == (COUNT // 2, 500, NOW + 5000, True)
    progress: list[tuple[int, int]] = []
    first = deliver_due_on_spark(spark, path, config=config(NOW + 1000), progress=lambda *done: progress.append(done))
    assert (first["rows"], first["retries"], first["nextDueMs"]) == (COUNT // 2, 500, NOW + 5000)
    assert progress[-1] == (COUNT // 2, COUNT // 2)
    second = deliver_due_on_spark(spark, str(path), config=config(NOW + 5000))
    assert (second["rows"], second["nextDueMs"], second["skipped"]) == (COUNT // 2, None, 0)
    assert deliver_due_on_spark(spark, path, config=config(NOW + 9000))["rows"] == 0
    for now_ms in (NOW + 1000, NOW + 5000):
        with MessageStore.open(tmp_path / "twin", config(now_ms)) as store:
            assert deliver_due(store).rows == COUNT // 2
    assert delivered(path) == delivered(tmp_path / "twin")
    assert Counter(chain(*delivered(path).values())) == Counter(range(COUNT))
    assert DelayOffsetsFile(path / "config").offsets() == {1: COUNT // 2, 2: COUNT // 2}
    left = (path / "rocketflow" / "staging" / "rmq_sys_schedule").rglob("*")
    assert [one.name for one in left if one.is_file()] == ["last"]
    assert verify_store(path).findings == []


def test_driver_that_fails_before_its_commit_leaves_the_messages_for_the_next_run(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delay_driver, "UNITS_A_TASK", 500)
    commit = DelayDelivery.commit
    commits = []

    def failing(self: DelayDelivery, *given: Any) -> bool:
        commits.append(given)
        if len(commits) == 2:
            raise SinkCommitError("no")
        return commit(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(DelayDelivery, "commit", failing)
        patch.setattr(delay_driver, "TASKS_A_CORE", 1)
        with pytest.raises(SinkCommitError, match="no"):
            deliver_due_on_spark(spark, path, config=config(NOW + 5000))
    assert 0 < len(list(chain(*delivered(path).values()))) < COUNT
    assert list((path / "rocketflow" / "staging").rglob("l[0-9]*")) == []
    deliver_due_on_spark(spark, path, config=config(NOW + 5000))
    assert Counter(chain(*delivered(path).values())) == Counter(range(COUNT))


def test_round_is_planned_again_if_another_thread_delivered_between_plan_and_commit(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other delivery runs in a thread of the driver's process, so the store's lock does not prevent it."""
    monkeypatch.setattr(delay_driver, "UNITS_A_TASK", 500)
    run, others = delay_driver.run_tasks, []

    def meanwhile(session: SparkSession, tasks: Any) -> Any:
        staged = run(session, tasks)
        if not others:
            others.append(DelayDelivery(stores[0], commit_bytes=10_000))
            others[0].deliver(NOW + 1000)
        return staged

    stores: list[MessageStore] = []
    opened = MessageStore.open

    def remember(*given: Any) -> MessageStore:
        stores.append(opened(*given))
        return stores[-1]

    monkeypatch.setattr(delay_driver, "run_tasks", meanwhile)
    monkeypatch.setattr(delay_driver.MessageStore, "open", remember)
    result = deliver_due_on_spark(spark, path, config=config(NOW + 5000))
    assert result["rows"] == COUNT // 2
    assert Counter(chain(*delivered(path).values())) == Counter(range(COUNT))


def test_few_messages_are_delivered_without_a_task(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delay_driver, "run_tasks", None)
    assert deliver_due_on_spark(spark, path, config=config(NOW + 5000))["rows"] == COUNT


def test_delivery_in_a_locked_store_raises(spark: SparkSession, path: Path) -> None:
    with MessageStore.open(path, config(NOW)), pytest.raises(StoreLockedError):
        deliver_due_on_spark(spark, path)


def test_executor_that_does_not_see_the_store_raises(path: Path) -> None:
    task = DueRange(str(path) + "-not-there", config(NOW), 1, 0, 5, NOW, str(path / "rocketflow" / "staging" / "x"))
    with pytest.raises(PathNotSharedError, match="share"):
        delay_driver.stage_there(task)


def test_a_part_has_records_of_one_kind(tmp_path: Path) -> None:
    """A chunk with a record that is too long for its own CRC has none, and is in a part of its own."""
    wide = pa.array([[("p", "x" * 32_675)]], pa.map_(pa.string(), pa.string()))
    one, many = pa.array([1], pa.int32()), pa.array([1] * 50, pa.int32())
    with MessageStore.open(tmp_path / "s", StoreConfig(clock=ManualClock(NOW), enabled_append_prop_crc=False)) as store:
        for number in range(3):
            full = {"body": [b"%d" % number * 2_200_000], "properties": wide, "delayTimeLevel": one}
            store.append_batch(pa.RecordBatch.from_pydict(full), "orders")
            store.append_batch(pa.RecordBatch.from_pydict({"body": [b"few"] * 50, "delayTimeLevel": many}), "orders")
    protected = StoreConfig(clock=ManualClock(NOW), enabled_append_prop_crc=True)
    task = DueRange(str(tmp_path / "s"), protected, 1, 0, 153, NOW + 1000, str(tmp_path / "staged"))
    staged = stage_range(task)
    assert [(part.rows, part.property_crc) for part in staged.parts] == [(1, False), (50, True)] * 3
    assert [one.next_offset for one in staged.found] == [1, 51, 52, 102, 103, 153]
    for part in staged.parts:
        assert {chunk.property_crc for chunk in load(part, protected.delay_levels_ms)} == {part.property_crc}
