"""The log's next files are preallocated, and no failure of that costs a message."""

from __future__ import annotations

import re
import resource
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from rocketflow_store import FlushDiskType, Message, MessageStore, PutMessageStatus, StoreConfig, StoreReader
from rocketflow_store.files import memory_lock, os_files
from rocketflow_store.files.mapped.allocate_ahead import AllocateMappedFileService
from rocketflow_store.files.mapped.locked_files import LockedFiles
from rocketflow_store.files.mapped.log_directories import LogDirectories
from rocketflow_store.metadata.layout.store_paths import StorePaths
from rocketflow_store.model.errors import FileAllocationTimeoutError, StoreFencedError, StoreFullError
from rocketflow_store.testing import Probe

SIZE = 1 << 16
BODY = b"b" * 900


def config(**changes: object) -> StoreConfig:
    return StoreConfig(mapped_file_size_commit_log=SIZE, mapped_file_size_consume_queue=4000, **changes)  # type: ignore[arg-type]


def put_until(store: MessageStore, phy_offset: int) -> int:
    """Put messages until the log reaches `phy_offset`; return how many."""
    count = 0
    while store.max_phy_offset < phy_offset:
        assert store.put_message(Message("t", BODY, queue_id=0)).status is PutMessageStatus.PUT_OK
        count += 1
    return count


def staged(store: MessageStore) -> list[str]:
    found = store.paths.allocating
    return sorted(path.name for path in found.iterdir()) if found.is_dir() else []


def log_files(store: MessageStore) -> list[int]:
    return sorted(int(path.name) for path in store.paths.commit_log.iterdir())


def test_no_file_is_preallocated_before_the_first_is_half_full(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", config()) as store:
        put_until(store, SIZE // 2 - 2000)
        Probe(store).wait_for_preallocation()
        assert Probe(store).preallocated_offsets == staged(store) == []
        assert "allocate-mapped-file" not in {thread.name for thread in threading.enumerate()}


def test_the_next_two_files_are_preallocated(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", config()) as store:
        put_until(store, SIZE // 2)
        Probe(store).wait_for_preallocation()
        assert Probe(store).preallocated_offsets == [SIZE]
        put_until(store, SIZE // 4 * 3)
        Probe(store).wait_for_preallocation()
        assert Probe(store).preallocated_offsets == [SIZE, 2 * SIZE]
        assert log_files(store) == [0], "a file has no name in the log before it is needed"
        for name in staged(store):
            status = (store.paths.allocating / name).stat()
            assert status.st_size == SIZE
            assert status.st_blocks * 512 >= SIZE
        put_until(store, SIZE + 1)
        assert log_files(store) == [0, SIZE]
        assert Probe(store).allocations == (1, 1), "only the first file was waited for"


def test_every_later_file_of_a_long_run_is_ready_when_needed(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", config()) as store:
        count = 0
        for begin in range(0, 6 * SIZE, SIZE // 4):
            count += put_until(store, begin + SIZE // 4)
            Probe(store).wait_for_preallocation()
        assert Probe(store).allocations[1] == 1
        assert Probe(store).allocations[0] == len(log_files(store)) - 1 >= 5
        assert store.max_offset("t", 0) == count
    with StoreReader(tmp_path / "s") as reader:
        bodies = pa.Table.from_batches(reader.read("t", 0, 0, count, ["body"])).column("body").to_pylist()
        assert bodies == [BODY] * count


def test_a_batch_over_many_files_is_stored(tmp_path: Path) -> None:
    rows = pa.table({"body": [b"%d" % number + BODY for number in range(1000)]})
    with MessageStore.open(tmp_path / "s", config(flush_disk_type=FlushDiskType.SYNC_FLUSH)) as store:
        store.create_topic("t", 1)
        store.append_batch(rows, topic="t")
        assert len(log_files(store)) > 10
        assert sum(Probe(store).allocations) == len(log_files(store))
    with StoreReader(tmp_path / "s") as reader:
        assert pa.Table.from_batches(reader.read("t", 0, 0, 1000, ["body"])).column("body").to_pylist() == [
            b"%d" % number + BODY for number in range(1000)
        ]


def test_an_orderly_stop_removes_unused_files(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", config()) as store:
        put_until(store, SIZE // 4 * 3)
        Probe(store).wait_for_preallocation()
        assert staged(store)
    assert staged(store) == []
    assert log_files(store) == [0]


def test_an_open_removes_only_the_staged_files_of_a_killed_writer(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", config()) as store:
        put_until(store, 5000)
    tmp = StorePaths(tmp_path / "s").allocating
    tmp.mkdir(exist_ok=True)
    for name, size in ((f"commitlog-{SIZE:020d}", 17), (f"commitlog-{2 * SIZE:020d}", SIZE), ("notes.txt", 3)):
        (tmp / name).write_bytes(b"x" * size)
    with MessageStore.open(tmp_path / "s", config()) as store:
        assert staged(store) == ["notes.txt"]
        put_until(store, 3 * SIZE)
        assert store.get_message("t", 0, store.max_offset("t", 0) - 1).messages[0].body == BODY


def test_a_file_that_vanished_from_the_staging_directory_is_allocated_on_demand(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", config()) as store:
        put_until(store, SIZE // 4 * 3)
        Probe(store).wait_for_preallocation()
        for name in staged(store):
            (store.paths.allocating / name).unlink()
        put_until(store, 2 * SIZE + 5000)
        assert log_files(store) == [0, SIZE, 2 * SIZE]


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Make the system refuse to let a file grow to `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size - 1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_puts_on_a_full_disk_raise_a_typed_error_until_there_is_space(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", config()) as store:
        count = put_until(store, 5000)
        with full_disk(SIZE):
            while (result := store.put_message(Message("t", BODY, queue_id=0))).status is PutMessageStatus.PUT_OK:
                count += 1
            assert result.status is PutMessageStatus.SERVICE_NOT_AVAILABLE
            assert "free space" in result.why
            Probe(store).wait_for_preallocation()
            assert staged(store) == [], "an incomplete file is deleted"
            end = store.max_phy_offset
            with pytest.raises(StoreFullError):
                store.append_batch(pa.table({"body": [BODY] * 50, "queueId": pa.array([0] * 50, pa.int32())}), "t")
            assert (store.max_phy_offset, store.max_offset("t", 0)) == (end, count)
            assert store.get_message("t", 0, count - 1).messages[0].body == BODY
        count += put_until(store, 2 * SIZE + 5000)
        assert store.max_offset("t", 0) == count
    with StoreReader(tmp_path / "s") as reader:
        assert sum(batch.num_rows for batch in reader.read("t", 0, 0, count, ["body"])) == count


class Gate:
    """A disk that hangs while it gives a file its blocks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered, self.open = threading.Event(), threading.Event()
        real = os_files.preallocate

        def preallocate(fd: int, path: object, size: int) -> None:
            if f"-{SIZE:020d}" in str(path):
                self.entered.set()
                assert self.open.wait(60)
            real(fd, path, size)

        monkeypatch.setattr(os_files, "preallocate", preallocate)


def test_a_slow_allocation_raises_a_timeout_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    directories = LogDirectories((tmp_path,), staging={tmp_path: tmp_path / "tmp"})
    service = AllocateMappedFileService(directories, SIZE, wait_s=0)
    service.want([SIZE])
    assert gate.entered.wait(60)
    with pytest.raises(FileAllocationTimeoutError):
        service.place(SIZE, tmp_path / f"{SIZE:020d}")
    gate.open.set()
    service.wait_until_idle()
    assert service.ready == [SIZE]
    service.place(SIZE, tmp_path / f"{SIZE:020d}")
    assert service.preallocated == 1
    service.stop()


def test_a_put_that_waits_too_long_fails_and_the_next_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    with MessageStore.open(tmp_path / "s", config()) as store:
        Probe(store).set_preallocation_wait(0)
        count = put_until(store, SIZE // 2)
        assert gate.entered.wait(60)
        while (result := store.put_message(Message("t", BODY, queue_id=0))).status is PutMessageStatus.PUT_OK:
            count += 1
        assert result.status is PutMessageStatus.CREATE_MAPPED_FILE_FAILED
        assert store.max_offset("t", 0) == count
        gate.open.set()
        Probe(store).set_preallocation_wait(60)
        count += put_until(store, SIZE + 5000)
        assert store.max_offset("t", 0) == count


def test_warm_files_are_zeros_with_real_blocks(tmp_path: Path) -> None:
    warm = config(
        warm_maped_file_enable=True,
        flush_least_pages_when_warm_maped_file=2,
        flush_disk_type=FlushDiskType.SYNC_FLUSH,
    )
    with MessageStore.open(tmp_path / "s", warm) as store:
        put_until(store, SIZE // 4 * 3)
        Probe(store).wait_for_preallocation()
        for name in staged(store):
            assert (store.paths.allocating / name).read_bytes() == bytes(SIZE)
        put_until(store, SIZE + 5000)
        assert log_files(store) == [0, SIZE]


def locked_kb() -> int:
    """Return how much memory this process has locked in RAM."""
    found = re.search(r"^VmLck:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found.group(1))


def test_warm_files_are_locked_until_the_log_moves_on(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", config(warm_maped_file_enable=True)) as store:
        locked = Probe(store).locked_files
        locked.unlock_after_s = 0
        before = locked_kb()
        put_until(store, SIZE // 4 * 3)
        Probe(store).wait_for_preallocation()
        if locked.refused:
            assert locked.offsets == []
            assert locked_kb() == before
            pytest.skip("the system does not allow memory locks here")
        assert locked.offsets == [0, SIZE, 2 * SIZE]
        assert store.statistics()["mappedFilesLocked"] == 3
        assert locked_kb() == before + 3 * SIZE // 1024
        put_until(store, 2 * SIZE + 5000)
        Probe(store).wait_for_preallocation()
        assert 2 * SIZE in locked.offsets
        released = threading.Event()
        while locked.offsets[0] < 2 * SIZE:  # by the thread that makes files
            assert not released.wait(0.01)
    assert locked.offsets == []
    assert locked_kb() == before


def test_refused_memory_locks_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_lock, "lock", lambda memory: False)
    with MessageStore.open(tmp_path / "s", config(warm_maped_file_enable=True)) as store:
        count = put_until(store, 2 * SIZE + 5000)
        Probe(store).wait_for_preallocation()
        assert Probe(store).locked_files.refused >= 3
        assert Probe(store).locked_files.offsets == []
        assert store.max_offset("t", 0) == count


def test_files_are_unlocked_after_their_time() -> None:
    files = LockedFiles(3600)
    with tempfile.TemporaryFile() as made:
        made.truncate(4096)
        for offset in (0, 4096, 8192):
            files.lock(offset, made.fileno(), 4096)
        if files.refused:
            pytest.skip("the system does not allow memory locks here")
        assert files.due_in_s() is None
        files.moved_on_to(8192)
        due = files.due_in_s()
        assert due is not None
        assert 0 < due <= 3600
        files.unlock_due()
        assert files.offsets == [0, 4096, 8192], "time is not up"
        files.unlock_after_s = 0
        files.lock(12_288, made.fileno(), 4096)
        files.moved_on_to(16_384)
        assert files.due_in_s() == 0
        files.unlock_due()
        assert files.offsets == [0, 4096], "the log moved on from these an hour ago"
        files.close()
        assert files.offsets == []


def test_a_name_is_durable_before_anything_in_its_file_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MessageStore.open(tmp_path / "s", config(flush_disk_type=FlushDiskType.SYNC_FLUSH)) as store:
        put_until(store, SIZE - 1500)
        real = os_files.sync_directory

        def refuse(path: Path) -> None:
            if path == store.paths.commit_log:
                raise StoreFencedError(path, "the disk is broken")
            real(path)

        monkeypatch.setattr(os_files, "sync_directory", refuse)
        results = [store.put_message(Message("t", BODY, queue_id=0)) for _ in range(3)]
        late = [result for result in results if result.physical_offset < 0 or result.physical_offset >= SIZE]
        assert late
        assert all(result.status is not PutMessageStatus.PUT_OK for result in late)
