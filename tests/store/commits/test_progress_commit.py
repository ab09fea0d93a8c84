"""Messages and the progress of their source, in one commit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rocketflow_store import FlushDiskType, Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.commits.batch_commit import last_commit
from rocketflow_store.commits.progress_commit import ProgressBatch, ProgressMovedError, commit_progress
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.native.commit_envelope import COMMIT_TOPIC
from rocketflow_store.records.encoding.encode import BatchEncoder, EncodedChunk

SMALL = {
    "mapped_file_size_commit_log": 64 << 10,
    "mapped_file_size_consume_queue": 20_000,
    "max_hash_slot_num": 5_000,
    "max_index_num": 20_000,
    "flush_disk_type": FlushDiskType.SYNC_FLUSH,
}


def chunks(store: MessageStore, names: list[str]) -> list[EncodedChunk]:
    rows = pa.RecordBatch.from_arrays([pa.array([name.encode() for name in names], pa.binary())], names=["body"])
    encoder = BatchEncoder(store.config, lambda _: 1, default_topic="t")
    return list(encoder.encode(rows, 1_700_000_000_000))


def commit(store: MessageStore, after: Any, names: list[str], progress: dict[str, Any], run: str = "r") -> None:
    made = chunks(store, names) if names else []
    commit_progress(store, ProgressBatch("mover", run, after, progress, len(names), made), queues=1)


def bodies(path: Path) -> list[str]:
    with StoreReader(path) as reader:
        if "t" not in reader.topics():
            return []
        batches = reader.read("t", 0, *reader.bounds("t", 0), columns=["body"])
        return [body.decode() for batch in batches for body in batch.column(0).to_pylist()]


def test_progress_is_what_the_last_commit_says(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, StoreConfig(**SMALL)) as store:
        assert last_commit(store, "mover") is None
        commit(store, None, ["a", "b"], {"t": {"0": 2}})
        first = last_commit(store, "mover")
        assert first is not None
        assert (first.progress, first.rows, first.batch_id) == ({"t": {"0": 2}}, 2, 0)
        store.put_message(Message("u", b"between"))
        commit(store, first, [], {"t": {"0": 7}})
        commit(store, last_commit(store, "mover"), ["c" * 200] * 900, {"t": {"0": 8}, "name": "Köln"})
    with StoreReader(path) as reader:
        last = last_commit(reader, "mover")
        assert last is not None
        assert (last.progress, last.rows, last.batch_id) == ({"t": {"0": 8}, "name": "Köln"}, 900, 2)
    assert bodies(path) == ["a", "b", *["c" * 200] * 900]
    assert verify_store(path).findings == []


def test_a_plan_from_an_older_commit_is_refused_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, StoreConfig(**SMALL)) as store:
        commit(store, None, ["a"], {"at": 1}, "one")
        seen = last_commit(store, "mover")
        commit(store, seen, ["b"], {"at": 2}, "two")
        end = store.max_phy_offset
        for after in (None, seen):
            with pytest.raises(ProgressMovedError, match="batch 1 of run two"):
                commit(store, after, ["again"], {"at": 2}, "one")
        assert store.max_phy_offset == end
    assert bodies(path) == ["a", "b"]


def test_one_of_several_threads_with_the_same_plan_commits(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, StoreConfig(**SMALL)) as store:
        store.create_topic("t", 1)

        def move(number: int) -> int:
            while True:
                after = last_commit(store, "mover")
                at = 0 if after is None else after.progress["at"]
                if at >= 40:
                    return number
                try:
                    commit(store, after, [str(at)], {"at": at + 1}, f"run{number}")
                except ProgressMovedError:
                    continue

        with ThreadPoolExecutor(4) as pool:
            assert sorted(pool.map(move, range(4))) == [0, 1, 2, 3]
    assert bodies(path) == [str(number) for number in range(40)]


@pytest.mark.parametrize("rows", [0, 3])
def test_a_truncated_commit_loses_its_progress_too(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, StoreConfig(**SMALL)) as store:
        commit(store, None, ["a"], {"at": 1})
        begin = store.max_phy_offset
        commit(store, last_commit(store, "mover"), ["x"] * rows, {"at": 2})
        end = store.max_phy_offset
        commit(store, last_commit(store, "mover"), [], {"at": 3})
    log = path / "commitlog" / f"{0:020d}"
    raw = bytearray(log.read_bytes())
    for cut in (end - 1, begin + 1):
        raw[cut:] = bytes(len(raw) - cut)
        (path / "rocketflow" / "stop").unlink(missing_ok=True)
        (path / "rocketflow" / "confirm").unlink(missing_ok=True)
        log.write_bytes(raw)
        (path / "abort").write_bytes(b"")
        with MessageStore.open(path, StoreConfig(**SMALL)) as store:
            last = last_commit(store, "mover")
            assert last is not None
            assert last.progress == {"at": 1}
            assert len(store.queues(COMMIT_TOPIC)) == 1
        assert bodies(path) == ["a"]
        assert verify_store(path).findings == []
        raw = bytearray(log.read_bytes())
