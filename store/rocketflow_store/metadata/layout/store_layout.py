"""The directories of a store's log, queues and index, if they are not simply below its root.

They are set by RocketMQ's keys `storePathCommitLog` (several directories, separated by `multiPathSplitter`) and
`readOnlyCommitLogStorePaths`, and by two keys that only RocketFlow follows (RocketMQ uses directories below the root
regardless): `storePathConsumeQueue` and `storePathIndex`. A writer records the directories that it used in
`store.meta`, so that a program that knows only the root finds the rest. If a directory of the log is missing, or is not
the one that was written to, the open is refused: without it the log would look shorter than it is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np

from rocketflow_store.files import os_files
from rocketflow_store.format.consume_queue_unit import UNIT_SIZE
from rocketflow_store.metadata.layout.other_engines import refuse_other_engines
from rocketflow_store.metadata.native.confirm import read_confirm
from rocketflow_store.metadata.native.owner_file import OWNER_FILE, read_owner, write_owner
from rocketflow_store.metadata.native.root_paths import RootPaths
from rocketflow_store.metadata.native.store_meta_fields import (
    COMMIT_LOGS_KEY,
    CONSUME_QUEUE_KEY,
    INDEX_KEY,
    READ_ONLY_LOGS_KEY,
    STORE_ID_KEY,
    read_meta_fields,
)
from rocketflow_store.model.errors import MissingStorePathError, StoreAccessError, StoreConfigError
from rocketflow_store.records.arrow.unit_types import UNIT_DTYPE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rocketflow_store.files.read_once import ReadFile
    from rocketflow_store.settings.store_config import StoreConfig

COMMIT_LOG: Final = "commitlog"
CONSUME_QUEUE: Final = "consumequeue"
INDEX: Final = "index"
_META: Final = ("rocketflow/store.meta", "rocketflow/store.meta.bak")


@dataclass(frozen=True, slots=True)
class StoreLayout:
    """Directories, absolute or relative to the root."""

    commit_logs: tuple[str, ...] = (COMMIT_LOG,)
    read_only_commit_logs: tuple[str, ...] = ()
    consume_queue: str = CONSUME_QUEUE
    index: str = INDEX

    @property
    def is_default(self) -> bool:
        """True if every directory is RocketMQ's default."""
        return self == StoreLayout()

    @property
    def all_commit_logs(self) -> tuple[str, ...]:
        """The directories that may hold files of the log."""
        return tuple(dict.fromkeys((*self.commit_logs, *self.read_only_commit_logs)))

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for `store.meta`."""
        return {
            COMMIT_LOGS_KEY: list(self.commit_logs),
            READ_ONLY_LOGS_KEY: list(self.read_only_commit_logs),
            CONSUME_QUEUE_KEY: self.consume_queue,
            INDEX_KEY: self.index,
        }

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        """Parse the fields that `as_dict` returned; raise ValueError if one is invalid."""
        default = cls()
        logs = body.get(COMMIT_LOGS_KEY, list(default.commit_logs))
        read_only = body.get(READ_ONLY_LOGS_KEY, [])
        rest = [body.get(CONSUME_QUEUE_KEY, CONSUME_QUEUE), body.get(INDEX_KEY, INDEX)]
        if not isinstance(logs, list) or not isinstance(read_only, list) or not logs:
            raise ValueError("the directories of the CommitLog are no lists")
        if not all(isinstance(one, str) and one and "\0" not in one for one in (*logs, *read_only, *rest)):
            raise ValueError("a directory is not a text")
        return cls(tuple(logs), tuple(read_only), *rest)


class RecordedLayout(NamedTuple):
    """The layout and the store's id, as recorded in `store.meta`."""

    layout: StoreLayout
    store_id: str


def recorded_layout(root: Path, read: ReadFile = os_files.read_file) -> RecordedLayout | None:
    """Return the layout that the last writer used, from `store.meta` or its copy; None if neither records one."""
    for name in _META:
        try:
            body = read_meta_fields(root / name, read)
            return RecordedLayout(StoreLayout.from_dict(body), str(body[STORE_ID_KEY]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return None


def find_layout(root: Path, asked: StoreLayout | None, read: ReadFile = os_files.read_file) -> StoreLayout:
    """Return the layout of the store at `root`: the one `asked` for, else the recorded one, else the default.

    Raises MissingStorePathError if a directory is missing or is not the one that was written to, and StoreConfigError
    if the layout asked for omits a directory that holds files of this store.
    """
    recorded = recorded_layout(root, read)
    known = recorded.layout if recorded is not None else StoreLayout()
    layout = known if asked is None else asked
    refuse_other_engines(root, layout.consume_queue)
    if layout != known:
        _check_move(root, known, layout)
    if recorded is not None and not known.is_default:
        _check_recorded(root, layout, recorded)
    if not layout.is_default and _has_content(root, layout):
        for one in layout.all_commit_logs:
            if not (root / one).is_dir():
                raise MissingStorePathError("storePathCommitLog", root / one, _why_missing(root / one))
        if recorded is None:
            _refuse_empty(root, layout)
    elif layout.is_default:
        _refuse_without_log(root)
    return layout


def _refuse_without_log(root: Path) -> None:
    """Raise MissingStorePathError for queues without a log: it was lost, or it is in a directory that was not named."""
    path = root / COMMIT_LOG
    if _holds_log(path):
        return
    needed = _needed_end(root / CONSUME_QUEUE)
    if _holds_log(path):  # a writer has begun it meanwhile, before its queues
        return
    if needed and not _was_never_durable(root):
        raise MissingStorePathError(
            "storePathCommitLog",
            path,
            f"holds no file, and the ConsumeQueues name records up to {needed}: if the log is elsewhere, name its "
            "directories in storePathCommitLog (a broker has them in its broker.conf)",
        )


def _was_never_durable(root: Path) -> bool:
    """Return True if RocketFlow's last writer stopped before its first sync: a power loss may have taken all."""
    confirmed = read_confirm(RootPaths(root))
    return confirmed is not None and confirmed.synced_offset <= 0


def _refuse_empty(root: Path, layout: StoreLayout) -> None:
    """Raise MissingStorePathError if a directory of a log that another writer wrote is empty.

    Nothing shows whether such a directory is empty because its disk is not mounted, so each one must hold a file of the
    log. The exception is a log that has only its first file, and queues that need no more.
    """
    files = {one: _log_files(root / one) for one in layout.all_commit_logs}
    there = [file for found in files.values() for file in found]
    if len(there) == 1 and int(there[0].name) == 0 and _needed_end(root / layout.consume_queue) <= _size(there[0]):
        return
    for one in layout.commit_logs:
        if not files[one]:
            raise MissingStorePathError(
                "storePathCommitLog",
                root / one,
                "holds no file of the log: its disk may not be mounted (if it is a new directory, open the store "
                "once without it)",
            )


def _needed_end(queues: Path) -> int:
    """Return the end of the record of the newest unit of any queue."""
    needed = 0
    for topic in _entries(queues):
        for queue in _entries(queues / topic):
            files = _log_files(queues / topic / queue)
            data = os_files.read_file(files[-1]) if files else b""
            units = np.frombuffer(data, UNIT_DTYPE, len(data) // UNIT_SIZE)
            units = units[units["msg_size"] > 0]
            if len(units):
                needed = max(needed, int((units["phy_offset"] + units["msg_size"]).max()))
    return needed


def _size(path: Path) -> int:
    return path.stat().st_size


def _check_recorded(root: Path, layout: StoreLayout, recorded: RecordedLayout) -> None:
    """Raise MissingStorePathError if a recorded directory is missing or is another one."""
    known = recorded.layout
    for one in known.all_commit_logs:
        path = root / one
        if not path.is_dir():
            raise MissingStorePathError("storePathCommitLog", path, _why_missing(path))
        if one in known.commit_logs and one in layout.commit_logs and has_owner_file(one):
            _check_owner(path, recorded.store_id)
    for key, one in (("storePathConsumeQueue", known.consume_queue), ("storePathIndex", known.index)):
        if one not in (CONSUME_QUEUE, INDEX) and not (root / one).is_dir():
            raise MissingStorePathError(key, root / one, _why_missing(root / one))


def _why_missing(path: Path) -> str:
    return "is not a directory" if path.exists() else "is not there"


def has_owner_file(directory: str) -> bool:
    """Return True if a file beside this directory of the log names its store: beside all but the one below the root."""
    return directory != COMMIT_LOG


def side_directory(path: Path) -> Path:
    """Return the directory for files about the log directory `path`, on the same disk.

    It is beside `path`, or in it if `path` is a mount point (RocketMQ 4 fails on unexpected names in a log directory).
    """
    return path / "rocketflow" if os.path.ismount(path) else path.with_name(path.name + ".rocketflow")


def _check_owner(path: Path, store_id: str) -> None:
    owner = side_directory(path) / OWNER_FILE
    found = read_owner(owner)
    if found is None:
        raise MissingStorePathError(
            "storePathCommitLog",
            path,
            f"is another directory than the one that was written to ({owner} is missing; if it is the right one, "
            f"write {store_id} into that file)",
        )
    if found != store_id:
        raise MissingStorePathError("storePathCommitLog", path, f"belongs to another store ({owner} says {found})")


def claim(root: Path, layout: StoreLayout, store_id: str) -> None:
    """Write the store's id beside every writable directory of the log; raise if one belongs to another store."""
    for one in layout.commit_logs:
        if not has_owner_file(one):
            continue
        path = root / one
        owner = side_directory(path) / OWNER_FILE
        if owner.exists():
            _check_owner(path, store_id)
            continue
        write_owner(owner, store_id)


def _check_move(root: Path, known: StoreLayout, layout: StoreLayout) -> None:
    """Raise StoreConfigError if `layout` omits a directory that holds files of this store."""
    for one in known.all_commit_logs:
        if one in layout.all_commit_logs:
            continue
        path = root / one
        if _holds_log(path) or (not path.is_dir() and one != COMMIT_LOG):
            raise StoreConfigError(
                "storePathCommitLog",
                ",".join(layout.commit_logs),
                f"omits {path}, which holds files of this store's log; add it, also to "
                "readOnlyCommitLogStorePaths if it is to get no new files",
            )
    for key, before, after, hint in (
        ("storePathConsumeQueue", known.consume_queue, layout.consume_queue, "the ConsumeQueues"),
        ("storePathIndex", known.index, layout.index, "the index"),
    ):
        if before != after and _has_entries(root / before) and not _has_entries(root / after):
            raise StoreConfigError(
                key,
                after,
                f"{hint} of this store are in {root / before} (RocketMQ ignores this key); move them, or omit the key",
            )


def _has_content(root: Path, layout: StoreLayout) -> bool:
    """Return True if a store exists, so that a missing directory is not a new one."""
    small = (root / "checkpoint", *(root / name for name in _META))
    return (
        any(one.is_file() for one in small)
        or _has_entries(root / layout.consume_queue)
        or any(_holds_log(root / one) for one in (*layout.all_commit_logs, COMMIT_LOG))
    )


def _entries(path: Path) -> Iterable[str]:
    try:
        return os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise StoreAccessError(path, error.strerror or str(error)) from error


def _has_entries(path: Path) -> bool:
    return bool(_entries(path))


def _holds_log(path: Path) -> bool:
    return bool(_log_files(path))


def _log_files(path: Path) -> list[Path]:
    """Return the files that are named by an offset, by offset."""
    found = [name for name in _entries(path) if name.isdigit() and len(name) >= 20]
    return [path / name for name in sorted(found, key=int)]


def asked_layout(root: Path, config: StoreConfig) -> StoreLayout | None:
    """Return the layout that `config` asks for, for the store at `root`, or None if it sets no path."""
    return parse_layout(
        root,
        config.store_path_commit_log,
        config.read_only_commit_log_store_paths,
        config.store_path_consume_queue,
        config.store_path_index,
        config.multi_path_splitter,
    )


def parse_layout(
    root: Path, commit_logs: str, read_only: str, consume_queue: str, index: str, splitter: str
) -> StoreLayout | None:
    """Return the layout that the settings ask for, or None if they set no path. Relative paths start at `root`."""
    if not (commit_logs or read_only or consume_queue or index):
        return None
    if not splitter:
        raise StoreConfigError("multiPathSplitter", splitter, "must be at least one character")
    writable = _directories(root, commit_logs, splitter) or (COMMIT_LOG,)
    fixed = _directories(root, read_only, splitter)
    if not set(writable) - set(fixed):
        raise StoreConfigError(
            "readOnlyCommitLogStorePaths", read_only, "names every directory of storePathCommitLog: new files need one"
        )
    layout = StoreLayout(
        tuple(one for one in writable if one not in fixed),
        fixed,
        _from_root(root, consume_queue) if consume_queue else CONSUME_QUEUE,
        _from_root(root, index) if index else INDEX,
    )
    _refuse_nested(root, layout)
    return layout


def _refuse_nested(root: Path, layout: StoreLayout) -> None:
    """Raise StoreConfigError if a directory is another one, or within it: recovery would quarantine its files."""
    named = [("storePathCommitLog", one) for one in layout.all_commit_logs]
    named += [("storePathConsumeQueue", layout.consume_queue), ("storePathIndex", layout.index)]
    paths = [(name, one, Path(os.path.abspath(root), one)) for name, one in named]
    for at, (name, one, path) in enumerate(paths):
        for other_name, other, other_path in paths[:at]:
            if path == other_path or path in other_path.parents or other_path in path.parents:
                raise StoreConfigError(name, one, f"is the directory of {other_name} ({other}), or within the other")
        if path == Path(os.path.abspath(root)):
            raise StoreConfigError(name, one, "is the store's directory itself: name one within it, or elsewhere")


def _directories(root: Path, text: str, splitter: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_from_root(root, one.strip()) for one in text.split(splitter) if one.strip()))


def _from_root(root: Path, path: str) -> str:
    """Return a path in the form in which it is recorded: relative to the root if below it, so that it moves with it."""
    full = os.path.normpath(os.path.join(os.path.abspath(root), path))
    beneath = os.path.relpath(full, os.path.abspath(root))
    return full if beneath.startswith("..") or beneath == "." else beneath
