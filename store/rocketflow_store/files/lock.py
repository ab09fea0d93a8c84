"""One writer per directory, by two kinds of locks.

The record lock on byte 0 of RocketMQ's file `lock` is the one that Java's `tryLock(0, 1)` takes, so RocketFlow's and
RocketMQ's writers of one root exclude each other. POSIX locks belong to the process: a second open in the same process
is refused by a table in this module, and the file is never opened a second time while it is held (closing any
descriptor of it would drop the lock).

A `flock` on each directory that a writer writes excludes RocketFlow's writers that reach it by another root, link or
mount: it belongs to the inode. A forked child inherits such a lock and closes its descriptors at once.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeVar

from rocketflow_store.files import disk, places
from rocketflow_store.files.os_files import access_error
from rocketflow_store.model.errors import StoreLockedError
from rocketflow_store.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

Result = TypeVar("Result")
RETRY_S: Final = 0.02
_FLOCK: Final = struct.Struct("hhqqi4x")  # struct flock on 64-bit Linux: type, whence, start, len, pid
_HELD: Final[dict[tuple[int, int], str]] = {}
_DIRECTORIES: Final[set[int]] = set()
"""Descriptors of held directories."""
_TABLE_LOCK: Final = threading.RLock()
_MISSING: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE)
_ELSEWHERE: Final = (
    "it writes this directory for a store with another root: stop it, or give this store directories of its own"
)


def _leave_to_parent() -> None:
    """Drop the locks in a forked process: a record lock stays with its process, an inherited flock has to be closed."""
    _HELD.clear()
    for fd in _DIRECTORIES:
        disk.close(fd)
    _DIRECTORIES.clear()
    places.forget()
    _TABLE_LOCK.release()


os.register_at_fork(before=_TABLE_LOCK.acquire, after_in_parent=_TABLE_LOCK.release, after_in_child=_leave_to_parent)


class DirectoryLock:
    """The exclusive lock of a store's root, held from construction until `release`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if places.LOST:
            places.refuse_lost(path)
        with _TABLE_LOCK:
            known = _identity(path)
            if known is not None and known in _HELD:
                raise StoreLockedError(path.parent, f"this process (pid {os.getpid()})")
            try:
                self._fd = disk.open_file(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError as error:
                raise access_error(path, error) from error
            try:
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
            except OSError as error:
                holder = _holder(self._fd)
                disk.close(self._fd)
                raise StoreLockedError(path.parent, holder or "another process") from error
            try:
                if disk.fstat(self._fd).st_size == 0:
                    disk.pwrite(self._fd, b"lock", 0)
                    disk.utime(path, (0, 0))  # a later time shows that a RocketMQ broker wrote to it
            except OSError as error:
                disk.close(self._fd)
                raise access_error(path, error) from error
            identity = _identity(path)
            assert identity is not None
            self._identity = identity
            _HELD[identity] = str(path)

    def release(self) -> None:
        """Release the lock."""
        with _TABLE_LOCK:
            _HELD.pop(self._identity, None)
            disk.close(self._fd)

    def is_in_place(self) -> bool:
        """Return False if the file `lock` was deleted, renamed or replaced: another process could lock a new one."""
        return _is_in_place(self._path, self._fd)


class HeldDirectories:
    """Directories that a writer writes, each locked as an inode, by whatever path it is reached, until `release`.

    If a file system cannot lock directories, an event says so, and the writer goes on.
    """

    def __init__(self, root: Path, written: Iterable[Path], replaced: Iterable[Path]) -> None:
        """Lock those that exist: `written` stay the same while the store is open, `replaced` may be others later.

        Raises as `hold` does, with nothing locked.
        """
        self._root, self._written, self._replaced = root, tuple(written), tuple(replaced)
        self._fds: dict[Path, int] = {}
        self._unlocked: set[Path] = set()
        self._guarded: list[Path] = []
        try:
            self.hold()
        except BaseException:
            self.release()
            raise

    def hold(self) -> None:
        """Lock the directories that exist; of one that was replaced, the one that is there now.

        Raises StoreLockedError if another writer has one of them, or has `lock` of the root that it lies in.
        """
        self._hold((*self._written, *self._replaced))

    def hold_open(self) -> None:
        """Lock as `hold` for an open store: none of `written` is replaced or created again from now on."""
        new = [path for path in self._written if path not in self._guarded]
        self._hold((*new, *self._replaced))
        held = [path for path in new if path in self._fds]
        self._guarded += held
        if held:
            places.hold([(path, _identity_of(self._fds[path])) for path in held])

    def _hold(self, paths: Iterable[Path]) -> None:
        known = {path: _identity_of(fd) for path, fd in self._fds.items()}
        found = [(path, identity) for path in paths if (identity := _identity(path)) is not None]
        new = [(path, identity) for path, identity in found if known.get(path) != identity]
        root = _identity(self._root)
        for path, _ in new:
            self._refuse_roots_of_others(path.resolve(), root)
        taken = set(known.values())
        # the root first, since its holder is the one to name; the others in one order for all writers
        for path, identity in sorted(new, key=lambda one: (one[1] != root, one[1])):
            if identity not in taken:
                self._drop(path)
                self._take(path)
                taken.add(identity)

    def _refuse_roots_of_others(self, path: Path, root: tuple[int, int] | None) -> None:
        for directory in (path, path.parent):
            if _identity(directory) != root and (holder := lock_holder(directory / "lock")) is not None:
                raise StoreLockedError(path, f"{holder}, whose store is {directory}", _ELSEWHERE)

    def _take(self, path: Path) -> None:
        with _TABLE_LOCK:
            try:
                fd = disk.open_file(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError as error:
                if error.errno in _MISSING:
                    return
                raise access_error(path, error) from error
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno == errno.EWOULDBLOCK:
                    pid = _flock_holders().get(_identity_of(fd))
                    disk.close(fd)
                    remedy = () if path == self._root else (_ELSEWHERE,)
                    raise StoreLockedError(path, _named(pid) if pid else "another process", *remedy) from error
                if path not in self._unlocked:
                    self._unlocked.add(path)
                    events.report(events.NOT_LOCKED, self._root, path, error.strerror or str(error))
            self._fds[path] = fd
            _DIRECTORIES.add(fd)

    def moved(self) -> Path | None:
        """Return a directory that an open store holds and that is no longer the one at its path."""
        return next((path for path in self._guarded if not _is_in_place(path, self._fds[path])), None)

    def lose(self, why: str) -> None:
        """Refuse changes at the paths of all held directories until `release`."""
        places.lose(self._fds, why)

    def release(self) -> None:
        """Release the directories."""
        places.end_loss(self._fds)
        places.let_go(self._guarded)
        self._guarded = []
        for path in list(self._fds):
            self._drop(path)

    def _drop(self, path: Path) -> None:
        fd = self._fds.pop(path, None)
        if fd is None:
            return
        with _TABLE_LOCK:
            if fd in _DIRECTORIES:  # else it is the parent's: this process was forked
                _DIRECTORIES.remove(fd)
                with suppress(OSError):
                    fcntl.flock(fd, fcntl.LOCK_UN)  # also for a child that has not yet closed its copy
                disk.close(fd)


def lock_holder(path: Path, directories: Iterable[Path] = ()) -> str | None:
    """Return a description, with the pid, of the process that holds a lock; None if all are free.

    The locks are the record lock of the file `path` and those of `directories`; none is taken.
    """
    return _record_holder(path) or _directory_holder(directories)


def _directory_holder(directories: Iterable[Path]) -> str | None:
    identities = {one for one in map(_identity, directories) if one is not None}
    found = [pid for one, pid in _flock_holders().items() if one in identities] if identities else []
    return _named(found[0]) if found else None


def _record_holder(path: Path) -> str | None:
    with _TABLE_LOCK:
        identity = _identity(path)
        if identity is None:
            return None
        if identity in _HELD:
            return f"this process (pid {os.getpid()})"
        try:
            fd = disk.open_file(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return _holder(fd)
        finally:
            disk.close(fd)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _identity_of(fd: int) -> tuple[int, int]:
    status = disk.fstat(fd)
    return status.st_dev, status.st_ino


def _is_in_place(path: Path, fd: int) -> bool:
    """Return False if the name belongs to another file or to none; True also if that cannot be seen now."""
    try:
        named = os.stat(path)
    except OSError as error:
        return error.errno not in _MISSING
    return (named.st_dev, named.st_ino) == _identity_of(fd)


def _flock_holders() -> dict[tuple[int, int], int]:
    """Return the ids of the processes that hold a `flock`, by inode, as far as this one can see them."""
    found = {}
    try:
        with open("/proc/locks", encoding="ascii") as locks:
            for line in locks:
                fields = line.split()
                if len(fields) == 8 and fields[1] == "FLOCK":  # else a record lock, or a process that waits
                    major, minor, inode = fields[5].split(":")
                    found[os.makedev(int(major, 16), int(minor, 16)), int(inode)] = int(fields[4])
    except OSError:
        pass
    return found


def _named(pid: int) -> str:
    if pid == os.getpid():
        return f"this process (pid {pid})"
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as comm:
            return f"pid {pid} ({comm.read().strip()})"
    except OSError:
        return f"pid {pid}"


def _holder(fd: int) -> str | None:
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    try:
        answer = fcntl.fcntl(fd, fcntl.F_GETLK, asked)
    except OSError:
        return None
    kind, _, _, _, pid = _FLOCK.unpack(answer)
    if kind == fcntl.F_UNLCK:
        return None
    return _named(pid)


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold the exclusive lock of a file, which is created if it is missing; wait for it."""
    descriptor = disk.open_file(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        disk.close(descriptor)


def when_free(action: Callable[[], Result], timeout_s: float, pause: Callable[[float], object] = time.sleep) -> Result:
    """Call `action`, which takes a lock, until no other writer holds it, for `timeout_s` at most; return its result.

    Raises StoreLockedError after that time, or as soon as `pause` (seconds) returns True, which requests a stop.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return action()
        except StoreLockedError:
            if time.monotonic() >= deadline or pause(RETRY_S):
                raise
