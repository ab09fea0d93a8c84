"""Messages without a queue id are spread round-robin, even if each open of the store writes one message."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from rocketflow_store import Message, MessageStore, PutMessageStatus
from rocketflow_store.model.errors import PutStatusError


def _queue_of_next(path: Path) -> int:
    with MessageStore.open(path) as store:
        return store.put_message(Message(topic="t", body=b"x")).queue_id


def test_round_robin_continues_after_reopen(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s") as store:
        store.create_topic("t", 4)
    assert [_queue_of_next(tmp_path / "s") for _ in range(8)] == [0, 1, 2, 3, 0, 1, 2, 3]


def test_round_robin_of_one_row_batches_continues_after_reopen(tmp_path: Path) -> None:
    row = pa.record_batch({"body": pa.array([b"x"])})
    for _ in range(8):
        with MessageStore.open(tmp_path / "s") as store:
            store.create_topic("t", 4)
            store.append_batch(row, topic="t")
    with MessageStore.open(tmp_path / "s") as store:
        assert [store.max_offset("t", queue) for queue in range(4)] == [2, 2, 2, 2]


def test_raise_for_status_returns_a_stored_result_and_raises_for_a_refused_one(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s") as store:
        stored = store.put_message(Message(topic="t", body=b"x"))
        assert stored.raise_for_status() is stored
        refused = store.put_message(Message(topic="t", body=bytes(5 << 20)))
        assert not refused.stored
        with pytest.raises(PutStatusError) as raised:
            refused.raise_for_status()
        assert raised.value.status is PutMessageStatus.MESSAGE_ILLEGAL
        assert raised.value.why == refused.why != ""
