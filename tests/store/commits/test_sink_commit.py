"""Commits of staged parts: written by several threads, synced early, and still all or nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rocketflow_store import FlushDiskType, Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.append import chunk_append
from rocketflow_store.commits import batch_commit as sink_commit
from rocketflow_store.commits import pooled_parts
from rocketflow_store.commits.batch_commit import (
    CommitStatus,
    SinkBatch,
    SupersededRunError,
    check_sink_id,
    commit_batch,
    last_commit,
    newest_run,
    register_run,
    registered_run,
)
from rocketflow_store.commits.commit_copy import copy_of
from rocketflow_store.commits.progress_commit import ProgressBatch, commit_progress
from rocketflow_store.commits.staged_part import StagedPart, batch_directory, stage
from rocketflow_store.files import disk, os_files
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.layout.store_meta import gives_record_crc
from rocketflow_store.metadata.layout.store_paths import StorePaths
from rocketflow_store.model.errors import CorruptRecordError, StoreFencedError
from rocketflow_store.model.results import AppendBatchResult
from rocketflow_store.records.encoding.encode import BatchEncoder
from rocketflow_store.views.queues.queue_offsets import QueueOffsets
from tests.support.damage import flip

SMALL = {
    "mapped_file_size_commit_log": 256 << 10,
    "mapped_file_size_consume_queue": 20_000,
    "max_hash_slot_num": 5_000,
    "max_index_num": 20_000,
    "flush_disk_type": FlushDiskType.SYNC_FLUSH,
}


def part(directory: Path, first: int, count: int, encoder_config: StoreConfig) -> StagedPart:
    names = [f"m{number}" for number in range(first, first + count)]
    rows = pa.RecordBatch.from_arrays(
        [pa.array([name.encode().ljust(300, b".") for name in names], pa.binary()), pa.array(names)],
        names=["body", "keys"],
    )
    encoder = BatchEncoder(encoder_config, lambda _: 4, default_topic="t", row_hashes=True)
    return stage(encoder.encode(rows, 1_700_000_000_000), directory, f"p{first}", inline_bytes=1000)


def batch(parts: list[StagedPart], batch_id: int = 0) -> SinkBatch:
    return SinkBatch("sink", "sink", batch_id, "run", 1, parts)


def keys(path: Path) -> Counter[str]:
    with StoreReader(path) as reader:
        return Counter(
            key
            for queue in reader.queues("t")
            for rows in reader.read("t", queue, *reader.bounds("t", queue), columns=["keys"])
            for key in rows.column(0).to_pylist()
        )


@pytest.mark.parametrize("store_crc", [False, True])
@pytest.mark.parametrize("part_crc", [False, True])
def test_parts_with_and_without_crc_are_committed_to_both_kinds_of_stores(
    tmp_path: Path, store_crc: bool, part_crc: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_append, "SYNC_EVERY_BYTES", 1)
    path = tmp_path / "s"
    encoder_config = StoreConfig(enabled_append_prop_crc=part_crc)
    with MessageStore.open(path, StoreConfig(**SMALL, enabled_append_prop_crc=store_crc)) as store:
        for number in range(2):
            parts = [part(tmp_path / "staging", 4000 * number + first, 2000, encoder_config) for first in (0, 2000)]
            assert commit_batch(store, batch(parts, number)).rows == 4000
    assert keys(path) == Counter(f"m{number}" for number in range(8000))
    assert len(list((path / "commitlog").iterdir())) > 10
    assert verify_store(path).findings == []


def test_a_damaged_part_undoes_the_commit(tmp_path: Path) -> None:
    path = tmp_path / "s"
    parts = [part(tmp_path / "staging", first, 3000, StoreConfig()) for first in (0, 3000)]
    assert parts[1].path is not None
    raw = bytearray(Path(parts[1].path).read_bytes())
    raw[len(raw) // 2] ^= 1
    Path(parts[1].path).write_bytes(raw)
    with MessageStore.open(path, StoreConfig(**SMALL)) as store:
        with pytest.raises(CorruptRecordError) as refused:
            commit_batch(store, batch(parts))
        assert refused.value.file == parts[1].path
        assert store.max_phy_offset == 0
        again = [part(tmp_path / "staging", first, 3000, StoreConfig()) for first in (0, 3000)]
        commit_batch(store, batch(again))
    assert keys(path) == Counter(f"m{number}" for number in range(6000))
    assert verify_store(path).findings == []


def test_a_failed_early_sync_fences_and_shows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that failed once may report success the next time, which proves nothing."""
    monkeypatch.setattr(chunk_append, "SYNC_EVERY_BYTES", 1)
    path = tmp_path / "s"
    parts = [part(tmp_path / "staging", 0, 3000, StoreConfig())]
    store = MessageStore.open(path, StoreConfig(**SMALL))
    real, failures = os_files.sync_file, []

    def failing(fd: int, where: object) -> None:
        if "commitlog" in str(where) and "allocating" not in str(where) and not failures:
            failures.append(where)
            raise StoreFencedError(where, "Input/output error")
        real(fd, where)

    monkeypatch.setattr(os_files, "sync_file", failing)
    with pytest.raises(StoreFencedError):
        commit_batch(store, batch(parts))
    assert failures
    with pytest.raises(StoreFencedError):
        commit_batch(store, batch(parts))
    monkeypatch.undo()
    store.close()
    assert keys(path) == Counter()
    with MessageStore.open(path, StoreConfig(**SMALL)) as again:
        commit_batch(again, batch([part(tmp_path / "staging", 0, 3000, StoreConfig())]))
    assert keys(path) == Counter(f"m{number}" for number in range(3000))
    assert verify_store(path).findings == []


@pytest.mark.parametrize("direct_io", [False, True])
def test_later_batches_of_a_stream_overwrite_the_files_of_earlier_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, direct_io: bool
) -> None:
    path = tmp_path / "s"
    config = StoreConfig(**SMALL, direct_io=direct_io)
    pool = path / "rocketflow" / "spare"
    with MessageStore.open(path, config) as store:

        def commit(sink_id: str, number: int, counts: list[int]) -> list[StagedPart]:
            firsts = [10_000 * number + 1000 * one for one in range(len(counts))]
            directory = batch_directory(store.paths.staging, sink_id, number)
            parts = [part(directory, first, count, config) for first, count in zip(firsts, counts, strict=True)]
            commit_batch(store, SinkBatch(sink_id, sink_id, number, "run", 1, parts, more_follow=True))
            return parts

        first = commit("one", 0, [300, 200])
        assert {one.name for one in pool.iterdir()} == {Path(one.path or "").name for one in first}
        inodes = {one.stat().st_ino for one in pool.iterdir()}
        # shorter parts of another sink in longer files, and a third part that finds no file
        commit("two", 1, [30, 20, 10])
        assert inodes < {one.stat().st_ino for one in pool.iterdir()}
        # the oldest are deleted above the limit
        monkeypatch.setattr(pooled_parts, "MAX_BYTES", 200_000)
        commit("one", 2, [400])
        assert [one.name.split("-")[0] for one in pool.iterdir()] == ["p20000"]
        assert list((path / "rocketflow" / "staging").glob("*/0*")) == []
    numbers = [*range(300), *range(1000, 1200), *range(10_000, 10_030), *range(11_000, 11_020), *range(12_000, 12_010)]
    assert keys(path) == Counter(f"m{one}" for one in [*numbers, *range(20_000, 20_400)])
    assert verify_store(path).exit_code == 0


def test_a_single_batch_keeps_no_files(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", StoreConfig(**SMALL)) as store:
        staged = part(batch_directory(store.paths.staging, "sink", 0), 0, 100, store.config)
        commit_batch(store, batch([staged]))
        assert [one.name for one in (store.paths.staging / "sink").iterdir()] == ["last"]
        assert not (tmp_path / "s" / "rocketflow" / "spare").exists()


@pytest.mark.parametrize("refused", ["open", "write", "cut"])
def test_direct_io_that_the_file_system_refuses_falls_back_to_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """A file system without it (open), a disk with larger blocks (write), and a short write."""
    direct: set[int] = set()
    real_open, real_pwrite = disk.open_file, disk.pwrite
    sizes: list[int] = []

    def open_file(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_DIRECT and refused == "open":
            raise OSError(errno.EINVAL, "Invalid argument")
        fd = real_open(path, flags, mode)
        direct.discard(fd)  # the number of one that is closed is given again
        if flags & os.O_DIRECT:
            direct.add(fd)
        return fd

    def pwrite(fd: int, data: memoryview, position: int) -> int:
        if fd in direct and refused == "write":
            raise OSError(errno.EINVAL, "Invalid argument")
        if fd in direct and refused == "cut":
            data = data[:8192]
            sizes.append(real_pwrite(fd, data, position) - 100)
            return sizes[-1]
        return real_pwrite(fd, data, position)

    monkeypatch.setattr(disk, "open_file", open_file)
    monkeypatch.setattr(disk, "pwrite", pwrite)
    path = tmp_path / "s"
    with MessageStore.open(path, StoreConfig(**SMALL, direct_io=True)) as store:
        staged = [part(batch_directory(store.paths.staging, "sink", 0), n * 1000, 500, store.config) for n in range(3)]
        commit_batch(store, batch(staged))
    assert refused == "open" or direct
    assert refused != "cut" or sizes
    assert keys(path) == Counter(f"m{n * 1000 + one}" for n in range(3) for one in range(500))
    assert verify_store(path).exit_code == 0


def test_the_store_decides_whether_rows_get_a_crc(tmp_path: Path) -> None:
    """A store that RocketFlow created appends one, unless its settings said otherwise; another writer's does not."""
    assert gives_record_crc(StorePaths(tmp_path / "new"))
    MessageStore.open(tmp_path / "native").close()
    assert gives_record_crc(StorePaths(tmp_path / "native"))
    MessageStore.open(tmp_path / "off", StoreConfig(enabled_append_prop_crc=False)).close()
    assert not gives_record_crc(StorePaths(tmp_path / "off"))
    (tmp_path / "rocketmq" / "commitlog").mkdir(parents=True)
    (tmp_path / "rocketmq" / "commitlog" / "00000000000000000000").write_bytes(bytes(4096))
    assert not gives_record_crc(StorePaths(tmp_path / "rocketmq"))


@pytest.mark.parametrize("backwards", [False, True])
def test_a_run_is_registered_after_two_abandoned_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backwards: bool
) -> None:
    """Two tasks claimed a number each and were killed; either name may be listed last."""
    first = register_run(tmp_path, "sink", "run-a", 0)
    for number in (first + 1, first + 2):
        (tmp_path / "sink" / "runs" / f"claim-{number:012d}").touch()
        (tmp_path / "sink" / "runs" / f"{number:012d}-abandoned").touch()
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: sorted(listed(path), reverse=backwards))
    assert register_run(tmp_path, "sink", "run-b", 0) == first + 3
    assert newest_run(tmp_path, "sink") == first + 3


def test_a_superseded_run_commits_nothing(tmp_path: Path) -> None:
    """F4: a driver that slept while another one took over its query."""
    config = StoreConfig(**SMALL)
    path = tmp_path / "s"
    with MessageStore.open(path, config) as store:
        encoder_config = store.config
    staging = StorePaths(path).staging

    def of_run(number: int, batch_id: int) -> SinkBatch:
        run = f"run-{number}"
        seq = registered_run(staging, "sink", run) or register_run(staging, "sink", run, 0)
        staged = part(batch_directory(staging, "sink", batch_id), 10 * batch_id + 100 * number, 10, encoder_config)
        return SinkBatch("sink", "sink", batch_id, run, seq, [staged])

    with MessageStore.open(path, config) as store:
        assert commit_batch(store, of_run(1, 0)).rows == 10
        assert commit_batch(store, of_run(2, 1)).rows == 10
        end = store.max_phy_offset
        for batch_id in (1, 2):
            with pytest.raises(SupersededRunError, match=r"run 1 \(run-1\) was superseded by run 2"):
                commit_batch(store, of_run(1, batch_id))
        assert store.max_phy_offset == end
        assert commit_batch(store, of_run(2, 2)).rows == 10
    assert len(keys(path)) == 30


def test_two_threads_with_one_batch_commit_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [part(tmp_path / "staging", 0, 2000, StoreConfig())]
    both, real, outcomes = threading.Barrier(2), sink_commit.append_with_envelope, list[CommitStatus]()

    def with_the_other(*arguments: Any, **more: Any) -> AppendBatchResult:
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.5)
        return real(*arguments, **more)

    monkeypatch.setattr(sink_commit, "append_with_envelope", with_the_other)
    with MessageStore.open(tmp_path / "s", StoreConfig(**SMALL)) as store:

        def commit() -> None:
            outcomes.append(commit_batch(store, batch(parts)).status)

        threads = [threading.Thread(target=commit) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(one.value for one in outcomes) == ["committed", "replayed"]
    assert keys(tmp_path / "s") == Counter(f"m{number}" for number in range(2000))


@pytest.mark.parametrize("rows", ["append_batch", "commit_batch"])
def test_an_interrupted_publication_fences(tmp_path: Path, rows: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Log and offsets disagree then: an offset would be reused, a batch be committed again."""
    path = tmp_path / "s"

    def append(store: MessageStore) -> None:
        if rows == "append_batch":
            store.append_batch(pa.record_batch({"body": [b"row"] * 3, "keys": ["row"] * 3}), "t")
        else:
            commit_batch(store, batch([part(tmp_path / "staging", 0, 100, StoreConfig())]))

    with MessageStore.open(path, StoreConfig(**SMALL)) as store:
        store.put_message(Message("t", b"x", keys="old", queue_id=0))

        def join(*_: object) -> None:
            raise MemoryError

        monkeypatch.setattr(QueueOffsets, "join", join)
        with pytest.raises(MemoryError):
            append(store)
        monkeypatch.undo()
        assert not store.put_message(Message("t", b"x", queue_id=0)).stored
        with pytest.raises(StoreFencedError):
            append(store)
    with MessageStore.open(path, StoreConfig(**SMALL)) as store:
        if rows == "commit_batch":
            append(store)
    there = keys(path)
    assert max(there.values()) == (3 if rows == "append_batch" else 1)
    assert verify_store(path).findings == []


@pytest.mark.parametrize("sink_id", ["@" * 120, ":" * 120, "a.b-c_d" * 17])
def test_every_sink_id_has_a_directory(tmp_path: Path, sink_id: str) -> None:
    staging = tmp_path / "staging"
    assert register_run(staging, check_sink_id(sink_id), "run", 0) == 1
    assert registered_run(staging, sink_id, "run") == 1


def test_a_damaged_envelope_does_not_let_its_batch_be_committed_again(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, StoreConfig(**SMALL)) as store:
        for number in range(2):
            places = [commit_batch(store, batch([part(tmp_path, 100 * number, 100, StoreConfig())], number))]
            progress = commit_progress(
                store, ProgressBatch("bridge", "run", last_commit(store, "bridge"), {"next": 10 * number})
            )
    for place in (places[0].begin_offset, progress.begin_offset):
        base = place - place % int(SMALL["mapped_file_size_commit_log"])  # type: ignore[call-overload]
        flip(path / "commitlog" / f"{base:020d}", place - base + 120)
    with MessageStore.open(path, StoreConfig(**SMALL)) as store:
        again = commit_batch(store, batch([part(tmp_path, 100, 100, StoreConfig())], 1))
        assert (again.status, again.rows) == (CommitStatus.REPLAYED, 100)
        known = last_commit(store, "bridge")
        assert known is not None
        assert known.progress == {"next": 10}
        commit_progress(store, ProgressBatch("bridge", "run", known, {"next": 20}))
    assert keys(path) == Counter(f"m{number}" for number in range(200))
    for copy in (path / "rocketflow" / "staging").glob("*/last"):
        copy.write_bytes(copy.read_bytes()[:-1])
        with StoreReader(path) as reader:
            assert copy_of(reader.paths, copy.parent.name, places[0].begin_offset) is None
