"""The end of a log file: a record is placed there only if a blank record still fits after it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.format.record import BLANK_SIZE
from rocketflow_store.fsck.verify import verify_store
from tests.support.independent_reader import log_records, queue_messages

FILE = 4096
CONFIG = StoreConfig(
    mapped_file_size_commit_log=FILE, mapped_file_size_consume_queue=400, max_hash_slot_num=10, max_index_num=50
)


def put(store: MessageStore, body: bytes) -> None:
    assert store.put_message(Message("t", body, queue_id=0)).stored


def append(store: MessageStore, body: bytes) -> None:
    rows = pa.RecordBatch.from_pydict({"body": pa.array([body], pa.binary()), "queueId": pa.array([0], pa.int32())})
    assert store.append_batch(rows, "t").rows == 1


@pytest.mark.parametrize("how", [put, append])
@pytest.mark.parametrize("remaining", range(BLANK_SIZE + 5))
def test_record_stays_in_file_only_if_blank_fits_after_it(tmp_path: Path, how: object, remaining: int) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, CONFIG) as store:
        put(store, b"")
        overhead = store.max_phy_offset
        how(store, b"x" * (FILE - 2 * overhead - remaining))  # type: ignore[operator]
        fits = remaining >= BLANK_SIZE
        assert store.max_phy_offset == (FILE - remaining if fits else 2 * FILE - overhead - remaining)
        how(store, b"next")  # type: ignore[operator]
    records = list(log_records(path))
    assert [len(one.body) for one in records] == [0, FILE - 2 * overhead - remaining, 4]
    assert records[1].phy_offset == (overhead if fits else FILE)
    assert [one.body[-4:] for one in queue_messages(path, "t").values()] == [b"", b"xxxx", b"next"]
    assert verify_store(path).findings == []
