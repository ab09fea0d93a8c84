"""The check that the stores still hold a stream's positions: a loss ends the query, or is counted."""

from __future__ import annotations

from collections.abc import Mapping

from rocketflow.spark.source.data_loss import DataLossError, Loss, LossCounter, find_losses
from rocketflow.spark.source.stores import Stores
from rocketflow.spark.source.stream_offset import QueueKey, QueuePosition, StreamOffset
from rocketflow.spark.source.stream_queues import Queues


class LossGuard:
    """The positions of one query run that were verified, and the losses that were accepted."""

    def __init__(self, stores: Stores, *, fail: bool) -> None:
        self._stores, self._fail = stores, fail
        self._verified: dict[QueueKey, tuple[QueuePosition, int, int]] = {}
        self.counted = LossCounter()

    def note_verified(self, key: QueueKey, position: QueuePosition, high: int, generation: int) -> None:
        """Record a position that was just read from a store; it is verified again if its queue or store changes.

        Removed messages change neither the queue's end nor the store: `resume` compares the first offset each time.
        """
        self._verified[key] = (position.without_first(), high, generation)

    def check(self, position: StreamOffset, queues: Queues) -> None:
        """Check the log before a position; accept its losses, or raise DataLossError."""
        self.accept(self._find(_without_first(position), queues))

    def resume(self, start: StreamOffset, queues: Queues, generations: Mapping[str, int]) -> dict[QueueKey, int]:
        """Check the log before `start`; return where to go on in queues whose loss was accepted."""
        unsure = {
            key: position
            for key, position in _without_first(start).items()
            if key not in queues
            or position.next_offset < queues[key].low
            or self._verified.get(key) != (position, queues[key].high, generations[key.store])
        }
        losses = self._find(unsure, queues)
        self.accept(losses)
        lost = {loss.key for loss in losses}
        for key, position in unsure.items():
            if key in queues and key not in lost:
                self._verified[key] = (position, queues[key].high, generations[key.store])
        return {loss.key: loss.resume_offset for loss in losses}

    def _find(self, positions: Mapping[QueueKey, QueuePosition], queues: Queues) -> list[Loss]:
        """Return the losses; a slave that does not have the newest messages yet has lost none."""
        found = find_losses(positions, queues, self._stores.is_unchanged)
        return [one for one in found if one.expected_offset <= one.high or not self._stores.may_lag(one.key)]

    def accept(self, losses: list[Loss]) -> None:
        """Count losses, or raise DataLossError."""
        if losses and self._fail:
            raise DataLossError(losses)
        self.counted.accept(losses)


def _without_first(offset: StreamOffset) -> dict[QueueKey, QueuePosition]:
    return {key: position.without_first() for key, position in offset.positions.items()}
