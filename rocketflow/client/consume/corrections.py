"""Positions that a queue does not have any more: an operator's reset, retention, or a topic that was created again.

Brokers answer the first two with OFFSET_ILLEGAL. No answer says that a topic was deleted and created again; a refused
pull in between shows it, and a queue that ends earlier than before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow.client.errors import ClientError, RequestRefusedError
from rocketflow.client.pull_status import PullStatus
from rocketflow.remoting.codes import ResponseCode

if TYPE_CHECKING:
    from rocketflow.client.consume.pulls import PullResult
    from rocketflow.remoting.bodies import MessageQueue
    from rocketflow_store.spi.messages import CorruptRecordError

LOG: Final = logging.getLogger("rocketflow.client")

RECREATED: Final = "RF-RECREATED"
"""The code of the event."""


class CorrectionReason(Enum):
    """Reasons for a consumer to go on at another offset, or for its offset to have another meaning."""

    OUT_OF_RANGE = "the queue does not have the offset: its messages were deleted, or it ends earlier"
    RESET = "an operator has reset the group's offset"
    RECREATED = "the topic was deleted and created again"


class OffsetCorrection(NamedTuple):
    """A position that a queue does not have: `asked` was pulled, the consumer goes on at `corrected`.

    The queue has the offsets [min_offset, max_offset). If `asked` is below `min_offset`, messages between the two were
    deleted before they were read.
    """

    queue: MessageQueue
    asked: int
    corrected: int
    min_offset: int
    max_offset: int
    reason: CorrectionReason = CorrectionReason.OUT_OF_RANGE


class Corrections:
    """Finds, logs and counts the corrections of a consumer and calls its listener with each.

    With `restart`, queues of a topic that was created again are read from their beginning.
    """

    def __init__(self, group: str, listener: Callable[[OffsetCorrection], None] | None, *, restart: bool) -> None:
        self._group, self._listener, self._restart = group, listener, restart
        self._missing: set[MessageQueue] = set()
        self._ends: dict[MessageQueue, tuple[str, int]] = {}
        self.recreated = 0
        """Queues that were found to be those of a topic that was created again."""

    def failed(self, queue: MessageQueue, error: ClientError | CorruptRecordError) -> None:
        """Take note that a pull failed: perhaps its topic does not exist now."""
        if isinstance(error, RequestRefusedError) and error.code == ResponseCode.TOPIC_NOT_EXIST:
            self._missing.add(queue)

    def suspend_s(self, queue: MessageQueue, seconds: float) -> float:
        """Return how long a pull may wait for messages: not at all if the answer shows that the topic exists again."""
        return 0.0 if queue in self._missing else seconds

    def next_offset(self, result: PullResult) -> int | None:
        """Return the offset to go on at instead of that of the pull, None if the answer counts."""
        queue, asked = result.request.queue, result.request.offset
        is_illegal = result.status is PullStatus.OFFSET_ILLEGAL
        is_recreated = self._is_recreated(result) and not result.is_reset
        if not (is_illegal or is_recreated):
            return None
        reason = CorrectionReason.RESET if result.is_reset else CorrectionReason.OUT_OF_RANGE
        corrected = result.next_offset if is_illegal else asked
        if is_recreated:
            reason = CorrectionReason.RECREATED
            corrected = result.min_offset if self._restart else corrected
            self.recreated += 1
        self._report(OffsetCorrection(queue, asked, corrected, result.min_offset, result.max_offset, reason))
        return corrected if is_illegal or corrected != asked else None

    def _is_recreated(self, result: PullResult) -> bool:
        """Return whether the queue was deleted since the last answer, or ends earlier at the same broker."""
        queue = result.request.queue
        was_missing = queue in self._missing
        self._missing.discard(queue)
        address, end = self._ends.get(queue, ("", 0))
        self._ends[queue] = result.address, result.max_offset
        return was_missing or (address == result.address and result.max_offset < end)

    def _report(self, one: OffsetCorrection) -> None:
        topic, broker, queue_id = one.queue
        if one.reason is CorrectionReason.RESET:
            LOG.warning(
                "group %s: an operator has reset the offset of %s, %s queue %d from %d to %d",
                *(self._group, topic, broker, queue_id, one.asked, one.corrected),
            )
        elif one.reason is CorrectionReason.RECREATED:
            LOG.warning(
                "%s broker %s offset %d: group %s: topic %s was deleted and created again, or its broker has lost "
                "messages: queue %d has [%d, %d) and is read from %d on%s",
                *(RECREATED, broker, one.asked, self._group, topic, queue_id, one.min_offset, one.max_offset),
                *(one.corrected, "" if self._restart else "; set restart_recreated to read it from its beginning"),
                extra={"rf_code": RECREATED},
            )
        else:
            LOG.warning(
                "group %s: offset %d of %s, %s queue %d is out of range [%d, %d]; it is read from %d on",
                *(self._group, one.asked, topic, broker, queue_id, one.min_offset, one.max_offset, one.corrected),
            )
        if self._listener is not None:
            try:
                self._listener(one)
            except Exception:
                LOG.exception("the listener of group %s failed", self._group)
