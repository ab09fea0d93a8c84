"""What deliveries of timer messages keep in their commits, and count."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Final

from isal.isal_zlib import crc32

from rocketflow_store.delivery.timer.placement import TimerProgress, decode_progress

if TYPE_CHECKING:
    from rocketflow_store.delivery.timer.timer_rows import TimerReads
    from rocketflow_store.metadata.native.commit_envelope import CommitEnvelope

TIMER_SINK_ID: Final = "rmq_sys_timer"


@dataclass(slots=True)
class TimerCounts:
    """What was done."""

    delivered: int = 0
    rolled: int = 0
    deleted: int = 0
    already_delivered: int = 0
    bytes: int = 0
    commits: int = 0
    skipped: int = 0

    def since(self, before: TimerCounts) -> TimerCounts:
        """What was done behind `before`."""
        return TimerCounts(*(mine - other for mine, other in zip(astuple(self), astuple(before), strict=True)))


def precisions(progress: TimerProgress, configured_ms: int) -> tuple[int, int]:
    """(length of a tick, of what delivery goes on by): a tick that was begun is ended as it was begun."""
    if progress.precision_ms != configured_ms and (progress.done_below or progress.read_ms % configured_ms):
        return progress.precision_ms, 1000
    return configured_ms, configured_ms


def progress_of(reads: TimerReads, commit: CommitEnvelope | None) -> tuple[TimerProgress, int]:
    """(how far delivery is by its last commit, from where on another writer may have delivered)."""
    if commit is None:
        return TimerProgress(precision_ms=reads.config.timer_precision_ms), reads.min_phy_offset
    progress = decode_progress(commit.progress)
    start = commit.end_offset if progress.foreign_from < 0 else progress.foreign_from
    return progress, max(start, reads.min_phy_offset)


def commit_mark(commit: CommitEnvelope | None) -> tuple[int, int]:
    """(how many commits there were, a number that tells the last one from any other)."""
    return (0, 0) if commit is None else (commit.batch_id + 1, crc32(commit.encode()))
