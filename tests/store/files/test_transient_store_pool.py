"""Appends that go through a pool of buffers: when they are committed and visible, and what a stop leaves."""

from __future__ import annotations

import hashlib
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rocketflow_store import FlushDiskType, Message, MessageStore, PutMessageStatus, StoreConfig, StoreReader
from rocketflow_store.commits.batch_commit import SinkBatch, commit_batch
from rocketflow_store.commits.staged_part import stage
from rocketflow_store.files import memory_lock, os_files
from rocketflow_store.files.mapped.transient_store_pool import TransientStorePool, WriteBuffer
from rocketflow_store.format.record import RecordFields
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.errors import StoreAccessError, StoreConfigError, StoreFencedError
from rocketflow_store.model.message_id import encode_host
from rocketflow_store.records.encoding.encode import BatchEncoder
from rocketflow_store.telemetry.statistics import runtime_info
from rocketflow_store.testing import Probe

START = 1_700_000_000_000
SIZE = 1 << 16
NEVER = 3_600_000
BODY = b"b" * 900
RECORD = RecordFields(
    topic=b"t",
    queue_id=0,
    body=BODY,
    properties=b"",
    flag=0,
    sys_flag=0,
    born_timestamp=1,
    born_host=encode_host("127.0.0.1:1"),
    store_host=encode_host("127.0.0.1:2"),
)


def config(**changes: object) -> StoreConfig:
    """Return settings of a store whose threads sleep: the test makes their steps."""
    settings = {
        "mapped_file_size_commit_log": SIZE,
        "mapped_file_size_consume_queue": 4000,
        "max_hash_slot_num": 50,
        "max_index_num": 2000,
        "transient_store_pool_enable": True,
        "transient_store_pool_size": 3,
        "commit_interval_commit_log": NEVER,
        "flush_interval_commit_log": NEVER,
        "flush_interval_consume_queue": NEVER,
        "commit_commit_log_least_pages": 0,
        "clock": ManualClock(START),
    }
    return StoreConfig(**{**settings, **changes})  # type: ignore[arg-type]


def opened(path: Path, **changes: object) -> MessageStore:
    return MessageStore.open(path, config(**changes))


def quiet(store: MessageStore) -> MessageStore:
    """Return `store` with puts that wake no thread."""
    Probe(store).silence_puts()
    return store


def put(store: MessageStore, count: int = 1) -> int:
    stored = sum(store.put_message(Message("t", BODY, keys=["k"], queue_id=0)).stored for _ in range(count))
    assert stored == count
    return count


def put_until(store: MessageStore, offset: int) -> int:
    count = 0
    while Probe(store).wrote_offset < offset:
        count += put(store)
    return count


def commit(store: MessageStore) -> None:
    Probe(store).commit_buffers()


def log_bytes(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted((path / "commitlog").iterdir()))


def bodies(path: Path, count: int) -> list[bytes]:
    with StoreReader(path) as reader:
        assert reader.max_offset("t", 0) == count
        batches = list(reader.read("t", 0, 0, count, ["body"]))
        return [body for batch in batches for body in batch.column("body").to_pylist()]


# -- visibility


def test_uncommitted_messages_are_invisible(tmp_path: Path) -> None:
    with quiet(opened(tmp_path / "s")) as store, StoreReader(tmp_path / "s") as reader:
        phy_offset = store.put_message(Message("t", BODY, keys=["k"], queue_id=0)).physical_offset
        put(store, 2)
        assert Probe(store).wrote_offset > 0
        assert store.max_phy_offset == store.confirm_offset == Probe(store).commit_log.committed_offset == 0
        assert store.max_offset("t", 0) == reader.max_offset("t", 0) == 0
        assert store.look_message_by_offset(phy_offset) is None
        assert store.query_message("t", "k") == []
        assert log_bytes(tmp_path / "s") == bytes(SIZE), "it is not even in the file"
        commit(store)
        assert store.max_phy_offset == store.confirm_offset == Probe(store).wrote_offset
        assert store.max_offset("t", 0) == reader.max_offset("t", 0) == 3
        message = store.look_message_by_offset(phy_offset)
        assert message is not None
        assert message.body == BODY
        assert len(store.query_message("t", "k")) == 3


def test_files_equal_those_of_a_store_without_a_pool(tmp_path: Path) -> None:
    digests = []
    for enabled in (True, False):
        path = tmp_path / str(enabled)
        with opened(path, transient_store_pool_enable=enabled) as store:
            for number in range(300):
                assert store.put_record(replace(RECORD, body=b"%d" % number + BODY)).stored
                if number % 7 == 0:
                    commit(store)
        digests.append(hashlib.sha256(log_bytes(path)).hexdigest())
        assert len(bodies(path, 300)) == 300
    assert digests[0] == digests[1]


def test_bulk_appends_go_through_the_pool(tmp_path: Path) -> None:
    rows = pa.table({"body": [b"%d" % n + BODY for n in range(500)], "queueId": pa.array([0] * 500, pa.int32())})
    with quiet(opened(tmp_path / "s", transient_store_pool_size=20)) as store:
        put(store)
        store.append_batch(rows, topic="t")
        assert store.max_offset("t", 0) == 0
        commit(store)
        assert store.max_offset("t", 0) == 501
    assert bodies(tmp_path / "s", 501) == [BODY, *(b"%d" % n + BODY for n in range(500))]
    assert list(verify_store(tmp_path / "s", config()).findings) == []


def test_a_reused_buffer_leaves_no_old_bytes_in_a_file(tmp_path: Path) -> None:
    with quiet(opened(tmp_path / "s", transient_store_pool_size=1)) as store:
        while Probe(store).wrote_offset < 4 * SIZE:
            put(store)
            commit(store)
        assert store.put_message(Message("t", b"s" * 60_000, queue_id=0)).stored, "most of a file stays empty"
        put(store)
    for file in sorted((tmp_path / "s" / "commitlog").iterdir())[:-1]:
        raw = np.frombuffer(file.read_bytes(), np.uint8)
        blank = file.read_bytes().rfind(bytes.fromhex("cbd43194"))
        assert not raw[blank + 4 :].any(), "after the end mark are zeros"


# -- schedule


def test_commits_wait_for_least_pages_or_the_thorough_interval(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with quiet(opened(tmp_path / "s", commit_commit_log_least_pages=4, clock=clock)) as store:
        put(store)
        commit(store)
        committed = store.max_phy_offset
        assert committed == Probe(store).wrote_offset, "the first is thorough"
        put(store, 2)
        clock.set(START + 199)
        commit(store)
        assert store.max_phy_offset == committed
        put(store, 18)
        commit(store)
        assert store.max_phy_offset == Probe(store).wrote_offset, "four pages"
        put(store)
        clock.set(START + 200)
        commit(store)
        assert store.max_phy_offset == Probe(store).wrote_offset, "commitCommitLogThoroughInterval"


@pytest.mark.parametrize("pool", [True, False])
def test_a_put_wakes_the_threads_that_commit_and_flush(tmp_path: Path, pool: bool) -> None:
    """No thread wakes by time here: all intervals are an hour."""
    with opened(
        tmp_path / "s", transient_store_pool_enable=pool, flush_commit_log_timed=False, flush_commit_log_least_pages=0
    ) as store:
        flushed = threading.Event()
        real = Probe(store).group_flush.flush_to

        def flush_to(offset: int, timeout_s: float) -> bool:
            done = real(offset, timeout_s)
            flushed.set()
            return done

        Probe(store).group_flush.flush_to = flush_to  # type: ignore[method-assign]
        end = put(store) and Probe(store).wrote_offset
        assert flushed.wait(60)
        assert Probe(store).flushed_offset == end
        assert store.max_offset("t", 0) == 1


def test_a_timed_flush_is_not_woken(tmp_path: Path) -> None:
    with opened(tmp_path / "s", transient_store_pool_enable=False) as store:
        assert not Probe(store).puts_wake_flushing
        put(store, 3)
        assert Probe(store).flushed_offset == 0


def test_the_log_is_committed_and_synced_before_derived_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    with quiet(opened(tmp_path / "s")) as store:
        put(store, 3)
        real_write, real_sync, real_small = os_files.write_at, os_files.sync_file, os_files.write_atomically

        def part(path: object) -> str:
            return Path(str(path)).relative_to(tmp_path / "s").parts[0]

        def write_at(fd: int, path: object, position: int, data: bytes) -> None:
            seen.append(f"write {part(path)}")
            real_write(fd, path, position, data)

        def sync_file(fd: int, path: object) -> None:
            seen.append(f"sync {part(path)}")
            real_sync(fd, path)

        def write_atomically(path: Path, data: bytes) -> None:
            seen.append(f"replace {path.name}")
            with monkeypatch.context() as inner:
                inner.setattr(os_files, "write_at", real_write)
                inner.setattr(os_files, "sync_file", real_sync)
                real_small(path, data)

        monkeypatch.setattr(os_files, "write_at", write_at)
        monkeypatch.setattr(os_files, "sync_file", sync_file)
        monkeypatch.setattr(os_files, "write_atomically", write_atomically)
        store.flush()
        monkeypatch.undo()
    once = [one for at, one in enumerate(seen) if at == 0 or seen[at - 1] != one]
    assert once == [
        "write commitlog",
        "sync commitlog",
        "write consumequeue",
        "sync consumequeue",
        "sync index",
        "replace checkpoint",
        "replace ends",
    ]


# -- the pool


def test_buffers_are_returned_when_their_file_is_full_and_committed(tmp_path: Path) -> None:
    with quiet(opened(tmp_path / "s")) as store:
        pool = Probe(store).log_buffers
        assert pool is not None
        assert (pool.pool.available, store.is_transient_store_pool_deficient) == (3, False)
        put_until(store, 2 * SIZE + 1)
        assert (pool.pool.available, store.is_transient_store_pool_deficient) == (0, True)
        figures = store.statistics()
        assert figures["transientStorePoolSize"] == 3
        assert figures["remainTransientStoreBufferNumbs"] == 0
        assert figures["remainHowManyDataToCommit"] == Probe(store).wrote_offset > 2 * SIZE
        assert figures["remainHowManyDataToFlush"] == 0
        assert runtime_info(figures)["remainTransientStoreBufferNumbs"] == "0"
        commit(store)
        assert pool.pool.available == 2, "the last file keeps its buffer"
        figures = store.statistics()
        assert figures["remainHowManyDataToCommit"] == 0
        assert figures["remainHowManyDataToFlush"] == store.max_phy_offset


def test_a_file_without_a_buffer_is_written_directly(tmp_path: Path) -> None:
    with quiet(opened(tmp_path / "s", transient_store_pool_size=1)) as store:
        count = put_until(store, 3 * SIZE)
        assert store.max_phy_offset == 0, "the file that was written directly follows uncommitted bytes"
        commit(store)
        assert store.max_phy_offset == Probe(store).wrote_offset
        count += put(store)
        assert store.max_phy_offset == Probe(store).wrote_offset, "nothing waits: it is in the file"
        count += put_until(store, 4 * SIZE)
        assert store.max_phy_offset < Probe(store).wrote_offset, "the next file has the buffer"
    assert bodies(tmp_path / "s", count) == [BODY] * count


def test_fail_fast_refuses_the_next_file_until_a_buffer_is_returned(tmp_path: Path) -> None:
    settings = {"transient_store_pool_size": 1, "fast_fail_if_no_buffer_in_store_pool": True}
    with quiet(opened(tmp_path / "s", **settings)) as store:
        count = 0
        while (result := store.put_message(Message("t", BODY, queue_id=0))).stored:
            count += 1
        assert result.status is PutMessageStatus.CREATE_MAPPED_FILE_FAILED
        assert "transientStorePoolSize" in result.why
        assert Probe(store).wrote_offset < SIZE
        small = store.put_message(Message("t", b"fits", queue_id=0))
        count += small.stored
        commit(store)
        refused = store.put_message(Message("t", BODY, queue_id=0))
        assert not refused.stored, "the buffer's file is not full: its last message would have to be one of this size"
        assert store.statistics()["putMessageFailedByStatus"] == {"CREATE_MAPPED_FILE_FAILED": 2}
    assert len(bodies(tmp_path / "s", count)) == count


def test_an_undone_bulk_append_returns_its_buffers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"body": [BODY] * 200, "queueId": pa.array([0] * 200, pa.int32())})
    with quiet(opened(tmp_path / "s")) as store:
        count = put(store, 5)
        buffered = Probe(store).log_buffers
        assert buffered is not None
        real, calls = buffered.write, 0

        def write(mapped: object, position: int, data: bytes) -> None:
            nonlocal calls
            calls += 1
            if calls == 3:
                raise StoreAccessError("commitlog", "the disk is broken")
            real(mapped, position, data)  # type: ignore[arg-type]

        with monkeypatch.context() as broken:
            broken.setattr(buffered, "write", write)
            with pytest.raises(StoreAccessError):
                store.append_batch(rows, topic="t")
        assert buffered.pool.available == 2
        count += put(store, 100)
        commit(store)
    assert bodies(tmp_path / "s", count) == [BODY] * count
    assert list(verify_store(tmp_path / "s", config()).findings) == []


def test_a_pool_is_refused_unless_async_master() -> None:
    def used(**changes: object) -> bool:
        return config(**changes).transient_store_pool_used

    assert used()
    assert not used(transient_store_pool_enable=False)
    assert not used(flush_disk_type=FlushDiskType.SYNC_FLUSH)
    assert not used(broker_role="SLAVE")
    assert used(broker_role="SYNC_MASTER")
    assert used(broker_role="SLAVE", enable_controller_mode=True)
    with pytest.raises(StoreConfigError, match="brokerRole"):
        config(broker_role="MASTER")
    keys = {"transientStorePoolEnable": True, "transientStorePoolSize": 7, "fastFailIfNoBufferInStorePool": True}
    taken = StoreConfig.from_mapping({**keys, "commitIntervalCommitLog": 9, "flushCommitLogTimed": False})
    assert (taken.transient_store_pool_size, taken.commit_interval_commit_log) == (7, 9)
    assert (taken.fast_fail_if_no_buffer_in_store_pool, taken.flush_commit_log_timed) == (True, False)


def test_a_sync_flush_store_has_no_pool(tmp_path: Path) -> None:
    with opened(tmp_path / "s", flush_disk_type=FlushDiskType.SYNC_FLUSH) as store:
        put(store)
        assert store.max_offset("t", 0) == 1
        assert Probe(store).log_buffers is None
        assert "transientStorePoolSize" not in store.statistics()
        assert not store.is_transient_store_pool_deficient


def test_a_buffer_is_zeroed_from_the_truncation_on() -> None:
    buffer = WriteBuffer(1 << 14)
    buffer.put(0, b"a" * 100)
    buffer.put(5000, b"b" * 100)
    buffer.zero_from(50)
    assert bytes(buffer.taken(0, 1 << 14)) == b"a" * 50 + bytes((1 << 14) - 50)
    buffer.close()


def test_locked_memory_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    for allowed in (True, False):
        monkeypatch.setattr(memory_lock, "lock", lambda memory, allowed=allowed: allowed)
        pool = TransientStorePool(2, 4096)
        assert pool.locked == (2 if allowed else 0)
        assert pool.borrow() is not None
        pool.close()


# -- stops


def test_a_clean_stop_keeps_every_message(tmp_path: Path) -> None:
    with quiet(opened(tmp_path / "s")) as store:
        count = put_until(store, 2 * SIZE + 5000)
        assert store.max_phy_offset == 0
    assert not store.paths.abort.exists()
    assert bodies(tmp_path / "s", count) == [BODY] * count
    assert list(verify_store(tmp_path / "s", config()).findings) == []


def test_a_kill_loses_only_uncommitted_messages(tmp_path: Path) -> None:
    with quiet(opened(tmp_path / "s")) as store:
        kept = put_until(store, SIZE + 5000)
        commit(store)
        put_until(store, 2 * SIZE + 5000)
        shutil.copytree(tmp_path / "s", tmp_path / "killed")
    with opened(tmp_path / "killed") as store:
        assert store.recovery.abort_found
        assert store.max_offset("t", 0) == kept
        put(store)
    assert bodies(tmp_path / "killed", kept + 1) == [BODY] * (kept + 1)
    assert list(verify_store(tmp_path / "killed", config()).findings) == []


def test_a_sink_commit_is_in_the_files_when_it_returns(tmp_path: Path) -> None:
    """An acknowledged batch must survive the process: the sink would not send it again."""
    with quiet(opened(tmp_path / "s")) as store:
        put(store, 2)
        rows = pa.RecordBatch.from_arrays([pa.array([BODY] * 200, pa.binary())], names=["body"])
        encoder = BatchEncoder(config(), lambda _: 1, default_topic="t", row_hashes=True)
        staged = stage(encoder.encode(rows, START), tmp_path / "staging", "p", inline_bytes=1 << 20)
        assert commit_batch(store, SinkBatch("sink", "sink", 0, "run", 1, [staged])).rows == 200
        assert store.max_phy_offset == Probe(store).wrote_offset > 3 * SIZE
        shutil.copytree(tmp_path / "s", tmp_path / "killed")
    assert bodies(tmp_path / "killed", 202) == [BODY] * 202


def test_a_failed_commit_is_retried_and_puts_are_refused_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with quiet(opened(tmp_path / "s")) as store:
        count = put(store, 5)
        real = os_files.write_at

        def write_at(fd: int, path: object, position: int, data: bytes) -> None:
            if "commitlog" in str(path):
                raise StoreAccessError(path, "the disk is broken")
            real(fd, path, position, data)

        with monkeypatch.context() as broken:
            broken.setattr(os_files, "write_at", write_at)
            with pytest.raises(StoreAccessError):
                commit(store)
        assert store.max_offset("t", 0) == 0
        refused = store.put_message(Message("t", BODY, queue_id=0))
        assert refused.status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        assert "broken" in refused.why
        commit(store)
        assert store.max_offset("t", 0) == count
        count += put(store)
    assert bodies(tmp_path / "s", count) == [BODY] * count


def test_acknowledged_messages_are_committed_after_a_failed_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with quiet(opened(tmp_path / "s")) as store:
        put(store, 5)
        Probe(store).fence(StoreFencedError("commitlog", "the disk is broken"))
    assert store.paths.abort.exists()
    with opened(tmp_path / "s") as store:
        assert store.max_offset("t", 0) == 5


def test_many_writers_with_commits_between_store_every_message_once(tmp_path: Path) -> None:
    """Buffers are committed as fast as possible while four threads put."""
    with opened(tmp_path / "s", commit_interval_commit_log=1, flush_interval_commit_log=5) as store:

        def write(writer: int) -> None:
            for number in range(300):
                assert store.put_message(Message("t", b"%d %d " % (writer, number) + BODY, queue_id=0)).stored

        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = [tuple(map(int, body.split(b" ")[:2])) for body in bodies(tmp_path / "s", 1200)]
    for writer in range(4):
        assert [number for one, number in found if one == writer] == list(range(300))
    assert list(verify_store(tmp_path / "s", config()).findings) == []
