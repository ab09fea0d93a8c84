"""Files that are synced in parallel: each once, and an error of one is raised."""

from __future__ import annotations

import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.files import disk
from rocketflow_store.files.sync_together import sync_together
from rocketflow_store.model.errors import StoreFencedError

DEADLINE_S = 60
QUEUES = 40


@pytest.mark.parametrize("count", [0, 1, 7, 8, 63, 64, 65, 1000])
def test_every_sync_runs_once(count: int) -> None:
    done: list[int] = []
    sync_together([partial(done.append, number) for number in range(count)])
    assert sorted(done) == list(range(count))


def test_every_sync_runs_while_the_interpreter_ends(tmp_path: Path) -> None:
    """No thread can be started then."""
    script = """
import atexit, sys
from functools import partial
from rocketflow_store.files.sync_together import sync_together
atexit.register(lambda: sync_together([partial(print, number) for number in range(100)]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert [int(line) for line in done.stdout.split()] == list(range(100)), done.stderr


def test_several_syncs_run_at_once() -> None:
    both = threading.Barrier(8, timeout=DEADLINE_S)
    sync_together([both.wait for _ in range(8)])


@pytest.mark.parametrize("count", [3, 100])
def test_an_error_is_raised_once_no_other_sync_is_running(count: int) -> None:
    running: set[int] = set()

    def sync(number: int) -> None:
        running.add(number)
        try:
            if number == count // 2:
                raise OSError(5, f"sync {number}")
        finally:
            running.discard(number)

    with pytest.raises(OSError, match=f"sync {count // 2}"):
        sync_together([partial(sync, number) for number in range(count)])
    assert not running


def test_a_flush_syncs_every_queue_and_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    paths: dict[int, str] = {}

    def opened(path: str | Path, *more: int) -> int:
        fd = real_open(path, *more)
        paths[fd] = str(path)
        return fd

    real_open, real_sync = disk.open_file, {"fdatasync": disk.fdatasync, "fsync": disk.fsync}
    monkeypatch.setattr(disk, "open_file", opened)
    for name, real in real_sync.items():
        monkeypatch.setattr(disk, name, lambda fd, real=real: (synced.append(paths[fd]), real(fd))[1])
    with MessageStore.open(tmp_path / "s", StoreConfig(mapped_file_size_commit_log=1 << 20)) as store:
        store.create_topic("t", QUEUES)
        for queue in range(QUEUES):
            assert store.put_message(Message("t", b"x", queue_id=queue)).stored
        synced.clear()
        store.flush()
        queues = tmp_path / "s" / "consumequeue"
        wanted = [queues, queues / "t"]
        for queue in range(QUEUES):
            wanted += [queues / "t" / str(queue), queues / "t" / str(queue) / f"{0:020d}"]
        assert sorted(one for one in synced if "/consumequeue" in one) == sorted(map(str, wanted)), "each once"


def test_a_queue_that_cannot_be_synced_fences_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad: list[int] = []

    def opened(path: str | Path, *more: int) -> int:
        fd = real_open(path, *more)
        if "/consumequeue/t/33/" in str(path):
            bad.append(fd)
        return fd

    def sync(fd: int) -> None:
        if fd in bad:
            raise OSError(5, "Input/output error")
        real_sync(fd)

    real_open, real_sync = disk.open_file, disk.fdatasync
    monkeypatch.setattr(disk, "open_file", opened)
    with MessageStore.open(tmp_path / "s", StoreConfig(mapped_file_size_commit_log=1 << 20)) as store:
        store.create_topic("t", QUEUES)
        for queue in range(QUEUES):
            assert store.put_message(Message("t", b"x", queue_id=queue)).stored
        monkeypatch.setattr(disk, "fdatasync", sync)
        with pytest.raises(StoreFencedError, match="consumequeue/t/33"):
            store.flush()
        monkeypatch.setattr(disk, "fdatasync", real_sync)
        with pytest.raises(StoreFencedError):
            store.flush()
