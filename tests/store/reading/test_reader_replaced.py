"""A reader that stays open while the files under it are replaced: by a restore, a recovery, a rebuild."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, SkipFaults, StoreConfig, StoreReader
from rocketflow_store.model.errors import CorruptRecordError, OffsetOutOfRangeError, StoreReplacedError

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 13, mapped_file_size_consume_queue=400, max_hash_slot_num=10, max_index_num=50
)


def put(path: Path, word: str, count: int) -> None:
    with MessageStore.open(path, CONFIG) as store:
        messages = [
            Message("t", f"{word} {n}".encode().ljust(60), keys=[f"{word}{n}"], queue_id=0) for n in range(count)
        ]
        assert all(one.stored for one in store.put_messages(messages))


def bodies(reader: StoreReader) -> list[str]:
    low, high = reader.bounds("t", 0)
    batches = reader.read("t", 0, low, high, columns=["body"])
    return [body.decode().rstrip() for batch in batches for body in batch.column(0).to_pylist()]


def words(word: str, count: int) -> list[str]:
    return [f"{word} {n}" for n in range(count)]


def file_by_file(source: Path, target: Path) -> None:
    """Copy as rsync does: write every file under another name and rename it; remove files that the source lacks."""
    for old in [one for one in target.rglob("*") if one.is_file() and not (source / one.relative_to(target)).exists()]:
        old.unlink()
    for new in [one for one in source.rglob("*") if one.is_file()]:
        place = target / new.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(new, place.with_name(".incoming"))
        os.replace(place.with_name(".incoming"), place)


def as_a_whole(source: Path, target: Path) -> None:
    shutil.rmtree(target)
    shutil.copytree(source, target)


@pytest.mark.parametrize("restore", [file_by_file, as_a_whole])
@pytest.mark.parametrize(("before", "after"), [(70, 30), (30, 70), (50, 50), (200, 20)])
def test_open_reader_follows_a_restored_store(tmp_path: Path, restore: object, before: int, after: int) -> None:
    path, backup = tmp_path / "s", tmp_path / "backup"
    put(path, "old", before)
    put(backup, "new", after)
    with StoreReader(path) as reader, StoreReader(backup) as wanted:
        assert bodies(reader) == words("old", before)
        assert reader.max_phy_offset > 0
        assert [one.body.rstrip() for one in reader.query_message("t", "old3")] == [b"old 3"]
        restore(backup, path)  # type: ignore[operator]
        assert reader.max_phy_offset == wanted.max_phy_offset
        assert reader.snapshot() == wanted.snapshot()
        assert bodies(reader) == words("new", after)
        assert reader.get_message("t", 0, 5, 1).messages[0].body.rstrip() == b"new 5"
        assert reader.query_message("t", "old3") == []
        assert [one.body.rstrip() for one in reader.query_message("t", "new3")] == [b"new 3"]
        put(path, "on", 20)
        assert bodies(reader) == words("new", after) + words("on", 20)


def test_open_reader_follows_a_recovery_that_cut_the_end(tmp_path: Path) -> None:
    """Files after the cut are deleted and created again under the same names."""
    path = tmp_path / "s"
    put(path, "old", 150)
    with StoreReader(path) as reader:
        assert bodies(reader) == words("old", 150)
        cut = reader.max_phy_offset - 2 * CONFIG.mapped_file_size_commit_log
        kept = sum(unit < cut for unit in reader.read_units("t", 0, 0, 150)["phy_offset"].tolist()) - 1
        for file in (path / "commitlog").iterdir():
            keep = min(max(cut - int(file.name), 0), CONFIG.mapped_file_size_commit_log)
            data = file.read_bytes()[:keep]
            file.write_bytes(data.ljust(CONFIG.mapped_file_size_commit_log, b"\0"))
        (path / "abort").write_text("1")
        (path / "rocketflow" / "stop").unlink()  # otherwise the queue offsets of cut messages are not assigned again
        put(path, "new", 120)
        assert bodies(reader) == words("old", kept) + words("new", 120)
        with StoreReader(path) as fresh:
            assert reader.snapshot() == fresh.snapshot()


def test_retention_of_every_known_file_is_no_replacement(tmp_path: Path) -> None:
    """A slow reader looks again when all its files were deleted, and newer ones exist."""
    path = tmp_path / "s"
    config = dataclasses.replace(CONFIG, delete_commit_log_files_interval=0, delete_consume_queue_files_interval=0)
    messages = [Message("t", b"x".ljust(60), queue_id=0) for _ in range(100)]
    with MessageStore.open(path, config) as store, StoreReader(path) as reader:
        store.put_messages(messages)
        first, second = (reader.read("t", 0, 0, 100, ["body"], max_batch_bytes=500) for _ in range(2))
        begun = [next(batches).num_rows for batches in (first, second)]
        known = {mapped.path for mapped in reader.log_files}
        for _ in range(3):
            store.put_messages(messages)
        store.flush()
        for file in sorted((path / "commitlog").iterdir())[:-2]:
            os.utime(file, (0, 0))
        while store.clean().log_files:
            pass
        assert not any(file.exists() for file in known)
        assert begun[0] + sum(batch.num_rows for batch in first) == 100  # from its old maps
        with pytest.raises(OffsetOutOfRangeError):  # it has looked again since
            list(second)
        assert bodies(reader) == ["x"] * (400 - reader.min_offset("t", 0))


def test_open_reader_follows_rebuilt_queues(tmp_path: Path) -> None:
    """Only the derived files are replaced; the log is the same."""
    path = tmp_path / "s"
    put(path, "old", 50)
    with StoreReader(path) as reader:
        assert bodies(reader) == words("old", 50)
        shutil.copytree(path / "consumequeue", tmp_path / "rebuilt")
        shutil.rmtree(path / "consumequeue")
        shutil.copytree(tmp_path / "rebuilt", path / "consumequeue")
        put(path, "on", 30)
        assert bodies(reader) == words("old", 50) + words("on", 30)


def test_rows_of_two_stores_never_come_from_one_read(tmp_path: Path) -> None:
    path, backup = tmp_path / "s", tmp_path / "backup"
    put(path, "old", 200)
    put(backup, "new", 200)
    with StoreReader(path) as reader:
        batches = reader.read("t", 0, 0, 200, columns=["body"], max_batch_bytes=2000)
        assert next(batches).column(0)[0].as_py().rstrip() == b"old 0"
        file_by_file(backup, path)
        assert reader.bounds("t", 0) == (0, 200)  # another call notices
        with pytest.raises(StoreReplacedError, match="read again") as caught:
            list(batches)
        assert caught.value.retriable
        assert bodies(reader) == words("new", 200)
        unfinished = reader.read("t", 0, 0, 200, columns=["body"], max_batch_bytes=2000, faults=SkipFaults())
        next(unfinished)
        as_a_whole(backup, path)
        with pytest.raises(StoreReplacedError):
            list(unfinished)


def test_truncated_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "s"
    put(path, "old", 100)
    with StoreReader(path) as reader:
        assert bodies(reader) == words("old", 100)
        last = sorted((path / "commitlog").iterdir())[-1]
        os.truncate(last, 100)
        assert reader.bounds("t", 0) == (0, 100)  # as the last orderly stop recorded
        with pytest.raises(CorruptRecordError, match="not there"):
            bodies(reader)
        readable = reader.read("t", 0, 0, 100, columns=["body"], faults=SkipFaults())
        assert 0 < sum(batch.num_rows for batch in readable) < 100
