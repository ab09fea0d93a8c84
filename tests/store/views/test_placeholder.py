"""The bytes that units of lost messages point at."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow_store import Message, MessageStore, SkipFaults, StoreConfig, StoreReader
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.errors import CorruptRecordError
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketflow_store.views.queues.placeholder import LogExtent, placeholder

INTERNAL = (SCHEDULE_TOPIC, TIMER_TOPIC, "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC")
SIZES = StoreConfig(mapped_file_size_commit_log=1 << 16, mapped_file_size_consume_queue=2000)


@given(
    topic=st.sampled_from(["orders", "%RETRY%group", "%LMQ%a", *INTERNAL]),
    begin=st.integers(0, 3),
    length=st.integers(0, 1 << 22),
    at=st.integers(-1, 1 << 22),
    size=st.integers(0, 5000),
)
def test_placeholder_is_within_one_file_of_the_log(topic: str, begin: int, length: int, at: int, size: int) -> None:
    log = LogExtent(begin << 16, (begin << 16) + length, 1 << 16)
    phy_offset, count = placeholder(topic, (at, size), log)
    if topic in INTERNAL:
        assert (phy_offset, count) == (log.end - 1, 1)
        return
    assert count > 0 or (at, size) == (phy_offset, count)
    assert phy_offset + count <= log.end
    if length > 1:
        assert log.begin <= phy_offset
    if (phy_offset, count) != (at, size):
        assert phy_offset // log.file_size == (phy_offset + count - 1) // log.file_size


def test_messages_after_lost_ones_are_read_and_lost_ones_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, SIZES) as store:
        store.append_batch(pa.RecordBatch.from_pydict({"body": [b"x" * 500] * 50}), topic="filler")
        assert store.put_message(Message("kept", b"kept", queue_id=0)).stored
        end = store.max_phy_offset
        for topic in ("kept", "kept", "new"):
            assert store.put_message(Message(topic, b"lost", queue_id=0)).stored
    with (path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(end)
        file.write(bytes((1 << 16) - end))
    (path / "abort").touch()
    for _ in range(2):  # the second recovery keeps the placeholders
        with MessageStore.open(path, SIZES) as store:
            assert (store.max_offset("kept", 0), store.max_offset("new", 0)) == (3, 1)
            before = store.read_units("kept", 0, 0, 3)
            assert (before["phy_offset"][1:] == before["phy_offset"][0]).all()
        (path / "abort").touch()
    with MessageStore.open(path, SIZES) as store:
        for topic, offset in (("kept", 3), ("new", 1)):
            assert store.put_message(Message(topic, b"next", queue_id=0)).queue_offset == offset
    with StoreReader(path) as reader:
        for topic, offset, kept in (("kept", 1, [b"kept", b"next"]), ("new", 0, [b"next"])):
            end = reader.snapshot().queues[topic, 0][1]
            with pytest.raises(CorruptRecordError, match=f"the message is lost.*queue offset {offset}\\)"):
                list(reader.read(topic, 0, 0, end))
            found = list(reader.read(topic, 0, 0, end, columns=("body",), faults=SkipFaults()))
            assert [body for part in found for body in part.column(0).to_pylist()] == kept
    found = verify_store(path)  # the log has none of them, and each lookup of their queue offsets reports it
    assert {one.kind for one in found.findings} == {"lost-message"}
    assert (found.exit_code, found.lost_records) == (3, 3)
