"""Messages that a read skipped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NO_UNIT: Final = "the ConsumeQueue has no units for them; store verify --repair makes them anew"
NO_LOG_FILE: Final = "its unit points at a CommitLog file that is not there"
REMOVED: Final = "removed by retention while they were read"


@dataclass(frozen=True, slots=True)
class SkippedMessages:
    """`count` requested messages of a queue, from `queue_offset` on, that an answer lacks.

    `phy_offset` is the physical offset of the first of them by the queue's unit, -1 if unknown.
    """

    queue_offset: int
    count: int
    phy_offset: int
    why: str
