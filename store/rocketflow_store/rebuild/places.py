"""Places of a rebuild: where it reads the log and the store's metadata, and where it leaves the new files."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocketflow_store.files import os_files
from rocketflow_store.files.remote import RemoteDirectory, is_uri
from rocketflow_store.metadata.layout.other_engines import refuse_rocksdb_data
from rocketflow_store.metadata.layout.store_paths import StorePaths, check_directory
from rocketflow_store.metadata.native.stop_record import believed_record
from rocketflow_store.model.errors import NotAStoreError, StoreVersionError
from rocketflow_store.rebuild.log_source import LocalLog, LogSource, RemoteLog
from rocketflow_store.rebuild.skeleton import make_skeleton
from rocketflow_store.recovery.observation import fitted_config
from rocketflow_store.settings.store_config import StoreConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketflow_store.rebuild.result import RebuildRequest


@dataclass(frozen=True, slots=True)
class RebuildPlaces:
    """The metadata is read from `store`; files are written in `out` and swapped into it, or uploaded to `remote`."""

    store: StorePaths
    out: StorePaths
    log: LogSource
    config: StoreConfig
    remote: RemoteDirectory | None = None

    @property
    def in_place(self) -> bool:
        """True if the store itself gets the new files."""
        return self.store is self.out


def shown(place: str | Path) -> str:
    """Return a path or URI for messages, without its secrets."""
    text = str(place)
    return RemoteDirectory(text).name if is_uri(text) else text


def check_target_given(path: str | Path, request: RebuildRequest) -> None:
    """Raise StoreVersionError if the store is in object storage and the request names no target."""
    if is_uri(str(path)) and request.target is None:
        raise StoreVersionError(shown(path), "is not on this machine; name the place of the new files with --target")


@contextmanager
def find_places(path: str | Path, request: RebuildRequest, config: StoreConfig | None) -> Iterator[RebuildPlaces]:
    """Yield the places of a rebuild; its temporary directories are removed after it.

    Raises:
        NotAStoreError: there is no log.
        StoreVersionError: the store has RocksDB queues, or the log is not the store's.
        RemoteStoreError: object storage does not answer.
    """
    with ExitStack() as after:

        def temporary() -> Path:
            scratch = request.scratch
            if scratch is not None:
                os_files.make_directory(Path(scratch))
            made = Path(tempfile.mkdtemp(prefix="rocketflow-rebuild-", dir=scratch))
            after.callback(os_files.remove_tree, made)
            return made

        if is_uri(str(path)):
            check_target_given(path, request)
            origin = RemoteDirectory(str(path))
            root = temporary()
            log: LogSource = RemoteLog.at(RemoteDirectory(request.log) if request.log else origin)
            make_skeleton(origin, root)
        else:
            root = Path(path).absolute()  # tasks of executors run in other directories
            check_directory(root, must_exist=True)
        store = StorePaths.of(root, config)
        if request.target is None and not request.dry_run:
            refuse_rocksdb_data(root)
        if request.log is None and not store.holds_log():
            raise NotAStoreError(root, "holds no commitlog/; give the directory that storePathRootDir names")
        fitted = fitted_config(store, config or StoreConfig(), believed_record(store))
        if request.log is not None or is_uri(str(path)):
            log = log if is_uri(str(path)) else RemoteLog.at(RemoteDirectory(_as_uri(str(request.log))))
            fitted = replace(fitted, mapped_file_size_commit_log=log.file_size or fitted.mapped_file_size_commit_log)
        else:
            log = LocalLog(store.log_directories(), fitted.mapped_file_size_commit_log)
        out, remote = store, None
        if request.target is not None and is_uri(request.target):
            out, remote = StorePaths(temporary()), RemoteDirectory(request.target)
        elif request.target is not None and not _same(root, Path(request.target)):
            target = Path(request.target).absolute()
            check_directory(target, must_exist=False)
            with_log = (target / "commitlog").is_dir()
            out = StorePaths.of(target) if with_log else StorePaths(target)
        elif isinstance(log, RemoteLog):
            _check_same_log(store, log, fitted)
        yield RebuildPlaces(store, out, log, fitted, remote)


def _as_uri(text: str) -> str:
    return text if is_uri(text) else Path(text).resolve().as_uri()


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


def _check_same_log(store: StorePaths, log: RemoteLog, config: StoreConfig) -> None:
    """Raise StoreVersionError if `log` is not the store's: files that point into another log must not get into it."""
    found = store.log_directories().entries()
    sizes = {one.stat().st_size for one in found.values()}
    if sorted(found) != sorted(log.offsets) or sizes - {config.mapped_file_size_commit_log}:
        raise StoreVersionError(
            store.commit_log,
            f"does not have the same files as {log.directory.name}; give a --target for the files of that log",
        )
