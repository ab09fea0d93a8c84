"""Bringing a store that stopped to a state that can be appended to, whatever stopped it.

What is looked at:  after a clean stop only what lies behind the last queue unit; after an unclean stop of ours
everything behind the durable frontier; after an unclean stop of another writer the whole log. Wall-clock times decide
nothing.

What is done:       the first bad record behind the last good one is a torn tail: cut, zeroed, synced. A sink commit
whose rows do not reach its end is cut at its envelope. Every valid record looked at is dispatched again (its unit and
index entries are a function of the record, so this changes nothing that is right). Queue units behind the end go.
Bytes that are cut and still hold valid records are kept in `quarantine/` first.

Damage is told from a torn tail by what was synced: below the offset up to which the log is known to be, and anywhere
after a clean stop, bad bytes are damage. They stay, what is behind them is served, and the slots of their messages get
units that point at them. A store with a gap in its log is refused: reading it goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.files.mapped.mapped_file import file_name
from rocketflow_store.format.consume_queue_unit import UNIT_DTYPE, UNIT_SIZE
from rocketflow_store.format.light_queue_properties import LMQ_QUEUE_ID
from rocketflow_store.log.log_walk import sound_records
from rocketflow_store.log.resync import (
    is_end_blank,
    is_whole,
    next_own_offset,
    next_proven,
    next_sound,
    unknown_record_size,
)
from rocketflow_store.log.scan_file import RunLength, scan_file
from rocketflow_store.log.written_end import written_end
from rocketflow_store.metadata.native.commit_envelope import COMMIT_TOPIC, envelope_of
from rocketflow_store.metadata.native.deleted_topics import DeletedTopics
from rocketflow_store.model.errors import CorruptRecordError, StoreVersionError
from rocketflow_store.records.decoding.decode import QueueIdentity, RecordColumns
from rocketflow_store.records.decoding.dispatch_rows import rows_of_records
from rocketflow_store.records.decoding.record_crc import judge_contents, note_lacking
from rocketflow_store.records.decoding.scan import Scan, ScanStop
from rocketflow_store.recovery.quarantine import CUT, LOST, QUARANTINED, Quarantine
from rocketflow_store.recovery.take_stop_record import is_another
from rocketflow_store.views.queues.claimed_places import (
    ClaimedQueues,
    DamagedBytes,
    KnownPlaces,
    RefutedClaim,
    are_refuted,
    judge_queue,
    refuted_claims,
)
from rocketflow_store.views.queues.consume_queue import pre_blank, written
from rocketflow_store.views.queues.queue_holes import (
    blank_slots,
    fill_head,
    fill_holes,
    leave_out_deleted,
    leave_out_impossible,
    leave_out_strays,
    lost_slots,
)
from rocketflow_store.views.queues.stand_in import LogExtent
from rocketflow_store.views.queues.unit_boundaries import UnitBoundaries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.metadata.native.commit_envelope import CommitEnvelope
    from rocketflow_store.metadata.native.confirm import Confirmed
    from rocketflow_store.metadata.native.stop_record import StopRecord
    from rocketflow_store.records.decoding.dispatch_rows import DispatchRows
    from rocketflow_store.recovery.derived_state import LostState
    from rocketflow_store.views.dispatch.dispatcher import Dispatcher
    from rocketflow_store.views.queues.batch_consume_queue import BatchQueueTable
    from rocketflow_store.views.queues.consume_queue import ConsumeQueue
    from rocketflow_store.views.queues.queue_table import FileQueueTable

NO_OFFSET: Final = 1 << 62
_END: Final = "end of the log"
_MAX_KNOWN_RECORDS: Final = 1 << 22
"""Of so many records it is kept where they begin, from one pass to the next: 16 bytes each."""
_ROWS_AT_ONCE: Final = 1 << 16
_UNITS_AT_ONCE: Final = 1 << 12


@dataclass(slots=True)
class Quarantined:
    """A byte range of the log that holds no valid record but has valid ones behind it, or that was cut."""

    file: str
    offset: int
    length: int
    why: str


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
    newest_timestamp: int = 0
    """Store time (ms) of the newest record that was looked at, or of which the last writer told and that is there."""
    told_timestamp: int = 0
    """As the last writer told, though the record may be gone: no later one may fall behind it."""
    indexed_from: int = 0
    """Physical offset from which on this recovery wrote the index entries."""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where the valid log ends, and up to where bytes were seen that looked like records."""

    offset: int
    seen: int
    why: str


class Recovery:
    """One recovery of one store."""

    def __init__(
        self,
        paths: StorePaths,
        files: MappedFileQueue,
        log: CommitLogView,
        queues: FileQueueTable,
        batch_queues: BatchQueueTable,
        delay_levels_ms: Sequence[int],
        *,
        check_crc: bool,
        max_message_size: int,
    ) -> None:
        self._paths, self._files, self._log = paths, files, log
        self._queues, self._batch_queues = queues, batch_queues
        self._delay_levels_ms, self._check_crc = delay_levels_ms, check_crc
        self.quarantined: list[Quarantined] = []
        self.newest_timestamp = 0
        """Store time (ms) of the newest record that was dispatched."""
        self._settled = 0
        """The log below was synced, as far as there are files."""
        self._synced = 0
        self._clean = False
        self._skipped: list[tuple[int, int]] = []
        self._known_end = 0
        """Where the log ended at the last orderly stop, 0 where that is not known (or anybody wrote since)."""
        self._rebuild = False
        self._lost_queues: frozenset[tuple[str, int]] = frozenset()
        self._deleted_topics: frozenset[str] = frozenset()
        self._floors = DeletedTopics.load(paths).floors
        self._record_crc_from = NO_OFFSET
        self._known_scans: dict[int, Scan] = {}
        self._known_records = 0
        self._run_length = RunLength()
        self._boundaries = UnitBoundaries(queues.all, max_message_size)
        self._open_envelope = self._open_end = -1
        """An envelope of which not all rows are seen yet, and where its commit ends."""
        self._written: int | None = None
        self._protected_until = 0
        """Records of a commit with record CRCs go on up to here."""
        self._synced_ends: dict[tuple[str, int], int] = {}
        self._recorded: frozenset[tuple[str, int]] = frozenset()
        """Queues that had messages at the last orderly stop."""
        self._holed: set[tuple[str, int]] = set()
        """Queues that lack messages of which no damage tells."""
        self._heads: dict[tuple[str, int], int] = {}
        """Where queues begin that lack their first messages."""

    def scan_start(self, abort_found: bool, confirmed: Confirmed | None, lost: LostState | None = None) -> int:
        """Where to begin to look at the log: at its begin where queues or index were `lost`.

        StoreVersionError where a file of the log is missing or misplaced.
        """
        record = None if lost is None else lost.record
        refuse_unfit(self._paths, self._files, record)
        start, last = self._log.min_phy_offset, self._files.last
        if lost is not None:
            unfinished = lost.unfinished.queues if lost.unfinished is not None else frozenset()
            self._rebuild, self._lost_queues = bool(lost), frozenset(lost.queues) | unfinished
            self._deleted_topics = lost.deleted_topics
        if record is not None:
            self._recorded = frozenset(key for key, one in record.queues.items() if one.end)
        if record is not None and not abort_found:
            self._known_end = min(record.end_phy_offset, last.end_offset if last else 0)
        if confirmed is not None and confirmed.record_crc_from >= 0:
            self._record_crc_from = confirmed.record_crc_from
        self._settle(abort_found, confirmed, record)
        if self._rebuild:
            return start
        end = last.end_offset if last else 0
        if confirmed is not None:
            return max(start, confirmed.durable_offset) if confirmed.durable_offset <= end else start
        return start if abort_found else max(start, self._queues.max_unit_end(), self._batch_queues.max_unit_end())

    def _settle(self, abort_found: bool, confirmed: Confirmed | None, record: StopRecord | None) -> None:
        last = self._files.last
        end = last.end_offset if last else 0
        self._clean = not abort_found
        if self._clean and self._paths.meta.exists():
            self._settled = end  # we leave nothing behind the end when we close
        elif confirmed is not None:
            self._synced = confirmed.synced_offset
            self._settled = min(self._synced, end)
        if record is not None:
            self._settled = max(self._settled, min(record.end_phy_offset, end))

    def find_end(self, start: int, *, foreign: bool) -> LogEnd:
        """The end of the valid log, looking from `start` (a record boundary) on; changes nothing.

        Damage is passed over and listed. With `foreign` (an unclean stop of a writer that kept no frontier) it is
        told from a torn tail by evidence: a queue unit behind it whose record is whole.
        """
        offset: int | None = start
        while offset is not None:
            seen, why, offset = self._go_on(offset, foreign=foreign)
        if self._open_envelope >= 0:
            return LogEnd(self._open_envelope, seen, "a sink commit whose rows do not reach its end")
        return LogEnd(seen, seen, why)

    def _go_on(self, offset: int, *, foreign: bool) -> tuple[int, str, int | None]:
        """Walk from `offset`, past records whose contents are damaged, to where nothing tells how it goes on.

        That place, why, and where the log goes on behind it (None: it ends there).
        """
        for mapped, records, judged in self._walk(offset):
            begins = mapped.file_from_offset + np.append(records.positions, records.positions[-1] + records.sizes[-1])
            row = 0
            for fault in sorted(records.faults):
                if fault < row:
                    continue  # in what was passed by
                self._look_for_envelope(records, row, fault, mapped)
                at, why = int(begins[fault]), records.faults[fault]
                following = self._pass_by(at, why, foreign=foreign)
                if following is None:
                    return at, why, None
                row = int(begins.searchsorted(following))
                if row > judged or begins[row] != following:
                    return at, why, following
            self._look_for_envelope(records, row, records.count, mapped)
            offset = int(begins[-1])
        offset = self._after_blank(offset)
        return offset, _END, self._pass_by(offset, _END, foreign=foreign)

    def _pass_by(self, offset: int, why: str, *, foreign: bool) -> int | None:
        """Where the log goes on behind bad bytes at `offset`, which are listed; None where they are the torn tail."""
        following = self._behind_damage(offset, foreign=foreign)
        if following is None:
            return None
        if self._skipped and self._skipped[-1][1] == offset:
            self._skipped[-1] = self._skipped[-1][0], following
        else:
            self._skipped.append((offset, following))
        if not self._is_unused_rest(offset, following):
            last = self.quarantined[-1] if self.quarantined else None
            if last is not None and last.offset + last.length == offset:
                last.length += following - offset
            else:
                length = following - offset
                self.quarantined.append(Quarantined(self._file_name(offset), offset, length, f"damaged ({why})"))
        return following

    def _behind_damage(self, offset: int, *, foreign: bool) -> int | None:
        """Where the log goes on behind bad bytes at `offset`; None where they are the torn tail."""
        reached = max(self._written_end(), offset)
        if offset < self._known_end:
            following = self._next_proven(offset, self._known_end)
            return self._known_end if following is None else following
        if reached == offset:
            return None
        unknown = self._unknown_form(offset)
        if unknown is not None:
            return unknown
        if offset < self._settled:
            following = self._next_proven(offset, reached) if self._next_sound(offset, reached) is not None else None
            if following is not None:
                return following
            return self._claimed_end(offset) if self._clean else None  # nothing is left to be served behind it
        evidence = self._whole_record_behind(offset) if foreign or self._clean else None
        if evidence is None:
            return None
        following = self._next_proven(offset, reached)
        return evidence if following is None else min(following, evidence)

    def _unknown_form(self, offset: int) -> int | None:
        """The end of a whole record of a kind that this version does not know: it is kept, and no torn tail."""
        mapped = self._files.find(offset)
        size = 0 if mapped is None else unknown_record_size(mapped, offset - mapped.file_from_offset)
        return offset + size if size else None

    def _next_proven(self, offset: int, reached: int) -> int | None:
        """Return the next place after damage at `offset` where a record is proven to begin, None if none before
        `reached`.

        Where nothing proves one before the end of a file, it is the next file's begin. In the last file it is where
        the log was known to end, or the file's end: what comes next then goes to a new file.
        """
        mapped = self._files.find(offset)
        if mapped is None:
            return None
        base, limit = mapped.file_from_offset, mapped.file_size
        if self._known_end == reached:
            limit = min(limit, reached - base)
        found = next_proven(mapped, offset - base, limit, self._boundaries)
        if found is not None:
            return base + found if base + found < reached else None
        if mapped.end_offset < reached or not offset < self._synced <= reached:
            return mapped.end_offset if self._known_end != reached or mapped.end_offset < reached else None
        return self._synced

    def _next_sound(self, offset: int, reached: int) -> int | None:
        """Return the next place after `offset` and below `reached` that looks like a record; it may be in a body."""
        mapped = self._files.find(offset)
        position = offset - mapped.file_from_offset if mapped else 0
        while mapped is not None:
            limit = min(mapped.file_size, reached - mapped.file_from_offset)
            found = next_sound(mapped, position, limit)
            if found is not None:
                return mapped.file_from_offset + found
            mapped, position = self._files.find(mapped.end_offset), 0
            if mapped is None or mapped.file_from_offset >= reached:
                return None
            if is_end_blank(mapped, 0) or is_whole(mapped, 0, mapped.file_size):
                return mapped.file_from_offset
        return None

    def _claimed_end(self, offset: int) -> int | None:
        """The end of the record that a queue's last unit says begins at `offset`."""
        mapped = self._files.find(offset)
        for queue in self._queues.all():
            end = queue.scan_end()
            unit = queue.units(max(end - 1, queue.first_unit), end)
            if len(unit) and int(unit["phy_offset"][-1]) == offset and mapped is not None:
                return min(offset + int(unit["msg_size"][-1]), mapped.end_offset)
        return None

    def _is_unused_rest(self, start: int, stop: int) -> bool:
        """Whether [start, stop) is the rest of a file that lacks its end mark, and nothing else."""
        mapped = self._files.find(start)
        if mapped is None or stop != mapped.end_offset:
            return False
        rest = mapped.bytes_of(min(start - mapped.file_from_offset + 8, mapped.file_size), mapped.file_size)
        return not np.frombuffer(rest, np.uint8).any()

    def _walk(self, start: int) -> Iterator[tuple[MappedFile, RecordColumns, int]]:
        """Checked runs of records from `start` on, and how many of each were looked at whole.

        Nothing is right behind those: where it goes on has to be told.
        """
        offset = start
        while True:
            mapped = self._files.find(offset)
            if mapped is None:
                return
            scan = scan_file(mapped, offset - mapped.file_from_offset, mapped.file_size, self._run_length.records)
            if self._known_records + len(scan.positions) <= _MAX_KNOWN_RECORDS:
                self._known_records += len(scan.positions)
                self._known_scans[offset] = scan
            if len(scan.positions):
                records = RecordColumns(mapped.buffer, scan.positions, scan.sizes)
                records.check_own_offset(mapped.file_from_offset)
                judged = min(records.faults, default=records.count)
                self._run_length.judged(sound=judged == records.count)
                if self._check_crc:
                    records.faults.update(self._content_faults(mapped, records.before_faults()))
                yield mapped, records, judged
            offset = mapped.file_from_offset + scan.end
            if scan.stop is ScanStop.BLANK:
                offset = mapped.end_offset
            elif scan.stop is ScanStop.END:
                return

    def _content_faults(self, mapped: MappedFile, records: RecordColumns) -> dict[int, str]:
        """What is wrong with the contents of records that are where they should be."""
        faults, protected = judge_contents(records)
        places = records.positions + mapped.file_from_offset
        must = (places >= self._record_crc_from) | (places < self._protected_until)
        for envelope_row, commit in self._commits_in(records, 0, records.count, mapped):
            if envelope_row not in faults and commit.record_crc:
                self._protected_until = commit.end_offset
                must[envelope_row:] |= places[envelope_row:] < self._protected_until
        note_lacking(faults, must & ~protected)
        return faults

    def _after_blank(self, offset: int) -> int:
        """The next file's begin where a blank record stands at `offset`."""
        mapped = self._files.find(offset)
        if mapped is None:
            return offset
        scan = scan_file(mapped, offset - mapped.file_from_offset, mapped.file_size, 1)
        return mapped.end_offset if scan.stop is ScanStop.BLANK and len(scan.positions) == 0 else offset

    def _look_for_envelope(self, records: RecordColumns, begin: int, stop: int, mapped: MappedFile) -> None:
        """Note an envelope whose rows are not all seen with these records, or that those of the last one are."""
        base = mapped.file_from_offset
        last = base + int(records.positions[stop - 1] + records.sizes[stop - 1]) if stop > begin else -1
        if self._open_envelope >= 0:
            if last < self._open_end:
                return
            self._open_envelope = -1
        for row, envelope in self._commits_in(records, begin, stop, mapped):
            if envelope.end_offset > last:
                self._open_end, self._open_envelope = envelope.end_offset, base + int(records.positions[row])
                return

    def _commits_in(
        self, records: RecordColumns, begin: int, stop: int, mapped: MappedFile
    ) -> Iterator[tuple[int, CommitEnvelope]]:
        """The envelopes among rows [begin, stop), by row."""
        width = len(COMMIT_TOPIC)
        sizes = records.topic_ends[begin:stop] - records.topic_starts[begin:stop]
        for row in (begin + np.flatnonzero(sizes == width)).tolist():
            at = int(records.topic_starts[row])
            if records.octets[at : at + width].tobytes() != COMMIT_TOPIC.encode():
                continue
            try:
                message = self._log.message_at(mapped.file_from_offset + int(records.positions[row]))
            except CorruptRecordError:
                continue  # it is damaged itself
            envelope = envelope_of(message)
            if envelope is not None:
                yield row, envelope

    def _whole_record_behind(self, offset: int) -> int | None:
        """A place behind `offset` where a queue (its first unit behind it, else its last) rightly says a record is."""
        best: int | None = None
        for queue in self._queues.all():
            start, end = queue.first_unit, queue.scan_end()
            while start < end:  # first unit behind offset
                middle = (start + end) // 2
                unit = queue.units(middle, middle + 1)
                if len(unit) and int(unit["phy_offset"][0]) <= offset:
                    start = middle + 1
                else:
                    end = middle
            last = queue.scan_end() - 1
            for number in (start, last) if last > start else (start,):
                phy_offset = self._whole_record_of(queue, number)
                if phy_offset is not None and phy_offset > offset:
                    best = phy_offset if best is None else min(best, phy_offset)
                    break
        return best

    def _whole_record_of(self, queue: ConsumeQueue, number: int) -> int | None:
        """Where the record of a unit is, None where it is not whole."""
        units = queue.units(number, number + 1)
        identity = QueueIdentity(queue.topic, queue.queue_id, "")
        if not len(units) or pre_blank(units)[0] or not self._log.matches(units, number, identity)[0]:
            return None
        phy_offset = int(units["phy_offset"][0])
        mapped = self._files.find(phy_offset)
        whole = mapped is not None and is_whole(mapped, phy_offset - mapped.file_from_offset, mapped.file_size)
        return phy_offset if whole else None

    def dispatch(self, start: int, end: int, dispatcher: Dispatcher) -> int:
        """Dispatch every valid record of [start, end); how many there were. Damage is kept, and its slots filled."""
        count = 0
        ends: dict[tuple[str, int], int] = {}
        waiting: list[DispatchRows] = []
        claims, known_before = ClaimedQueues(), frozenset(self._queues.names())
        for mapped, records in self._sound_records(start, end):
            rows = rows_of_records(records, mapped.file_from_offset, self._delay_levels_ms)
            self._leave_out(rows)
            claims.add(rows)
            leave_out_strays(rows)
            waiting.append(rows)
            self.newest_timestamp = max(self.newest_timestamp, int(rows.store_timestamps.max()))
            if sum(len(one.phy_offsets) for one in waiting) >= _ROWS_AT_ONCE:
                dispatcher.dispatch_all(waiting)
                waiting = []
            count += records.count
            if self._skipped or self._lost_queues:
                for code, key in enumerate(rows.queues):
                    mine = rows.queue_offsets[rows.queue_of == code]
                    ends[key] = max(ends.get(key, 0), int(mine.max()) + 1 if len(mine) else 0)
                for _, name, queue_offset in rows.lmq:
                    light = name, LMQ_QUEUE_ID
                    ends[light] = max(ends.get(light, 0), queue_offset + 1)
        if waiting:
            dispatcher.dispatch_all(waiting)
        self._judge(claims, known_before, ends, start, end)
        self._keep_damage(ends, end)
        return count

    def _leave_out(self, rows: DispatchRows) -> None:
        """Take records of deleted topics out of the queues, and those that cannot be where they claim."""
        leave_out_deleted(rows, self._floors)
        for code, (topic, _) in enumerate(rows.queues):
            if topic in self._deleted_topics:
                rows.queue_of[rows.queue_of == code] = -1
        leave_out_impossible(rows)

    def _judge(
        self,
        claims: ClaimedQueues,
        known_before: frozenset[tuple[str, int]],
        ends: dict[tuple[str, int], int],
        start: int,
        end: int,
    ) -> None:
        """Take units back whose records claim what others refute; note them, and the messages that no record is.

        `ends` gets the ends of queues that lack messages.
        """
        refuted: dict[tuple[str, int], list[RefutedClaim]] = {}
        damage = DamagedBytes(self._skipped)

        def expected_first(key: tuple[str, int], _: int) -> int | None:
            made = key in self._lost_queues or key not in known_before
            return 0 if start == 0 and made and key[0] not in self._floors else None

        known = KnownPlaces(damage, {}, expected_first, lambda key: key in known_before or key in self._recorded)
        for key, runs in claims:
            judged = judge_queue(key, runs, known)
            if judged.kept and judged.lost and judged.lost[0].stop == judged.kept[0].first:
                self._heads[key] = judged.kept[0].first
            lost = judged.lost
            if not judged.kept and key not in known_before and self._queues.find(*key) is not None:
                self._queues.remove_queue(*key)
            if judged.strays:
                refuted[key] = refuted_claims(judged, runs)
            lost = [one for one in lost if not damage.explains(one)]
            if not judged.kept:
                ends.pop(key, None)
            elif lost or judged.strays:
                ends[key] = max(ends.get(key, 0), judged.kept[-1].stop)
                self._holed.add(key)
            for claim in refuted.get(key, []):
                why = (
                    f"lost: says it is queue offset {claim.first} of {key[0]}, queue {key[1]}; other records refute it"
                )
                self.quarantined.append(Quarantined(self._file_name(claim.begin), claim.begin, 0, why))
            for one in lost:
                why = f"lost: no record has queue offsets {one.first} to {one.stop - 1} of {key[0]}, queue {key[1]}"
                self.quarantined.append(Quarantined(self._file_name(one.begin), one.begin, 0, why))
        if refuted:
            self._take_back(refuted, start, end)

    def _take_back(self, refuted: dict[tuple[str, int], list[RefutedClaim]], start: int, end: int) -> None:
        """Give slots that refuted claims took the units of the records that belong there, if any."""
        found = {key: self._queues.find(*key) for key in refuted}
        queues = {key: queue for key, queue in found.items() if queue is not None}
        for key, queue in queues.items():
            for one in refuted[key]:
                first, stop = max(one.first, queue.first_unit), min(one.stop, queue.behind_files)
                if first < stop:
                    queue.put_bytes(first, bytes(UNIT_SIZE * (stop - first)))
        for mapped, records in self._sound_records(start, end):
            rows = rows_of_records(records, mapped.file_from_offset, self._delay_levels_ms)
            self._leave_out(rows)
            for code, key in enumerate(rows.queues):
                if key not in queues:
                    continue
                mine = np.flatnonzero(rows.queue_of == code)
                offsets, wanted = rows.queue_offsets[mine], np.zeros(len(mine), bool)
                for one in refuted[key]:
                    wanted |= (offsets >= one.first) & (offsets < one.stop)
                wanted &= ~are_refuted(refuted[key], offsets, rows.phy_offsets[mine])
                for row in mine[wanted].tolist():
                    unit = np.zeros(1, UNIT_DTYPE)
                    unit["phy_offset"], unit["msg_size"] = rows.phy_offsets[row], rows.sizes[row]
                    unit["tags_code"] = rows.tags_codes[row]
                    queues[key].put(int(rows.queue_offsets[row]), unit)

    def _keep_damage(self, ends: dict[tuple[str, int], int], log_end: int) -> None:
        """Copies of what stays damaged, and units for the slots that it left empty below `ends`."""
        log = LogExtent(self._log.min_phy_offset, log_end, self._log.file_size)
        quarantine = Quarantine(self._paths)
        for one in self.quarantined:
            mapped = self._files.find(one.offset)
            if mapped is not None and not one.why.startswith(("cut", "lost")):
                position = one.offset - mapped.file_from_offset
                length = min(one.length, mapped.file_size - position)
                data = mapped.bytes_of(position, position + length)
                kept = quarantine.keep(f"commitlog/{one.offset:020d}.record", data)
                quarantine.note(QUARANTINED, one.file, position, length, one.why, kept)
        for key, end in ends.items():
            queue = self._queues.find(*key)
            if queue is not None and (self._skipped or key in self._lost_queues or key in self._holed):
                if key in self._heads:
                    fill_head(queue, 0, self._heads[key], self._skipped, log)
                fill_holes(queue, end, self._skipped, log)

    def keep_ends(self, lost: LostState, end: int) -> list[tuple[str, int]]:
        """Give no queue offset that was synced a second time: slots behind a queue's end name lost bytes.

        `end` is the log's; the queues that have fewer messages than they had.
        """
        self._note_lost(lost, end)
        log = LogExtent(self._log.min_phy_offset, end, self._log.file_size)
        record = lost.record
        of_batches = dict(lost.ends)
        ends = dict(self._synced_ends)
        for key, wanted in lost.ends.items():
            ends[key] = max(ends.get(key, 0), wanted)
        if record is not None:
            for known, queues in ((ends, record.queues), (of_batches, record.batch_queues)):
                for key, state in queues.items():
                    known[key] = max(known.get(key, 0), state.end)
        shrunk = []
        for key, wanted in ends.items():
            if self._queues.find(*key) is not None or key in self._lost_queues:
                there = self._queues.end(*key)
                if there < wanted and end > 0:
                    if there == 0 and record is not None and record.is_expired(key, self._log.min_phy_offset):
                        blank_slots(self._queues.add(*key), there, wanted)
                    else:
                        lost_slots(self._queues.add(*key), there, wanted, self._skipped, log)
                    self._queues.forget_queue(*key)
                    shrunk.append(key)
        for key, wanted in of_batches.items():
            batch_queue = self._batch_queues.find(*key)
            if batch_queue is not None and batch_queue.fill_lost(wanted, log):
                shrunk.append(key)
        return shrunk

    def _note_lost(self, lost: LostState, end: int) -> None:
        """Say which bytes are gone that were there at the last orderly stop."""
        record = lost.record
        if record is None:
            return
        begin = self._log.min_phy_offset
        gone = [(end, record.end_phy_offset, "the end of the log is gone")]
        if self._clean and lost.same_writer:
            gone.append((record.min_phy_offset, begin, "the begin of the log is gone, and retention did not take it"))
        for start, stop, why in gone:
            if start < stop:
                path = self._paths.commit_log / file_name(start)
                Quarantine(self._paths).note(LOST, path, start, stop - start, why)
                self.quarantined.append(Quarantined(str(path), start, stop - start, f"lost: {why}"))

    def cut(self, end: LogEnd) -> tuple[int, int]:
        """Drop everything at or behind the log's end; (from, to) of what was there, equal where nothing was."""
        offset = end.offset
        last = self._files.find(offset)
        boundary = offset if last is None or last.file_from_offset == offset else last.end_offset
        reached = self.written_end(offset)
        acked = not self._clean and offset < self._settled
        if end.seen > offset or (reached > offset and (acked or self._next_sound(offset, reached) is not None)):
            self._keep_evidence(offset, max(end.seen, reached), end.why)
        self._files.drop_from(boundary)
        if last is not None and last.file_from_offset < boundary and offset < last.end_offset:
            last.zero_from(offset - last.file_from_offset)
        return reached, offset

    def _written_end(self) -> int:
        """Behind the last byte of the log that is not zero, as long as nothing is changed."""
        if self._written is None:
            self._written = self.written_end(0)
        return self._written

    def written_end(self, offset: int) -> int:
        """Physical offset behind the last byte that is not zero at or behind `offset`; `offset` where there is none."""
        return written_end(self._files.files, offset)

    def count(self, start: int, end: int) -> int:
        """Records in [start, end) that `dispatch` would take."""
        return sum(records.count for _, records in self._sound_records(start, end))

    def _sound_records(self, start: int, end: int) -> Iterator[tuple[MappedFile, RecordColumns]]:
        return sound_records(self._files.files, end, self._skipped, start=start, scans=self._known_scans)

    def cut_queues(self, end: int) -> None:
        """Forget units of records at or behind `end`, and zero what a crash left behind the queues' ends."""
        for queue in self._queues.all():
            if end < self._synced or self._skipped:  # units at a queue's end may point into damage
                self._synced_ends[queue.topic, queue.queue_id] = self._synced_end(queue)
            self._queues.forget_queue(queue.topic, queue.queue_id)
            stop = self._queues.end(queue.topic, queue.queue_id, end)
            queue.truncate(stop)
            self._queues.forget_queue(queue.topic, queue.queue_id)

    def _synced_end(self, queue: ConsumeQueue) -> int:
        """Behind the last unit whose record was synced, whatever became of it."""
        number = queue.scan_end()
        while number > queue.first_unit:
            start = max(number - _UNITS_AT_ONCE, queue.first_unit)
            units = queue.units_or_zeros(start, number)
            synced = np.flatnonzero(written(units) & (units["phy_offset"] < self._synced))
            if len(synced):
                return start + int(synced[-1]) + 1
            number = start
        return number

    def _keep_evidence(self, start: int, stop: int, why: str) -> None:
        """Copy log bytes [start, stop) to the quarantine before they are cut."""
        quarantine = Quarantine(self._paths)
        offset = start
        while offset < stop:
            mapped = self._files.find(offset)
            if mapped is None:
                return
            position = offset - mapped.file_from_offset
            length = min(stop, mapped.end_offset) - offset
            path = quarantine.keep(f"{offset:020d}.cut", mapped.bytes_of(position, position + length))
            quarantine.note(CUT, mapped.path, position, length, why, path)
            self.quarantined.append(Quarantined(self._file_name(offset), offset, length, f"cut: {why}; kept in {path}"))
            offset += length

    def _file_name(self, offset: int) -> str:
        mapped = self._files.find(offset)
        return str(mapped.path if mapped else self._files.directory)


def refuse_unfit(paths: StorePaths, files: MappedFileQueue, record: StopRecord | None) -> None:
    """StoreVersionError where a file of the log is missing, holds another part of it, or is of another store.

    `record` is what the last orderly stop left.
    """
    if not files.files and record is not None and record.end_phy_offset > record.min_phy_offset:
        raise StoreVersionError(
            paths.commit_log,
            f"holds no file, and the log ended at {record.end_phy_offset} at the last orderly stop; restore the files, "
            f"or remove {paths.stop_record} to begin anew",
        )
    for one, following in pairwise(files.files):
        if one.end_offset < following.file_from_offset:
            raise StoreVersionError(
                one.path.with_name(file_name(one.end_offset)),
                "is missing between other CommitLog files; restore it, or read the rest without writing",
            )
    for mapped in files.files:
        head = None if record is None else record.heads.get(mapped.file_from_offset)
        if head is not None and is_another(mapped, head) and is_whole(mapped, 0, mapped.file_size):
            raise StoreVersionError(
                mapped.path,
                "is not the file that was here at the last orderly stop: it is of another store, or of an older "
                f"copy; restore the right one, or remove {paths.stop_record} if this one is right",
            )
        told = next_own_offset(mapped)
        if told is not None and told != mapped.file_from_offset:
            raise StoreVersionError(
                mapped.path,
                f"holds what the log has at offset {told}: it was renamed, or is of another store; "
                "give it its name back, or restore the right one; the rest can be read without writing",
            )
