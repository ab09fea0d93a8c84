"""Sizes of a store's files, detected from the existing files and `store.meta`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.format.index_layout import index_file_size
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.layout.file_sizes import detect_sizes
from rocketflow_store.metadata.layout.store_paths import StorePaths
from rocketflow_store.model.errors import StoreVersionError
from rocketflow_store.rebuild.rebuild import rebuild_store
from rocketflow_store.rebuild.result import RebuildRequest
from tests.support.damage import digests

SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": 8192,
    "mapped_file_size_consume_queue": 1000,
    "max_hash_slot_num": 64,
    "max_index_num": 256,
}


def make(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    os.truncate(path, size)


def queue(root: Path, topic: str, queue_id: int, *files: tuple[int, int]) -> None:
    """Create files of a queue, each of (first byte, size)."""
    for base, size in files:
        make(root / "consumequeue" / topic / str(queue_id) / f"{base:020d}", size)


def queue_size(root: Path) -> int | None:
    return detect_sizes(StorePaths(root)).get("mapped_file_size_consume_queue")


def test_an_empty_store_has_no_detected_sizes(tmp_path: Path) -> None:
    assert detect_sizes(StorePaths(tmp_path)) == {}


def test_a_truncated_first_queue_is_ignored(tmp_path: Path) -> None:
    """The first queue by name is the one with the truncated file."""
    queue(tmp_path, "a", 0, (0, 340))
    for number in range(3):
        queue(tmp_path, "b", number, (0, 1000))
    assert queue_size(tmp_path) == 1000


def test_a_file_followed_by_another_decides_over_lengths(tmp_path: Path) -> None:
    for number in range(5):
        queue(tmp_path, "a", number, (0, 340))
    queue(tmp_path, "b", 0, (0, 1000), (1000, 1000))
    assert queue_size(tmp_path) == 1000


def test_a_gap_between_two_files_is_no_size(tmp_path: Path) -> None:
    queue(tmp_path, "a", 0, (0, 1000), (2000, 1000), (3000, 1000))
    queue(tmp_path, "a", 1, (4000, 1000))
    assert queue_size(tmp_path) == 1000


def test_a_file_with_an_impossible_begin_is_ignored(tmp_path: Path) -> None:
    queue(tmp_path, "a", 0, (3000, 1000))
    for number in (1, 2):
        queue(tmp_path, "a", number, (3000, 1980))
        queue(tmp_path, "b", number, (0, 999))
    assert queue_size(tmp_path) == 1000


def test_queues_of_two_stores_are_refused(tmp_path: Path) -> None:
    queue(tmp_path, "a", 0, (0, 1000), (1000, 1000))
    queue(tmp_path, "b", 0, (0, 2000), (2000, 2000))
    (tmp_path / "commitlog").mkdir()
    for open_it in (MessageStore.open, StoreReader):
        with pytest.raises(StoreVersionError, match="different stores") as caught:
            open_it(tmp_path)  # type: ignore[operator]
        assert "/a/0/" in str(caught.value)
        assert "/b/0/" in str(caught.value)
    assert not (tmp_path / "rocketflow").exists()


def test_detection_ends_after_many_queues_that_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(100):
        queue(tmp_path, "a", number, (0, 1000))
    looked = []
    real = os.scandir

    def scandir(path: Any) -> Any:
        looked.append(Path(path).parent.name)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert queue_size(tmp_path) == 1000
    assert looked.count("a") == 64
    queue(tmp_path, "A", 0, (0, 340))
    assert queue_size(tmp_path) == 1000
    assert looked.count("a") == 164, "if one disagrees all are checked"


def test_sizes_in_store_meta_decide_between_files(tmp_path: Path) -> None:
    """They also win if the only file is truncated; if all files have another size, the files win."""
    meta = StorePaths(tmp_path).meta
    meta.parent.mkdir()
    body = {"mappedFileSizeCommitLog": 8192, "mappedFileSizeConsumeQueue": 1000, "maxHashSlotNum": 64, "maxIndexNum": 9}
    meta.write_text(json.dumps(body))
    assert detect_sizes(StorePaths(tmp_path)) == {**SMALL, "max_index_num": 9}
    make(tmp_path / "commitlog" / f"{0:020d}", 5000)
    queue(tmp_path, "a", 0, (0, 340))
    make(tmp_path / "index" / "20251121105947450", index_file_size(64, 9) // 2)
    assert detect_sizes(StorePaths(tmp_path)) == {**SMALL, "max_index_num": 9}
    for base in (1, 2):
        make(tmp_path / "commitlog" / f"{base * 4096:020d}", 4096)
        queue(tmp_path, "b", base, (0, 2000))
    found = detect_sizes(StorePaths(tmp_path))
    assert (found["mapped_file_size_commit_log"], found["mapped_file_size_consume_queue"]) == (4096, 2000)
    make(tmp_path / "commitlog" / f"{3 * 8192:020d}", 8192)
    assert detect_sizes(StorePaths(tmp_path))["mapped_file_size_commit_log"] == 8192


@pytest.mark.parametrize("with_meta", [True, False])
def test_a_store_whose_first_queue_was_truncated_is_opened_with_its_sizes(tmp_path: Path, with_meta: bool) -> None:
    root = tmp_path / "s"
    with MessageStore.open(root, StoreConfig(**SMALL)) as store:
        for number in range(150):
            store.put_message(Message(f"topic-{number % 3}", b"x%d" % number, queue_id=0))
    if not with_meta:
        (StorePaths(root).meta).unlink()
    first = root / "consumequeue" / "topic-0" / "0" / f"{0:020d}"
    os.truncate(first, 340)
    (root / "abort").touch()
    with MessageStore.open(root) as store:
        assert store.config.mapped_file_size_consume_queue == 1000
        for topic in range(3):
            assert store.bounds(f"topic-{topic}", 0) == (0, 50)
            got = [
                one for batch in store.read(f"topic-{topic}", 0, 0, 50, ["body"]) for one in batch["body"].to_pylist()
            ]
            assert got == [b"x%d" % (3 * at + topic) for at in range(50)]
    assert first.stat().st_size == 1000


def damaged_meta(root: Path, key: str, value: int) -> None:
    """Make a store with one log file and another `value` of `key` in store.meta."""
    with MessageStore.open(root, StoreConfig(**SMALL)) as store:
        store.put_message(Message("t", b"x", keys="k"))
    meta = StorePaths(root).meta
    meta.write_text(json.dumps({**json.loads(meta.read_text()), key: value}))


@pytest.mark.parametrize("value", [0, -1, 1 << 40, (1 << 63) - 1])
@pytest.mark.parametrize(
    "key", ["mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue", "maxHashSlotNum", "maxIndexNum"]
)
def test_an_impossible_size_in_store_meta_is_ignored(tmp_path: Path, key: str, value: int) -> None:
    root = tmp_path / "s"
    damaged_meta(root, key, value)
    with StoreReader(root) as reader:
        assert [one.body for one in reader.get_message("t", 0, 0, 10).messages] == [b"x"]
        assert [one.body for one in reader.query_message("t", "k", 10)] == [b"x"]
        assert reader.config.mapped_file_size_commit_log == SMALL["mapped_file_size_commit_log"]
    with pytest.raises(StoreVersionError, match=key):
        MessageStore.open(root)


@pytest.mark.parametrize("size", [1 << 17, 1 << 30])
def test_readers_and_rebuilds_refuse_a_log_of_one_file_with_another_size_than_store_meta_says(
    tmp_path: Path, size: int
) -> None:
    root = tmp_path / "s"
    with MessageStore.open(root, StoreConfig(**SMALL)) as store:
        store.put_message(Message("t", b"x", keys="k"))
    meta = StorePaths(root).meta
    meta.write_text(json.dumps({**json.loads(meta.read_text()), "mappedFileSizeCommitLog": size}))
    before = digests(root)
    with pytest.raises(StoreVersionError, match=rf"commitlog.*store\.meta.*{size}") as raised:
        StoreReader(root)
    assert raised.value.exit_code == 2
    with pytest.raises(StoreVersionError, match=r"store\.meta"):
        rebuild_store(root, RebuildRequest(force=True))
    assert verify_store(root).findings
    assert digests(root) == before
