"""One writer per directory: RocketMQ's `lock` file, byte 0, as a POSIX record lock.

The record lock is the one that Java's `tryLock(0, 1)` takes, so RocketFlow's and RocketMQ's writers exclude each other.
POSIX locks belong to the process: a second open in the same process is refused by a table in this module, and the file
is never opened a second time while it is held (closing any descriptor of it would drop the lock).
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from rocketflow_store.files import disk
from rocketflow_store.files.os_files import access_error
from rocketflow_store.model.errors import StoreLockedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Result = TypeVar("Result")
RETRY_S: Final = 0.02
_FLOCK: Final = struct.Struct("hhqqi4x")  # struct flock on 64-bit Linux: type, whence, start, len, pid
_HELD: dict[tuple[int, int], str] = {}
_TABLE_LOCK: Final = threading.Lock()
os.register_at_fork(after_in_child=_HELD.clear)  # a record lock stays with the process that took it


class DirectoryLock:
    """The exclusive lock of a store directory, held from construction until `release`."""

    def __init__(self, path: Path) -> None:
        self._path = path
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


def lock_holder(path: Path) -> str | None:
    """Return a description, with the pid, of the process that holds the lock; None if it is free.

    The lock is not taken.
    """
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


def _holder(fd: int) -> str | None:
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    try:
        answer = fcntl.fcntl(fd, fcntl.F_GETLK, asked)
    except OSError:
        return None
    kind, _, _, _, pid = _FLOCK.unpack(answer)
    if kind == fcntl.F_UNLCK:
        return None
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as comm:
            return f"pid {pid} ({comm.read().strip()})"
    except OSError:
        return f"pid {pid}"


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
