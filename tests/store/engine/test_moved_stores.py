"""Files of an open store are renamed, replaced or deleted: the store is fenced, nothing is written at the old paths."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, PutMessageStatus, StoreConfig
from rocketflow_store.model.errors import StoreFencedError, StoreMovedError
from rocketflow_store.model.status import FlushDiskType
from tests.support.descriptors import open_paths
from tests.support.servers import until
from tests.support.workload import SMALL

FLUSHES = (FlushDiskType.ASYNC_FLUSH, FlushDiskType.SYNC_FLUSH)


def config(flush: FlushDiskType = FlushDiskType.ASYNC_FLUSH, **more: object) -> StoreConfig:
    return StoreConfig(**{**SMALL, "flush_disk_type": flush, "flush_interval_commit_log": 20, **more})  # type: ignore[arg-type]


def away(path: Path) -> None:
    """Rename a file or directory out of the way."""
    path.rename(path.with_name(f"{path.name}.away"))


def replaced(path: Path) -> None:
    """Put a copy in the place of a directory."""
    away(path)
    shutil.copytree(path.with_name(f"{path.name}.away"), path, symlinks=True)


def back(path: Path) -> None:
    """Undo `away` and `replaced`."""
    if path.exists():
        shutil.rmtree(path)
    path.with_name(f"{path.name}.away").rename(path)


def files(root: Path) -> dict[str, tuple[int, int]]:
    """Return inode and time of the last write of everything at a path."""
    if not root.exists():
        return {}
    found = [root, *root.rglob("*")]
    return {str(one): (one.stat().st_ino, one.stat().st_mtime_ns) for one in found}


def is_open(path: Path) -> bool:
    """Return True if this process has opened a directory, which its watch then has in view."""
    return str(path) in open_paths()


def put(store: MessageStore, number: int) -> bool:
    """Put a message to a queue of its own; return whether it was acknowledged."""
    return store.put_message(Message(f"t{number}", b"%d" % number, queue_id=0)).status is PutMessageStatus.PUT_OK


def stored(root: Path, acked: list[int]) -> list[int]:
    with MessageStore.open(root, config()) as store:
        return [one for one in acked if [m.body for m in store.get_message(f"t{one}", 0, 0).messages] == [b"%d" % one]]


@pytest.mark.parametrize("flush", FLUSHES)
@pytest.mark.parametrize("change", [away, replaced])
@pytest.mark.parametrize("name", ["", "commitlog", "consumequeue", "config", "rocketflow", "index"])
def test_moved_directory_fences_and_nothing_is_written_at_its_path(
    tmp_path: Path, name: str, change: Callable[[Path], None], flush: FlushDiskType, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "s"
    with MessageStore.open(root, config(flush)) as store:
        acked = [number for number in range(3) if put(store, number)]
        assert until(lambda: is_open(root / name))
        change(root / name)
        for number in range(3, 1000):
            if not put(store, number):
                break
            acked.append(number)
        assert until(lambda: store.statistics()["fenced"])
        assert until(lambda: "RF-MOVED" in caplog.text)
        before = files(root / name)
        late = store.put_message(Message("new", b"late"))
        assert late.status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        assert f"{root / name}" in late.why
        assert [one.body for one in store.get_message("t0", 0, 0).messages] == [b"0"]
        for write in (store.flush, lambda: store.create_topic("later")):
            with pytest.raises(StoreFencedError):
                write()
    assert files(root / name) == before
    assert change is replaced or before == {}
    back(root / name)
    assert stored(root, acked) == acked
    assert len(acked) >= 3


@pytest.mark.parametrize("flush", FLUSHES)
@pytest.mark.parametrize("change", [away, Path.unlink])
def test_deleted_lock_fences(tmp_path: Path, change: Callable[[Path], None], flush: FlushDiskType) -> None:
    root = tmp_path / "s"
    with MessageStore.open(root, config(flush)) as store:
        assert put(store, 0)
        change(root / "lock")
        assert until(lambda: not put(store, 1))
        assert f"{root / 'lock'} was renamed, replaced or deleted" in store.put_message(Message("t", b"x")).why
        assert not (root / "lock").exists()
    assert stored(root, [0]) == [0]


@pytest.mark.parametrize("change", [away, Path.unlink])
def test_sync_of_a_log_file_without_its_name_acknowledges_nothing(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    """The watch looks too late here: each sync looks at the files that it has synced."""
    root, never = tmp_path / "s", 24 * 3600 * 1000
    with MessageStore.open(root, config(FlushDiskType.SYNC_FLUSH, flush_interval_commit_log=never)) as store:
        assert put(store, 0)
        change(root / "commitlog" / f"{0:020d}")
        late = store.put_message(Message("t", b"late"))
        assert (late.status, "was renamed, replaced, cut or deleted" in late.why) == (
            PutMessageStatus.FLUSH_DISK_TIMEOUT,
            True,
        )
        assert store.put_message(Message("t", b"later")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        assert [one.body for one in store.get_message("t0", 0, 0).messages] == [b"0"]


def test_deleted_log_file_is_noticed_without_a_put(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", config()) as store:
        assert put(store, 0)
        store.flush()
        (tmp_path / "s" / "commitlog" / f"{0:020d}").unlink()
        assert until(lambda: store.statistics()["fenced"])


def test_store_moved_before_its_close_is_left_as_it_is(tmp_path: Path) -> None:
    root, never = tmp_path / "s", 24 * 3600 * 1000
    store = MessageStore.open(root, config(flush_interval_commit_log=never))
    assert put(store, 0)
    away(root)
    store.close()
    assert not root.exists()
    back(root)
    assert (root / "abort").exists()
    assert stored(root, [0]) == [0]


def test_another_store_at_the_old_path_is_opened_once_the_moved_one_is_closed(tmp_path: Path) -> None:
    root = tmp_path / "s"
    with MessageStore.open(root, config()) as store:
        away(root)
        assert until(lambda: store.statistics()["fenced"])
        assert until(lambda: os.listdir(tmp_path) == ["s.away"])
        with pytest.raises(StoreMovedError):
            MessageStore.open(root, config())
        assert os.listdir(tmp_path) == ["s.away"]
    assert stored(root, [0]) == []
    with MessageStore.open(root, config()) as other:
        assert put(other, 7)


def test_files_that_the_writer_replaces_do_not_fence(tmp_path: Path) -> None:
    """Log files roll and are deleted, a topic and the directories of its queues too, a put is taken back."""
    with MessageStore.open(tmp_path / "s", config(flush_interval_commit_log=1)) as store:
        for number in range(60):
            assert store.put_message(Message("t", bytes(1000), queue_id=0)).stored
            assert put(store, number)
        store.delete_topic("t")
        shutil.rmtree(tmp_path / "s" / "rocketflow" / "tmp", ignore_errors=True)
        for number in range(60, 120):
            assert put(store, number)
        store.flush()
        assert not store.statistics()["fenced"]
