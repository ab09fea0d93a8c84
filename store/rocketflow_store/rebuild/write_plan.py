"""The plan between the stages: which file gets which rows of which part. It depends on the scan reports alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.model.topic_names import LMQ_PREFIX
from rocketflow_store.rebuild.parts import PartKind
from rocketflow_store.views.queues.claimed_places import (
    ClaimedRuns,
    KnownPlaces,
    LostMessages,
    Piece,
    RefutedClaim,
    judge_queue,
    refuted_claims,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from rocketflow_store.rebuild.scan_task import QueueRuns, ScanReport

    Ints = npt.NDArray[np.int64]
    Queue = tuple[str, int]

_NEIGHBOUR: Final = 64
_ODD_SLOTS: Final = 1 << 20
"""If a queue has this many more slots than units, look for runs that a damaged head placed far away."""


@dataclass(slots=True)
class Pieces:
    """Rows of parts in the order of the log: `counts[k]` from `rows[k]` of part `parts[k]`, to write at `at[k]`."""

    parts: Ints
    rows: Ints
    counts: Ints
    at: Ints

    def __len__(self) -> int:
        return len(self.parts)

    def each(self) -> Iterator[tuple[int, int, int, int]]:
        """Iterate over (part, first row, rows, place) of the pieces."""
        return zip(self.parts.tolist(), self.rows.tolist(), self.counts.tolist(), self.at.tolist(), strict=True)


@dataclass(slots=True)
class QueueFilePlan:
    """A file of a queue: its units [`first`, `end`), numbered in the queue, come from the log."""

    topic: str
    queue_id: int
    base_unit: int
    first: int
    end: int
    begins_queue: bool
    pieces: Pieces


@dataclass(slots=True)
class QueuePlan:
    """A queue: units [`first`, `end`), and the files that hold them."""

    topic: str
    queue_id: int
    first: int
    end: int
    files: list[QueueFilePlan] = field(default_factory=list)


@dataclass(slots=True)
class IndexFilePlan:
    """Index file `number`; `before` is the place (part, row) of the entry before its first one, None without."""

    number: int
    count: int
    pieces: Pieces
    before: tuple[int, int] | None


@dataclass(slots=True)
class JudgedPlaces:
    """Refuted claims of records and lost messages, by queue."""

    strays: dict[Queue, list[RefutedClaim]] = field(default_factory=dict)
    lost: dict[Queue, list[LostMessages]] = field(default_factory=dict)
    last: dict[Queue, tuple[int, int]] = field(default_factory=dict)
    """The queue offset after the last believed record, and its physical offset."""


class PlaceJudge:
    """Decides which claims of records are believed, kind by kind of queue; `judged` has the others.

    Queues of the topics `left_out` are not planned.
    """

    def __init__(self, known: KnownPlaces, left_out: Collection[str] = ()) -> None:
        self._known, self.left_out = known, left_out
        self.judged = JudgedPlaces()

    def believed(self, queue: Queue, runs: ClaimedRuns) -> list[Piece]:
        """Return the believed claims to a queue; note the others, and the queue offsets without a claim."""
        found = judge_queue(queue, runs, self._known)
        kept = found.kept
        if found.strays:
            self.judged.strays[queue] = refuted_claims(found, runs)
        if found.lost:
            self.judged.lost[queue] = found.lost
        if kept:
            self.judged.last[queue] = kept[-1].stop, int(runs.ends[kept[-1].run])
        return kept


@dataclass(frozen=True, slots=True)
class _LogRuns:
    """Runs of rows of one kind, by queue and then in the order of the log: `queue_of` numbers `queues`."""

    queues: list[Queue]
    queue_of: Ints
    part: Ints
    row: Ints
    count: Ints
    first: Ints
    stop: Ints
    begin: Ints
    end: Ints

    def by_queue(self) -> Iterator[tuple[Queue, slice]]:
        """Yield each queue with its runs."""
        starts = np.flatnonzero(np.diff(self.queue_of, prepend=-1))
        stops = np.append(starts[1:], len(self.queue_of))
        for low, high in zip(starts.tolist(), stops.tolist(), strict=True):
            yield self.queues[int(self.queue_of[low])], slice(low, high)

    def claims(self, mine: slice) -> ClaimedRuns:
        """Return the claims of runs, for the judge."""
        return ClaimedRuns(self.first[mine], self.stop[mine], self.begin[mine], self.end[mine])


def plan_queues(
    reports: Sequence[ScanReport],
    kind: PartKind,
    units_per_file: int,
    judge: PlaceJudge,
    bases: Mapping[Queue, int],
) -> list[QueuePlan]:
    """Return the files of every queue of a kind; `judge` notes the claims that are not believed.

    `bases` are the numbers of the first units of batch queues that do not begin at 0.
    """
    runs = _gathered(reports, kind)
    if runs is None:
        return []
    at = runs.first.copy()
    kept = np.ones(len(at), bool)
    cut: list[tuple[int, Piece]] = []
    for queue, mine in runs.by_queue():
        if queue[0] in judge.left_out:
            kept[mine] = False
        elif queue[0].startswith(LMQ_PREFIX):
            kept[mine] = ~_misplaced(runs.first[mine], runs.count[mine])
        else:
            pieces = judge.believed(queue, runs.claims(mine))
            cut += _keep_believed(runs, mine, pieces, kept, together=kind is PartKind.BATCH_UNITS)
            if kind is PartKind.BATCH_UNITS:
                there = np.flatnonzero(kept[mine]) + mine.start
                at[there] = bases.get(queue, 0) + np.cumsum(runs.count[there]) - runs.count[there]
    columns = [one[kept] for one in (runs.queue_of, runs.part, runs.row, runs.count, at)]
    queue_of, *pieces_kept = _with_cut_runs(runs, columns, cut) if cut else columns
    return _files_of(runs.queues, queue_of, Pieces(*pieces_kept), units_per_file) if len(queue_of) else []


def _gathered(reports: Sequence[ScanReport], kind: PartKind) -> _LogRuns | None:
    """Return the runs of all reports; None if there are none."""
    numbers: dict[Queue, int] = {}
    columns: list[list[Ints]] = [[] for _ in range(8)]
    for report in reports:
        runs = _runs(report, kind)
        if runs is None:
            continue
        own = np.array([numbers.setdefault(queue, len(numbers)) for queue in runs.queues], np.int64)
        part = np.full(len(runs.rows), report.number, np.int64)
        claims = runs.firsts, runs.stops, runs.begins, runs.ends
        for column, values in zip(columns, (own[runs.queue_of], part, runs.rows, runs.counts, *claims), strict=True):
            column.append(values)
    if not numbers:
        return None
    joined = [np.concatenate(one) for one in columns]
    queue_of, part, row = joined[:3]
    order = np.lexsort((row, part, queue_of))
    return _LogRuns(list(numbers), *(one[order] for one in joined))


def _keep_believed(
    runs: _LogRuns, mine: slice, pieces: list[Piece], kept: npt.NDArray[np.bool_], *, together: bool
) -> list[tuple[int, Piece]]:
    """Mark the believed runs of a queue in `kept`; return those that are believed only in part, unless `together`."""
    low, first, stop = mine.start, runs.first, runs.stop
    complete = [one.run for one in pieces if one.stop - one.first == stop[low + one.run] - first[low + one.run]]
    if len(complete) == mine.stop - low:
        return []
    kept[mine] = False
    kept[np.array(complete, np.int64) + low] = True
    cut = []
    for run, one in [(low + one.run, one) for one in pieces if not kept[low + one.run]]:
        if together or stop[run] - first[run] != runs.count[run]:
            kept[run] = True  # its records claim several queue offsets each: they stay together
        else:
            cut.append((run, one))
    return cut


def _with_cut_runs(runs: _LogRuns, columns: list[Ints], cut: list[tuple[int, Piece]]) -> list[Ints]:
    """Return the columns with the believed parts of cut runs added in order."""
    of = np.array([run for run, _ in cut], np.int64)
    firsts = np.array([one.first for _, one in cut], np.int64)
    counts = np.array([one.stop - one.first for _, one in cut], np.int64)
    more = runs.queue_of[of], runs.part[of], runs.row[of] + firsts - runs.first[of], counts, firsts
    joined = [np.concatenate(one) for one in zip(columns, more, strict=True)]
    order = np.lexsort((joined[2], joined[1], joined[0]))
    return [one[order] for one in joined]


def _runs(report: ScanReport, kind: PartKind) -> QueueRuns | None:
    return report.units if kind is PartKind.UNITS else report.batch_units


def _misplaced(first: Ints, count: Ints) -> npt.NDArray[np.bool_]:
    """Return a mask of the runs that lie far from both neighbours: a damaged head wrote their offset."""
    slots = int((first + count).max() - first.min())
    if slots <= int(count.sum()) * 2 + _ODD_SLOTS:
        return np.zeros(len(first), bool)
    step = first[1:] - (first[:-1] + count[:-1])
    up, down = np.ones(len(first), bool), np.ones(len(first), bool)
    up[1:], down[:-1] = step > _NEIGHBOUR, step < -_NEIGHBOUR
    return up & down


def _files_of(queues: list[Queue], queue_of: Ints, runs: Pieces, units_per_file: int) -> list[QueuePlan]:
    first, count = runs.at, runs.counts
    first_file, last_file = first // units_per_file, (first + count - 1) // units_per_file
    times = last_file - first_file + 1
    of = np.repeat(np.arange(len(first)), times)
    file = first_file[of] + np.arange(len(of)) - np.repeat(np.cumsum(times) - times, times)
    start = np.maximum(first[of], file * units_per_file)
    stop = np.minimum((first + count)[of], (file + 1) * units_per_file)
    row = runs.rows[of] + start - first[of]
    queue_of, part = queue_of[of], runs.parts[of]
    order = np.lexsort((np.arange(len(of)), file, queue_of))
    queue_of, part, row, file, start, stop = (one[order] for one in (queue_of, part, row, file, start, stop))
    cuts = np.flatnonzero((np.diff(queue_of, prepend=-1) != 0) | (np.diff(file, prepend=-1) != 0))
    plans: list[QueuePlan] = []
    counts = stop - start
    for at, end in zip(cuts.tolist(), np.append(cuts[1:], len(of)).tolist(), strict=True):
        topic, queue_id = queues[int(queue_of[at])]
        base = int(file[at]) * units_per_file
        mine = slice(at, end)
        low, high = int(start[mine].min()), int(stop[mine].max())
        if not plans or (plans[-1].topic, plans[-1].queue_id) != (topic, queue_id):
            plans.append(QueuePlan(topic, queue_id, low, high))
        plan = plans[-1]
        pieces = Pieces(part[mine], row[mine], counts[mine], start[mine] - base)
        plan.files.append(QueueFilePlan(topic, queue_id, base, low, high, not plan.files, pieces))
        plan.end = high
    return plans


def plan_index(reports: Sequence[ScanReport], entries_per_file: int) -> list[IndexFilePlan]:
    """Plan index files of `entries_per_file` entries each, in the order of the log."""
    parts = np.array([one.number for one in reports], np.int64)
    counts = np.array([one.entries for one in reports], np.int64)
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    begins = ends - counts
    plans: list[IndexFilePlan] = []
    for number, start in enumerate(range(0, total, entries_per_file)):
        stop = min(start + entries_per_file, total)
        mine = np.flatnonzero((begins < stop) & (ends > start))
        low, high = np.maximum(begins[mine], start), np.minimum(ends[mine], stop)
        before = None
        if start:
            holder = int(np.searchsorted(ends, start - 1, side="right"))
            before = int(parts[holder]), start - 1 - int(begins[holder])
        pieces = Pieces(parts[mine], low - begins[mine], high - low, low - start)
        plans.append(IndexFilePlan(number, stop - start, pieces, before))
    return plans
