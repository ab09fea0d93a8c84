"""Verification of claims: queue offsets that no record of the log has, and records whose claims others refute."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.format.consume_queue_unit import UNIT_SIZE
from rocketflow_store.model.topic_names import LMQ_PREFIX
from rocketflow_store.views.queues.claimed_places import (
    JudgedClaims,
    KnownPlaces,
    LostMessages,
    Piece,
    RefutedClaim,
    judge_queue,
    refuted_claims,
)
from rocketflow_store.views.queues.consume_queue import lost as lost_units

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketflow_store.fsck.findings import Findings
    from rocketflow_store.fsck.log_damage import LogDamage
    from rocketflow_store.fsck.log_report import UnitsReport
    from rocketflow_store.fsck.observation import Observation
    from rocketflow_store.fsck.verify_units import ListedTopics

    Queue = tuple[str, int]

_BLOCK: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class JudgedQueues:
    """Claims of records to queue offsets that are believed, by queue."""

    refuted: dict[Queue, list[RefutedClaim]] = field(default_factory=dict)
    lost: dict[Queue, list[LostMessages]] = field(default_factory=dict)
    last_claims: dict[Queue, tuple[int, int]] = field(default_factory=dict)

    def last_claim(self, key: Queue) -> tuple[int, int]:
        """Return the queue offset after the last believed record of a queue, and that record's physical offset."""
        return self.last_claims.get(key, (0, 0))


class ClaimsCheck:
    """The check of the claims of the log's records; `topics` are those that the store lists."""

    def __init__(self, seen: Observation, topics: ListedTopics, damage: LogDamage) -> None:
        self._seen, self._topics, self._damage = seen, topics, damage

    def judge(self, units: UnitsReport) -> JudgedQueues:
        """Decide which claims are believed."""
        seen, judged_queues = self._seen, JudgedQueues()
        bounds = {}
        if seen.record is not None:
            until = seen.record.end_phy_offset
            ends = {**seen.record.queues, **seen.record.batch_queues}
            bounds = {key: (one.end, until) for key, one in ends.items() if one.end}
        known = KnownPlaces(self._damage.damaged_bytes, bounds, self._expected_first, lambda key: key in seen.bounds)
        for key, runs in units.claims:
            if key not in seen.bounds and not self._topics.allows(*key):
                if self._topics.allows(*key) is False and key[0] in seen.batch_topics:
                    pieces = zip(runs.firsts.tolist(), runs.stops.tolist(), strict=True)
                    strays = [Piece(run, first, stop) for run, (first, stop) in enumerate(pieces)]
                    judged_queues.refuted[key] = refuted_claims(JudgedClaims([], strays), runs)
                continue  # its topic was deleted, or such a queue cannot exist
            judged = judge_queue(key, runs, known)
            if judged.strays:
                judged_queues.refuted[key] = refuted_claims(judged, runs)
            if judged.lost:
                judged_queues.lost[key] = judged.lost
            if judged.kept:
                judged_queues.last_claims[key] = judged.kept[-1].stop, int(runs.ends[judged.kept[-1].run])
        return judged_queues

    def report(
        self, judged: JudgedQueues, units: UnitsReport, of_units: dict[Queue, list[LostMessages]], found: Findings
    ) -> None:
        """Report queue offsets that no record has, and records whose claims others refute.

        `of_units` are the messages that units after a queue's last record mark as lost.
        """
        damage, lost, strays = self._damage.damaged_bytes, 0, 0
        for key, messages in sorted(self._all_lost(judged, of_units).items()):
            for one in messages:
                if not damage.explains(one):
                    lost += one.stop - one.first
                    self._list_lost(key, one, found)
        for key, claims in sorted(judged.refuted.items()):
            for claim in claims:
                offsets = f"offset {claim.first}"
                if claim.stop > claim.first + 1:
                    offsets += f" to {claim.stop - 1}"
                why = f"says it is {key[0]} queue {key[1]} {offsets}, which other records refute"
                strays += self._list_stray(claim.begin, why, found)
        for record in units.impossible:
            strays += self._list_stray(record.phy_offset, record.why, found)
        found.lost_records += max(lost, strays)

    def _all_lost(
        self, judged: JudgedQueues, of_units: dict[Queue, list[LostMessages]]
    ) -> dict[Queue, list[LostMessages]]:
        every = {key: list(messages) for key, messages in judged.lost.items()}
        for key, messages in of_units.items():
            every.setdefault(key, []).extend(messages)
        for key, one in [*self._before_recorded_ends(judged), *self._lost_batches(judged)]:
            every.setdefault(key, []).append(one)
        return every

    def _expected_first(self, key: Queue, first: int) -> int | None:
        if not self._has_all_messages(key):
            return None
        return 0 if self._seen.reader.min_phy_offset == 0 else self._seen.bounds.get(key, (first, first))[0]

    def _has_all_messages(self, key: Queue) -> bool:
        """Return True if a queue must have all messages from its begin on: it is plain, its topic was not deleted."""
        deleted = self._seen.deleted
        if key[0].startswith(LMQ_PREFIX) or key[0] in deleted.unfinished or key[0] in deleted.floors:
            return False
        return key in self._seen.bounds or bool(self._topics.allows(*key))

    def _before_recorded_ends(self, judged: JudgedQueues) -> Iterator[tuple[Queue, LostMessages]]:
        """Yield the missing messages of queues that end before the end that the last orderly stop recorded."""
        seen, record = self._seen, self._seen.record
        if record is None or not seen.is_clean:
            return
        for key, state in record.queues.items():
            at, begin = judged.last_claim(key)
            end = max(at, seen.bounds.get(key, (0, 0))[1])
            expired = record.is_expired(key, seen.reader.min_phy_offset)
            if end < state.end and self._has_all_messages(key) and not expired:
                yield key, LostMessages(end, state.end, begin, seen.end)

    def _lost_batches(self, judged: JudgedQueues) -> Iterator[tuple[Queue, LostMessages]]:
        """Yield messages of BatchCQ topics after the last record that units mark as lost."""
        for key in self._seen.reader.batch_names():
            queue = self._seen.reader.find_batch(*key)
            at, begin = judged.last_claim(key)
            if queue is None or not self._has_all_messages(key):
                continue
            for first in range(queue.first_unit, queue.end_unit, _BLOCK):
                units = queue.units(first, min(first + _BLOCK, queue.end_unit))
                units = units[lost_units(units)]
                units = units[units["msg_base_offset"] >= at]
                if len(units):
                    start, last = int(units["msg_base_offset"][0]), units[-1]
                    stop = int(last["msg_base_offset"]) + int(last["batch_size"])
                    yield key, LostMessages(start, stop, begin, self._seen.end)

    def _list_stray(self, phy_offset: int, why: str, found: Findings) -> int:
        """Report a record with an impossible claim; return 0 if it is reported as damage already."""
        if bool(self._damage.contains(np.array([phy_offset]))[0]):
            return 0
        mapped = self._seen.log_file(phy_offset)
        size = self._seen.reader.record_size_at(phy_offset) or 0
        found.add("lost-message", mapped.path, phy_offset - mapped.file_from_offset, size, why)
        return 1

    def _list_lost(self, key: Queue, lost: LostMessages, found: Findings) -> None:
        """Report messages without a record at the place of their units."""
        batch = key[0] in self._seen.batch_topics
        reader = self._seen.reader
        room = reader.paths.batch_consume_queue if batch else reader.paths.consume_queue
        size = reader.config.mapped_file_size_consume_queue
        position = 0 if batch else lost.first * UNIT_SIZE
        length = 0 if batch else (lost.stop - lost.first) * UNIT_SIZE
        base = position - position % size
        what = (
            f"queue offset {lost.first}"
            if lost.stop == lost.first + 1
            else (f"queue offsets {lost.first} to {lost.stop - 1}")
        )
        path = room / key[0] / str(key[1])
        if not batch:
            path /= f"{base:020d}"
        found.add("lost-message", path, position - base, length, f"{what}: no record of the log has it")
