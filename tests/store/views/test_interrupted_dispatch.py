"""What a signal or a lack of memory stops while rows are dispatched is done again whole: nothing is left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketflow_store import Message, MessageStore
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.native.confirm import ConfirmFile
from rocketflow_store.views.dispatch.dispatcher import Dispatcher
from rocketflow_store.views.index import index_file
from tests.support.damage import CONFIG


class Interrupted(BaseException):
    """As KeyboardInterrupt, which would end the run of tests."""


def put(store: MessageStore, number: int) -> None:
    store.put_message(Message("t", b"%d" % number, keys=f"k{number}", queue_id=0))


def whole(path: Path, count: int) -> bool:
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
    assert whole(tmp_path / "s", 3)


@pytest.mark.parametrize("stopped", [True, False])
def test_an_index_put_that_was_interrupted_loses_no_older_key(
    tmp_path: Path, stopped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slot names the new entry, the header does not count it yet; the chain of older ones hangs on it."""

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
        with pytest.raises(Interrupted):
            put(store, 20)
        if not stopped:
            put(store, 21)
    assert whole(tmp_path / "s", 21 if stopped else 22)
