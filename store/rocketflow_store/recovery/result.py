"""What a recovery found and did."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rocketflow_store.recovery.decide import Step


class Loss(Enum):
    """What became of a byte range of the log, or of messages."""

    DAMAGED = auto()
    """Bytes that hold no valid record and stay."""
    CUT = auto()
    """Bytes after the log's end, removed; a copy is in the quarantine."""
    LOST = auto()
    """Messages or bytes that no file holds any more."""


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
    """What recovery found and did; offsets are physical."""

    abort_found: bool
    scanned_from: int
    truncated_from: int
    truncated_to: int
    dispatched: int = 0
    seconds: float = 0.0
    quarantined: list[Quarantined] = field(default_factory=list)
    healed: tuple[str, ...] = ()
    """Queues and index that were made again from the log, and positions that were moved back."""
    told_timestamp: int = 0
    """As the last writer told, though the record may be gone: no later one may fall behind it."""
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
    """Where the valid log ends, and up to where bytes were seen that looked like records."""

    offset: int
    seen: int
    why: str


class Walked(NamedTuple):
    """The walk of a log: where it began, where the log ends, and where its last byte is that is not zero."""

    start: int
    end: LogEnd
    reached: int
