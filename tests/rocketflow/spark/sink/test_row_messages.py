"""Rows as messages of RocketMQ: keys, queues, requests."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from rocketflow.spark.sink.row_messages import GROUP_BYTES, GROUP_ROWS, Group, RowKeys, groups, row_messages


def rows(count: int, **columns: list[object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"body": [b"%d" % number for number in range(count)], **columns})


def made(batch: pa.RecordBatch, turn: int = 0) -> list[Group]:
    found, _ = groups(list(row_messages(batch, 0, "t", RowKeys("s", 1, 0))), lambda _: 4, turn)
    return found


def test_keys_are_those_of_a_replay_and_differ_between_rows_partitions_batches_and_sinks() -> None:
    numbers = [0, 1, 65_535, 65_536, 70_000]
    keys = [
        RowKeys(sink, batch, part).key(row) for sink in "ab" for batch in (0, 1) for part in (0, 1) for row in numbers
    ]
    assert len(set(keys)) == len(keys)
    assert keys[:5] == [RowKeys("a", 0, 0).key(row) for row in numbers]
    assert {len(one) for one in keys} == {32}
    assert {one[20:28] for one in keys} == {"00000000"}


def test_a_row_becomes_a_message_with_its_properties() -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    batch = pa.RecordBatch.from_pydict(
        {
            "body": ["text"],
            "topic": ["mine"],
            "tags": ["a"],
            "keys": [["k1", "k2"]],
            "properties": pa.array([[("p", "q")]], pa.map_(pa.string(), pa.string())),
            "deliverTimestamp": pa.array([at], pa.timestamp("us", "UTC")),
            "flag": [7],
        }
    )
    (one,) = row_messages(batch, 3, None, RowKeys("s", 0, 0))
    message = one.message
    assert (message.topic, message.body, message.flag, one.row) == ("mine", b"text", 7, 3)
    assert message.wire_properties() == {
        "p": "q",
        "TAGS": "a",
        "KEYS": "k1 k2",
        "TIMER_DELIVER_MS": str(int(at.timestamp() * 1000)),
        "UNIQ_KEY": RowKeys("s", 0, 0).key(3),
    }


def test_nulls_among_properties_and_keys_are_no_entries() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "body": ["0", "1", "2"],
            "keys": [["k1", None, "k2"], [None], None],
            "properties": pa.array([[("p", None), ("q", "1")], [("p", None)], None], pa.map_(pa.string(), pa.string())),
        }
    )
    found = [one.message.wire_properties() for one in row_messages(batch, 0, "t", RowKeys("s", 0, 0))]
    assert [{name: one[name] for name in one if name != "UNIQ_KEY"} for one in found] == [
        {"q": "1", "KEYS": "k1 k2"},
        {},
        {},
    ]


def test_rows_without_a_queue_take_turns_and_the_others_go_to_the_queue_they_name() -> None:
    found = made(rows(3 * GROUP_ROWS), turn=2)
    assert [(one.queue, len(one.messages), one.is_free) for one in found] == [
        (2, GROUP_ROWS, True),
        (3, GROUP_ROWS, True),
        (0, GROUP_ROWS, True),
    ]
    fixed = made(rows(6, queueId=[1, None, 1, 5, None, 1]))
    assert [(one.queue, [int(message.body) for message in one.messages], one.is_free) for one in fixed] == [
        (1, [0, 2, 3, 5], False),
        (0, [1, 4], True),
    ]
    keyed = made(rows(8, shardingKey=["x", "y"] * 4))
    assert len({one.queue for one in keyed}) == len(keyed) <= 2
    assert not any(one.is_free for one in keyed)


@pytest.mark.parametrize("size", [1, 1000, GROUP_BYTES])
def test_a_request_ends_with_its_bytes_or_rows(size: int) -> None:
    batch = pa.RecordBatch.from_pydict({"body": [bytes(size)] * 100})
    found = made(batch)
    assert sum(len(one.messages) for one in found) == 100
    for one in found:
        assert len(one.messages) <= GROUP_ROWS
        assert len(one.messages) == 1 or sum(len(message.body) for message in one.messages) <= GROUP_BYTES


def test_delayed_rows_are_sent_alone() -> None:
    found = made(rows(4, delayTimeLevel=[0, 3, 3, 0]))
    assert [[int(message.body) for message in one.messages] for one in found] == [[0, 3], [1], [2]]
