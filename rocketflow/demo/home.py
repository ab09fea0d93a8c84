"""The demo's directory: one demo at a time works in it, and deletes only what a demo made there.

The file `.rocketflow-demo` is locked while a demo runs, and names what demos make, each with an identity once it is
known. An empty one is of an earlier version, which made the same names.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from rocketflow.errors import RocketFlowError, UsageError
from rocketflow_store import StoreError, StoreLockedError
from rocketflow_store.spi.json_text import parse_json
from rocketflow_store.spi.places import check_unlocked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

MARK: Final = ".rocketflow-demo"
STORES: Final = ("store", "copy")
MADE: Final = (
    *STORES,
    *("checkpoint", "checkpoint-copy", "query-checkpoint", "broker.log", "namesrv.log", "kv.json", ".removed"),
)
"""Everything that a demo makes in its directory."""
_INSIDE: Final = ("rocketflow/store.meta", "metadata")
"""Files with the identity of a store, of a checkpoint of Spark."""


class DemoRunsError(RocketFlowError):
    """Another demo works in the directory."""

    exit_code = 75


@contextmanager
def demo_home(home: Path, source: Path | None = None) -> Iterator[None]:
    """Make a directory ready for a demo, without what earlier ones made, and keep other demos away until the end.

    `source` is a store that the demo reads. Raises UsageError for a directory, or for entries, that no demo made,
    StoreLockedError if a process writes to a store in it, and DemoRunsError.
    """
    if source is not None and source.resolve().is_relative_to(home.resolve()):
        raise UsageError(f"{source}: lies in the demo's directory, whose files are deleted; give --dir another one")
    with ExitStack() as at_end:
        try:
            if home.is_dir() and not (home / MARK).exists() and any(home.iterdir()):
                raise UsageError(f"{home}: holds files that are not a demo's; give --dir an empty or a new directory")
            home.mkdir(parents=True, exist_ok=True)
            mark = at_end.enter_context(_marked(home))
            _remove_made(home, mark.made)
            mark.write(dict.fromkeys(MADE))
        except OSError as error:
            raise UsageError(f"{home}: {error.strerror or error}; give --dir another directory") from error
        at_end.callback(lambda: mark.write(_identities(home)))
        yield


class _Mark:
    """The open and locked mark: `made` has the identities of what the demo before has made, None for unknown ones."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.made: dict[str, Any] = _content(fd).get("made") or {}

    def write(self, made: Mapping[str, str | None]) -> None:
        text = json.dumps({"pid": os.getpid(), "made": made}).encode()
        os.pwrite(self._fd, text, 0)
        os.ftruncate(self._fd, len(text))


@contextmanager
def _marked(home: Path) -> Iterator[_Mark]:
    fd = os.open(home / MARK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno != errno.EWOULDBLOCK:
                raise
            pid = _content(fd).get("pid", "unknown")
            why = f"{home}: a demo runs in it (pid {pid}); wait for its end, or give --dir another one"
            raise DemoRunsError(why) from error
        yield _Mark(fd)
    finally:
        os.close(fd)


def _content(fd: int) -> dict[str, Any]:
    text = os.pread(fd, 1 << 16, 0).decode("utf-8", "replace")
    if not text:
        return {"made": dict.fromkeys(MADE)}
    with suppress(ValueError):
        found = parse_json(text)
        if isinstance(found, dict):
            return found
    return {}


def _remove_made(home: Path, made: dict[str, Any]) -> None:
    """Delete what a demo made; change nothing if one of its names is another's, or a store here is locked."""
    for entry in sorted(home.iterdir()):
        if entry.is_dir():
            try:
                check_unlocked(entry)
            except StoreLockedError:
                raise
            except StoreError:  # no store, or a broken one
                pass
    taken = [home / name for name in MADE if os.path.lexists(home / name)]
    _refuse(entry for entry in taken if entry.name not in made or not _is_made(entry, made[entry.name]))
    removed = home / ".removed"  # a stop in the middle of the deletion leaves no store without its files
    for entry in sorted(taken):
        if entry.is_dir():
            shutil.rmtree(entry if entry == removed else entry.rename(removed))
        else:  # logs of servers
            entry.unlink()


def _refuse(others: Iterable[Path]) -> None:
    for entry in others:
        raise UsageError(f"{entry}: was not made by a demo, which needs this name; move it, or give --dir another one")


def _is_made(entry: Path, identity: str | None) -> bool:
    return not entry.is_symlink() and (identity is None or identity == _identity(entry))


def _identities(home: Path) -> dict[str, str]:
    return {name: _identity(home / name) for name in MADE if os.path.lexists(home / name)}


def _identity(entry: Path) -> str:
    """Return what distinguishes a file or directory from a later one of its name: a system uses inodes again."""
    status = entry.lstat()
    identity = f"{status.st_dev}:{status.st_ino}"
    for name in _INSIDE:
        with suppress(OSError, ValueError):
            found = parse_json((entry / name).read_text("utf-8"))
            identity += f" {found.get('storeId') or found.get('id')}"
    return identity
