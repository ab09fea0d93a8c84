"""Progress and counts of timer deliveries, as their commits store them."""

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
    """Counts of handled messages."""

    delivered: int = 0
    rolled: int = 0
    deleted: int = 0
    already_delivered: int = 0
    bytes: int = 0
    commits: int = 0
    skipped: int = 0
    taken: int = 0
    """Messages of the timer topic that were read for the first time, not again after a rebuild of the files."""

    def since(self, before: TimerCounts) -> TimerCounts:
        """Return the counts since `before`."""
        return TimerCounts(*(mine - other for mine, other in zip(astuple(self), astuple(before), strict=True)))


def precisions(progress: TimerProgress, configured_ms: int) -> tuple[int, int]:
    """Return (length of the tick, length of a step) in ms; a tick that is partly done keeps its length."""
    if progress.precision_ms != configured_ms and (progress.done_below or progress.read_ms % configured_ms):
        return progress.precision_ms, 1000
    return configured_ms, configured_ms


def progress_of(reads: TimerReads, commit: CommitEnvelope | None) -> tuple[TimerProgress, int]:
    """Return (progress of the last commit, offset from which a broker may have delivered)."""
    if commit is None:
        return TimerProgress(precision_ms=reads.config.timer_precision_ms), reads.min_phy_offset
    progress = decode_progress(commit.progress)
    start = commit.end_offset if progress.search_from < 0 else progress.search_from
    return progress, max(start, reads.min_phy_offset)


def commit_mark(commit: CommitEnvelope | None) -> tuple[int, int]:
    """Return (number of commits, CRC-32 that identifies the last one)."""
    return (0, 0) if commit is None else (commit.batch_id + 1, crc32(commit.encode()))
