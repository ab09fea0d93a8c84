"""Ranges of a queue as bytes: the records of a read of single messages, up to the first that is not sound."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketflow_store import Message, StoreConfig
from rocketflow_store.spi.broker import WritingStore, open_store
from tests.support.every_kind import SIZES, make

HOST = "127.0.0.1:10911"


def joined(store: WritingStore, topic: str, queue_id: int, max_bytes: int) -> tuple[bytes, int]:
    """Return the bytes of a whole queue, read range by range, and the offset after them."""
    start, end = store.bounds(topic, queue_id)
    parts = []
    while start < end:
        found = store.read_range(topic, queue_id, start, end, max_bytes)
        if found.next_offset == start:
            break
        assert found.rows_from(start) == found.next_offset - start
        parts.append(found.data)
        start = found.next_offset
    return b"".join(parts), start


def one_by_one(store: WritingStore, topic: str, queue_id: int, end: int) -> bytes:
    start = store.bounds(topic, queue_id)[0]
    parts = []
    while start < end:
        found = store.read_messages(topic, queue_id, start, 1, 1)
        parts.append(bytes(found.data))
        start = found.next_offset
    return b"".join(parts)


@pytest.mark.parametrize("max_bytes", [1, 1000, 1 << 20])
def test_ranges_are_the_records_of_single_reads(tmp_path: Path, max_bytes: int) -> None:
    make(tmp_path, 5)
    with open_store(tmp_path, SIZES, store_host=HOST) as store:
        for topic in ("t0", "t1", "plain"):
            for queue in (0, 1):
                data, reached = joined(store, topic, queue, max_bytes)
                assert reached == store.bounds(topic, queue)[1] > 10
                assert data == one_by_one(store, topic, queue, reached)
        for topic in ("batches", "%LMQ%a", "nothing"):
            assert store.read_range(topic, 0, 0, 100, 1 << 20).data == b""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WritingStore]:
    with open_store(tmp_path, StoreConfig(), store_host=HOST) as found:
        for number in range(20):
            found.put_message(Message("t", b"body-%d" % number, queue_id=0))
        yield found


def test_a_range_outside_of_the_queue_is_empty(store: WritingStore) -> None:
    for start, end in ((20, 30), (5, 5), (-3, 4), (25, 26)):
        found = store.read_range("t", 0, start, end, 1 << 20)
        assert (found.data, found.next_offset, found.min_offset, found.max_offset) == (b"", start, 0, 20)
    assert store.read_range("t", 0, 18, 99, 1 << 20).next_offset == 20


def test_a_range_ends_before_a_record_that_is_another_message(store: WritingStore, tmp_path: Path) -> None:
    (log,) = [one for one in (tmp_path / "commitlog").iterdir() if one.stat().st_size > 0][:1]
    raw = log.read_bytes()[:4096]
    size = int.from_bytes(raw[:4], "big")
    with log.open("r+b") as file:
        file.seek(7 * size + 20)  # the queue offset of message 7
        file.write((99).to_bytes(8, "big"))
    assert store.read_range("t", 0, 3, 20, 1 << 20).next_offset == 7
    assert store.read_range("t", 0, 7, 20, 1 << 20).data == b""
    assert store.read_range("t", 0, 8, 20, 1 << 20).next_offset == 20
