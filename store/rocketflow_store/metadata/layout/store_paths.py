"""The paths of a store's files, and the check that a directory is a store or can become one."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketflow_store.files.lock import DirectoryLock, HeldDirectories, lock_holder
from rocketflow_store.files.mapped.log_directories import LogDirectories
from rocketflow_store.files.os_files import access_error, read_file
from rocketflow_store.metadata.config_files.topics import TopicsFile
from rocketflow_store.metadata.layout.store_layout import (
    StoreLayout,
    asked_layout,
    find_layout,
    has_owner_file,
    side_directory,
)
from rocketflow_store.metadata.native.broker_file import read_broker_file
from rocketflow_store.metadata.native.root_paths import RootPaths
from rocketflow_store.model.errors import NotAStoreError, StoreLockedError
from rocketflow_store.settings.loader import warn_once

if TYPE_CHECKING:
    from rocketflow_store.files.read_once import ReadFile
    from rocketflow_store.metadata.native.broker_file import BrokerFile
    from rocketflow_store.settings.store_config import StoreConfig

_LEFT_OF_A_STORE: Final = frozenset({"lock", "config", "consumequeue", "index", "rocketflow", "abort"})
"""Names that may remain of a store without its log."""


@dataclass(frozen=True, slots=True)
class StorePaths(RootPaths):
    """The paths of the files of the store at `root`.

    `StorePaths(root)` has the default paths; `of` looks for the actual ones.
    """

    layout: StoreLayout = field(default_factory=StoreLayout)

    @classmethod
    def of(cls, root: Path, config: StoreConfig | None = None, read: ReadFile = read_file) -> StorePaths:
        """Return the paths that `config` names, else those that the store's last writer used: see `find_layout`."""
        if config is not None:
            warn_once(config.without_effect, root)
        return cls(root, find_layout(root, None if config is None else asked_layout(root, config), read))

    @property
    def commit_logs(self) -> tuple[Path, ...]:
        """Every directory that may hold files of the log."""
        return tuple(self.root / one for one in self.layout.all_commit_logs)

    @property
    def commit_log(self) -> Path:
        """The directory of the log, or the first of several, as the name of the log."""
        return self.commit_logs[0]

    def log_directories(self) -> LogDirectories:
        """Return the directories of the log, and the directories on the same disks in which new files are prepared."""
        layout = self.layout
        writable = [self.root / one for one in layout.commit_logs]
        staging = {
            path: side_directory(path) / "tmp"
            if has_owner_file(one) or _on_another_disk(path, self.root)
            else self.allocating
            for one, path in zip(layout.commit_logs, writable, strict=True)
        }
        return LogDirectories(writable, [self.root / one for one in layout.read_only_commit_logs], staging)

    @property
    def consume_queue(self) -> Path:
        return self.root / self.layout.consume_queue

    @property
    def index(self) -> Path:
        return self.root / self.layout.index

    def identity(self) -> tuple[object, ...]:
        """Return a value that changes when the store is replaced by another directory, or when a writer starts again.

        It includes the oldest file of all directories of the log. No file is opened.
        """
        oldest = min(
            ((name, one) for one in self.commit_logs for name in _names(one) if name.isdigit()),
            key=lambda found: (len(found[0]), found[0]),
            default=None,
        )
        found: list[object] = [self.meta_mark(), self.writer_mark()]
        if oldest is not None:
            try:
                status = (oldest[1] / oldest[0]).stat()
            except OSError:
                return tuple(found)
            found += [status.st_dev, status.st_ino]
        return tuple(found)

    @property
    def written_directories(self) -> tuple[Path, ...]:
        """Every directory that a writer writes and never replaces while it is open, whether it exists or not."""
        beside = (side_directory(self.root / one) for one in self.layout.commit_logs)
        return (*self.kept_directories, *self.commit_logs, *beside, self.consume_queue, self.index)

    @property
    def staged_index(self) -> Path:
        """The path at which a new index is built: on the disk of the old one."""
        elsewhere = self.layout.index != StoreLayout().index
        return self.index.with_name(f"{self.index.name}.new") if elsewhere else self.allocating / "index"

    def holds_log(self) -> bool:
        """Return True if a directory of the CommitLog exists."""
        return any(one.is_dir() for one in self.commit_logs)

    def looks_like_store(self) -> bool:
        """Return True if a part of a store exists here."""
        return self.holds_log() or self.meta.is_file() or self.checkpoint.is_file()


def _names(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _on_another_disk(path: Path, root: Path) -> bool:
    try:
        return path.stat().st_dev != root.stat().st_dev
    except OSError:
        return False


def is_store(path: str | os.PathLike[str], config: StoreConfig | None = None) -> bool:
    """Return True if a part of a store exists at a path, or where `config` puts it."""
    return StorePaths.of(Path(path), config).looks_like_store()


def holds_log(path: str | os.PathLike[str], config: StoreConfig | None = None) -> bool:
    """Return True if a directory of the CommitLog exists at a path, or where `config` puts it."""
    return StorePaths.of(Path(path), config).holds_log()


def check_unlocked(path: str | os.PathLike[str], config: StoreConfig | None = None) -> None:
    """Raise StoreLockedError if a process holds the lock of the store at a path; do not take the lock."""
    paths = StorePaths.of(Path(path), config)
    if (holder := store_holder(paths)) is not None:
        raise _locked_error(paths, holder)


class StoreLock:
    """The locks of a store's one writer: RocketMQ's `lock` of the root, and each directory that it writes."""

    def __init__(self, paths: StorePaths) -> None:
        self._path = paths.lock
        try:
            held = HeldDirectories(paths.root, paths.written_directories, paths.passing_directories)
            try:
                self._record = DirectoryLock(self._path)
            except BaseException:
                held.release()
                raise
        except StoreLockedError as error:
            if error.path == str(paths.root):
                raise _locked_error(paths, error.holder) from error
            raise
        self._directories, self.hold, self.hold_open, self.lose = held, held.hold, held.hold_open, held.lose

    def moved(self) -> Path | None:
        """Return a directory, or `lock`, that an open store has locked and that is no longer the one at its path."""
        return self._directories.moved() or (None if self._record.is_in_place() else self._path)

    def release(self) -> None:
        """Release all of them."""
        self._record.release()
        self._directories.release()


def store_holder(paths: StorePaths) -> str | None:
    """Return a description, with the pid, of the process that writes to a store; None if no process does.

    It may be the writer of a store with another root that has directories in common. No lock is taken.
    """
    return lock_holder(paths.lock, paths.written_directories)


def serving_broker(path: str | os.PathLike[str]) -> BrokerFile | None:
    """Return the broker that says it serves the store at a path; one that was killed may still be named."""
    return read_broker_file(RootPaths(Path(path)).broker_file)


def _locked_error(paths: RootPaths, holder: str) -> StoreLockedError:
    broker = read_broker_file(paths.broker_file)
    if broker is None or f"pid {broker.pid} " not in f"{holder} ":
        return StoreLockedError(paths.root, holder)
    return StoreLockedError(paths.root, f"the broker at {broker.address}, {holder}", "stop the broker first")


def topics_of(root: str | os.PathLike[str]) -> TopicsFile:
    """Return the table of topics of the store at a path; it is read when its content is first requested."""
    return TopicsFile(StorePaths(Path(root)).config)


def check_directory(path: Path, *, must_exist: bool) -> None:
    """Raise if a path cannot be a store directory: a file, something unreadable, or (if it `must_exist`) missing."""
    try:
        if path.exists() and not path.is_dir():
            raise NotAStoreError(path, "is a file; a store is a directory")
        if must_exist and not path.exists():
            raise NotAStoreError(path, "does not exist; give the directory that holds commitlog/")
        if path.is_dir():
            with os.scandir(path) as entries:
                next(entries, None)
    except OSError as error:
        raise access_error(path, error) from error


def check_writable_directory(path: Path, config: StoreConfig | None = None, read: ReadFile = read_file) -> StorePaths:
    """Return the paths of a store to write to.

    Raises NotAStoreError for a path that is no store and must not become one, such as a directory with other files.
    """
    check_directory(path, must_exist=False)
    paths = StorePaths.of(path, config, read)
    if path.is_dir() and not paths.looks_like_store():
        others = [entry.name for entry in path.iterdir() if entry.name not in _LEFT_OF_A_STORE]
        if others:
            raise NotAStoreError(path, "is not empty and holds no commitlog/; give a store or an empty directory")
    return paths
