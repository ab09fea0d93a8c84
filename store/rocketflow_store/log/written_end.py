"""How far a log is written: what lies behind was preallocated."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow_store.files.mapped.mapped_file import MappedFile


def written_end(files: Sequence[MappedFile], offset: int = 0, *, keep_cached: bool = False) -> int:
    """Physical offset behind the last byte at or behind `offset` that is not zero; `offset` where there is none.

    `files` are in the order of the log. With `keep_cached` what was read of them stays in the page cache.
    """
    for mapped in reversed(files):
        if mapped.end_offset <= offset:
            break
        found = mapped.written_end(max(offset - mapped.file_from_offset, 0), keep_cached=keep_cached)
        if found:
            return mapped.file_from_offset + min(found, mapped.file_size)
    return offset
