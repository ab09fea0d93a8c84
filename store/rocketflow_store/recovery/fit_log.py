"""Refusal of a log whose files are missing, renamed or of another store."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from rocketflow_store.files.mapped.mapped_file import file_name
from rocketflow_store.log.resync import is_complete, next_own_offset
from rocketflow_store.model.errors import StoreVersionError
from rocketflow_store.recovery.take_stop_record import is_another

if TYPE_CHECKING:
    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.metadata.native.stop_record import StopRecord


def refuse_unfit(paths: StorePaths, files: MappedFileQueue, record: StopRecord | None) -> None:
    """Raise StoreVersionError if a file of the log is missing, holds another part of it, or is of another store.

    `record` is the record of the last orderly stop.
    """
    if not files.files and record is not None and record.end_phy_offset > record.min_phy_offset:
        raise StoreVersionError(
            paths.commit_log,
            f"holds no file, but the log ended at {record.end_phy_offset} at the last orderly stop; restore the files, "
            f"or remove {paths.stop_record} to start an empty log",
        )
    for one, following in pairwise(files.files):
        if one.end_offset < following.file_from_offset:
            raise StoreVersionError(
                one.path.with_name(file_name(one.end_offset)),
                "is missing between other CommitLog files; restore it, or read the rest without writing",
            )
    for mapped in files.files:
        head = None if record is None else record.heads.get(mapped.file_from_offset)
        if head is not None and is_another(mapped, head) and is_complete(mapped, 0, mapped.file_size):
            raise StoreVersionError(
                mapped.path,
                "is not the file of the last orderly stop: it is of another store, or an older "
                f"copy; restore the right one, or remove {paths.stop_record} if this one is right",
            )
        claimed = next_own_offset(mapped)
        if claimed is not None and claimed != mapped.file_from_offset:
            raise StoreVersionError(
                mapped.path,
                f"holds the part of the log at offset {claimed}: it was renamed, or is of another store; "
                "rename it back, or restore the right one; the rest can be read without writing",
            )
