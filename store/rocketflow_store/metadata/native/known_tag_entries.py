"""Find the parts of the log whose TAGS RocketFlow has indexed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rocketflow_store.files.directory_entries import directory_entries, is_file_name
from rocketflow_store.format.index_layout import INDEX_NAME_DIGITS
from rocketflow_store.metadata.native.confirm import read_confirm
from rocketflow_store.metadata.native.root_paths import RootPaths
from rocketflow_store.metadata.native.stop_record import believed_record
from rocketflow_store.metadata.native.tag_entries import TagEntries

if TYPE_CHECKING:
    from rocketflow_store.metadata.native.confirm import Confirmed
    from rocketflow_store.metadata.native.stop_record import StopRecord


def known_tag_entries(paths: RootPaths, index: Path) -> TagEntries:
    """Return the ranges in which RocketFlow has indexed the TAGS of every record: see `metadata.native.tag_entries`."""
    return tag_entries_of(believed_record(paths), read_confirm(paths), index)


def tag_entries_of(record: StopRecord | None, confirmed: Confirmed | None, index: Path) -> TagEntries:
    """Return the ranges as `known_tag_entries` does, from what the last orderly stop and the last writer left."""
    names = [one.name for one in directory_entries(index) if is_file_name(one, INDEX_NAME_DIGITS)]
    known = TagEntries()
    if record is not None:
        known = record.tag_entries.believed(names)
    if confirmed is not None and confirmed.tag_entries_from >= 0:
        known = known.extended(confirmed.tag_entries_from, confirmed.confirm_offset)
    return known
