"""Decide which of the queue offsets that records claim are correct.

The records of a queue follow each other in the log with consecutive queue offsets. A flipped bit of a topic, queueId or
queueOffset makes a record claim another place, and no body CRC detects it: the place that it had is missing, and the
one that it claims is taken, or far away. The chain of claims that most records are part of is accepted. If two records
have equal support for one queue offset, neither is accepted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import numpy as np

from rocketflow_store.format.record import MIN_RECORD_SIZE
from rocketflow_store.views.queues.rows_by_queue import rows_by_queue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from rocketflow_store.records.decoding.dispatch_rows import DispatchRows
    from rocketflow_store.views.queues.rows_by_queue import RowsByQueue

    Ints = npt.NDArray[np.int64]
    Queue = tuple[str, int]

MAX_QUEUE_OFFSET: Final = 1 << 56
"""No queue gets this far: a log of 2^63 bytes has fewer records."""
_NEIGHBOUR: Final = 64
"""Without damage in between, a single record is accepted up to this distance from its neighbours."""
_MAX_RUNS: Final = 1 << 14


@dataclass(slots=True)
class ClaimedRuns:
    """Records of one queue in the order of the log: run k claims queue offsets `[firsts[k], stops[k])`.

    Its first record begins at physical offset `begins[k]`, its last one at `ends[k]`.
    """

    firsts: Ints
    stops: Ints
    begins: Ints
    ends: Ints


class Piece(NamedTuple):
    """Queue offsets `[first, stop)` as claimed by run number `run`."""

    run: int
    first: int
    stop: int


class LostMessages(NamedTuple):
    """Queue offsets `[first, stop)` that no record of the log has.

    Their records, if any, would lie at physical offsets `[begin, end)`.
    """

    first: int
    stop: int
    begin: int
    end: int


class RefutedClaim(NamedTuple):
    """Records at physical offsets from `begin` to `end` that claim queue offsets `[first, stop)` of other records."""

    first: int
    stop: int
    begin: int
    end: int


@dataclass(slots=True)
class JudgedClaims:
    """The accepted claims to one queue, in the order of the log, and the refuted ones."""

    kept: list[Piece]
    strays: list[Piece] = field(default_factory=list)
    """Claims that other records refute."""
    lost: list[LostMessages] = field(default_factory=list)
    """Queue offsets between accepted claims that no accepted claim has."""


def refuted_claims(judged: JudgedClaims, runs: ClaimedRuns) -> list[RefutedClaim]:
    """Return the claims that are not accepted, with the physical offsets of their records."""
    return [
        RefutedClaim(one.first, one.stop, int(runs.begins[one.run]), int(runs.ends[one.run])) for one in judged.strays
    ]


def are_refuted(claims: Iterable[RefutedClaim], offsets: Ints, phy_offsets: Ints) -> npt.NDArray[np.bool_]:
    """Return a mask of the records of a queue whose claims are not accepted."""
    found = np.zeros(len(offsets), bool)
    for one in claims:
        here = (phy_offsets >= one.begin) & (phy_offsets <= one.end)
        found |= here & (offsets >= one.first) & (offsets < one.stop)
    return found


class DamagedBytes:
    """The damaged or missing bytes of the log; `ranges` are physical offsets, ascending."""

    def __init__(self, ranges: Sequence[tuple[int, int]] = ()) -> None:
        self._starts = np.array([start for start, _ in ranges], np.int64)
        self._stops = np.array([stop for _, stop in ranges], np.int64)
        self._before = np.concatenate([[0], np.cumsum(self._stops - self._starts)])

    def below(self, phy_offsets: npt.ArrayLike) -> Ints:
        """Return the number of damaged bytes before each physical offset."""
        wanted = np.asarray(phy_offsets, np.int64)
        at = np.searchsorted(self._starts, wanted, side="right")
        if not len(self._starts):
            return np.zeros(wanted.shape, np.int64)
        over = np.where(at > 0, np.maximum(self._stops[at - 1] - wanted, 0), 0)
        found: Ints = self._before[at] - over
        return found

    @classmethod
    def of_log(cls, damage: Sequence[tuple[int, int]], end: int, synced: int) -> Self:
        """Return the bytes that a log lost: its damage, and what was synced after its present `end`."""
        return cls([*damage, *([(end, synced)] if end < synced else [])])

    @property
    def begin(self) -> int:
        """The first damaged byte; -1 if there is none."""
        return int(self._starts[0]) if len(self._starts) else -1

    def hold(self, phy_offsets: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Return a mask of the physical offsets whose byte is damaged or missing."""
        wanted = np.asarray(phy_offsets, np.int64)
        mask: npt.NDArray[np.bool_] = self.below(wanted + 1) > self.below(wanted)
        return mask

    def explains(self, one: LostMessages) -> bool:
        """Return True if that many messages fit into the damage at the place of their records."""
        inside = int(self.below(one.end)) - int(self.below(one.begin))
        return inside >= (one.stop - one.first) * MIN_RECORD_SIZE


@dataclass(slots=True)
class KnownPlaces:
    """Knowledge about queues from other sources than the claims of records."""

    damage: DamagedBytes
    bounds: Mapping[Queue, tuple[int, int]]
    """(queue offset, physical offset): records before the latter claim less than the former."""
    expected_first: Callable[[Queue, int], int | None]
    """Returns the first queue offset that retention left of a queue, given the first claimed one; None: unknown."""
    is_known: Callable[[Queue], bool]
    """Returns True if another source than records shows that a queue exists."""


def judge_queue(queue: Queue, runs: ClaimedRuns, known: KnownPlaces) -> JudgedClaims:
    """Decide which claims to a queue are accepted, and which messages are lost before and between them."""
    judged = judge_claims(runs, known.damage, known.bounds.get(queue))
    if not judged.kept:
        return judged
    begins = judged.kept[0]
    first = known.expected_first(queue, begins.first)
    if first is not None and first < begins.first:
        if len(judged.kept) == 1 and begins.stop - begins.first == 1 and not known.is_known(queue):
            return JudgedClaims([], [*judged.strays, begins])  # a queue of one message, and not its first one
        judged.lost.insert(0, LostMessages(first, begins.first, 0, int(runs.begins[begins.run])))
    return judged


def judge_claims(runs: ClaimedRuns, damage: DamagedBytes, bound: tuple[int, int] | None = None) -> JudgedClaims:
    """Decide which claims to a queue are accepted.

    `bound` is (queue offset, physical offset): records before the latter are known to claim less than the former.
    """
    merged, of = _merged(runs)
    count = len(merged.firsts)
    if count == 1:
        return JudgedClaims(_pieces(runs))
    begun = _restarted_at(merged)
    room = damage.below(merged.begins), damage.below(merged.ends)
    alone = merged.stops - merged.firsts == 1
    refuted = np.zeros(count, bool)
    if bound is not None:
        refuted = alone & (merged.firsts >= bound[0]) & (merged.ends < bound[1])
    steps = merged.firsts[begun + 1 :] - merged.stops[begun:-1]
    far = _is_far(steps, room[0][begun + 1 :] - room[1][begun:-1])
    if not refuted.any() and (steps >= 0).all() and not (far & (alone[begun + 1 :] | alone[begun:-1])).any():
        chosen = [Piece(run, int(merged.firsts[run]), int(merged.stops[run])) for run in range(begun, count)]
    elif count - begun > _MAX_RUNS:
        return JudgedClaims(_pieces(runs))
    else:
        chosen = _chain(merged, np.flatnonzero(~refuted[begun:]) + begun, room)
    lost = [
        LostMessages(one.stop, two.first, int(merged.ends[one.run]), int(merged.begins[two.run]))
        for one, two in pairwise(chosen)
        if one.stop < two.first
    ]
    return _of_runs(runs, of, begun, chosen, lost)


class ClaimedQueues:
    """The claims of records to queues, in the order of the log."""

    def __init__(self) -> None:
        self._runs: dict[Queue, list[ClaimedRuns]] = {}

    def add(self, rows: DispatchRows, by_queue: RowsByQueue | None = None) -> None:
        """Add records that follow those of the last call; a record with several queue offsets claims all of them."""
        grouped = rows_by_queue(rows) if by_queue is None else by_queue
        for key, (low, high) in zip(rows.queues, grouped.runs_of(len(rows.queues)), strict=True):
            if low < high:
                columns = (
                    one[low:high].copy() for one in (grouped.firsts, grouped.stops, grouped.begins, grouped.lasts)
                )
                self._append(key, ClaimedRuns(*columns))

    def update(self, other: ClaimedQueues) -> None:
        """Add the claims of `other`, which follow these in the log."""
        for key, parts in other._runs.items():
            for one in parts:
                self._append(key, one)

    def _append(self, key: Queue, runs: ClaimedRuns) -> None:
        parts = self._runs.setdefault(key, [])
        if (
            parts and len(runs.firsts) == 1 and parts[-1].stops[-1] == runs.firsts[0]
        ):  # the usual case, without more memory
            last = parts[-1]
            last.stops, last.ends = last.stops.copy(), last.ends.copy()
            last.stops[-1], last.ends[-1] = runs.stops[0], runs.ends[0]
        else:
            parts.append(runs)

    def __iter__(self) -> Iterator[tuple[Queue, ClaimedRuns]]:
        """Yield the queues, in their order."""
        for key in sorted(self._runs):
            parts = self._runs[key]
            yield (
                key,
                ClaimedRuns(*(np.concatenate([getattr(one, name) for one in parts]) for name in ClaimedRuns.__slots__)),
            )


def rows_refuted(offsets: Ints, phy_offsets: Ints, counts: Ints | None = None) -> npt.NDArray[np.bool_]:
    """Return a mask of the records of one queue, in the order of the log, whose queue offset others refute.

    `counts` are the numbers of queue offsets that each record takes, 1 by default.
    """
    refuted: npt.NDArray[np.bool_] = (offsets < 0) | (offsets >= MAX_QUEUE_OFFSET)
    sound = np.flatnonzero(~refuted)
    if len(sound) < 2:
        return refuted
    firsts = offsets[sound]
    stops = firsts + (1 if counts is None else np.maximum(counts[sound], 1))
    cuts = np.flatnonzero(firsts[1:] != stops[:-1]) + 1
    if not len(cuts):
        return refuted
    starts, ends = np.append(0, cuts), np.append(cuts - 1, len(sound) - 1)
    places = phy_offsets[sound]
    runs = ClaimedRuns(firsts[starts], stops[ends], places[starts], places[ends])
    for one in judge_claims(runs, DamagedBytes()).strays:
        mine = sound[starts[one.run] : ends[one.run] + 1]
        refuted[mine[(offsets[mine] >= one.first) & (offsets[mine] < one.stop)]] = True
    return refuted


def _merged(runs: ClaimedRuns) -> tuple[ClaimedRuns, Ints]:
    """Join runs that lead on to the next; return the joined runs, and the number of the joined run of each."""
    cut = runs.firsts[1:] != runs.stops[:-1]
    starts = np.append(0, np.flatnonzero(cut) + 1)
    ends = np.append(starts[1:] - 1, len(runs.firsts) - 1)
    merged = ClaimedRuns(runs.firsts[starts], runs.stops[ends], runs.begins[starts], runs.ends[ends])
    return merged, np.append(0, np.cumsum(cut))


def _restarted_at(runs: ClaimedRuns) -> int:
    """Return the run with which the queue restarts at 0, because its topic was deleted and created; else 0.

    A single record before it is no earlier queue, but a claim to the same place.
    """
    again = np.flatnonzero((runs.firsts == 0) & (runs.stops > 1))
    if not len(again) or (runs.firsts[again[-1] + 1 :] == 0).any():
        return 0
    at = int(again[-1])
    return at if int((runs.stops - runs.firsts)[:at].sum()) > 1 else 0


def _is_far(steps: Ints, damaged: Ints) -> npt.NDArray[np.bool_]:
    return (steps > _NEIGHBOUR + damaged // MIN_RECORD_SIZE) | (steps < -_NEIGHBOUR)


def _chain(runs: ClaimedRuns, allowed: npt.NDArray[np.intp], room: tuple[Ints, Ints]) -> list[Piece]:
    """Return the pieces of runs that most records support: rising, and no single one far from the one before it."""
    pieces = _cut_up(runs, allowed)
    run_of, firsts, stops = (np.array(one, np.int64) for one in zip(*pieces, strict=True))
    begins, ends = room[0][run_of], room[1][run_of]
    alone = (runs.stops - runs.firsts)[run_of] == 1
    best, before = stops - firsts, np.full(len(pieces), -1)
    for at in range(1, len(pieces)):
        steps = firsts[at] - stops[:at]
        fits = steps >= 0
        if alone[at]:
            fits &= ~_is_far(steps, begins[at] - ends[:at])
        else:
            fits &= ~(alone[:at] & _is_far(steps, begins[at] - ends[:at]))
        if fits.any():
            leader = int(np.where(fits, best[:at], -1).argmax())
            before[at] = leader
            best[at] += best[leader]
    at, chosen = int(best.argmax()), []
    while at >= 0:
        chosen.append(at)
        at = int(before[at])
    chosen.reverse()
    disputed = set()
    bounded = [-1, *chosen, len(pieces)]
    for low, at, high in zip(bounded, chosen, bounded[2:], strict=False):
        same = (firsts[low + 1 : high] == firsts[at]) & (stops[low + 1 : high] == stops[at])
        if np.count_nonzero(same) > 1:
            disputed.add(at)
    return [pieces[at] for at in chosen if at not in disputed]


def _cut_up(runs: ClaimedRuns, allowed: npt.NDArray[np.intp]) -> list[Piece]:
    """Cut runs where others begin or end, so that any two pieces are either equal or disjoint."""
    cuts = np.unique(np.concatenate([runs.firsts[allowed], runs.stops[allowed]]))
    pieces = []
    for run in allowed.tolist():
        first, stop = int(runs.firsts[run]), int(runs.stops[run])
        inside = cuts[np.searchsorted(cuts, first, side="right") : np.searchsorted(cuts, stop)].tolist()
        pieces += [Piece(run, one, two) for one, two in pairwise([first, *inside, stop])]
    return pieces


def _of_runs(runs: ClaimedRuns, of: Ints, begun: int, chosen: list[Piece], lost: list[LostMessages]) -> JudgedClaims:
    """Apply the decision about joined runs to the runs themselves."""
    ranges: dict[int, list[tuple[int, int]]] = {}
    for one in chosen:
        ranges.setdefault(one.run, []).append((one.first, one.stop))
    judged = JudgedClaims([], [], lost)
    for run, (first, stop, joined) in enumerate(
        zip(runs.firsts.tolist(), runs.stops.tolist(), of.tolist(), strict=True)
    ):
        if joined < begun:
            judged.kept.append(Piece(run, first, stop))
            continue
        at = first
        for low, high in ranges.get(joined, []):
            low, high = max(low, first), min(high, stop)
            if low >= high:
                continue
            if at < low:
                judged.strays.append(Piece(run, at, low))
            judged.kept.append(Piece(run, low, high))
            at = high
        if at < stop:
            judged.strays.append(Piece(run, at, stop))
    return judged


def _pieces(runs: ClaimedRuns) -> list[Piece]:
    return [Piece(run, *one) for run, one in enumerate(zip(runs.firsts.tolist(), runs.stops.tolist(), strict=True))]
