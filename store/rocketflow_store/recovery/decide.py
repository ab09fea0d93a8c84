"""The decisions of an open: which steps follow from what was found. Pure tables, no I/O.

An open observes (`observe`), decides, and runs the steps. It decides twice: before the log is walked (`decide`), and
when the log's end is known (`decide_log`). Each table has exactly one row for every combination of its inputs.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Stop(Enum):
    """Kind of the last writer's stop."""

    CLEAN = "clean"
    UNCLEAN = "unclean"
    """A RocketFlow writer stopped uncleanly, and its durable frontier is known."""
    UNCLEAN_UNKNOWN = "unclean, no frontier"
    """Another writer stopped uncleanly, or the frontier is not credible."""


class Step(Enum):
    """The steps of an open, in the only order in which they may run."""

    FINISH_REBUILD = "finish the rebuild that was stopped while it replaced files"
    OBSERVE_AGAIN = "observe the store again"
    RECORD_STORE = "record file sizes and profile in store.meta, if they are not recorded"
    COMPLETE_LAST_FILES = "give the newest file of the log and of every queue its full size"
    CHECK_LOG_FILES = "check that no file of the log is missing, renamed or of another store"
    FINISH_DELETIONS = "finish the deletion of topics"
    QUARANTINE = "move what is rebuilt or misplaced to the quarantine"
    WALK_FROM_BEGIN = "walk the log from its begin"
    WALK_FROM_FRONTIER = "walk the log from the durable frontier"
    WALK_FROM_LAST_UNIT = "walk the log from the last queue unit"
    CUT_LOG = "cut the log at its end"
    CUT_QUEUES = "cut units after the log's end from the queues"
    CUT_INDEX_AT_START = "cut index entries from where the walk began"
    CUT_BATCH_QUEUES_AT_START = "cut batch queues from where the walk began"
    CUT_BATCH_QUEUES_AT_END = "cut batch units after the log's end"
    CUT_INDEX_AT_END = "cut index entries after the log's end"
    REPORT_LOST = "report acknowledged bytes that are lost"
    DISPATCH = "dispatch the records that were walked"
    KEEP_ENDS = "keep the ends of queues that lack messages"
    SYNC = "sync the log, the queues and the index"
    SYNC_CHANGES = "sync the log, the queues and the index, if anything was dispatched or lost"
    NOTE_TOPICS = "note topics that another writer deleted"
    RECORD_STOP = "record what the store has now"
    RECORD_STOP_IF_LOST = "record what the store has now, if queues lack messages"
    END_REBUILD = "end the rebuild of queues and index"
    CLAMP_POSITIONS = "move positions after a queue's end back to it"
    FIT_CHECKPOINT = "correct the checkpoint"

    @property
    def label(self) -> str:
        """The step's name, for people and scripts."""
        return self.name.lower().replace("_", "-")


class Found(NamedTuple):
    """Inputs of the tables from an observation of the files."""

    stopped_rebuild: bool
    stop: Stop
    deletions: bool
    """True if topics are noted whose deletion was not completed."""
    misplaced: bool
    """True if a file is in the place of a directory, or a directory in the place of a file."""
    rebuild: bool
    """True if queues or index must be rebuilt from the log."""
    unfinished: bool
    """True if an earlier open was stopped while it rebuilt them."""


class LogFound(NamedTuple):
    """Inputs of the tables from the walk of the log."""

    tail: bool
    """True if records exist after the place where the walk began, or bytes after the log's end."""
    shortened: bool
    """True if the log ends before the end that the last orderly stop recorded."""
    acknowledged_lost: bool
    """True if the log ends before the offset that the last writer had confirmed."""


class PreparationRow(NamedTuple):
    """A row of `PREPARATION`; None matches either value."""

    stopped_rebuild: bool
    unclean: bool | None
    deletions: bool | None
    quarantine: bool | None
    steps: tuple[Step, ...]


class WalkRow(NamedTuple):
    """A row of `WALK`; None matches any value."""

    stop: Stop | None
    rebuild: bool
    steps: tuple[Step, ...]


class CutRow(NamedTuple):
    """A row of `CUTS`; None matches either value."""

    unclean: bool
    unfinished: bool | None
    tail: bool | None
    shortened: bool | None
    acknowledged_lost: bool | None
    steps: tuple[Step, ...]


class SettleRow(NamedTuple):
    """A row of `SETTLING`."""

    unclean: bool
    rebuild: bool
    steps: tuple[Step, ...]


_RECORD, _CHECK = Step.RECORD_STORE, Step.CHECK_LOG_FILES
_COMPLETE, _DELETE, _QUARANTINE = Step.COMPLETE_LAST_FILES, Step.FINISH_DELETIONS, Step.QUARANTINE

PREPARATION: Final = (
    PreparationRow(True, None, None, None, (Step.FINISH_REBUILD, Step.OBSERVE_AGAIN)),
    PreparationRow(False, False, False, False, (_RECORD, _CHECK)),
    PreparationRow(False, False, False, True, (_RECORD, _CHECK, _QUARANTINE)),
    PreparationRow(False, False, True, False, (_RECORD, _CHECK, _DELETE)),
    PreparationRow(False, False, True, True, (_RECORD, _CHECK, _DELETE, _QUARANTINE)),
    PreparationRow(False, True, False, False, (_RECORD, _COMPLETE, _CHECK)),
    PreparationRow(False, True, False, True, (_RECORD, _COMPLETE, _CHECK, _QUARANTINE)),
    PreparationRow(False, True, True, False, (_RECORD, _COMPLETE, _CHECK, _DELETE)),
    PreparationRow(False, True, True, True, (_RECORD, _COMPLETE, _CHECK, _DELETE, _QUARANTINE)),
)

WALK: Final = (
    WalkRow(None, True, (Step.WALK_FROM_BEGIN,)),
    WalkRow(Stop.CLEAN, False, (Step.WALK_FROM_LAST_UNIT,)),
    WalkRow(Stop.UNCLEAN, False, (Step.WALK_FROM_FRONTIER,)),
    WalkRow(Stop.UNCLEAN_UNKNOWN, False, (Step.WALK_FROM_BEGIN,)),
)

_UNCLEAN: Final = (
    Step.CUT_LOG,
    Step.CUT_QUEUES,
    Step.CUT_INDEX_AT_START,
    Step.CUT_BATCH_QUEUES_AT_START,
    Step.CUT_BATCH_QUEUES_AT_END,
)
_LOG, _AT_START = Step.CUT_LOG, Step.CUT_BATCH_QUEUES_AT_START
_AT_END, _INDEX = Step.CUT_BATCH_QUEUES_AT_END, Step.CUT_INDEX_AT_END

CUTS: Final = (
    CutRow(True, None, None, None, False, _UNCLEAN),
    CutRow(True, None, None, None, True, (*_UNCLEAN, Step.REPORT_LOST)),
    CutRow(False, False, False, False, None, (_AT_END,)),
    CutRow(False, False, False, True, None, (_AT_END, _INDEX)),
    CutRow(False, False, True, False, None, (_LOG, _AT_END)),
    CutRow(False, False, True, True, None, (_LOG, _AT_END, _INDEX)),
    CutRow(False, True, False, False, None, (_AT_START, _AT_END)),
    CutRow(False, True, False, True, None, (_AT_START, _AT_END, _INDEX)),
    CutRow(False, True, True, False, None, (_LOG, _AT_START, _AT_END)),
    CutRow(False, True, True, True, None, (_LOG, _AT_START, _AT_END, _INDEX)),
)

_DISPATCH: Final = (Step.DISPATCH, Step.KEEP_ENDS)
_REBUILT: Final = (Step.NOTE_TOPICS, Step.RECORD_STOP, Step.END_REBUILD)
_LAST: Final = (Step.CLAMP_POSITIONS, Step.FIT_CHECKPOINT)

SETTLING: Final = (
    SettleRow(False, False, (*_DISPATCH, Step.SYNC_CHANGES, Step.NOTE_TOPICS, Step.RECORD_STOP_IF_LOST, *_LAST)),
    SettleRow(False, True, (*_DISPATCH, Step.SYNC_CHANGES, *_REBUILT, *_LAST)),
    SettleRow(True, False, (*_DISPATCH, Step.SYNC, Step.NOTE_TOPICS, Step.RECORD_STOP_IF_LOST, *_LAST)),
    SettleRow(True, True, (*_DISPATCH, Step.SYNC, *_REBUILT, *_LAST)),
)


def decide(found: Found) -> tuple[Step, ...]:
    """Return the steps up to the walk of the log; the last one is OBSERVE_AGAIN if they change what was found."""
    unclean, quarantine = found.stop is not Stop.CLEAN, found.misplaced or found.rebuild
    preparation = steps_of(PREPARATION, (found.stopped_rebuild, unclean, found.deletions, quarantine))
    if Step.OBSERVE_AGAIN in preparation:
        return preparation
    return preparation + steps_of(WALK, (found.stop, found.rebuild))


def decide_log(found: Found, log: LogFound) -> tuple[Step, ...]:
    """Return the steps after the walk of the log."""
    unclean = found.stop is not Stop.CLEAN
    return steps_of(CUTS, (unclean, found.unfinished, *log)) + steps_of(SETTLING, (unclean, found.rebuild))


def steps_of(table: Sequence[tuple[object, ...]], inputs: tuple[object, ...]) -> tuple[Step, ...]:
    """Return the steps of the row that matches `inputs`."""
    (row,) = matching_rows(table, inputs)
    steps: tuple[Step, ...] = row[-1]  # type: ignore[assignment]
    return steps


def matching_rows(table: Sequence[tuple[object, ...]], inputs: tuple[object, ...]) -> list[tuple[object, ...]]:
    """Return every row whose patterns, in order, are None or the input."""
    return [
        row for row in table if all(want is None or want is one for want, one in zip(row[:-1], inputs, strict=True))
    ]
