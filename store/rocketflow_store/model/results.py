"""Results of puts, and the bounds of a store at one instant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rocketflow_store.model.errors import PutStatusError
from rocketflow_store.model.status import PutMessageStatus


class PutMessageResult(NamedTuple):
    """Outcome of one put; if nothing was stored, the offsets are -1, `msg_id` is empty and `why` is the reason.

    Of a client batch the offsets are those of its first message and `msg_id` holds one id per message, joined by
    commas.
    """

    status: PutMessageStatus
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    msg_id: str
    store_timestamp: int
    why: str = ""
    message_count: int = 1
    timer_out_ms: int | None = None
    """Time (ms) at which a message that waits in the timer is due; None for every other message."""
    stored_size: int = 0
    """Bytes of the records in the log."""

    @property
    def stored(self) -> bool:
        return self.physical_offset >= 0

    def raise_for_status(self) -> PutMessageResult:
        """Return this result if its status is PUT_OK.

        Raises PutStatusError for every other status: nothing was stored, or, with FLUSH_DISK_TIMEOUT, the message is in
        the log and was not synced in time.
        """
        if self.status is not PutMessageStatus.PUT_OK:
            raise PutStatusError(self.status, self.topic, self.why)
        return self


@dataclass(frozen=True, slots=True)
class AppendBatchResult:
    """Outcome of a bulk append: rows stored, their begin and end in the log."""

    rows: int
    first_phy_offset: int
    next_phy_offset: int


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """Bounds of every queue at one instant: {(topic, queue_id): (min_offset, max_offset)}."""

    queues: dict[tuple[str, int], tuple[int, int]]
    max_phy_offset: int
