"""Detection of a log that differs from the one a checkpoint was read from (retention, a cut tail, another store)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rocketflow.spark.source.store_access import QueueBounds
from rocketflow.spark.source.stream_offset import QueueKey, QueuePosition
from rocketflow.spark.source.task_planning import QueueRange
from rocketflow_store import StoreError
from rocketflow_store.spi import events

IsUnchanged = Callable[[QueueKey, QueuePosition, int], bool]
"""(queue, position, lowest offset) -> True if the last record read is unchanged."""


@dataclass(frozen=True, slots=True)
class Loss:
    """The loss of one queue; `messages` is the least number of lost messages."""

    key: QueueKey
    expected_offset: int
    low: int
    high: int
    messages: int
    why: str
    resume_offset: int

    def __str__(self) -> str:
        return (
            f"{self.key}: {self.why}; next offset was {self.expected_offset}, the queue now holds "
            f"[{self.low}, {self.high})"
        )


class DataLossError(StoreError):
    """Messages that a query should read no longer exist; `losses` names them."""

    exit_code = 3

    def __init__(self, losses: Sequence[Loss]) -> None:
        super().__init__(
            "data loss: "
            + "; ".join(map(str, losses))
            + ". If ConsumeQueue files are lost, rebuild them from the log: rocketflow store rebuild PATH. To go on "
            "without these messages set failOnDataLoss=false, or start with a new checkpoint"
        )
        self.losses = tuple(losses)


def find_losses(
    positions: Mapping[QueueKey, QueuePosition], queues: Mapping[QueueKey, QueueBounds], is_unchanged: IsUnchanged
) -> list[Loss]:
    """Return the losses of queues whose log no longer continues at the position read."""
    losses: list[Loss] = []
    for key in sorted(positions):
        position = positions[key]
        expected = position.next_offset
        bounds = queues.get(key)
        if bounds is None:
            if expected > 0:
                losses.append(Loss(key, expected, 0, 0, 1, "the queue does not exist any more", 0))
            continue
        low, high = bounds
        if expected > high:
            losses.append(_beyond_end(key, expected, bounds))
        elif expected < low:
            losses.append(_removed(key, expected, low, bounds))
        elif not is_unchanged(key, position, low):
            why = f"the last message read, at offset {expected - 1}, is another one now: the log was cut or replaced"
            losses.append(Loss(key, expected, low, high, 1, why, expected))
    return losses


def loss_of_range(one: QueueRange, bounds: QueueBounds) -> Loss | None:
    """Return the loss of a range that was planned, None if its queue has all of it: in the words of `find_losses`."""
    if one.start < bounds.low:
        return _removed(one.key, one.start, min(one.end, bounds.low), bounds)
    return _beyond_end(one.key, one.end, bounds) if one.end > bounds.high else None


def _removed(key: QueueKey, start: int, end: int, bounds: QueueBounds) -> Loss:
    why = f"messages {start} to {end - 1} were removed before they were read"
    return Loss(key, start, *bounds, end - start, why, bounds.low)


def _beyond_end(key: QueueKey, expected: int, bounds: QueueBounds) -> Loss:
    why = "the offset is beyond the queue's end: the log was cut or replaced"
    return Loss(key, expected, *bounds, expected - bounds.high, why, bounds.high)


@dataclass(slots=True)
class LossCounter:
    """Counts the losses that failOnDataLoss=false accepted."""

    events: int = 0
    messages: int = 0
    seen: set[tuple[QueueKey, int, int, int]] = field(default_factory=set)

    def accept(self, losses: Sequence[Loss]) -> None:
        """Log and count each loss once."""
        for loss in losses:
            mark = (loss.key, loss.expected_offset, loss.low, loss.high)
            if mark not in self.seen:
                self.seen.add(mark)
                self.events += 1
                self.messages += loss.messages
                events.report(
                    events.DATA_LOSS,
                    loss.key.store,
                    loss.key,
                    f"accepted (failOnDataLoss=false): {loss}",
                    offset=loss.expected_offset,
                    count=loss.messages,
                )
