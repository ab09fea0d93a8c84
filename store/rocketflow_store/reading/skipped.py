"""What a read left out of its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NO_UNIT: Final = "the ConsumeQueue has no units for them; store verify --repair makes them anew"
NO_LOG_FILE: Final = "its unit points at a CommitLog file that is not there"


@dataclass(frozen=True, slots=True)
class SkippedMessages:
    """`count` messages of a queue, from `queue_offset` on, that an answer lacks though they were asked for.

    `phy_offset` is where the queue says that the first of them is, -1 where it does not say.
    """

    queue_offset: int
    count: int
    phy_offset: int
    why: str
