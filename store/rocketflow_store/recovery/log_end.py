"""Finding the end of the valid log, past damage.

Damage is told from a torn tail by what was synced: below the offset up to which the log is known to be, and anywhere
after a clean stop, bad bytes are damage. They stay, and what follows them is served.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.log.record_crc_range import FAR, writer_crc_from
from rocketflow_store.log.resync import is_end_blank, is_whole, next_proven, next_sound, unknown_record_size
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
    """What the stop left to know of the log."""

    clean: bool
    foreign: bool
    """Whether a writer that keeps no frontier stopped uncleanly."""
    settled: int = 0
    """The log below was synced, as far as there are files."""
    synced: int = 0
    known_end: int = 0
    """Where the log ended at the last orderly stop, 0 where that is not known (or anybody wrote since)."""
    record_crc_from: int = NO_OFFSET


def known_log(
    files: MappedFileQueue, record: StopRecord | None, confirmed: Confirmed | None, *, abort_found: bool, native: bool
) -> KnownLog:
    """Return what is known of the log; `native`: the store has a `store.meta`."""
    last = files.last
    end = last.end_offset if last else 0
    settled = synced = known_end = 0
    if not abort_found and native:
        settled = end  # we leave nothing behind the end when we close
    elif confirmed is not None:
        synced = confirmed.synced_offset
        settled = min(synced, end)
    if record is not None:
        settled = max(settled, min(record.end_phy_offset, end))
        if not abort_found:
            known_end = min(record.end_phy_offset, end)
    foreign = abort_found and confirmed is None
    return KnownLog(not abort_found, foreign, settled, synced, known_end, writer_crc_from(confirmed))


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
        """The end of the valid log, looking from `start` (a record boundary) on; changes nothing.

        Damage is passed over and listed. After an unclean stop of a writer that kept no frontier it is told from a
        torn tail by evidence: a queue unit behind it whose record is whole.
        """
        offset: int | None = start
        while offset is not None:
            seen, why, offset = self._go_on(offset)
        if self._walk.open_envelope >= 0:
            return LogEnd(self._walk.open_envelope, seen, "a sink commit whose rows do not reach its end")
        return LogEnd(seen, seen, why)

    def _go_on(self, offset: int) -> tuple[int, str, int | None]:
        """Walk from `offset`, past records whose contents are damaged, to where nothing tells how it goes on.

        That place, why, and where the log goes on behind it (None: it ends there).
        """
        for mapped, records, judged in self._walk.runs(offset):
            begins = mapped.file_from_offset + np.append(records.positions, records.positions[-1] + records.sizes[-1])
            row = 0
            for fault in sorted(records.faults):
                if fault < row:
                    continue  # in what was passed by
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
        """Where the log goes on behind bad bytes at `offset`, which are listed; None where they are the torn tail."""
        following = self._behind_damage(offset)
        if following is not None:
            self._damage.skip(offset, following, why, unused=self._is_unused_rest(offset, following))
        return following

    def _behind_damage(self, offset: int) -> int | None:
        """Where the log goes on behind bad bytes at `offset`; None where they are the torn tail."""
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
            return self._claimed.end_at(offset) if self._known.clean else None  # nothing is left to be served behind it
        evidence = self._claimed.complete_after(offset) if self._known.foreign or self._known.clean else None
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
            if is_end_blank(mapped, 0) or is_whole(mapped, 0, mapped.file_size):
                return mapped.file_from_offset
        return None

    def _is_unused_rest(self, start: int, stop: int) -> bool:
        """Whether [start, stop) is the rest of a file that lacks its end mark, and nothing else."""
        mapped = self._files.find(start)
        if mapped is None or stop != mapped.end_offset:
            return False
        rest = mapped.bytes_of(min(start - mapped.file_from_offset + 8, mapped.file_size), mapped.file_size)
        return not np.frombuffer(rest, np.uint8).any()
