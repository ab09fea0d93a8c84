"""The unfinished messages of a queue against a plain model: offsets to commit, sizes, limits."""

from __future__ import annotations

import random

import pytest

from rocketflow.client.push.process_queue import ProcessQueue, QueueLimits
from rocketflow_store.spi.messages import ReceivedMessage
from tests.support.trials import seeds


def message(offset: int, size: int = 1) -> ReceivedMessage:
    return ReceivedMessage("t", 0, offset, b"x" * size, {})


class Model:
    """All that was ever pulled, and what is finished of it."""

    def __init__(self, start: int) -> None:
        self.next_offset = start
        self.open: dict[int, ReceivedMessage] = {}

    def add(self, messages: list[ReceivedMessage], next_offset: int) -> list[ReceivedMessage]:
        new = [one for one in messages if one.queue_offset >= self.next_offset]
        self.open.update({one.queue_offset: one for one in new})
        self.next_offset = max(self.next_offset, next_offset)
        return new

    @property
    def commit_offset(self) -> int:
        return min(self.open, default=self.next_offset)


@pytest.mark.parametrize("seed", seeds(60, 600))
def test_queue_equals_a_model(seed: int) -> None:
    chance = random.Random(seed)
    start = chance.choice([0, 7, 2**40])
    queue, model = ProcessQueue(start), Model(start)
    for _ in range(300):
        if chance.random() < 0.4:
            begin = model.next_offset - (chance.random() < 0.1)  # now and then one comes again
            offsets = [begin + one for one in range(chance.randrange(20)) if chance.random() < 0.8]
            pulled = [message(one, chance.randrange(50)) for one in offsets]
            end = begin + 20
            assert queue.add(pulled, end) == model.add(pulled, end)
        elif model.open:
            done = chance.sample(sorted(model.open), chance.randint(1, min(5, len(model.open))))
            finished = [model.open.pop(one) for one in done]
            queue.finish(finished)
            queue.finish(finished[:1])  # a result that comes twice counts once
        assert queue.commit_offset == model.commit_offset
        assert queue.next_offset == model.next_offset
        assert len(queue) == len(model.open)
        assert queue.size == sum(len(one.body) for one in model.open.values())
        assert queue.first_offset == min(model.open, default=None)
        assert queue.last_offset == max(model.open, default=None)
        assert queue.head(3) == [model.open[one] for one in sorted(model.open)[:3]]


def test_offset_to_commit_stays_before_the_first_unfinished_message() -> None:
    queue = ProcessQueue(5)
    one, two, three = queue.add([message(5), message(6), message(9)], 12)
    assert queue.commit_offset == 5
    queue.finish([two, three])
    assert queue.commit_offset == 5
    queue.finish([one])
    assert queue.commit_offset == 12  # the broker skipped 7, 8, 10 and 11: they are not subscribed to


def test_message_of_the_same_offset_that_was_received_again_is_no_other_message() -> None:
    queue = ProcessQueue(0)
    queue.add([message(0)], 1)
    queue.finish([message(0)])
    assert len(queue) == 1


@pytest.mark.parametrize(
    ("limits", "offsets", "full"),
    [
        (QueueLimits(3, 1000, None), [0, 1], False),
        (QueueLimits(3, 1000, None), [0, 1, 2], True),
        (QueueLimits(100, 30, None), [0, 1], False),
        (QueueLimits(100, 30, None), [0, 1, 2], True),
        (QueueLimits(100, 1000, 50), [0, 50], False),
        (QueueLimits(100, 1000, 50), [0, 51], True),
        (QueueLimits(100, 1000, None), [0, 51], False),
        (QueueLimits(1, 1, 0), [], False),
    ],
)
def test_limits_of_count_size_and_span(limits: QueueLimits, offsets: list[int], full: bool) -> None:
    queue = ProcessQueue(0)
    queue.add([message(one, 10) for one in offsets], 60)
    assert queue.is_full(limits) is full
