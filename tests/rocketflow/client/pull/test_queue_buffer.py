"""The position in a queue, and what waits to be polled."""

from __future__ import annotations

import pytest

from rocketflow.client.consume.pulls import PullRequest, PullResult
from rocketflow.client.consume.subscriptions import subscription
from rocketflow.client.pull.queue_buffer import QueueBuffer
from rocketflow.client.pull_status import PullStatus
from rocketflow.remoting.bodies import MessageQueue
from rocketflow_store.spi.messages import CorruptRecordError
from tests.support.record_bytes import record

QUEUE = MessageQueue("T", "b", 0)
ALL = subscription("T", version=1)


def result(start: int, end: int, status: PullStatus = PullStatus.FOUND, next_offset: int | None = None) -> PullResult:
    """Return an answer with messages [start, end)."""
    return PullResult(
        request=PullRequest(queue=QUEUE, offset=start, subscription=ALL),
        status=status,
        next_offset=end if next_offset is None else next_offset,
        min_offset=0,
        max_offset=100,
        records=b"".join(record("T", offset, b"%d" % offset) for offset in range(start, end)),
        address="host:1",
    )


def taken(buffer: QueueBuffer, most: int = 100) -> list[int]:
    return [one.queue_offset for one in buffer.take(most)]


def test_messages_are_returned_in_order_and_the_position_follows() -> None:
    buffer = QueueBuffer(QUEUE, ALL, 5)
    buffer.add(result(5, 8))
    buffer.add(result(8, 10))
    assert (buffer.position, buffer.pull_offset, buffer.count, buffer.size) == (5, 10, 5, 5 * len(record("T", 5, b"5")))
    assert taken(buffer, 2) == [5, 6]
    assert (buffer.position, buffer.count) == (7, 3)
    assert taken(buffer) == [7, 8, 9]
    assert (buffer.position, buffer.size, buffer.is_empty) == (10, 0, True)


def test_position_passes_messages_that_the_broker_filtered() -> None:
    buffer = QueueBuffer(QUEUE, ALL, 0)
    buffer.add(result(0, 0, PullStatus.NO_MATCHED_MSG, next_offset=40))
    assert (buffer.position, buffer.pull_offset) == (40, 40)
    buffer.add(result(40, 41, next_offset=50))
    buffer.add(result(50, 50, PullStatus.NO_MATCHED_MSG, next_offset=60))
    assert (buffer.position, buffer.pull_offset) == (40, 60)
    assert taken(buffer) == [40]
    assert buffer.position == 50
    buffer.add(result(60, 60, PullStatus.NO_NEW_MSG))
    assert buffer.position == 60


def test_seek_drops_what_was_pulled() -> None:
    buffer = QueueBuffer(QUEUE, ALL, 0)
    buffer.add(result(0, 3))
    assert taken(buffer, 1) == [0]
    buffer.seek(7)
    assert (buffer.position, buffer.pull_offset, buffer.size, taken(buffer)) == (7, 7, 0, [])


def test_correction_to_a_later_offset_keeps_what_was_pulled_and_one_to_an_earlier_drops_it() -> None:
    buffer = QueueBuffer(QUEUE, ALL, 0)
    buffer.add(result(0, 3))
    buffer.add(result(3, 3, PullStatus.OFFSET_ILLEGAL, next_offset=20))
    assert (taken(buffer), buffer.pull_offset) == ([0, 1, 2], 20)
    buffer.add(result(20, 22))
    buffer.add(result(22, 22, PullStatus.OFFSET_ILLEGAL, next_offset=1))
    assert (taken(buffer), buffer.position) == ([], 1)
    buffer.add(result(1, 3))
    assert taken(buffer) == [1, 2]


def test_answers_are_joined_and_decoded_by_the_caller_from_the_position_on() -> None:
    buffer = QueueBuffer(QUEUE, ALL, 0)
    buffer.add(result(0, 3))
    buffer.add(result(3, 4))
    buffer.add(result(4, 4, PullStatus.OFFSET_ILLEGAL, next_offset=9))
    buffer.add(result(9, 11))
    assert taken(buffer, 2) == [0, 1]
    with pytest.raises(ZeroDivisionError):
        buffer.take_answer(lambda _: 1 // 0, 1000)
    assert buffer.position == 2
    assert buffer.take_answer(lambda one: (one.queue, one.from_offset, one.to_offset), 1000) == (QUEUE, 2, 4)
    assert buffer.take_answer(lambda one: one.records, 1) == record("T", 9, b"9") + record("T", 10, b"10")
    assert (buffer.position, buffer.size, buffer.is_empty) == (11, 0, True)


def test_damaged_answer_is_raised_after_the_messages_before_it_and_can_be_skipped() -> None:
    buffer = QueueBuffer(QUEUE, ALL, 0)
    buffer.add(result(0, 2))
    buffer.add(result(2, 4)._replace(records=b"\x00\x00\x00\x50" * 30))
    assert taken(buffer) == [0, 1]
    with pytest.raises(CorruptRecordError, match=r"host:1: messages of .*queue_id=0.* at 2: .*seek"):
        buffer.take(1)
    assert buffer.position == 2
    buffer.seek(4)
    buffer.add(result(4, 5))
    assert taken(buffer) == [4]
