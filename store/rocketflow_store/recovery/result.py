"""Results of a recovery."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rocketflow_store.recovery.decide import Step


class Loss(Enum):
    """Kind of a loss of bytes or messages."""

    DAMAGED = auto()
    """Bytes without a valid record that stay."""
    CUT = auto()
    """Bytes after the log's end, removed; a copy is in the quarantine."""
    LOST = auto()
    """Messages or bytes that no file holds anymore."""


@dataclass(slots=True)
class Quarantined:
    """A byte range of the log that holds no valid record but has valid ones after it, or that was cut or lost."""

    file: str
    offset: int
    length: int
    why: str
    loss: Loss = Loss.DAMAGED


@dataclass(slots=True)
class RecoveryResult:
    """Findings and work of a recovery; offsets are physical."""

    abort_found: bool
    scanned_from: int
    truncated_from: int
    truncated_to: int
    dispatched: int = 0
    seconds: float = 0.0
    quarantined: list[Quarantined] = field(default_factory=list)
    healed: tuple[str, ...] = ()
    """Queues and index that were rebuilt from the log, and positions that were moved back."""
    recorded_timestamp: int = 0
    """Store time (ms) that the last writer recorded; later records must not be older, even if that record is lost."""
    store_timestamp: int = 0
    """Store time (ms) of the newest message."""
    dispatched_phy_offset: int = 0
    """Physical offset of the last record that has a ConsumeQueue unit; 0 without any."""
    steps: tuple[Step, ...] = ()
    """The steps that were run."""
    indexed_from: int = 0
    """Physical offset from which on this recovery wrote the index entries."""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """End of the valid log, and the end of the bytes that looked like records."""

    offset: int
    seen: int
    why: str


class Walked(NamedTuple):
    """The walk of a log: its begin, the log's end, and the offset after the last byte that is not zero."""

    start: int
    end: LogEnd
    reached: int
