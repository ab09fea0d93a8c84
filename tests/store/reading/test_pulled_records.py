"""Answers of brokers as columns: the rows of a read by path, and every damage or gap as a fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow_store import CorruptRecordError, Message, RaiseFaults, SkipFaults, StoreConfig, StoreReader
from rocketflow_store.format.record import RecordFields, encode_record
from rocketflow_store.reading.pulled_records import PulledRecords
from rocketflow_store.records.arrow.columns import SOURCE_COLUMNS
from rocketflow_store.spi.broker import WritingStore, open_store
from tests.support.every_kind import SIZES, make
from tests.support.kernel_switch import pure_python

SEED = 20
COLUMNS = tuple(SOURCE_COLUMNS)


def answers(store: WritingStore, topic: str, queue_id: int, start: int) -> list[tuple[bytes, int, int]]:
    """Return what a broker answers to pulls from `start` on, with the offsets that each answer covers."""
    found = []
    end = store.bounds(topic, queue_id)[1]
    while start < end:
        one = store.read_messages(topic, queue_id, start, 7, 1 << 20)
        found.append((bytes(one.data), start, one.next_offset))
        start = one.next_offset
    return found


def rows(answered: list[tuple[bytes, int, int]], decoder: PulledRecords, **how: bool) -> list[dict[str, Any]]:
    return [
        row
        for data, start, end in answered
        for batch in decoder.batches(data, start, end, **how)
        for row in batch.to_pylist()
    ]


def test_records_of_every_kind_are_those_of_a_read_by_path(tmp_path: Path) -> None:
    make(tmp_path, SEED)
    with open_store(tmp_path, SIZES, store_host="127.0.0.1:10911") as store, StoreReader(tmp_path, SIZES) as reader:
        queues = [(topic, queue) for topic in reader.topics() for queue in reader.queues(topic)]
        assert {topic for topic, _ in queues} >= {"batches", "plain", "%LMQ%a", "t0"}
        for topic, queue in queues:
            answered = answers(store, topic, queue, reader.bounds(topic, queue)[0])
            for tags in (None, "a"):
                decoder = PulledRecords(("broker", topic, queue), COLUMNS, tags, RaiseFaults())
                found = rows(answered, decoder)
                wanted = [
                    {**row, "brokerName": "broker"}
                    for batch in reader.read(topic, queue, *reader.bounds(topic, queue), COLUMNS, tags=tags)
                    for row in batch.to_pylist()
                ]
                assert found == wanted, (topic, queue, tags)


@pytest.fixture
def one_answer(tmp_path: Path) -> bytes:
    """Return ten messages of a queue as one answer."""
    with open_store(tmp_path, StoreConfig(), store_host="127.0.0.1:10911") as store:
        for number in range(10):
            store.put_message(Message("t", b"body-%d" % number, queue_id=0))
        return bytes(store.read_messages("t", 0, 0, 100, 1 << 20).data)


def decode(data: bytes, *, skip: bool = False, queue: tuple[str, str, int] = ("broker", "t", 0)) -> list[int]:
    decoder = PulledRecords(queue, ["queueOffset", "body"], None, SkipFaults() if skip else RaiseFaults())
    return [row["queueOffset"] for row in rows([(data, 0, 10)], decoder)]


def test_messages_outside_of_the_range_are_ignored(one_answer: bytes) -> None:
    decoder = PulledRecords(("broker", "t", 0), ["queueOffset"], None, RaiseFaults())
    assert [row["queueOffset"] for row in rows([(one_answer, 0, 4)], decoder)] == [0, 1, 2, 3]
    assert decode(one_answer) == list(range(10))


def test_changed_missing_and_cut_records_are_faults(one_answer: bytes) -> None:
    size = len(one_answer) // 10
    changed = one_answer.replace(b"body-4", b"BODY-4")
    missing = one_answer[: 2 * size] + one_answer[3 * size :]
    cut = one_answer[:-5]
    for data, at in ((changed, 4), (missing, 2), (cut, 9)):
        with pytest.raises(CorruptRecordError, match=f"queue offset {at}"):
            decode(data)
        assert decode(data, skip=True) == [offset for offset in range(10) if offset != at]


def test_records_of_another_queue_are_faults(one_answer: bytes) -> None:
    for queue, why in ((("broker", "other", 0), "topic is another"), (("broker", "t", 1), "queue id is another")):
        with pytest.raises(CorruptRecordError, match=why):
            decode(one_answer, queue=queue)


HOST = bytes([127, 0, 0, 1, 0, 0, 42, 159])
RECORDS = [
    encode_record(
        RecordFields(b"t", 0, b"body-%d" % k, b"TAGS\x01a\x02", 0, 0, 1, HOST, HOST), 1000 * k, k, 2, k % 2 == 0
    )
    for k in range(6)
]


def outcome(data: bytes, start: int, end: int, columns: list[str], tags: str | None) -> object:
    decoder = PulledRecords(("broker", "t", 0), columns, tags, RaiseFaults())
    try:
        return rows([(data, start, end)], decoder)
    except CorruptRecordError as error:
        return str(error)


@given(
    order=st.permutations(range(6)) | st.lists(st.integers(0, 5), max_size=6) | st.just(list(range(6))),
    changes=st.lists(st.tuples(st.integers(0, 800), st.integers(0, 255)), max_size=2),
    span=st.just((0, 6)) | st.tuples(st.integers(0, 6), st.integers(0, 7)),
    columns=st.sampled_from([["queueOffset", "body"], ["queueOffset"], ["tags", "body", "properties"], [*COLUMNS]]),
    tags=st.sampled_from([None, "a", "b"]),
)
def test_answers_are_decoded_as_without_the_kernel(
    order: list[int], changes: list[tuple[int, int]], span: tuple[int, int], columns: list[str], tags: str | None
) -> None:
    data = bytearray(b"".join(RECORDS[k] for k in order))
    for at, octet in changes:
        if at < len(data):
            data[at] = octet
    found = outcome(bytes(data), *span, columns, tags)
    with pure_python():
        assert found == outcome(bytes(data), *span, columns, tags)


def test_changed_body_of_a_record_without_its_own_crc_is_a_fault() -> None:
    data = bytearray(b"".join(RECORDS))
    data[data.index(b"body-1")] ^= 1
    assert "CRC" in str(outcome(bytes(data), 0, 6, ["body"], None))
    assert outcome(bytes(data), 0, 6, ["queueOffset"], None) == outcome(b"".join(RECORDS), 0, 6, ["queueOffset"], None)
