"""A dispatch that a signal or a lack of memory interrupts is repeated completely: no unit and no key is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketflow_store import Message, MessageStore
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.kernel import COMPILED
from rocketflow_store.metadata.native.confirm import ConfirmFile
from rocketflow_store.views.dispatch.dispatcher import Dispatcher
from rocketflow_store.views.index import index_file
from tests.support.damage import CONFIG


class Interrupted(BaseException):
    """An interruption like KeyboardInterrupt, which would end the test run."""


def put(store: MessageStore, number: int) -> None:
    store.put_message(Message("t", b"%d" % number, keys=f"k{number}", queue_id=0))


def is_complete(path: Path, count: int) -> bool:
    with MessageStore.open(path) as store:
        assert store.bounds("t", 0) == (0, count)
        found = [len(store.query_message("t", f"k{number}")) for number in range(count)]
    return found == [1] * count and verify_store(path).findings == []


@pytest.mark.parametrize(("part", "method"), [(Dispatcher, "dispatch_run"), (ConfirmFile, "confirm")])
def test_rows_wait_until_all_of_them_are_dispatched(
    tmp_path: Path, part: type, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = getattr(part, method)

    def interrupted(*arguments: Any) -> None:
        real(*arguments)
        raise Interrupted

    with MessageStore.open(tmp_path / "s", CONFIG) as store:
        put(store, 0)
        monkeypatch.setattr(part, method, interrupted)
        with pytest.raises(Interrupted):
            put(store, 1)
        monkeypatch.undo()
        put(store, 2)
    assert is_complete(tmp_path / "s", 3)


@pytest.mark.parametrize("compiled", [COMPILED is not None, False])
@pytest.mark.parametrize("stopped", [True, False])
def test_an_index_put_that_was_interrupted_loses_no_older_key(
    tmp_path: Path, stopped: bool, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slot names the new entry, but the header does not count it; it heads the chain of older entries."""

    class Kernel:
        @staticmethod
        def put_index_run(*arguments: Any) -> None:
            monkeypatch.undo()
            assert COMPILED is not None
            COMPILED.put_index_run(*arguments)
            raise Interrupted

    class Slots:
        unpack_from = index_file.SLOT_STRUCT.unpack_from

        def pack_into(self, *arguments: Any) -> None:
            monkeypatch.undo()
            index_file.SLOT_STRUCT.pack_into(*arguments)
            raise Interrupted

    with MessageStore.open(tmp_path / "s", replace(CONFIG, max_hash_slot_num=1)) as store:
        for number in range(20):
            put(store, number)
        monkeypatch.setattr(index_file, "SLOT_STRUCT", Slots())
        monkeypatch.setattr(index_file, "COMPILED", Kernel if compiled else None)
        with pytest.raises(Interrupted):
            put(store, 20)
        if not stopped:
            put(store, 21)
    assert is_complete(tmp_path / "s", 21 if stopped else 22)
