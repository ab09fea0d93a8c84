"""Unintended uses of a store: each is refused, or does no harm."""

from __future__ import annotations

import os
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketflow.cli.app import run
from rocketflow_store import Message, MessageStore, SkipFaults, StoreReader
from rocketflow_store.files import disk, os_files
from rocketflow_store.fsck.repair import repair_store
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.errors import (
    NotAStoreError,
    StoreAccessError,
    StoreClosedError,
    StoreConfigError,
    StoreError,
    StoreLockedError,
)
from rocketflow_store.model.status import GetMessageStatus, PutMessageStatus
from rocketflow_store.views.index.index_file import IndexFile
from tests.support.damage import CONFIG, flip


def main_code(*words: object) -> int:
    return run([str(one) for one in words])


def test_process_that_changes_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path is resolved when the store is opened."""
    for name in "ab":
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "a")
    with MessageStore.open("store", CONFIG) as store:
        store.put_message(Message("t", b"0", queue_id=0))
        reader = StoreReader("store")
        monkeypatch.chdir(tmp_path / "b")
        for number in range(1, 500):
            assert store.put_message(Message("t", b"%d" % number, queue_id=0, keys=f"k{number}")).stored
        assert reader.bounds("t", 0) == (0, 500)
        reader.close()
    assert not any((tmp_path / "b").iterdir())
    assert verify_store(tmp_path / "a" / "store").findings == []


def test_forked_process_leaves_the_store_to_its_parent(tmp_path: Path) -> None:
    """It has the store neither open nor locked, and leaves it as it is."""
    path = tmp_path / "s"
    with MessageStore.open(path, CONFIG) as store:
        store.put_message(Message("t", b"parent", queue_id=0))
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with pytest.raises(StoreClosedError), store:
                    store.put_message(Message("t", b"child", queue_id=0))
                with pytest.raises(StoreLockedError, match=f"pid {os.getppid()}"):
                    MessageStore.open(path, CONFIG)
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (path / "abort").exists()
        assert store.put_message(Message("t", b"parent", queue_id=0)).queue_offset == 1
    with StoreReader(path) as reader:
        assert [one.body for one in reader.get_message("t", 0, 0).messages] == [b"parent"] * 2
    assert verify_store(path).findings == []


@pytest.mark.parametrize(
    "paths",
    [
        {"store_path_index": "commitlog"},
        {"store_path_index": "consumequeue/index"},
        {"store_path_consume_queue": "."},
        {"store_path_commit_log": "consumequeue"},
        {"store_path_commit_log": "a,a/b"},
        {"store_path_commit_log": "a,b", "multi_path_splitter": ""},
    ],
)
def test_directories_inside_each_other_are_refused(tmp_path: Path, paths: dict[str, str]) -> None:
    """Strange files in a directory are quarantined: the log would be, in the index directory."""
    with pytest.raises(StoreConfigError, match=r"directory|multiPathSplitter"):
        MessageStore.open(tmp_path / "s", replace(CONFIG, **paths))  # type: ignore[arg-type]
    assert not (tmp_path / "s").exists() or not any((tmp_path / "s").iterdir())


def test_message_to_an_lmq_itself_is_refused(tmp_path: Path) -> None:
    """Its offsets are those that messages of other topics get in it."""
    with MessageStore.open(tmp_path / "s", CONFIG) as store:
        refused = store.put_message(Message("%LMQ%x", b"x"))
        assert refused.status is PutMessageStatus.MESSAGE_ILLEGAL
        assert "INNER_MULTI_DISPATCH" in refused.why


def test_unit_that_points_outside_of_the_log(tmp_path: Path) -> None:
    """It loses its own message, and none after it."""
    path = tmp_path / "s"
    with MessageStore.open(path, CONFIG) as store:
        for number in range(15):
            store.put_message(Message("t", b"%d" % number, queue_id=0))
    with (path / "consumequeue" / "t" / "0" / f"{0:020d}").open("r+b") as units:
        units.seek(40)
        units.write(struct.pack(">qiq", 123_456_789_012, 300, 5))
    with StoreReader(path) as reader:
        found = reader.get_message("t", 0, 0, 32)
        assert [one.body for one in found.messages] == [b"%d" % number for number in range(15) if number != 2]
        assert (found.status, found.next_begin_offset) == (GetMessageStatus.FOUND, 15)
        assert len(reader.get_message("t", 0, 2, 32).messages) == 12


@pytest.mark.parametrize("damage", [bytes(20), b"\xff" * 8, bytes(12)])
@pytest.mark.parametrize("numbers", [[2], [2, 3, 4, 30], [*range(20, 40)]], ids=str)
def test_blank_unit_is_not_the_end_of_its_queue(tmp_path: Path, damage: bytes, numbers: list[int]) -> None:
    """A store that was stopped in order: messages after it are served, and its own is reported lost."""
    path = tmp_path / "s"
    with MessageStore.open(path, CONFIG) as store:
        for number in range(90):
            store.put_message(Message("t", b"%d" % number, queue_id=0))
    for number in numbers:
        base = number // 20 * 400
        with (path / "consumequeue" / "t" / "0" / f"{base:020d}").open("r+b") as units:
            units.seek(number * 20 - base)
            units.write(damage)
    with StoreReader(path) as reader:
        assert reader.bounds("t", 0) == (0, 90)
        with pytest.raises(StoreError):
            list(reader.read("t", 0, 0, 90, ["body"]))
        batches = reader.read("t", 0, 0, 90, ["body"], faults=SkipFaults())
        served = [int(body) for batch in batches for body in batch["body"].to_pylist()]
        assert served == [number for number in range(90) if number not in numbers]
        assert reader.get_message("t", 0, 5, 1).messages[0].body == b"5" or 5 in numbers
    assert main_code("store", "cat", path, "--topic", "t", "--json") == 3
    with MessageStore.open(path, CONFIG) as store:
        found = [one for at in range(0, 90, 20) for one in store.get_message("t", 0, at, 20).messages]
        assert [one.body for one in found] == [b"%d" % number for number in range(90)]
    assert verify_store(path).findings == []


def test_reader_finds_the_end_of_the_log_after_damaged_batches(tmp_path: Path) -> None:
    """A reader that looks for the end of the log starts after the units of batches too."""
    path = tmp_path / "s"
    with MessageStore.open(path, CONFIG) as store:
        store.put_message(Message("plain", b"x", queue_id=0))
        store.create_topic("batches", 1, queue_type="BatchCQ")
        puts = [store.put_message(Message("batches", b"%d" % number, queue_id=0, keys="k")) for number in range(9)]
        end = store.max_phy_offset
    flip(path / "commitlog" / f"{0:020d}", puts[4].physical_offset + 90)
    with StoreReader(path) as reader:
        assert reader.max_phy_offset == end
        assert len(reader.query_message("batches", "k")) == 8


@pytest.mark.parametrize("name", [None, "notes.txt"])
def test_repair_of_another_directory_is_refused(tmp_path: Path, name: str | None) -> None:
    if name is not None:
        (tmp_path / name).touch()
    with pytest.raises(NotAStoreError):
        repair_store(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ([] if name is None else [name])


def test_index_file_has_blocks_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read in a hole of a full disk would end the process."""
    seen = []
    map_file = os_files.map_file

    def mapping(fd: int, *given: Any, **options: Any) -> object:
        seen.append(os.fstat(fd).st_blocks)
        return map_file(fd, *given, **options)

    monkeypatch.setattr(os_files, "map_file", mapping)
    IndexFile.create(tmp_path / "20261122000000000", 50, 200, None).close()
    assert min(seen) > 0


def test_directory_in_the_place_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, CONFIG) as store:
        for number in range(30):
            store.put_message(Message("t", b"x", queue_id=0, keys=f"k{number}"))
    (file,) = (path / "index").iterdir()
    (path / "abort").touch()
    for one in (file, path / "rocketflow" / "ends"):
        one.unlink(missing_ok=True)
        one.mkdir()
    with StoreReader(path) as reader:
        assert reader.bounds("t", 0) == (0, 30)
    assert verify_store(path).findings
    with MessageStore.open(path, CONFIG) as store:
        assert len(store.query_message("t", "k7")) == 1
    assert verify_store(path).findings == []


def test_disk_that_accepts_no_bytes_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It must not loop without an end."""
    with (tmp_path / "file").open("wb") as file:
        monkeypatch.setattr(disk, "pwrite", lambda fd, data, position: 0)
        with pytest.raises(StoreAccessError, match="nothing was written"):
            os_files.write_at(file.fileno(), tmp_path / "file", 0, b"x")
        monkeypatch.setattr(disk, "write", lambda fd, data: 0)
        with pytest.raises(StoreAccessError, match="nothing was written"):
            os_files.append_bytes(file.fileno(), tmp_path / "file", memoryview(b"x"))


def test_directory_whose_parent_another_process_creates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mkdir, wanted = disk.mkdir, tmp_path / "staging" / "sink" / "runs"

    def late(path: Path) -> None:
        try:
            mkdir(path)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            raise

    monkeypatch.setattr(disk, "mkdir", late)
    os_files.make_directory(wanted)
    assert wanted.is_dir()
    os_files.make_directory(wanted)


def test_directory_that_cannot_be_created_raises(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/rocketflow")):
        with pytest.raises(StoreAccessError, match=path.name):
            os_files.make_directory(path)
