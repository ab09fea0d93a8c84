"""The cut of a log at its end; bytes that may be worth something are kept in the quarantine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.recovery.quarantine import CUT, Quarantine

if TYPE_CHECKING:
    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.recovery.damage_table import DamageTable
    from rocketflow_store.recovery.log_end import LogEndSearch
    from rocketflow_store.recovery.result import Walked


def cut_log(
    paths: StorePaths,
    files: MappedFileQueue,
    search: LogEndSearch,
    damage: DamageTable,
    walked: Walked,
    *,
    acknowledged_to: int,
) -> None:
    """Drop everything at or after the log's end.

    Bytes below `acknowledged_to`, and bytes that hold a valid record, are kept in the quarantine.
    """
    end, reached = walked.end, walked.reached
    offset = end.offset
    last = files.find(offset)
    boundary = offset if last is None or last.file_from_offset == offset else last.end_offset
    acked = offset < acknowledged_to
    if end.seen > offset or (reached > offset and (acked or search.next_sound(offset, reached) is not None)):
        _keep_evidence(paths, files, damage, offset, max(end.seen, reached), end.why)
    files.drop_from(boundary)
    if last is not None and last.file_from_offset < boundary and offset < last.end_offset:
        last.zero_from(offset - last.file_from_offset)


def _keep_evidence(
    paths: StorePaths, files: MappedFileQueue, damage: DamageTable, start: int, stop: int, why: str
) -> None:
    """Copy log bytes [start, stop) to the quarantine before they are cut."""
    quarantine = Quarantine(paths)
    offset = start
    while offset < stop:
        mapped = files.find(offset)
        if mapped is None:
            return
        position = offset - mapped.file_from_offset
        length = min(stop, mapped.end_offset) - offset
        path = quarantine.keep(f"{offset:020d}.cut", mapped.bytes_of(position, position + length))
        quarantine.note(CUT, mapped.path, position, length, why, path)
        damage.cut(offset, length, why, path)
        offset += length
