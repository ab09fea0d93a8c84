"""Staged parts of one sink's batches: their directories, and their cleanup around the commit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketflow_store.commits import pooled_parts
from rocketflow_store.commits.batch_commit import abort_batch, last_commit, register_run, registered_run, sweep
from rocketflow_store.commits.staged_part import INLINE_BYTES, batch_directory
from rocketflow_store.files import os_files
from rocketflow_store.files.file_names import check_file_name
from rocketflow_store.metadata.layout.store_paths import is_store
from rocketflow_store.metadata.native.root_paths import RootPaths
from rocketflow_store.model.errors import StoreError
from rocketflow_store.reading.store_reader import StoreReader

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from rocketflow_store.commits.staged_part import StagedPart
    from rocketflow_store.settings.store_config import StoreConfig


_MAX_FILE_NAME: Final = 201
"""While bytes are missing, five more characters mark the file."""


class StagingArea:
    """The staging area of one sink in the store at a path; needs no lock, and is created when it is first used."""

    def __init__(self, store: str | os.PathLike[str], sink_id: str) -> None:
        self._store, self._sink_id = Path(store), sink_id
        self._staging = RootPaths(self._store).staging

    def directory(self, batch_id: int) -> Path:
        """Return the directory in which the parts of a batch are staged."""
        return batch_directory(self._staging, self._sink_id, batch_id)

    def run_number(self, run_id: str, config: StoreConfig) -> int:
        """Return the sequence number of a run; the first task registers it after all runs of the log."""
        known = registered_run(self._staging, self._sink_id, run_id)
        if known is not None:
            return known
        newest = 0
        if is_store(self._store, config):
            with StoreReader(self._store, config) as reader:
                last = last_commit(reader, self._sink_id)
                newest = last.run_seq if last is not None else 0
        return register_run(self._staging, self._sink_id, run_id, newest)

    def receive(self, batch_id: int, file: str, position: int, size: int, data: bytes) -> None:
        """Write bytes at a position of a part that another host stages; at `size` bytes it is complete.

        A large part overwrites a file of an earlier batch, if there is one, and may then be shorter than its file. The
        same bytes may come again. Raises StoreError if bytes before them are missing, or they end after `size`.
        """
        path = self.directory(batch_id) / check_file_name("file", file, _MAX_FILE_NAME)
        if position + len(data) > size:
            raise StoreError(f"part {file}: bytes up to {position + len(data)} came, {size} were announced")
        if path.exists():
            return
        temporary = path.with_name(f".{file}.tmp")
        os_files.make_directory(path.parent)
        try:
            if position == 0 and size > INLINE_BYTES and not temporary.exists():
                pooled_parts.take(self._staging, temporary)
            fd = os_files.open_file(temporary, write=True, create=True)
            try:
                if position > os_files.file_size(fd):
                    raise StoreError(f"part {file}: the bytes before {position} are missing; stage it again")
                os_files.write_at(fd, temporary, position, data)
            finally:
                os_files.close_file(fd)
        except OSError as error:
            raise os_files.access_error(temporary, error) from error
        if position + len(data) == size:
            os_files.rename(temporary, path)

    def abort(self, batch_id: int, parts: Sequence[StagedPart]) -> None:
        """Drop the parts of an attempt that is not committed; parts of another attempt at the batch stay."""
        abort_batch(self._staging, self._sink_id, batch_id, parts)

    def clear(self, batch_id: int) -> None:
        """Drop everything that is staged for a batch, also by tasks that never reported it."""
        os_files.remove_tree(self.directory(batch_id))

    def sweep(self, batch_id: int) -> None:
        """Delete what attempts at this batch and earlier ones left, and old leftovers of other sinks."""
        sweep(self._staging, self._sink_id, batch_id)

    def keep_files(self, parts: Iterable[StagedPart]) -> None:
        """Keep the files of committed parts for later batches to overwrite."""
        pooled_parts.keep(self._staging, [Path(part.path) for part in parts if part.path is not None])
