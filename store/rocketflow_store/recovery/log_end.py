"""Finding the end of the valid log, past damage.

What the system kept distinguishes damage from a torn tail: bad bytes are damage if they lie before the offset up to
which the log was synced, everywhere after a clean stop, and, if only the process ended, before the confirm offset
(`Confirmed.cache_kept`). After that a write may have been in progress. Damaged bytes stay, and the records after them
are served.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.log.record_crc_range import FAR, writer_crc_from
from rocketflow_store.log.resync import is_complete, is_end_blank, next_proven, next_sound, unknown_record_size
from rocketflow_store.recovery.result import LogEnd

if TYPE_CHECKING:
    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
    from rocketflow_store.metadata.native.confirm import Confirmed
    from rocketflow_store.metadata.native.stop_record import StopRecord
    from rocketflow_store.recovery.checked_walk import CheckedWalk
    from rocketflow_store.recovery.claimed_records import ClaimedRecords
    from rocketflow_store.recovery.damage_table import DamageTable
    from rocketflow_store.views.queues.unit_boundaries import UnitBoundaries

NO_OFFSET: Final = FAR
_END: Final = "end of the log"


@dataclass(frozen=True, slots=True)
class KnownLog:
    """Facts about the log that the stop left."""

    clean: bool
    no_frontier: bool
    """True if a writer that keeps no frontier stopped uncleanly."""
    settled: int = 0
    """The log before this offset cannot be torn, as far as there are files."""
    synced: int = 0
    """The end of that part of the log at the unclean stop, also if files are missing."""
    known_end: int = 0
    """The log had records up to here: its end at the last orderly stop, or its confirm offset if only the process of
    the writer ended; 0 if that is unknown, or if another process wrote since."""
    record_crc_from: int = NO_OFFSET


def known_log(
    files: MappedFileQueue, record: StopRecord | None, confirmed: Confirmed | None, *, abort_found: bool, native: bool
) -> KnownLog:
    """Return what is known of the log; `native`: the store has a `store.meta`."""
    last = files.last
    end = last.end_offset if last else 0
    settled = synced = known_end = 0
    if not abort_found and native:
        settled = end  # a close leaves nothing after the end
    elif confirmed is not None:
        synced = confirmed.synced_offset
        settled = min(synced, end)
        known_end = settled if confirmed.cache_kept else 0
    if record is not None:
        settled = max(settled, min(record.end_phy_offset, end))
        if not abort_found:
            known_end = min(record.end_phy_offset, end)
    no_frontier = abort_found and confirmed is None
    return KnownLog(not abort_found, no_frontier, settled, synced, known_end, writer_crc_from(confirmed))


class LogEndSearch:
    """The search for the end of one log; it changes nothing. All bytes of the log after `written` are zero."""

    def __init__(
        self,
        files: MappedFileQueue,
        known: KnownLog,
        walk: CheckedWalk,
        claimed: ClaimedRecords,
        boundaries: UnitBoundaries,
        damage: DamageTable,
        written: int,
    ) -> None:
        self._files, self._known, self._walk = files, known, walk
        self._claimed, self._boundaries, self._damage = claimed, boundaries, damage
        self._written = written

    def find_end(self, start: int) -> LogEnd:
        """Return the end of the valid log, looking from `start` (a record boundary) on; changes nothing.

        Damage is skipped and listed. After an unclean stop of a writer that keeps no frontier, bad bytes count as
        damage only if a queue unit after them has a complete record; otherwise they are a torn tail.
        """
        offset: int | None = start
        while offset is not None:
            seen, why, offset = self._walk_on(offset)
        if self._walk.open_envelope >= 0 and seen < self._walk.open_end:
            return LogEnd(self._walk.open_envelope, seen, "a sink commit whose rows do not reach its end")
        return LogEnd(seen, seen, why)

    def _walk_on(self, offset: int) -> tuple[int, str, int | None]:
        """Walk from `offset`, past records with damaged contents, to a place after which the log may not continue.

        Return that place, why, and where the log continues after it (None: it ends there).
        """
        for mapped, records, judged in self._walk.runs(offset):
            begins = mapped.file_from_offset + np.append(records.positions, records.positions[-1] + records.sizes[-1])
            row = 0
            for fault in sorted(records.faults):
                if fault < row:
                    continue  # inside skipped damage
                self._walk.look_for_envelope(records, row, fault, mapped)
                at, why = int(begins[fault]), records.faults[fault]
                following = self._pass_by(at, why)
                if following is None:
                    return at, why, None
                row = int(begins.searchsorted(following))
                if row > judged or begins[row] != following:
                    return at, why, following
            self._walk.look_for_envelope(records, row, records.count, mapped)
            offset = int(begins[-1])
        offset = self._walk.after_blank(offset)
        return offset, _END, self._pass_by(offset, _END)

    def _pass_by(self, offset: int, why: str) -> int | None:
        """List bad bytes at `offset` and return where the log continues; return None if they are the torn tail."""
        following = self._after_damage(offset)
        if following is not None:
            self._damage.skip(offset, following, why, unused=self._is_unused_rest(offset, following))
        return following

    def _after_damage(self, offset: int) -> int | None:
        """Return where the log continues after bad bytes at `offset`; None if they are the torn tail."""
        reached = max(self._written, offset)
        if offset < self._known.known_end:
            following = self._next_proven(offset, self._known.known_end)
            return self._known.known_end if following is None else following
        if reached == offset:
            return None
        unknown = self._unknown_form(offset)
        if unknown is not None:
            return unknown
        if offset < self._known.settled:
            following = self._next_proven(offset, reached) if self.next_sound(offset, reached) is not None else None
            if following is not None:
                return following
            return self._claimed.end_at(offset) if self._known.clean else self._settled_commit_end()
        evidence = self._claimed.complete_after(offset) if self._known.no_frontier or self._known.clean else None
        if evidence is None:
            return None
        following = self._next_proven(offset, reached)
        return evidence if following is None else min(following, evidence)

    def _settled_commit_end(self) -> int | None:
        """Return the end of the sink commit of which rows are missing, None if it is not known to have been complete.

        No record follows the damage. To cut the commit would lose rows that are not damaged.
        """
        walk = self._walk
        return walk.open_end if walk.open_envelope >= 0 and walk.open_end <= self._known.settled else None

    def _unknown_form(self, offset: int) -> int | None:
        """Return the end of a complete record of an unknown kind: it is kept, and is not a torn tail."""
        mapped = self._files.find(offset)
        size = 0 if mapped is None else unknown_record_size(mapped, offset - mapped.file_from_offset)
        return offset + size if size else None

    def _next_proven(self, offset: int, reached: int) -> int | None:
        """Return the next place after damage at `offset` and before `reached` where a record is proven to begin.

        Without proof before the end of a file, it is the next file's begin. In the last file it is the known end of the
        log, or the file's end: new records then go to a new file. None if there is no such place.
        """
        mapped = self._files.find(offset)
        if mapped is None:
            return None
        base, limit = mapped.file_from_offset, mapped.file_size
        if self._known.known_end == reached:
            limit = min(limit, reached - base)
        found = next_proven(mapped, offset - base, limit, self._boundaries)
        if found is not None:
            return base + found if base + found < reached else None
        if mapped.end_offset < reached or not offset < self._known.synced <= reached:
            return mapped.end_offset if self._known.known_end != reached or mapped.end_offset < reached else None
        return self._known.synced

    def next_sound(self, offset: int, reached: int) -> int | None:
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
            if is_end_blank(mapped, 0) or is_complete(mapped, 0, mapped.file_size):
                return mapped.file_from_offset
        return None

    def _is_unused_rest(self, start: int, stop: int) -> bool:
        """Return True if [start, stop) is only the rest of a file that lacks its end mark."""
        mapped = self._files.find(start)
        if mapped is None or stop != mapped.end_offset:
            return False
        rest = mapped.bytes_of(min(start - mapped.file_from_offset + 8, mapped.file_size), mapped.file_size)
        return not np.frombuffer(rest, np.uint8).any()
