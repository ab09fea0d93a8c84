"""The cut of a log at its end; bytes that may be worth something are kept in the quarantine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow_store.log.scan_file import scan_file
from rocketflow_store.model.errors import UnreadableError
from rocketflow_store.records.decoding.decode import RecordColumns
from rocketflow_store.records.decoding.record_crc import judge_run
from rocketflow_store.recovery.quarantine import CUT, Quarantine

if TYPE_CHECKING:
    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.metadata.native.confirm import Confirmed
    from rocketflow_store.recovery.damage_table import DamageTable
    from rocketflow_store.recovery.log_end import LogEndSearch
    from rocketflow_store.recovery.result import Walked

_ANY: Final = (0, 0)


class Cut(NamedTuple):
    """Bytes [start, stop) of the log that a recovery cuts and keeps a copy of, and why."""

    start: int
    stop: int
    records: int
    """Number of complete records among them."""
    why: str


def worthy_cut(
    files: MappedFileQueue,
    search: LogEndSearch,
    walked: Walked,
    confirmed: Confirmed | None,
    *,
    acknowledged_to: int,
) -> Cut | None:
    """Return the cut at the log's end; None if it has neither a valid record nor bytes below `acknowledged_to`."""
    end, reached = walked.end, walked.reached
    start, stop = end.offset, max(end.seen, reached)
    if not (
        end.seen > start
        or (reached > start and (start < acknowledged_to or search.next_sound(start, reached) is not None))
    ):
        return None
    records = _complete_records(files, search, start, stop)
    what = f"{end.why}; {stop - start} bytes with {records} complete records cut"
    return Cut(start, stop, records, f"{what}, {durability_of(start, confirmed)}")


def durability_of(offset: int, confirmed: Confirmed | None) -> str:
    """Return in words whether bytes from `offset` on are known to have been durable, and what is known of the stop."""
    if confirmed is None:
        return "the writer recorded no offset up to which it had synced the log"
    synced, about = confirmed.synced_offset, confirmed.about_stop
    if offset < synced:
        known = f"known to be durable up to {synced}"
    else:
        known = f"not known to be durable (the last known sync ended at {synced})"
    return f"{known}; {about}" if about else known


def cut_log(paths: StorePaths, files: MappedFileQueue, damage: DamageTable, walked: Walked, kept: Cut | None) -> None:
    """Drop everything at or after the log's end; the bytes of `kept` are copied to the quarantine first."""
    offset = walked.end.offset
    last = files.find(offset)
    boundary = offset if last is None or last.file_from_offset == offset else last.end_offset
    if kept is not None:
        _keep_evidence(paths, files, damage, kept)
    files.drop_from(boundary)
    if last is not None and last.file_from_offset < boundary and offset < last.end_offset:
        last.zero_from(offset - last.file_from_offset)


def _complete_records(files: MappedFileQueue, search: LogEndSearch, start: int, stop: int) -> int:
    """Return how many records of [start, stop) are valid, those within the body of a valid one not counted."""
    count, offset = 0, start
    while True:
        mapped = files.find(offset)
        if mapped is None or offset >= stop:
            return count
        base, following = mapped.file_from_offset, offset
        try:
            scan = scan_file(mapped, offset - base, min(mapped.file_size, stop - base))
            if len(scan.positions):
                run = judge_run(RecordColumns(mapped.buffer, scan.positions, scan.sizes), base, _ANY)
                count += run.sound.count
                following = base + int(scan.positions[run.stop] if run.stop < len(scan.positions) else scan.end)
        except UnreadableError:
            pass
        if following == offset:
            found = search.next_sound(offset, stop)
            if found is None:
                return count
            following = found
        offset = following


def _keep_evidence(paths: StorePaths, files: MappedFileQueue, damage: DamageTable, cut: Cut) -> None:
    """Copy the bytes to the quarantine before they are cut."""
    quarantine = Quarantine(paths)
    offset = cut.start
    while offset < cut.stop:
        mapped = files.find(offset)
        if mapped is None:
            return
        position = offset - mapped.file_from_offset
        length = min(cut.stop, mapped.end_offset) - offset
        path = quarantine.keep(f"{offset:020d}.cut", mapped.bytes_of(position, position + length))
        quarantine.note(CUT, mapped.path, position, length, cut.why, path)
        damage.cut(offset, length, cut.why, path)
        offset += length
