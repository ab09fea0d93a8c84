"""Every disk call of the engine, one function each, errors made typed.

Durability recipe for small files: temporary file in the same directory, write, sync, rename, sync the directory.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from rocketflow_store.errors import StoreAccessError, StoreFencedError, StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_BLOCK: Final = 1 << 20
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def open_file(path: Path, *, write: bool, create: bool = False) -> int:
    """A descriptor of `path`; StoreAccessError where the system refuses."""
    flags = (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    try:
        return os.open(path, flags, 0o644)
    except OSError as error:
        raise access_error(path, error) from error


def access_error(path: object, error: OSError) -> StoreAccessError | StoreFullError:
    """The typed form of an OSError on `path`."""
    if error.errno in _NO_SPACE:
        return StoreFullError(path, f"no space left ({error.strerror})")
    return StoreAccessError(path, f"{error.strerror or error}; check that it exists and that you may use it")


def file_size(fd: int) -> int:
    """Bytes of an open file."""
    return os.fstat(fd).st_size


def modified_ms(fd: int) -> int:
    """When an open file was last written to, ms."""
    return os.fstat(fd).st_mtime_ns // 1_000_000


def disk_used_percent(path: object) -> int:
    """How much of the file system of `path` is used, in percent, rounded up; -1 where that cannot be told.

    As RocketMQ counts: blocks kept for root are neither used nor usable.
    """
    try:
        status = os.statvfs(os.fspath(path))  # type: ignore[call-overload]
    except OSError:
        return -1
    used = status.f_blocks - status.f_bfree
    return -1 if used + status.f_bavail == 0 else -(-used * 100 // (used + status.f_bavail))


def map_read_only(fd: int, size: int) -> pa.Buffer:
    """The file's first `size` bytes as a buffer that follows later writes; it keeps itself alive."""
    mapped = mmap.mmap(fd, size, prot=mmap.PROT_READ)
    return pa.py_buffer(mapped)


def preallocate(fd: int, path: object, size: int) -> None:
    """Give the file `size` bytes of real blocks, so that no later write can find the disk full."""
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EINVAL):
            os.ftruncate(fd, size)
            return
        raise access_error(path, error) from error


def make_sparse(fd: int, size: int) -> None:
    """Give the file `size` bytes without blocks; only `write_at` may then write to it."""
    os.ftruncate(fd, size)


def write_zeros(fd: int, path: object, size: int, sync_every_bytes: int, stopping: Callable[[], bool]) -> None:
    """Write `size` zeros from the file's begin on, so that its pages are in memory; ends early where `stopping` says.

    With `sync_every_bytes` they are synced as they are written, not all at the end.
    """
    block = bytes(_BLOCK)
    unsynced = 0
    for position in range(0, size, _BLOCK):
        if stopping():
            return
        write_at(fd, path, position, memoryview(block)[: min(_BLOCK, size - position)])
        unsynced += _BLOCK
        if 0 < sync_every_bytes <= unsynced:
            sync_file(fd, path)
            unsynced = 0


def read_at(fd: int, position: int, size: int) -> bytes:
    """Up to `size` bytes from `position`."""
    return os.pread(fd, size, position)


def write_at(fd: int, path: object, position: int, data: bytes | bytearray | memoryview | pa.Buffer) -> None:
    """All of `data` at `position`; a short write is completed."""
    view = memoryview(data).cast("B")
    try:
        while len(view):
            written = os.pwrite(fd, view, position)
            position += written
            view = view[written:]
    except OSError as error:
        raise access_error(path, error) from error


def sync_file(fd: int, path: object) -> None:
    """Make the file's data durable; a failure fences (a second sync cannot be believed)."""
    try:
        os.fdatasync(fd)
    except OSError as error:
        raise StoreFencedError(path, error.strerror or str(error)) from error


def sync_directory(path: Path) -> None:
    """Make creates, renames and deletes in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        raise StoreFencedError(path, error.strerror or str(error)) from error
    finally:
        os.close(fd)


def data_ranges(fd: int, path: object, position: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of [position, end) that were ever written; the others read as zeros without blocks."""
    while position < end:
        try:
            position = os.lseek(fd, position, os.SEEK_DATA)
            stop = min(os.lseek(fd, position, os.SEEK_HOLE), end)
        except OSError as error:
            if error.errno == errno.ENXIO:  # no data behind position
                return
            raise access_error(path, error) from error
        if position < stop:
            yield position, stop
        position = max(stop, position + 1)


def zero_from(fd: int, path: object, position: int, end: int) -> bool:
    """Zero [position, end); whether anything but zeros was there."""
    block = bytes(_BLOCK)
    changed = False
    for start, stop in data_ranges(fd, path, position, end):
        for at in range(start, stop, _BLOCK):
            found = os.pread(fd, min(_BLOCK, stop - at), at)
            if found.count(0) != len(found):
                write_at(fd, path, at, memoryview(block)[: len(found)])
                changed = True
    return changed


def last_nonzero(fd: int, path: object, end: int) -> int:
    """Position behind the last byte of [0, end) that is not zero."""
    for start, stop in reversed(list(data_ranges(fd, path, 0, end))):
        at = stop
        while at > start:
            size = min(_BLOCK, at - start)
            found = os.pread(fd, size, at - size).rstrip(b"\0")
            if found:
                return at - size + len(found)
            at -= size
    return 0


def write_atomically(path: Path, data: bytes | pa.Buffer, *, keep_backup: bool = False) -> None:
    """Replace `path` by `data` durably; with `keep_backup` the previous content stays as `NAME.bak`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            write_at(fd, temporary, 0, data)
            sync_file(fd, temporary)
        finally:
            os.close(fd)
        if keep_backup and path.exists():
            backup = path.with_name(path.name + ".bak")
            staged = path.with_name(f".{path.name}.{os.getpid()}.bak.tmp")
            with contextlib.suppress(FileNotFoundError):
                staged.unlink()
            os.link(path, staged)
            staged.replace(backup)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise access_error(path, error) from error
    sync_directory(path.parent)


def remove_file(path: Path) -> None:
    """Delete a file that may be gone already."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
