"""A backup of a store: a directory with the log up to one offset, and everything that the store needs to open.

The store is only read, as by any reader, so that it may be closed or have a writer. The log up to the offset that the
writer confirmed does not change any more; retention may delete its oldest files meanwhile. Queues and index, which a
writer changes in place, are not copied but rebuilt from the copied log, whose records are checked with that. The files
are written under a temporary name, which the backup loses when it is complete and synced.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.backup.log_copy import copy_log
from rocketflow_store.backup.small_files import (
    copy_metadata,
    copy_positions,
    copy_sinks,
    write_queue_ends,
)
from rocketflow_store.engine.message_store import MessageStore
from rocketflow_store.files import os_files
from rocketflow_store.metadata.layout.store_paths import StorePaths, check_directory
from rocketflow_store.model.errors import BackupTargetError, NotAStoreError, StoreReplacedError, UncleanStoreError
from rocketflow_store.reading.store_reader import StoreReader
from rocketflow_store.rebuild.rebuild import rebuild_store
from rocketflow_store.rebuild.result import RebuildRequest

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from rocketflow_store.rebuild.engine import Engine
    from rocketflow_store.settings.store_config import StoreConfig

    Progress = Callable[[int, int], None]

TEMPORARY_SUFFIX: Final = ".partial"
"""End of the name that an incomplete backup has."""

_FOR_EVER_HOURS: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class BackupResult:
    """A complete backup: the log of [`min_phy_offset`, `max_phy_offset`), and its records."""

    target: Path
    min_phy_offset: int
    max_phy_offset: int
    log_files: int
    records: int
    damaged: list[dict[str, Any]] = field(default_factory=list)
    """Ranges of the log whose records are damaged, in the store as in the backup."""
    seconds: float = 0.0


def backup_store(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    config: StoreConfig | None = None,
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> BackupResult:
    """Copy the store at `path` to the new directory `target`; queues and index are rebuilt on `engine`.

    The backup has every message that readers of the store saw before the call, except those that retention deletes
    meanwhile. `progress(done, total)` gets bytes, two for each byte of log: it is copied, and read again. A call that
    fails or is stopped removes what it wrote; one that is killed leaves `target` with `TEMPORARY_SUFFIX`.

    Raises:
        BackupTargetError: `target` or the temporary name exists.
        UncleanStoreError: the last writer was killed, and none has recovered the store.
        StoreFullError: the disk has no room for the backup.
    """
    began, source, final = time.monotonic(), Path(path).absolute(), Path(target).absolute()
    check_directory(source, must_exist=True)
    with StoreReader(source, config) as reader:
        if not reader.paths.holds_log():
            raise NotAStoreError(source, "holds no commitlog/; give the directory that storePathRootDir names")
        if reader.state == "unclean":
            raise UncleanStoreError(source)
        partial = _create(final)
        try:
            result = _Backup(reader, StorePaths(partial), progress).run(engine)
            _complete(partial, final)
        except BaseException:
            os_files.remove_tree(partial)
            raise
    return replace(result, target=final, seconds=time.monotonic() - began)


def _create(final: Path) -> Path:
    """Create the directory under its temporary name and return it."""
    partial = final.with_name(final.name + TEMPORARY_SUFFIX)
    if final.exists() or final.is_symlink():
        raise BackupTargetError(final, "exists: give a path that does not exist")
    try:
        os_files.create_directory(partial)
    except FileExistsError:
        raise BackupTargetError(
            partial, "exists: another backup is being written, or one was killed; if none runs, remove the directory"
        ) from None
    except OSError as error:
        raise os_files.access_error(partial, error) from error
    return partial


def _complete(partial: Path, final: Path) -> None:
    """Give a backup its name, durably."""
    os_files.sync_directory(partial)
    try:
        os_files.rename(partial, final)
    except OSError as error:  # another process created it meanwhile
        raise BackupTargetError(final, f"cannot be created: {error.strerror}; give another path") from error
    os_files.sync_directory(final.parent)


class _Backup:
    """One backup of the store of `reader` into the directory of `paths`, which has no name of a backup yet."""

    def __init__(self, reader: StoreReader, paths: StorePaths, progress: Progress | None) -> None:
        self._reader, self._paths, self._progress = reader, paths, progress

    def run(self, engine: Engine | None) -> BackupResult:
        """Copy the files in an order in which each agrees with the log, then rebuild queues and index."""
        reader, source, paths = self._reader, self._reader.paths, self._paths
        copy_positions(source, paths)  # before the end is read: no position is after the end of its queue
        seen = reader.snapshot()
        copy_metadata(source, paths)
        end = seen.max_phy_offset
        size = max(end - reader.min_phy_offset, 0)
        self._step(0, 2 * size)
        begin, count = copy_log(source, paths, self._file_size, end, lambda done: self._step(done, 2 * size))
        if reader.min_phy_offset > end:
            raise StoreReplacedError(reader.path)  # retention deleted all that the backup has
        copy_sinks(source, paths)  # after the log: it has the commits of the files that retention deleted meanwhile
        write_queue_ends(reader, paths, seen, begin)
        config = self._config()
        rebuilt = rebuild_store(
            paths.root,
            RebuildRequest(profile=reader.profile),
            config,
            engine=engine,
            progress=lambda done, _: self._step(size + min(done, size), 2 * size),
        )
        with MessageStore.open(paths.root, config):  # it writes the checkpoint, and moves positions that are too high
            pass
        return BackupResult(paths.root, begin, end, count, rebuilt.records, rebuilt.damaged)

    @property
    def _file_size(self) -> int:
        return self._reader.config.mapped_file_size_commit_log

    def _step(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(done, total)

    def _config(self) -> StoreConfig:
        """Return the store's settings, with all directories below the root, for an open that deletes no file."""
        return replace(
            self._reader.config,
            file_reserved_time=_FOR_EVER_HOURS,
            clean_file_forcibly_enable=False,
            store_path_commit_log="",
            read_only_commit_log_store_paths="",
            store_path_consume_queue="",
            store_path_index="",
        )
