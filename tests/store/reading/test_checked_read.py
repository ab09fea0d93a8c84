"""Reads of a broker: statuses, limits and matches are those of get_message, and no damaged byte is returned."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketflow_store import GetMessageStatus, Message, StoreConfig, WouldBlockError
from rocketflow_store.files import disk
from rocketflow_store.filters.tags import TagFilter
from rocketflow_store.format.batch_body import BatchEntry, encode_batch_body
from rocketflow_store.format.properties import decode_properties
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.message import MessageBatch
from rocketflow_store.reading.queue_figures import stored_at
from rocketflow_store.spi.broker import Match, ReadResult, WritingStore, open_store

NOW_MS = 1_700_000_000_000
HOST = "10.1.2.3:10911"
MAX_BYTES = 4 << 20
SMALL = StoreConfig(
    mapped_file_size_commit_log=1 << 16,
    mapped_file_size_consume_queue=800,
    max_hash_slot_num=100,
    max_index_num=400,
    enable_lmq=True,
    enable_multi_dispatch=True,
)
TAGS = ("TagA", "TagB", "TagC", None)


def fill(store: WritingStore, seed: int, count: int = 300) -> None:
    """Put messages of every kind: plain queues, LMQs, a BatchCQ topic, long topics, IPv6 senders."""
    rng = random.Random(seed)
    store.create_topic("batches", 1, queue_type="BatchCQ")
    for number in range(count):
        body = rng.randbytes(rng.randrange(0, 900))
        kind = rng.randrange(8)
        result = None
        if kind == 0:
            entries = [BatchEntry(n, b"%d" % number, b"") for n in range(rng.randrange(1, 5))]
            result = store.put_message(MessageBatch("batches", encode_batch_body(entries), queue_id=0))
        elif kind == 1:
            lmq = {"INNER_MULTI_DISPATCH": "%LMQ%a"}
            result = store.put_message(Message("t", body, properties=lmq, queue_id=0, tags=rng.choice(TAGS)))
        elif kind == 2:
            host = "[2001:db8::1]:40000"
            topic = "%RETRY%" + "g" * 140
            result = store.put_message(Message(topic, body, queue_id=0, tags=rng.choice(TAGS), born_host=host))
        else:
            tags = rng.choice(TAGS)
            result = store.put_message(
                Message("t", body, queue_id=rng.randrange(2), tags=tags, keys=[f"k{number % 9}"])
            )
        assert result.stored, result


QUEUES = [("t", 0), ("t", 1), ("batches", 0), ("%LMQ%a", 0), ("%RETRY%" + "g" * 140, 0), ("missing", 3)]


@pytest.fixture(params=[True, False, None], ids=["record-crc", "body-crc", "default"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WritingStore]:
    config = replace(SMALL, enabled_append_prop_crc=request.param, clock=ManualClock(NOW_MS))
    with open_store(tmp_path / "s", config, store_host=HOST) as opened:
        fill(opened, 1)
        yield opened


def read(store: WritingStore, topic: str, queue_id: int, offset: int, count: int = 32, **more: Any) -> ReadResult:
    return store.read_messages(topic, queue_id, offset, count, more.pop("max_bytes", MAX_BYTES), **more)


def records(result: ReadResult) -> list[bytes]:
    found, begin = [], 0
    while begin < len(result.data):
        size = int.from_bytes(result.data[begin : begin + 4], "big")
        found.append(bytes(result.data[begin : begin + size]))
        begin += size
    assert len(found) == len(result.offsets)
    return found


def same(
    store: WritingStore, result: ReadResult, topic: str, queue_id: int, offset: int, count: int, tags: str | None
) -> None:
    """Compare with get_message."""
    with store.get_message(topic, queue_id, offset, count, tags) as wanted:
        if wanted.status is GetMessageStatus.NO_MESSAGE_IN_QUEUE and store.bounds(topic, queue_id) == (0, 0):
            assert result.status in (wanted.status, GetMessageStatus.NO_MATCHED_LOGIC_QUEUE)
        else:
            assert result.status is wanted.status
        assert (result.min_offset, result.max_offset) == (wanted.min_offset, wanted.max_offset)
        assert result.next_offset == wanted.next_begin_offset
        assert records(result) == [bytes(one.byte_buffer) for one in wanted.message_mapped_list]
        assert list(result.skipped) == list(wanted.skipped)


def test_reads_equal_those_of_get_message(store: WritingStore) -> None:
    @given(queue=st.sampled_from(QUEUES), offset=st.integers(-1, 150), count=st.integers(1, 40))
    @settings(max_examples=150, deadline=None, database=None)
    def check(queue: tuple[str, int], offset: int, count: int) -> None:
        for nowait in (True, False):
            same(store, read(store, *queue, offset, count, nowait=nowait), *queue, offset, count, None)

    check()


def test_reads_of_tags_equal_those_of_get_message(store: WritingStore) -> None:
    @given(
        queue=st.sampled_from(QUEUES),
        offset=st.integers(0, 150),
        count=st.integers(1, 40),
        tags=st.sampled_from(["TagA", "TagB || TagC", "other"]),
    )
    @settings(max_examples=100, deadline=None, database=None)
    def check(queue: tuple[str, int], offset: int, count: int, tags: str) -> None:
        result = read(store, *queue, offset, count, match=Match(TagFilter.parse(tags).codes), nowait=True)
        with store.get_message(*queue, offset, count, tags) as wanted:
            assert records(result) == [bytes(one.byte_buffer) for one in wanted.message_mapped_list]
            assert result.next_offset >= wanted.next_begin_offset
            if wanted.message_count:
                assert result.status is wanted.status

    check()


def test_match_by_properties_sees_the_encoded_properties(store: WritingStore) -> None:
    seen: list[dict[str, str]] = []

    def has_key(raw: memoryview) -> bool:
        seen.append(decode_properties(bytes(raw)))
        return seen[-1].get("KEYS") == "k3"

    found, offset, end = [], 0, store.bounds("t", 0)[1]
    while offset < end:
        result = read(store, "t", 0, offset, match=Match(None, has_key))
        found += list(result.offsets)
        offset = result.next_offset
    assert all("UNIQ_KEY" in one for one in seen)
    wanted = []
    for at in range(end):
        with store.get_message("t", 0, at, 1) as got:
            if got.messages[0].keys == ["k3"]:
                wanted.append(at)
    assert found == wanted
    assert len(seen) == end


def test_limits_end_a_result_but_not_the_first_message(store: WritingStore) -> None:
    result = read(store, "t", 0, 0, max_bytes=1)
    assert (result.count, result.next_offset) == (1, 1)
    result = read(store, "t", 0, 0, max_bytes=2000)
    assert 0 < len(result.data) <= 2000
    assert read(store, "t", 0, 0, 3).next_offset == 3


def test_result_belongs_to_the_caller(store: WritingStore, tmp_path: Path) -> None:
    result = read(store, "t", 0, 0, 4)
    before = bytes(result.data)
    for file in (tmp_path / "s" / "commitlog").iterdir():
        with open(file, "r+b") as opened:
            opened.write(bytes(1 << 16))
    assert bytes(result.data) == before
    assert result.newest_store_ms == NOW_MS


def test_damaged_record_is_skipped_and_named(store: WritingStore, tmp_path: Path) -> None:
    end = store.bounds("t", 0)[1]
    units = store.read_units("t", 0, 0, end)
    rng = random.Random(5)
    for at in (3, 7, 20):
        phy_offset, size = int(units[at]["phy_offset"]), int(units[at]["msg_size"])
        file = tmp_path / "s" / "commitlog" / f"{phy_offset - phy_offset % (1 << 16):020d}"
        with open(file, "r+b") as opened:
            position = phy_offset % (1 << 16) + rng.choice([0, 4, 14, 24, 32, 86 % size])
            opened.seek(position)
            byte = opened.read(1)[0]
            opened.seek(position)
            opened.write(bytes([byte ^ 0x55]))
    found: list[int] = []
    skipped: list[int] = []
    offset = 0
    while offset < end:
        result = read(store, "t", 0, offset)
        found += list(result.offsets)
        skipped += [one.queue_offset for one in result.skipped]
        offset = result.next_offset
    assert skipped == [3, 7, 20]
    assert sorted(found + skipped) == list(range(end))
    assert store.statistics()["events"]["RF-SKIP"] >= 1


def test_damage_anywhere_returns_no_wrong_byte(store: WritingStore, tmp_path: Path) -> None:
    """A flipped byte anywhere in a record leads to the unchanged record or to none."""
    path = min((tmp_path / "s" / "commitlog").iterdir())
    good = records(read(store, "t", 0, 0, 1))[0]
    (phy_offset,) = store.read_units("t", 0, 0, 1)["phy_offset"].tolist()
    with open(path, "r+b") as opened:
        fd = opened.fileno()
        with_crc = good.find(b"__CRC32#") >= 0
        places = range(len(good)) if with_crc else [*range(36), *range(84, good.index(b"\x01t"))]
        for at in places:
            os.pwrite(fd, bytes([good[at] ^ 0x21]), phy_offset + at)
            for one in records(read(store, "t", 0, 0, 1)):
                assert one == good or (not with_crc and 16 <= at < 20), at
            os.pwrite(fd, good[at : at + 1], phy_offset + at)
    assert records(read(store, "t", 0, 0, 1)) == [good]


def test_cold_record_raises_would_block(store: WritingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real = disk.preadv

    def preadv(fd: int, buffers: Any, position: int, flags: int = 0) -> int:
        if flags & os.RWF_NOWAIT:
            raise BlockingIOError(11, "cold")
        return real(fd, buffers, position)

    monkeypatch.setattr(disk, "preadv", preadv)
    with pytest.raises(WouldBlockError):
        read(store, "t", 0, 0, nowait=True)
    with pytest.raises(WouldBlockError):
        store.read_record(0, nowait=True)
    assert read(store, "t", 0, 0).count == 32
    assert store.read_record(0) is not None


def test_cold_units_of_a_batch_queue_raise_would_block(store: WritingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real = disk.preadv

    def preadv(fd: int, buffers: Any, position: int, flags: int = 0) -> int:
        if flags & os.RWF_NOWAIT and "batchconsumequeue" in os.readlink(f"/proc/self/fd/{fd}"):
            raise BlockingIOError(11, "cold")
        return real(fd, buffers, position)

    end = store.bounds("batches", 0)[1]
    wanted = records(read(store, "batches", 0, end // 2))
    assert records(read(store, "batches", 0, end // 2, nowait=True)) == wanted
    monkeypatch.setattr(disk, "preadv", preadv)
    for offset in (0, end // 2, end):  # at the end it is not known without the units that nothing has arrived
        with pytest.raises(WouldBlockError):
            read(store, "batches", 0, offset, nowait=True)
    assert records(read(store, "batches", 0, end // 2)) == wanted


def test_cold_rest_ends_the_result(store: WritingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = records(read(store, "t", 0, 0, 5))
    limit, real = store.read_units("t", 0, 2, 3)["phy_offset"].item() + 10, disk.preadv

    def preadv(fd: int, buffers: Any, position: int, flags: int = 0) -> int:
        got = real(fd, buffers, position)
        return min(got, max(limit - position, 0)) if flags and got > 800 else got

    monkeypatch.setattr(disk, "preadv", preadv)
    result = read(store, "t", 0, 0, 5, nowait=True)
    assert (result.status, result.next_offset) == (GetMessageStatus.FOUND, 2)
    assert records(result) == wanted[:2]


def test_file_system_without_nowait_is_read_with_waiting(store: WritingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real = disk.preadv

    def preadv(fd: int, buffers: Any, position: int, flags: int = 0) -> int:
        if flags:
            raise OSError(95, "Operation not supported")
        return real(fd, buffers, position)

    monkeypatch.setattr(disk, "preadv", preadv)
    assert read(store, "t", 0, 0, 5, nowait=True).count == 5


def test_read_record_returns_records_only(store: WritingStore) -> None:
    inside = records(read(store, "t", 0, 0, 1))[0]
    for at in range(5):
        phy_offset = int(store.read_units("t", 0, at, at + 1)["phy_offset"][0])
        assert store.read_record(phy_offset, nowait=True) == records(read(store, "t", 0, at, 1))[0]
        assert store.read_record(phy_offset + 1) is None
    assert store.read_record(-5) is None
    assert store.read_record(store.max_phy_offset) is None
    begin = store.max_phy_offset
    store.put_message(Message("t", inside.replace(inside[28:36], (begin + 84).to_bytes(8, "big")), queue_id=0))
    assert store.read_record(begin) is not None
    assert store.read_record(begin + 84) is None


def test_query_records_finds_by_key(store: WritingStore) -> None:
    wanted = store.query_message("t", "k3", 100)
    result = store.query_records("t", "k3", 100, 0, 1 << 62, MAX_BYTES)
    assert [sum(result.sizes[:n]) for n in range(len(result.sizes))] == [
        sum(one.store_size for one in wanted[:n]) for n in range(len(wanted))
    ]
    assert result.data == b"".join([store.read_record(one.phy_offset) or b"" for one in wanted])
    assert result.index_end_ms == NOW_MS
    assert len(store.query_records("t", "k3", 2, 0, 1 << 62, MAX_BYTES).sizes) == 2
    assert len(store.query_records("t", "k3", 100, 0, 1 << 62, 1).sizes) == 1
    assert store.query_records("t", "nothing", 100, 0, 1 << 62, MAX_BYTES).data == b""


def test_figures_of_a_queue(store: WritingStore) -> None:
    low, high = store.bounds("t", 0)
    assert (low, high) == (0, store.max_offset("t", 0))
    assert store.appended_end("t", 0) == high
    assert store.bounds("missing", 0) == (0, 0)
    assert stored_at(store, "t", 0, 0) == NOW_MS
    assert stored_at(store, "t", 0, high) is None
    assert store.get_offset_in_queue_by_time("t", 0, NOW_MS) == 0
    assert store.get_offset_in_queue_by_time("t", 0, NOW_MS + 1) == high
