"""An orderly stop in which a disk call fails: threads end, the directory is unlocked, and nothing is lost."""

from __future__ import annotations

import contextlib
import errno
import threading
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.model.errors import StoreError
from tests.support.disk_layer import CHANGES, Failing

SMALL = {"mapped_file_size_commit_log": 64 << 10, "max_hash_slot_num": 500, "max_index_num": 2000}
BODIES = [f"m{number}".encode() for number in range(30)]


@pytest.mark.parametrize("error", [errno.EIO, MemoryError("none left")], ids=["EIO", "MemoryError"])
def test_failed_close_ends_the_threads_and_unlocks_the_directory(tmp_path: Path, error: int | BaseException) -> None:
    nth, hit, before = 0, True, {*threading.enumerate()}
    while hit:
        nth += 1
        path = tmp_path / str(nth)
        store = MessageStore.open(path, StoreConfig(**SMALL))  # type: ignore[arg-type]
        store.put_messages([Message("t", body, queue_id=0, keys="k") for body in BODIES])
        failing = Failing(CHANGES, nth, error)
        with failing, contextlib.suppress(StoreError, MemoryError):
            store.close()
        assert {*threading.enumerate()} <= before, f"call {nth}: {failing.hits}"
        hit = bool(failing.hits)
        with MessageStore.open(path) as again:
            found = again.get_message("t", 0, 0, max_count=100).messages
            assert [one.body for one in found] == BODIES, f"call {nth}: {failing.hits}"
            assert len(again.query_message("t", "k", max_count=100)) == len(BODIES)
    assert nth > 10


def test_failed_open_ends_its_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("none left")

    before = {*threading.enumerate()}
    monkeypatch.setattr("rocketflow_store.engine.message_store.PlaceWatch", fail)
    with pytest.raises(MemoryError):
        MessageStore.open(tmp_path / "s", StoreConfig(**SMALL))  # type: ignore[arg-type]
    assert {*threading.enumerate()} <= before
    monkeypatch.undo()
    with MessageStore.open(tmp_path / "s") as store:
        assert store.put_message(Message("t", b"x")).stored
