"""fsck: every record, queue unit and index entry against the log, and the small files. Reads only; works beside a
live writer. Memory does not grow with the store: the log is read in stretches, queues and index in blocks.

Kinds of findings: `record` (damaged bytes of the log: lost), `missing-file` (a gap in the log: lost), `torn-tail`
(bytes behind the end), `blank` (the end mark of a CommitLog file), `missing-unit` / `wrong-unit` (a record that its
queue does not point at), `stray-unit` (a unit without its record), `index-header`, `index-entry`, `index-chain`,
`missing-entry` (a record that the index does not name), `lost-message` (a queue offset that no record has, or a record
that claims one which others refute: lost), `checkpoint`, `config`, `meta`, `offset` (a position behind
its queue's end), `timer` (wheel, log or check of the timer), `file-size`, `foreign-file`. Everything but what is lost
can be made again: `repair`.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.delivery.timer.timer_rows import TIMER_QUEUE_ID
from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
from rocketflow_store.format.batch_unit import BATCH_UNIT_SIZE
from rocketflow_store.format.consume_queue_unit import UNIT_SIZE
from rocketflow_store.fsck.findings import Damage, Finding, FindingList, RangeSet, VerifyResult
from rocketflow_store.fsck.verify_batch import BatchQueueCheck, BatchSum
from rocketflow_store.fsck.verify_index import IndexCheck
from rocketflow_store.fsck.verify_log import ListedTopics, LogContext, LogFileCheck, LogFileReport, QueueReport
from rocketflow_store.fsck.verify_side import (
    check_checkpoint,
    check_config,
    check_files,
    check_meta,
    offsets_beyond,
)
from rocketflow_store.fsck.verify_timer import check_timer
from rocketflow_store.log.record_crc_range import record_crc_range
from rocketflow_store.log.resync import is_whole
from rocketflow_store.log.written_end import written_end
from rocketflow_store.metadata.config_files import ConfigFiles
from rocketflow_store.metadata.native.confirm import read_confirm
from rocketflow_store.metadata.native.deleted_topics import DeletedTopics
from rocketflow_store.metadata.native.known_tag_entries import known_tag_entries
from rocketflow_store.metadata.native.stop_record import believed_record
from rocketflow_store.model.errors import StoreError, UnreadableError
from rocketflow_store.model.topic_names import TIMER_TOPIC
from rocketflow_store.reading.store_reader import StoreReader
from rocketflow_store.recovery.take_stop_record import is_another
from rocketflow_store.views.queues.claimed_places import (
    ClaimedQueues,
    DamagedBytes,
    JudgedClaims,
    KnownPlaces,
    LostMessages,
    Piece,
    RefutedClaim,
    judge_queue,
    refuted_claims,
)
from rocketflow_store.views.queues.consume_queue import lost as lost_units
from rocketflow_store.views.queues.consume_queue import pre_blank, written
from rocketflow_store.views.queues.queue_table import LMQ_PREFIX

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from pathlib import Path

    import numpy.typing as npt

    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.settings.store_config import StoreConfig
    from rocketflow_store.views.queues.consume_queue import ConsumeQueue

    Ints = npt.NDArray[np.int64]
    Queue = tuple[str, int]

__all__ = ["Finding", "VerifyResult", "verify_store"]

_BLOCK: Final = 1 << 16
_ANOTHER_FILE: Final = "is not the file that was here at the last orderly stop"
_MAX_ODD: Final = 1000
"""Units of a block that are looked at one by one."""


class _AnyLength(MappedFileQueue):
    """Takes files of an odd length too, as far as they go."""

    def _usable(self, path: Path) -> bool:
        try:
            return path.is_file() and path.stat().st_size > 0 and int(path.name) % self.file_size == 0
        except FileNotFoundError:
            return False

    def _take(self, offset: int, entry: os.DirEntry[str]) -> None:
        super()._take(offset, entry)
        taken = self._files.get(offset)
        if taken is not None:
            taken.file_size = min(taken.file_size, self.file_size)


class _LenientReader(StoreReader):
    _log_files_type = _AnyLength
    _believes_promises = False


def verify_store(
    path: str | Path,
    config: StoreConfig | None = None,
    *,
    workers: int = 2,
    progress: Callable[[int, int], None] | None = None,
    locked: bool = False,
) -> VerifyResult:
    """Check the whole store, `workers` CommitLog files at a time; `progress(done, total)` is told bytes of log.

    `locked` says that the caller itself holds the store's lock, and that nobody writes.
    """
    began = time.monotonic()
    result = VerifyResult()
    with _LenientReader(path, config) as reader:
        _Verification(reader, result, progress, locked=locked).run(workers)
    result.seconds = time.monotonic() - began
    return result


class _Verification:
    def __init__(
        self,
        reader: StoreReader,
        result: VerifyResult,
        progress: Callable[[int, int], None] | None,
        *,
        locked: bool,
    ) -> None:
        self._reader, self._result, self._progress = reader, result, progress
        self._state = reader.state
        if locked:
            self._state = "unclean" if reader.paths.abort.exists() else "clean"
        confirmed = read_confirm(reader.paths)
        self._end = reader.max_phy_offset
        self._bounds = reader.snapshot().queues
        self._quiet = self._state != "running"
        self._limit = self._end if not self._quiet else max(self._end, written_end(reader.log_files, keep_cached=True))
        self._settled = 0
        if self._state == "clean":
            self._settled = self._limit
        elif confirmed is not None:
            self._settled = self._end if self._state == "running" else min(confirmed.durable_offset, self._end)
        self._record = believed_record(reader.paths)
        self._found = FindingList()
        self._queues: dict[Queue, QueueReport] = {}
        self._batches: dict[Queue, BatchSum] = {}
        self._damage: list[Damage] = []
        self._behind_marks: list[tuple[int, int]] = []
        self._may_exist: Callable[[str, int], bool | None] = lambda topic, queue_id: None
        self._deleted = DeletedTopics.load(reader.paths)
        self._refuted: dict[Queue, list[RefutedClaim]] = {}
        self._lost: dict[Queue, list[LostMessages]] = {}
        self._last_claims: dict[Queue, tuple[int, int]] = {}
        """By queue, the queue offset after the last believed record, and the physical offset of that record."""
        self._done = 0

    def run(self, workers: int) -> None:
        reader, result, found = self._reader, self._result, self._found
        if self._quiet:
            check_files(reader.paths, reader.config, found)
        topics = check_config(reader.paths, found)
        index = IndexCheck(reader.index.files, reader.min_phy_offset, self._end, settled=self._state == "clean")
        index.structure(found, reader.log)
        self._batch_topics = self._find_batch_topics()
        context = LogContext(
            reader,
            index,
            self._settled,
            ListedTopics(topics, self._unlisted_topics()),
            self._bounds,
            self._told,
            self._batch_topics,
            self._find_light_queues(),
            self._deleted.floors,
            record_crc_range(reader.paths),
            known_tag_entries(reader.paths, reader.paths.index),
        )
        files = [one for one in reader.log_files if one.file_from_offset < self._limit]
        with ThreadPoolExecutor(workers) as pool:
            reports = list(pool.map(lambda one: self._log_file(context, one), files))
        for mapped, report in zip(files, reports, strict=True):
            self._take(report)
            if report.end == mapped.file_size:
                self._behind_marks.append((mapped.file_from_offset + report.mark, mapped.end_offset))
        self._gaps(files)
        self._log_ends(files, reports)
        self._damage += [one for report in reports for one in report.heads]
        self._judge(reports, context)
        for topic, queue_id in sorted(self._bounds.keys() | self._queues.keys()):
            self._queue(topic, queue_id)
        self._lost_messages([one for report in reports for one in report.impossible])
        self._units()
        self._check_batch_queues(topics)
        self._index(index, reports)
        self._damages()
        check_meta(reader.paths, reader.config, found)
        if self._quiet:
            # where the last file ended with its blank, the log goes on at the next one, which need not be there
            limit = (
                -(-self._end // reader.config.mapped_file_size_commit_log) * reader.config.mapped_file_size_commit_log
            )
            check_checkpoint(
                reader.paths,
                found,
                limit,
                result.max_store_timestamp,
                settled=self._state == "clean",
                log=reader.log,
                log_end=self._end,
            )
        for key, one in self._queues.items():
            result.queue_ends[key] = max(self._bounds.get(key, (0, 0))[1], one.next_offset)
        if self._quiet:
            offsets_beyond(reader.paths, result.queue_ends, topics, found)
            timer_end = result.queue_ends.get((TIMER_TOPIC, TIMER_QUEUE_ID), 0)
            check_timer(reader.paths, timer_end, self._end, found)
        first = ("record", "missing-file", "lost-message")
        result.findings = sorted(found.listed, key=lambda one: one.kind not in first)
        result.unlisted = found.unlisted
        result.damage = self._damage
        result.strays = {key: one.stray.ranges for key, one in self._queues.items() if one.stray}
        result.end = self._limit if self._state == "clean" else self._end
        result.index_damaged = any(
            one.kind in ("index-header", "index-entry", "index-chain", "missing-entry")
            or (one.kind == "file-size" and one.file.startswith(str(reader.paths.index)))
            for one in found.listed
        )

    def _log_file(self, context: LogContext, mapped: MappedFile) -> LogFileReport:
        limit = min(mapped.file_size, self._limit - mapped.file_from_offset)
        head = self._record.heads.get(mapped.file_from_offset) if self._record is not None else None
        if head is not None and is_another(mapped, head) and is_whole(mapped, 0, mapped.file_size):
            damage = Damage(mapped.file_from_offset, limit, str(mapped.path), 0, _ANOTHER_FILE, replaced=True)
            return LogFileReport(damage=[damage])
        return LogFileCheck(context, mapped, limit).run()

    def _told(self, count: int) -> None:
        self._done += count
        if self._progress is not None:
            self._progress(self._done, self._limit - self._reader.min_phy_offset)

    def _take(self, report: LogFileReport) -> None:
        result = self._result
        result.records += report.records
        result.bytes += report.bytes
        result.without_record_crc += report.without_record_crc
        result.max_store_timestamp = max(result.max_store_timestamp, report.max_store_timestamp)
        result.dispatched_phy_offset = max(result.dispatched_phy_offset, report.dispatched_phy_offset)
        self._damage += report.damage
        for key, one in report.queues.items():
            self._queues.setdefault(key, QueueReport()).update(one)
        for key, batch in report.batches.items():
            self._batches.setdefault(key, BatchSum()).update(batch)

    # -- the log

    def _gaps(self, files: list[MappedFile]) -> None:
        """CommitLog files that are missing between others, and what short ones lack."""
        size = self._reader.config.mapped_file_size_commit_log
        for one, following in pairwise(files):
            if one.end_offset < following.file_from_offset:
                gap = following.file_from_offset - one.end_offset
                where = str(one.path if gap < size else self._reader.paths.commit_log)
                self._damage.append(Damage(one.end_offset, gap, where, one.file_size, "not there", gap=True))

    def _log_ends(self, files: list[MappedFile], reports: list[LogFileReport]) -> None:
        """What looks like damage and is not: an end mark that is missing, and bytes that an unclean stop left."""
        for at, (mapped, report) in enumerate(zip(files, reports, strict=True)):
            if not report.damage:
                continue
            last = report.damage[-1]
            limit = min(mapped.file_size, self._limit - mapped.file_from_offset)
            if last.replaced or last.position + last.length < limit:
                continue
            if at + 1 < len(files):
                last.blank = _is_blank(mapped, last.position + 8, last.position + last.length)
            elif last.phy_offset >= self._settled or not self._claimed(last.phy_offset):
                # nothing tells that this was ever a whole record
                self._damage.remove(last)
                self._found.add("torn-tail", mapped.path, last.position, last.length, last.why)

    def _claimed(self, phy_offset: int) -> bool:
        """Whether a queue's last unit says that a record begins at `phy_offset`."""
        for topic, queue_id in self._bounds:
            queue = self._reader.find(topic, queue_id)
            if queue is not None:
                end = queue.scan_end()
                unit = queue.units(max(end - 1, queue.first_unit), end)
                if len(unit) and int(unit["phy_offset"][-1]) == phy_offset:
                    return True
        return False

    def _damages(self) -> None:
        for one in [one for one in self._damage if one.blank and not one.claims]:
            self._damage.remove(one)
            self._found.add("blank", one.file, one.position, one.length, "the file's end mark is damaged")
        for one in self._damage:
            if not one.gap:
                self._found.add("record", one.file, one.position, one.length, one.why)
            self._result.lost_records += one.lost
        for finding in self._found.listed:
            if finding.kind == "missing-file":
                self._result.lost_records = max(self._result.lost_records, 1)

    # -- queues

    def _queue(self, topic: str, queue_id: int) -> None:
        """Slots that no record of the log asked for: behind damage, stray, or of a record with a damaged header."""
        queue = self._reader.find(topic, queue_id)
        report = self._queues.setdefault((topic, queue_id), QueueReport())
        low, high = self._bounds.get((topic, queue_id), (0, 0))
        light = topic.startswith(LMQ_PREFIX)
        if light:  # of messages that took the same offset, because nobody asked for units, the last has it
            report.wrong.subtract(report.right)
        if queue is None:
            return
        reached = queue.scan_end() if self._settled else high
        if (topic, queue_id) in self._refuted:
            self._forgive(queue, report, self._refuted[topic, queue_id])
        elif report.matched == high - low == max(reached, report.next_offset) - low and not report.wrong:
            return
        stop = max(reached, report.next_offset if self._state == "clean" else 0, high)
        start = max(queue.first_unit, low)
        for first in range(start, stop, _BLOCK):
            units = queue.units_or_zeros(first, min(first + _BLOCK, stop))
            blanks = pre_blank(units) | lost_units(units)
            there = written(units)
            if not light:
                self._note_lost_units(topic, queue_id, first, units, high)
            empty = np.flatnonzero(~there) + first
            if self._settled:
                report.missing.add_numbers(empty[empty < report.next_offset])
            match = np.zeros(len(units), bool)
            match[there & ~blanks] = True
            if light:
                match &= report.right.contains(np.arange(first, first + len(units)))
            else:
                match[match] = self._match(topic, queue_id, first, units)[match]
            real = np.flatnonzero(there & ~blanks)
            hit = real[self._in_damage(units["phy_offset"][real].astype(np.int64), claim=not light)]
            match[hit] = True
            odd = np.flatnonzero(there & ~blanks & ~match)
            odd = odd[~report.wrong.contains(odd + first)]
            if light:
                odd = odd[units["phy_offset"][odd].astype(np.int64) >= self._reader.min_phy_offset]
                odd = odd[units["phy_offset"][odd].astype(np.int64) < self._limit_of_units]
                report.stray.add_numbers(odd + first)
                continue
            for row in odd[:_MAX_ODD].tolist():
                self._odd_unit(queue, first + row, int(units["phy_offset"][row]), int(units["msg_size"][row]), low)
            report.stray.add_numbers(odd[_MAX_ODD:] + first)

    # -- messages that no record is

    def _judge(self, reports: list[LogFileReport], context: LogContext) -> None:
        """Decide which claims of records to queue offsets are believed."""
        self._may_exist = context.topics.allows
        claims = ClaimedQueues()
        for report in reports:
            claims.update(report.claims)
        bounds = {}
        if self._record is not None:
            until = self._record.end_phy_offset
            ends = {**self._record.queues, **self._record.batch_queues}
            bounds = {key: (one.end, until) for key, one in ends.items() if one.end}
        begin = self._reader.min_phy_offset

        def expected_first(key: Queue, first: int) -> int | None:
            if not self._bounds_are_due(key):
                return None
            return 0 if begin == 0 else self._bounds.get(key, (first, first))[0]

        known = KnownPlaces(self._damaged_bytes(), bounds, expected_first, lambda key: key in self._bounds)
        for key, runs in claims:
            if key not in self._bounds and not context.topics.allows(*key):
                if context.topics.allows(*key) is False and key[0] in self._batch_topics:
                    pieces = zip(runs.firsts.tolist(), runs.stops.tolist(), strict=True)
                    strays = [Piece(run, first, stop) for run, (first, stop) in enumerate(pieces)]
                    self._refuted[key] = refuted_claims(JudgedClaims([], strays), runs)
                continue  # of a topic that was deleted, or of a queue that cannot be
            judged = judge_queue(key, runs, known)
            if judged.strays:
                self._refuted[key] = refuted_claims(judged, runs)
            if judged.lost:
                self._lost[key] = judged.lost
            if judged.kept:
                self._last_claims[key] = judged.kept[-1].stop, int(runs.ends[judged.kept[-1].run])

    def _damaged_bytes(self) -> DamagedBytes:
        return DamagedBytes(sorted((one.phy_offset, one.end) for one in self._damage))

    def _forgive(self, queue: ConsumeQueue, report: QueueReport, refuted: list[RefutedClaim]) -> None:
        """Blame the units at refuted claims only if they serve these, or not the message that belongs there."""
        key = queue.topic, queue.queue_id
        report.next_offset = min(report.next_offset, self._last_claims.get(key, (0, 0))[0])
        for claim in refuted:
            for number in range(claim.first, min(claim.stop, claim.first + _MAX_ODD)):
                unit = queue.units(number, number + 1) if number >= queue.first_unit else queue.units(0, 0)
                report.missing.remove(number)
                report.wrong.remove(number)
                if not len(unit) or not written(unit)[0]:
                    continue
                place = int(unit["phy_offset"][0])
                if any(one.begin <= place <= one.end and one.first <= number < one.stop for one in refuted):
                    if not lost_units(unit)[0]:
                        report.wrong.add(number, number + 1)
                elif not lost_units(unit)[0] and not self._match(*key, number, unit)[0]:
                    report.wrong.add(number, number + 1)

    def _note_lost_units(self, topic: str, queue_id: int, first: int, units: npt.NDArray[np.void], high: int) -> None:
        """Note units after the last record of a queue that say that their messages are lost."""
        key = topic, queue_id
        at, begin = self._last_claims.get(key, (0, 0))
        numbers = np.flatnonzero(lost_units(units) & ~self._in_damage(units["phy_offset"].astype(np.int64))) + first
        numbers = numbers[(numbers >= at) & (numbers < high)]
        found = RangeSet()
        found.add_numbers(numbers)
        end = self._end
        self._lost.setdefault(key, []).extend(LostMessages(*one, begin, end) for one in found.ranges)
        if not self._lost[key]:
            del self._lost[key]

    def _lost_messages(self, impossible: list[Damage]) -> None:
        """Report queue offsets that no record has, and records whose claims others refute."""
        damage, lost, strays = self._damaged_bytes(), 0, 0
        self._expect_recorded_ends()
        self._expect_lost_batches()
        for key, messages in sorted(self._lost.items()):
            for one in messages:
                if not damage.explains(one):
                    lost += one.stop - one.first
                    self._list_lost(key, one)
        for key, claims in sorted(self._refuted.items()):
            for claim in claims:
                offsets = f"offset {claim.first}"
                if claim.stop > claim.first + 1:
                    offsets += f" to {claim.stop - 1}"
                why = f"says it is {key[0]} queue {key[1]} {offsets}, which other records refute"
                strays += self._list_stray(claim.begin, why)
        for record in impossible:
            strays += self._list_stray(record.phy_offset, record.why)
        self._result.lost_records += max(lost, strays)

    def _list_stray(self, phy_offset: int, why: str) -> int:
        """Report a record that claims what cannot be; 0 where it is reported as damage already."""
        if bool(self._in_damage(np.array([phy_offset]))[0]):
            return 0
        mapped = next(one for one in self._reader.log_files if one.file_from_offset <= phy_offset < one.end_offset)
        size = self._reader.record_size_at(phy_offset) or 0
        self._found.add("lost-message", mapped.path, phy_offset - mapped.file_from_offset, size, why)
        return 1

    def _list_lost(self, key: Queue, lost: LostMessages) -> None:
        """Report messages that no record is at the place of their units."""
        batch = key[0] in self._batch_topics
        reader = self._reader
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
        self._found.add("lost-message", path, position - base, length, f"{what}: no record of the log has it")

    def _expect_recorded_ends(self) -> None:
        """Note messages before the ends that the last orderly stop recorded, of queues that end before them."""
        record = self._record
        if record is None or self._state != "clean":
            return
        for key, state in record.queues.items():
            end = max(self._last_claims.get(key, (0, 0))[0], self._bounds.get(key, (0, 0))[1])
            if (
                end < state.end
                and self._bounds_are_due(key)
                and not record.is_expired(key, self._reader.min_phy_offset)
            ):
                lost = LostMessages(end, state.end, self._last_claims.get(key, (0, 0))[1], self._end)
                self._lost.setdefault(key, []).append(lost)

    def _expect_lost_batches(self) -> None:
        """Note messages of BatchCQ topics after the last record, where units say that they are lost."""
        for key in self._reader.batch_names():
            queue = self._reader.find_batch(*key)
            at, begin = self._last_claims.get(key, (0, 0))
            if queue is None or not self._bounds_are_due(key):
                continue
            for first in range(queue.first_unit, queue.end_unit, _BLOCK):
                units = queue.units(first, min(first + _BLOCK, queue.end_unit))
                units = units[lost_units(units)]
                units = units[units["msg_base_offset"] >= at]
                if len(units):
                    start, last = int(units["msg_base_offset"][0]), units[-1]
                    stop = int(last["msg_base_offset"]) + int(last["batch_size"])
                    self._lost.setdefault(key, []).append(LostMessages(start, stop, begin, self._end))

    def _bounds_are_due(self, key: Queue) -> bool:
        """Return whether a queue has to hold all messages since it began: it is plain, its topic was not deleted."""
        if key[0].startswith(LMQ_PREFIX):
            return False
        deleted = self._deleted
        if key[0] in deleted.unfinished or key[0] in deleted.floors:
            return False
        return key in self._bounds or bool(self._may_exist(*key))

    def _in_damage(self, phy_offsets: Ints, *, claim: bool = False) -> npt.NDArray[np.bool_]:
        """Which offsets are of bytes known to be damaged; with `claim` the damage counts them as records lost."""
        if not self._damage:
            return np.zeros(len(phy_offsets), bool)
        self._damage.sort(key=lambda one: one.phy_offset)
        starts = np.array([one.phy_offset for one in self._damage], np.int64)
        ends = np.array([one.end for one in self._damage], np.int64)
        at = np.searchsorted(starts, phy_offsets, side="right") - 1
        inside: npt.NDArray[np.bool_] = (at >= 0) & (phy_offsets < ends[at])
        if claim:
            for number in at[inside].tolist():
                self._damage[number].claims += 1
        return inside

    def _match(self, topic: str, queue_id: int, first: int, units: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
        return self._reader.units_match(topic, queue_id, first, units)

    def _odd_unit(self, queue: ConsumeQueue, number: int, phy_offset: int, size: int, low: int) -> None:
        """A unit whose record is not what it says: which of the two is wrong?"""
        if phy_offset < self._reader.min_phy_offset and number <= low:
            return
        if self._header_is_damaged(queue, number, phy_offset, size):
            return
        if self._behind_mark(phy_offset) and self._follows(queue, number, phy_offset):
            base = phy_offset - phy_offset % self._reader.config.mapped_file_size_commit_log
            path = next(one.path for one in self._reader.log_files if one.file_from_offset == base)
            why = "the file's end mark stands in front of it"
            self._damage.append(Damage(phy_offset, size, str(path), phy_offset - base, why, claims=1))
            return
        self._queues[queue.topic, queue.queue_id].stray.add(number, number + 1)
        if self._state == "clean" and phy_offset >= self._limit and self._follows(queue, number, phy_offset):
            self._result.lost_records += 1  # the end of the log is gone

    def _behind_mark(self, phy_offset: int) -> bool:
        """Whether a place is in the part of a log file behind its end mark, where no record should be."""
        return any(start <= phy_offset < stop for start, stop in self._behind_marks)

    def _follows(self, queue: ConsumeQueue, number: int, phy_offset: int) -> bool:
        """Whether a unit points behind the record of the one before it, and in front of the one behind it."""
        before, behind = queue.units(max(number - 1, queue.first_unit), number), queue.units(number + 1, number + 2)
        if len(before) and not pre_blank(before)[0] and int(before["phy_offset"][0]) >= phy_offset:
            return False
        return not (len(behind) and written(behind)[0] and int(behind["phy_offset"][0]) <= phy_offset)

    def _header_is_damaged(self, queue: ConsumeQueue, number: int, phy_offset: int, size: int) -> bool:
        """Whether the record is at fault: it is there, but says that it is another one, which no queue confirms."""
        if self._reader.record_size_at(phy_offset) != size or not self._follows(queue, number, phy_offset):
            return False
        try:
            message = self._reader.log.message_at(phy_offset, size)
        except StoreError:
            return False
        claimed = message.topic, message.queue_id
        at = message.queue_offset
        other = self._reader.find(*claimed) if claimed in self._bounds else None
        unit = other.units(at, at + 1) if other is not None and at >= other.first_unit else None
        if (
            unit is not None
            and len(unit)
            and (int(unit["phy_offset"][0]), int(unit["msg_size"][0]))
            == (
                phy_offset,
                size,
            )
        ):
            return False
        if self._displaced(queue, number, claimed, at):
            return False
        if claimed in self._queues:
            report = self._queues[claimed]
            report.missing.remove(at)
            report.wrong.remove(at)
        why = f"says it is {message.topic} queue {message.queue_id} offset {at}, "
        why += f"which {queue.topic} queue {queue.queue_id} offset {number} points at"
        base = phy_offset - phy_offset % self._reader.config.mapped_file_size_commit_log
        path = next(one.path for one in self._reader.log_files if one.file_from_offset == base)
        self._damage.append(Damage(phy_offset, size, str(path), phy_offset - base, why))
        self._result.records -= 1
        return True

    def _displaced(self, queue: ConsumeQueue, number: int, claimed: Queue, at: int) -> bool:
        """Whether a neighbour of a unit is as far from its place as the unit itself: then the file is at fault."""
        for step in (-1, 1):
            unit = queue.units(max(number + step, queue.first_unit), number + step + 1)
            if not len(unit) or not written(unit)[0] or pre_blank(unit)[0]:
                continue
            try:
                beside = self._reader.log.message_at(int(unit["phy_offset"][0]), int(unit["msg_size"][0]))
            except StoreError:
                continue
            if (beside.topic, beside.queue_id, beside.queue_offset) == (*claimed, at + step):
                return True
        return False

    def _units(self) -> None:
        """The queues' findings, a range of units each."""
        for (topic, queue_id), report in self._queues.items():
            kinds = (("missing-unit", report.missing), ("wrong-unit", report.wrong), ("stray-unit", report.stray))
            directory = self._reader.paths.consume_queue / topic / str(queue_id)
            size = self._reader.config.mapped_file_size_consume_queue
            for kind, numbers in kinds:
                if numbers:
                    self._result.queues.add((topic, queue_id))
                self._list_units(kind, directory, numbers, size, UNIT_SIZE, "queue offset")

    def _list_units(
        self, kind: str, directory: Path, numbers: RangeSet, file_size: int, unit_size: int, name: str
    ) -> None:
        for first, stop in numbers.ranges:
            position, end = first * unit_size, stop * unit_size
            while position < end:
                base = position - position % file_size
                length = min(end, base + file_size) - position
                what = f"{name} {position // unit_size}"
                if length > unit_size:
                    what += f" to {(position + length) // unit_size - 1}"
                self._found.add(kind, directory / f"{base:020d}", position - base, length, what)
                position += length

    # -- queues of BatchCQ topics

    def _find_batch_topics(self) -> frozenset[str]:
        there = {topic for topic, _ in self._reader.batch_names()}
        there |= {topic for topic, _ in self._record.batch_queues} if self._record is not None else set()
        with suppress(StoreError):
            topics = ConfigFiles(self._reader.paths.config).topics.topics()
            there |= {name for name, one in topics.items() if one.is_batch_cq}
        return frozenset(there)

    def _unlisted_topics(self) -> frozenset[str]:
        if self._record is None:
            return frozenset()
        return frozenset(topic for (topic, _), state in self._record.queues.items() if not state.listed)

    def _find_light_queues(self) -> frozenset[str] | None:
        there = {topic for topic, _ in self._bounds if topic.startswith(LMQ_PREFIX)}
        if self._record is None:
            return None if there else frozenset()
        return frozenset(there | {topic for topic, _ in self._record.queues if topic.startswith(LMQ_PREFIX)})

    @property
    def _limit_of_units(self) -> int:
        """Units of records behind this offset may be what an unclean stop left."""
        return 1 << 62 if self._state == "clean" else self._settled

    def _check_batch_queues(self, topics: dict[str, int] | None) -> None:
        reader, low = self._reader, self._reader.min_phy_offset
        damage = sorted((one.phy_offset, one.end) for one in self._damage)
        settled = self._limit_of_units
        for key in sorted({*reader.batch_names(), *self._batches}):
            queue, told = reader.find_batch(*key), self._batches.get(key, BatchSum())
            if queue is None and topics is not None and key[0] not in topics:
                continue  # of a topic that was deleted
            refuted = self._refuted.get(key, ())
            if refuted:
                told.next_offset = self._last_claims.get(key, (0, 0))[0]
            check = BatchQueueCheck(
                reader, key, low, settled, damage, lambda at: self._in_damage(at, claim=True), refuted
            )
            high = queue.bounds(0)[1] if queue is not None else 0
            self._result.queue_ends[key] = max(high, told.next_offset)
            if check.is_sound(told):
                continue
            ranges = check.ranges()
            directory = reader.paths.batch_consume_queue / key[0] / str(key[1])
            size = queue.file_size if queue is not None else reader.config.mapper_file_size_batch_consume_queue
            for kind, numbers in (
                ("missing-unit", ranges.missing),
                ("wrong-unit", ranges.wrong),
                ("stray-unit", ranges.stray),
            ):
                if numbers:
                    self._result.batch_queues.add(key)
                self._list_units(kind, directory, numbers, size, BATCH_UNIT_SIZE, "unit")

    # -- index

    def _index(self, index: IndexCheck, reports: list[LogFileReport]) -> None:
        keys = 0
        for report in reports:
            keys += report.index.keys
            damaged = self._in_damage(np.array([one[2] for one in report.index.wrong], np.int64))
            for (number, entry, phy_offset), lost in zip(report.index.wrong, damaged.tolist(), strict=True):
                if not lost:
                    position = index.entry_position(number, entry)
                    what = f"entry {entry} names {phy_offset}: no record with this key and time there"
                    self._found.add("index-entry", index.path_of(number), position, 20, what)
            damaged = self._in_damage(np.array(report.index.missing, np.int64))
            for phy_offset, lost in zip(report.index.missing, damaged.tolist(), strict=True):
                if not lost:
                    mapped = next(
                        one for one in self._reader.log_files if one.file_from_offset <= phy_offset < one.end_offset
                    )
                    position = phy_offset - mapped.file_from_offset
                    size = self._reader.record_size_at(phy_offset) or 0
                    self._found.add(
                        "missing-entry", mapped.path, position, size, "the index lacks a key of this record"
                    )
        if not self._reader.index.files and keys and self._state == "clean" and self._had_index():
            why = "no index file is there, messages have keys (a store without: --config, messageIndexEnable=false)"
            self._found.add("missing-entry", self._reader.paths.index, 0, 0, why)
        if self._state == "unclean":
            self._not_made_again(any(report.keyed for report in reports))

    def _had_index(self) -> bool:
        """Return whether the store's last writer kept an index: as it recorded, else as RocketMQ does by default."""
        paths = self._reader.paths
        if paths.index.is_dir() or self._reader.checkpoint.index_msg_timestamp > 0:
            return True
        if self._record is not None:
            return self._record.index is not None
        return self._reader.config.message_index_enable

    def _not_made_again(self, keyed: bool) -> None:
        """What a store that was not stopped in order lacks altogether: the next open makes it again."""
        paths, found = self._reader.paths, self._found
        if not self._reader.index.files and keyed and self._reader.config.message_index_enable:
            why = "no index file is there, and messages have keys; the next open makes them"
            found.add("missing-entry", paths.index, 0, 0, why)
        if self._result.records and not self._bounds:
            why = "no queue is there, and the log has messages; the next open makes them again"
            found.add("missing-unit", paths.consume_queue, 0, 0, why)
            return
        for (topic, queue_id), report in sorted(self._queues.items()):
            if report.unserved:
                why = f"it is not there, and the log has {report.unserved} messages of it; the next open makes it again"
                found.add("missing-unit", paths.consume_queue / topic / str(queue_id) / f"{0:020d}", 0, 0, why)


def _is_blank(mapped: MappedFile, start: int, stop: int) -> bool:
    """Whether bytes of a log file can be read, and are zeros."""
    try:
        return not np.frombuffer(mapped.bytes_of(min(start, stop), stop), np.uint8).any()
    except UnreadableError:
        return False
