"""The end of the written part of a log: the rest was preallocated."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow_store.files.mapped.mapped_file import MappedFile


def written_end(files: Sequence[MappedFile], offset: int = 0, *, keep_cached: bool = False) -> int:
    """Return the physical offset after the last byte that is not zero, at or after `offset`; `offset` if there is none.

    `files` are in the order of the log. With `keep_cached` their pages stay in the page cache.
    """
    for mapped in reversed(files):
        if mapped.end_offset <= offset:
            break
        found = mapped.written_end(max(offset - mapped.file_from_offset, 0), keep_cached=keep_cached)
        if found:
            return mapped.file_from_offset + min(found, mapped.file_size)
    return offset
