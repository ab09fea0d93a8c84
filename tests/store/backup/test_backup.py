"""Backups of a store: what they hold while a writer appends and deletes, and what a failed one leaves."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rocketflow_store import (
    BackupTargetError,
    Message,
    MessageStore,
    StoreConfig,
    StoreError,
    StoreFullError,
    StoreReader,
    StoreVersionError,
    UncleanStoreError,
)
from rocketflow_store.backup.backup import TEMPORARY_SUFFIX, backup_store
from rocketflow_store.commits.batch_commit import last_commit
from rocketflow_store.commits.progress_commit import ProgressBatch, commit_progress
from rocketflow_store.fsck.verify import verify_store
from tests.support.disk_layer import GROWS, Call, Failing, Interrupting
from tests.support.trials import LEVEL, environment, sweep

LOG_SIZE = 1 << 14
SIZES = StoreConfig(
    mapped_file_size_commit_log=LOG_SIZE,
    mapped_file_size_consume_queue=400,
    max_hash_slot_num=10,
    max_index_num=50,
    delete_commit_log_files_interval=0,
    delete_consume_queue_files_interval=0,
    delete_when="",
    file_reserved_time=0,
)


def fill(store: MessageStore, count: int, first: int = 0, topic: str = "t") -> None:
    for number in range(first, first + count):
        message = Message(topic, b"%d" % number * 20, keys=[f"k{number}"], tags="a", queue_id=number % 2)
        assert store.put_message(message).stored


def closed_store(path: Path, count: int = 400) -> Path:
    with MessageStore.open(path, SIZES) as store:
        fill(store, count)
    return path


def bodies(path: Path, topic: str = "t") -> dict[tuple[int, int], bytes]:
    """Return the bodies of a topic by queue and offset."""
    found = {}
    with StoreReader(path) as reader:
        for queue_id in reader.queues(topic):
            for batch in reader.read(topic, queue_id, *reader.bounds(topic, queue_id), columns=["queueOffset", "body"]):
                found |= {(queue_id, row["queueOffset"]): row["body"] for row in batch.to_pylist()}
    return found


def is_sound(path: Path, config: StoreConfig = SIZES) -> None:
    """Check that a store was stopped in order, has no finding, and opens without a repair."""
    assert verify_store(path, config).findings == []
    with MessageStore.open(path, config) as store:
        assert not store.recovery.abort_found
        assert store.recovery.healed == ()
    assert not (path / "quarantine").exists()


def test_backup_of_a_closed_store_holds_everything_and_opens(tmp_path: Path) -> None:
    store = closed_store(tmp_path / "s")
    (store / "config" / "consumerOffset.json").write_text('{"offsetTable":{"t@g":{0:7}}}')
    os.chmod(store / "config" / "consumerOffset.json", 0o600)
    before = {one: one.stat().st_mtime_ns for one in store.rglob("*")}
    result = backup_store(store, tmp_path / "b")
    assert {one: one.stat().st_mtime_ns for one in store.rglob("*")} == before
    assert result.records == 400
    assert result.log_files == len(list((tmp_path / "b" / "commitlog").iterdir())) > 2
    is_sound(tmp_path / "b")
    assert bodies(tmp_path / "b") == bodies(store)
    copied = tmp_path / "b" / "config" / "consumerOffset.json"
    assert stat.S_IMODE(copied.stat().st_mode) == 0o600
    with MessageStore.open(tmp_path / "b", SIZES) as again:
        assert again.config_files.consumer_offsets.table() == {("t", "g"): {0: 7}}
        assert [one.body for one in again.query_message("t", "k7")] == [b"7" * 20]


def test_backup_beside_a_writer_ends_at_what_readers_saw(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", SIZES) as store:
        fill(store, 300)
        seen, more = bodies(tmp_path / "s"), iter(range(300, 2000))

        def append(done: int, total: int) -> None:
            assert done <= total
            fill(store, 5, next(more) * 5)

        result = backup_store(tmp_path / "s", tmp_path / "b", SIZES, progress=append)
        assert result.max_phy_offset < store.confirm_offset
    assert bodies(tmp_path / "b") == seen
    is_sound(tmp_path / "b")


def test_retention_that_deletes_files_during_the_copy_shortens_the_backup(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", SIZES) as store:
        store.create_topic("expired", 1)
        store.put_message(Message("expired", b"x" * 300, queue_id=0))
        commit_progress(store, ProgressBatch("sink", "run", None, {"at": 7}))
        fill(store, 600)

        def clean_once(done: int, total: int) -> None:
            if LOG_SIZE < done < total / 2 and store.min_phy_offset == 0:
                assert len(store.clean().log_files) > 3

        result = backup_store(tmp_path / "s", tmp_path / "b", SIZES, progress=clean_once)
        assert 0 < result.min_phy_offset <= store.min_phy_offset
        kept = bodies(tmp_path / "s")
    found = bodies(tmp_path / "b")
    assert {place: body for place, body in found.items() if place in kept} == kept
    is_sound(tmp_path / "b")
    with MessageStore.open(tmp_path / "b", SIZES) as again:
        commit = last_commit(again, "sink")
        assert commit is not None
        assert commit.progress == {"at": 7}
        assert again.put_message(Message("expired", b"next", queue_id=0)).queue_offset == 1


def test_backup_of_a_store_with_several_directories_has_all_of_them_below_its_root(tmp_path: Path) -> None:
    logs = ",".join(str(tmp_path / one) for one in ("log-a", "log-b"))
    config = replace(SIZES, store_path_commit_log=logs, store_path_consume_queue=str(tmp_path / "cq"))
    with MessageStore.open(tmp_path / "s", config) as store:
        fill(store, 400)
    backup_store(tmp_path / "s", tmp_path / "b", config)
    assert bodies(tmp_path / "b") == bodies(tmp_path / "s")
    assert len(list((tmp_path / "b" / "commitlog").iterdir())) > 2
    is_sound(tmp_path / "b")


def test_lmqs_and_deleted_topics_stay_what_they_are(tmp_path: Path) -> None:
    config = replace(SIZES, enable_lmq=True, enable_multi_dispatch=True)
    with MessageStore.open(tmp_path / "s", config) as store:
        store.put_message(Message("t", b"both", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"}))
        fill(store, 10, topic="deleted")
        store.delete_topic("deleted")
        backup_store(tmp_path / "s", tmp_path / "b", config)
    is_sound(tmp_path / "b", config)
    with StoreReader(tmp_path / "b") as reader:
        assert reader.bounds("%LMQ%a", 0) == (0, 1)
        assert "deleted" not in reader.topics()


def test_topic_that_is_deleted_during_the_copy_is_complete_in_the_backup(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", SIZES) as store:
        fill(store, 200)
        fill(store, 200, topic="other")
        seen = bodies(tmp_path / "s")

        def delete(_done: int, _total: int) -> None:
            if "t" in store.topics():
                store.delete_topic("t")

        backup_store(tmp_path / "s", tmp_path / "b", SIZES, progress=delete)
        assert "t" not in store.topics()
    assert len(seen) == 200
    assert bodies(tmp_path / "b") == seen
    is_sound(tmp_path / "b")


def test_damaged_record_is_reported_and_the_others_are_served(tmp_path: Path) -> None:
    store = closed_store(tmp_path / "s")
    log = store / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    at = data.index(b"7" * 20)
    data[at : at + 20] = b"8" * 20
    log.write_bytes(data)
    result = backup_store(store, tmp_path / "b", SIZES)
    assert [one["offset"] for one in result.damaged] == [data.rindex(b"\xda\xa3\x20\xa7", 0, at) - 4]
    with StoreReader(tmp_path / "b") as reader:
        assert reader.bounds("t", 0) == (0, 200)
        assert reader.bounds("t", 1) == (0, 200)


def test_existing_target_and_unfinished_backup_are_refused(tmp_path: Path) -> None:
    store = closed_store(tmp_path / "s", 10)
    (tmp_path / "there").mkdir()
    with pytest.raises(BackupTargetError, match="there exists"):
        backup_store(store, tmp_path / "there", SIZES)
    (tmp_path / f"b{TEMPORARY_SUFFIX}").mkdir()
    with pytest.raises(BackupTargetError, match="remove the directory"):
        backup_store(store, tmp_path / "b", SIZES)
    with pytest.raises(StoreError, match="missing/b"):
        backup_store(store, tmp_path / "missing" / "b", SIZES)
    assert sorted(one.name for one in tmp_path.iterdir()) == [f"b{TEMPORARY_SUFFIX}", "s", "there"]


def test_store_of_a_killed_writer_is_refused(tmp_path: Path) -> None:
    store = closed_store(tmp_path / "s", 10)
    (store / "abort").write_text("1")
    with pytest.raises(UncleanStoreError, match="store recover"):
        backup_store(store, tmp_path / "b", SIZES)
    assert not (tmp_path / "b").exists()


def test_log_with_a_gap_is_refused(tmp_path: Path) -> None:
    store = closed_store(tmp_path / "s")
    missing = store / "commitlog" / f"{LOG_SIZE:020d}"
    missing.unlink()
    with pytest.raises(StoreVersionError, match=missing.name):
        backup_store(store, tmp_path / "b", SIZES)
    assert [one.name for one in tmp_path.iterdir()] == ["s"]


def test_full_disk_at_any_step_leaves_nothing(tmp_path: Path) -> None:
    store = closed_store(tmp_path / "s", 60)

    def of_backup(call: Call) -> bool:
        return call.path is not None and call.path.is_relative_to(tmp_path / f"b{TEMPORARY_SUFFIX}")

    with Failing(GROWS, 1 << 30, where=of_backup) as counting:
        backup_store(store, tmp_path / "counted", SIZES)
        backup_store(store, tmp_path / "b", SIZES)
    (tmp_path / "b").rename(tmp_path / "whole")
    for nth in sweep(counting.seen, 24):
        with Failing(GROWS, nth, errno.ENOSPC, where=of_backup, on=True) as failing:
            try:
                backup_store(store, tmp_path / "b", SIZES)
            except StoreFullError:
                pass
            else:  # a call whose failure is allowed, a lock file's time say
                is_sound(tmp_path / "b")
                (tmp_path / "b").rename(tmp_path / f"b-{nth}")
        assert failing.hits
        assert not (tmp_path / "b").exists()
        assert not (tmp_path / f"b{TEMPORARY_SUFFIX}").exists()


def test_stop_at_any_step_leaves_all_or_nothing(tmp_path: Path) -> None:
    store = closed_store(tmp_path / "s", 60)
    with Interrupting(1 << 30) as counting:
        backup_store(store, tmp_path / "whole", SIZES)
    for nth in sweep(counting.seen, 24):
        target = tmp_path / f"b{nth}"
        with Interrupting(nth), pytest.raises(KeyboardInterrupt):
            backup_store(store, target, SIZES)
        assert not target.with_name(target.name + TEMPORARY_SUFFIX).exists()
        if target.exists():
            assert nth >= counting.seen - 1
            is_sound(target)


def test_files_are_copied_where_the_kernel_cannot(tmp_path: Path) -> None:
    store = closed_store(tmp_path / "s")
    with Failing(("copy_file_range",), 1, errno.EXDEV, on=True) as failing:
        backup_store(store, tmp_path / "b", SIZES)
    assert failing.hits
    assert bodies(tmp_path / "b") == bodies(store)
    is_sound(tmp_path / "b")


KILLED = """
import os, signal, sys
from rocketflow_store.spi.maintenance import backup_store
steps = 0
def step(done, total):
    global steps
    steps += 1
    if steps == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
backup_store(sys.argv[1], sys.argv[2], progress=step)
"""


@pytest.mark.parametrize("step", [2, 5] if LEVEL != "sample" else [5])
def test_killed_backup_has_a_temporary_name(tmp_path: Path, step: int) -> None:
    store = closed_store(tmp_path / "s")
    command = [sys.executable, "-c", KILLED, str(store), str(tmp_path / "b"), str(step)]
    assert subprocess.run(command, env=environment(), check=False).returncode == -signal.SIGKILL
    assert not (tmp_path / "b").exists()
    with pytest.raises(BackupTargetError, match="was killed"):
        backup_store(store, tmp_path / "b", SIZES)
    subprocess.run(["rm", "-r", str(tmp_path / f"b{TEMPORARY_SUFFIX}")], check=True)
    backup_store(store, tmp_path / "b", SIZES)
    is_sound(tmp_path / "b")
