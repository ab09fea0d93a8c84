"""Visibility: readers see synced records only, a sink commit at one instant; an unsafe name makes no directory."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from rocketflow_store import FlushDiskType, Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.commits.batch_commit import SinkBatch, commit_batch
from rocketflow_store.commits.staged_part import stage
from rocketflow_store.files import disk
from rocketflow_store.format.checkpoint_layout import CheckpointFields
from rocketflow_store.format.record import RecordFields, encode_record
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.native.commit_envelope import COMMIT_TOPIC
from rocketflow_store.metadata.native.confirm import ConfirmFile
from rocketflow_store.model.errors import FlushDiskTimeoutError, MessageRejectedError
from rocketflow_store.model.message_id import encode_host
from rocketflow_store.model.results import PutMessageResult
from rocketflow_store.records.encoding.encode import BatchEncoder
from tests.support.confinement import confined_to

WAIT_S = 240
HOST = encode_host("127.0.0.1:1")
EVIL = ["../../evil", "/evil", "..", ".", "a/b", "a\0b", "", "a.b", "x" * 300, "\n"]


def config(**changes: object) -> StoreConfig:
    settings = {
        "mapped_file_size_commit_log": 1 << 16,
        "mapped_file_size_consume_queue": 2000,
        "max_hash_slot_num": 50,
        "max_index_num": 1000,
        "flush_interval_commit_log": 3_600_000,
        "flush_interval_consume_queue": 3_600_000,
        **changes,
    }
    return StoreConfig(**settings)  # type: ignore[arg-type]


class SlowSync:
    """A disk whose syncs wait for permission, one by one; all of them are released when the block ends."""

    def __init__(self) -> None:
        self.began, self.let = threading.Semaphore(0), threading.Semaphore(0)
        self._real = disk.fdatasync

    def __enter__(self) -> SlowSync:
        disk.fdatasync = self._sync
        return self

    def __exit__(self, *_: object) -> None:
        disk.fdatasync = self._real
        self.let.release(100)

    def _sync(self, fd: int) -> None:
        self.began.release()
        assert self.let.acquire(timeout=WAIT_S)
        self._real(fd)


def test_readers_with_sync_flush_see_only_synced_records(tmp_path: Path) -> None:
    """A second message is written while the first is being synced: that sync does not cover it."""
    path = tmp_path / "s"
    with MessageStore.open(path, config(flush_disk_type=FlushDiskType.SYNC_FLUSH)) as store:
        assert store.put_message(Message("t", b"the log has a file", queue_id=0)).stored
        with SlowSync() as gate:
            writers = [
                threading.Thread(target=store.put_message, args=(Message("t", b"%d" % number, queue_id=0),))
                for number in range(2)
            ]
            writers[0].start()
            assert gate.began.acquire(timeout=WAIT_S)
            first_end = store.max_phy_offset
            writers[1].start()
            while store.max_phy_offset == first_end:
                assert writers[1].is_alive()
                time.sleep(0.001)
            gate.let.release()
            assert gate.began.acquire(timeout=WAIT_S)  # the second sync runs: the first writer was answered
            writers[0].join(WAIT_S)
            assert store.confirm_offset == first_end
            assert store.max_offset("t", 0) == 2
            with StoreReader(path) as reader:
                assert reader.bounds("t", 0) == (0, 2)
            gate.let.release()
            writers[1].join(WAIT_S)
        assert store.max_offset("t", 0) == 3


def test_batch_whose_sync_is_late_is_not_acknowledged(tmp_path: Path) -> None:
    """Another thread's sync takes longer than `syncFlushTimeout`: the batch is not durable."""
    settings = config(flush_disk_type=FlushDiskType.SYNC_FLUSH, sync_flush_timeout=1)
    with MessageStore.open(tmp_path / "s", settings) as store:
        store.create_topic("t", 1)
        assert store.put_message(Message("t", b"the log has a file", queue_id=0)).stored
        before = store.confirm_offset
        with SlowSync() as gate:
            writer = threading.Thread(target=store.put_message, args=(Message("t", b"first", queue_id=0),))
            writer.start()
            assert gate.began.acquire(timeout=WAIT_S)
            with pytest.raises(FlushDiskTimeoutError, match="syncFlushTimeout"):
                store.append_batch(pa.RecordBatch.from_pydict({"body": [b"row"]}), "t")
            assert store.confirm_offset == before
            gate.let.release()
            writer.join(WAIT_S)
        store.flush()
        assert sum(store.max_offset("t", queue) for queue in store.queues("t")) == 3


def test_late_sync_is_not_reported_as_durable(tmp_path: Path) -> None:
    """A flush, the deletion of a topic and an orderly stop wait until it is over, or fail."""
    settings = config(flush_disk_type=FlushDiskType.SYNC_FLUSH, sync_flush_timeout=1)
    path = tmp_path / "s"
    with MessageStore.open(path, settings) as store:
        store.put_messages([Message("t", b"old", queue_id=0) for _ in range(10)])
        store.flush()
        written = (path / "checkpoint").read_bytes(), store.paths.durable_ends.read_bytes()
        with SlowSync() as gate:
            late = list[PutMessageResult]()
            writer = threading.Thread(target=lambda: late.append(store.put_message(Message("t", b"late", queue_id=0))))
            writer.start()
            assert gate.began.acquire(timeout=WAIT_S)
            for call in (store.flush, lambda: store.delete_topic("t")):
                with pytest.raises(FlushDiskTimeoutError, match="syncFlushTimeout"):
                    call()
            assert ((path / "checkpoint").read_bytes(), store.paths.durable_ends.read_bytes()) == written
            closing = threading.Thread(target=store.close)
            closing.start()
            closing.join(0.3)
            assert closing.is_alive()
            assert (path / "abort").exists()
            gate.let.release(10)
            writer.join(WAIT_S)
            closing.join(WAIT_S)
        assert late[0].stored
    assert not (path / "abort").exists()
    with MessageStore.open(path, settings) as store:
        assert store.bounds("t", 0) == (0, 11)
    assert verify_store(path).findings == []


@pytest.mark.parametrize("flush", FlushDiskType)
def test_sink_commit_is_seen_at_one_instant(
    tmp_path: Path, flush: FlushDiskType, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "s", []
    real = ConfirmFile.confirm

    def rows() -> int:
        with StoreReader(path) as reader:
            return sum(reader.bounds("t", queue)[1] for queue in reader.queues("t"))

    def confirm(self: ConfirmFile, offset: int) -> None:
        seen.append(rows())
        real(self, offset)
        seen.append(rows())

    monkeypatch.setattr(ConfirmFile, "confirm", confirm)
    with MessageStore.open(path, config(flush_disk_type=flush)) as store:
        encoder = BatchEncoder(config(), lambda _: 2, default_topic="t", row_hashes=True)
        parts = [
            stage(encoder.encode(pa.RecordBatch.from_pydict({"body": [b"x" * 100] * 400}), 1), tmp_path, f"p{one}")
            for one in range(3)
        ]
        commit_batch(store, SinkBatch("sink", "query", 0, "run", 1, parts))
    assert set(seen) == {0, 1200}
    assert seen == sorted(seen)


@pytest.mark.parametrize("name", EVIL)
def test_unsafe_stored_topic_never_becomes_a_path(tmp_path: Path, name: str) -> None:
    """A record of another writer with an invalid topic name stays in the log; its neighbours are served."""
    path = tmp_path / "a" / "b" / "s"
    log = b""
    offsets = {"t": 0, name: 0}
    for number in range(9):
        topic = name if number % 3 == 1 else "t"
        fields = RecordFields(
            topic=topic.encode(),
            queue_id=0,
            body=b"%d" % number,
            properties=b"KEYS\x01k%d\x02" % number,
            flag=0,
            sys_flag=0,
            born_timestamp=1,
            born_host=HOST,
            store_host=HOST,
        )
        log += encode_record(fields, len(log), offsets[topic], 1_700_000_000_000)
        offsets[topic] += 1
    (path / "commitlog").mkdir(parents=True)
    (path / "commitlog" / f"{0:020d}").write_bytes(log.ljust(1 << 16, b"\0"))
    (path / "abort").touch()
    before = sorted(one for one in tmp_path.rglob("*") if path not in one.parents)
    with MessageStore.open(tmp_path / "warm", config()):
        pass  # load everything that is loaded on demand
    with confined_to(path), MessageStore.open(path, config()) as store:
        assert store.max_phy_offset == len(log)
        assert store.topics() == ["t"]
        assert [one.body for one in store.get_message("t", 0, 0).messages] == [b"0", b"2", b"3", b"5", b"6", b"8"]
        assert store.look_message_by_offset(0) is not None
    assert sorted(one for one in (path / "consumequeue").iterdir()) == [path / "consumequeue" / "t"]
    after = sorted(
        one for one in tmp_path.rglob("*") if path not in one.parents and tmp_path / "warm" not in one.parents
    )
    assert after == sorted([*before, tmp_path / "warm"])


@pytest.mark.parametrize("name", EVIL)
def test_put_under_an_invalid_name_is_refused(tmp_path: Path, name: str) -> None:
    fields = RecordFields(name.encode(), 0, b"x", b"", 0, 0, 1, HOST, HOST)
    with MessageStore.open(tmp_path / "s", config()) as store:
        with pytest.raises(MessageRejectedError):
            store.put_record(fields)
        assert store.max_phy_offset == 0
        assert COMMIT_TOPIC not in store.topics()


def test_recovery_does_not_use_clock_times(tmp_path: Path) -> None:
    """A checkpoint of a clock that was ahead, with older files than it names: the complete log is dispatched again."""
    path, count = tmp_path / "s", 0
    with MessageStore.open(path, config(mapped_file_size_commit_log=1 << 14)) as store:
        while store.max_phy_offset < 5 << 14:
            assert store.put_message(Message("t", b"%d" % count * 50, queue_id=0)).queue_offset == count
            count += 1
    shutil.rmtree(path / "rocketflow")
    shutil.rmtree(path / "consumequeue")
    (path / "abort").touch()
    (path / "checkpoint").write_bytes(CheckpointFields(1 << 45, 1 << 45, 1 << 45, 0, 0).encode())
    with MessageStore.open(path, config()) as store:
        assert store.max_offset("t", 0) == count
        assert store.get_message("t", 0, 0).messages[0].body == b"0" * 50
