"""Every disk call of the engine, one function each, errors made typed. The calls themselves are those of `disk`.

Durability recipe for small files: temporary file in the same directory, write, sync, rename, sync the directory.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import stat
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from rocketflow_store.files import disk
from rocketflow_store.model.errors import StoreAccessError, StoreFencedError, StoreFullError, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_BLOCK: Final = 1 << 20
_ZEROS: Final = bytes(_BLOCK)
_SAMPLE: Final = 4096
_LEAST_READ: Final = 4096
_DIRECTORY_TRIES: Final = 3
_LEAST_WRITEBACK: Final = 1 << 18
BLOCK_BYTES: Final = 4096
"""What writes around the page cache are multiples of."""
_NO_DIRECT: Final = (errno.EINVAL, errno.EOPNOTSUPP)
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def open_file(path: Path, *, write: bool, create: bool = False) -> int:
    """A descriptor of `path`; StoreAccessError where the system refuses."""
    flags = (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    try:
        return disk.open_file(path, flags, 0o644)
    except OSError as error:
        raise access_error(path, error) from error


def access_error(path: object, error: OSError) -> StoreAccessError | StoreFullError:
    """The typed form of an OSError on `path`."""
    if error.errno in _NO_SPACE:
        return StoreFullError(path, f"no space left ({error.strerror})")
    return StoreAccessError(path, f"{error.strerror or error}; check that it exists and that you may use it")


def close_file(fd: int) -> None:
    """Give back a descriptor."""
    disk.close(fd)


def create_exclusively(path: Path, *, write: bool = False) -> int:
    """A descriptor of a new file; OSError as the system raises it (FileExistsError where the name is taken)."""
    return disk.open_file(path, (os.O_RDWR if write else os.O_WRONLY) | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)


def read_file(path: Path) -> bytes:
    """All bytes of a file; StoreAccessError where the disk cannot read them.

    Where it cannot be opened, OSError as the system raises it, so that callers can tell missing from refused.
    """
    fd = disk.open_file(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        found, position = disk.fstat(fd), 0
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        size = found.st_size
        while part := read_at(fd, position, min(max(size - position, _LEAST_READ), _BLOCK), path):
            parts.append(part)
            position += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)
    finally:
        disk.close(fd)


def status(fd: int) -> os.stat_result:
    """What the system says of an open file."""
    return disk.fstat(fd)


def file_size(fd: int) -> int:
    """Bytes of an open file."""
    return disk.fstat(fd).st_size


def modified_ms(fd: int) -> int:
    """When an open file was last written to, ms."""
    return disk.fstat(fd).st_mtime_ns // 1_000_000


def disk_used_percent(path: object) -> int:
    """How much of the file system of `path` is used, in percent, rounded up; -1 where that cannot be told.

    As RocketMQ counts: blocks kept for root are neither used nor usable.
    """
    try:
        status = disk.statvfs(os.fspath(path))  # type: ignore[call-overload]
    except OSError:
        return -1
    used = status.f_blocks - status.f_bfree
    return -1 if used + status.f_bavail == 0 else -(-used * 100 // (used + status.f_bavail))


def disk_free_bytes(path: object) -> int:
    """Bytes that may still be written to the file system of `path`."""
    try:
        status = disk.statvfs(os.fspath(path))  # type: ignore[call-overload]
    except OSError as error:
        raise access_error(path, error) from error
    return int(status.f_bavail * status.f_frsize)


def map_read_only(fd: int, size: int) -> mmap.mmap:
    """The file's first `size` bytes, following later writes; OSError as the system raises it."""
    return disk.map_file(fd, size, mmap.PROT_READ)


def populate(mapped: mmap.mmap, fd: int, path: object, start: int, stop: int) -> None:
    """Have [start, stop) of a map of `fd` in memory, so that it can be looked at.

    UnreadableError where the disk cannot read it, or the file ends before: the system would end this process for
    looking (SIGBUS).
    """
    first = start // mmap.PAGESIZE * mmap.PAGESIZE
    try:
        disk.populate(mapped, first, stop - first)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise UnreadableError(path, start, stop) from error
        _read_through(fd, path, start, stop)


def _read_through(fd: int, path: object, start: int, stop: int) -> None:
    """As `populate`, for systems without it."""
    while start < stop:
        try:
            found = len(disk.pread(fd, min(_BLOCK, stop - start), start))
        except OSError as error:
            raise UnreadableError(path, start, stop) from error
        if found == 0:
            raise UnreadableError(path, start, stop)
        start += found


def map_file(fd: int, path: object, size: int, *, write: bool) -> mmap.mmap:
    """The file's first `size` bytes in memory; with `write`, stores go to the file (which must have its blocks)."""
    try:
        return disk.map_file(fd, size, mmap.PROT_READ | mmap.PROT_WRITE if write else mmap.PROT_READ)
    except OSError as error:
        raise access_error(path, error) from error


def sync_map(mapped: mmap.mmap, path: object) -> None:
    """As `sync_file`, for what was stored through a map."""
    try:
        disk.msync(mapped)
    except OSError as error:
        raise StoreFencedError(path, error.strerror or str(error)) from error


def preallocate(fd: int, path: object, size: int) -> None:
    """Give the file `size` bytes of real blocks, so that no later write can find the disk full."""
    try:
        disk.posix_fallocate(fd, 0, size)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EINVAL):
            make_sparse(fd, path, size)
            return
        raise access_error(path, error) from error


def make_sparse(fd: int, path: object, size: int) -> None:
    """Give the file `size` bytes without blocks; only `write_at` may then write to it."""
    try:
        disk.ftruncate(fd, size)
    except OSError as error:
        raise access_error(path, error) from error


def write_zeros(fd: int, path: object, size: int, sync_every_bytes: int, stopping: Callable[[], bool]) -> None:
    """Write `size` zeros from the file's begin on, so that its pages are in memory; ends early where `stopping` says.

    With `sync_every_bytes` they are synced as they are written, not all at the end.
    """
    unsynced = 0
    for position in range(0, size, _BLOCK):
        if stopping():
            return
        write_at(fd, path, position, memoryview(_ZEROS)[: min(_BLOCK, size - position)])
        unsynced += _BLOCK
        if 0 < sync_every_bytes <= unsynced:
            sync_file(fd, path)
            unsynced = 0


def read_at(fd: int, position: int, size: int, path: object) -> bytes:
    """Up to `size` bytes from `position`; StoreAccessError where the disk cannot read them."""
    try:
        return disk.pread(fd, size, position)
    except OSError as error:
        raise access_error(path, error) from error


def _taken(written: int) -> int:
    """How many bytes a call wrote; OSError where none, for nobody waits for ever for a disk that takes nothing."""
    if written <= 0:
        raise OSError(errno.EIO, "nothing was written")
    return written


def append_bytes(fd: int, path: object, data: memoryview) -> None:
    """All of `data` at the descriptor's own position; a short write is completed."""
    try:
        while len(data):
            data = data[_taken(disk.write(fd, data)) :]
    except OSError as error:
        raise access_error(path, error) from error


def write_at(fd: int, path: object, position: int, data: bytes | bytearray | memoryview | pa.Buffer) -> None:
    """All of `data` (octets) at `position`; a short write is completed."""
    try:
        written = disk.pwrite(fd, data, position)
        if written == len(data):
            return
        view = memoryview(data).cast("B")[written:]
        position += written
        while len(view):
            written = _taken(disk.pwrite(fd, view, position))
            position += written
            view = view[written:]
    except OSError as error:
        raise access_error(path, error) from error


def open_direct(path: Path) -> int:
    """A descriptor whose writes go around the page cache; -1 where the file system has no such thing."""
    try:
        return disk.open_file(path, os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if error.errno in _NO_DIRECT:
            return -1
        raise access_error(path, error) from error


def write_direct(fd: int, path: object, position: int, data: memoryview) -> int:
    """Write whole blocks of `data` (octets) to `position`; how many bytes of it, 0 where they do not lie as they must.

    The position, the size and the place in memory have to be multiples of `BLOCK_BYTES`, of the disk's own blocks too.
    """
    done = 0
    if position % BLOCK_BYTES or pa.py_buffer(data).address % BLOCK_BYTES:
        return 0
    whole = len(data) // BLOCK_BYTES * BLOCK_BYTES
    try:
        while done < whole:
            written = disk.pwrite(fd, data[done:whole], position + done)
            done += written
            if written % BLOCK_BYTES:  # cut short: the rest does not lie as it must any more
                break
    except OSError as error:
        if error.errno not in _NO_DIRECT:
            raise access_error(path, error) from error
    return done


def sync_file(fd: int, path: object) -> None:
    """Make the file's data durable; a failure fences (a second sync cannot be believed)."""
    try:
        disk.fdatasync(fd)
    except OSError as error:
        raise StoreFencedError(path, error.strerror or str(error)) from error


def begin_writeback(fd: int, position: int, size: int) -> None:
    """Have the disk begin with [position, position + size), so that a later sync finds it done; not with little.

    The advice that the pages are not needed starts their write; those under way stay in memory.
    """
    if size < _LEAST_WRITEBACK:
        return
    with contextlib.suppress(OSError):  # advice
        disk.posix_fadvise(fd, position, size, os.POSIX_FADV_DONTNEED)


def sync_directory(path: Path) -> None:
    """Make creates, renames and deletes in a directory durable."""
    try:
        fd = disk.open_file(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise access_error(path, error) from error
    try:
        disk.fsync(fd)
    except OSError as error:
        raise StoreFencedError(path, error.strerror or str(error)) from error
    finally:
        disk.close(fd)


def data_ranges(fd: int, path: object, position: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of [position, end) that were ever written; the others read as zeros without blocks."""
    while position < end:
        try:
            position = disk.lseek(fd, position, os.SEEK_DATA)
            stop = min(disk.lseek(fd, position, os.SEEK_HOLE), end)
        except OSError as error:
            if error.errno == errno.ENXIO:  # no data behind position
                return
            raise access_error(path, error) from error
        if position < stop:
            yield position, stop
        position = max(stop, position + 1)


def zero_from(fd: int, path: object, position: int, end: int) -> bool:
    """Zero [position, end); whether anything but zeros was there."""
    changed = False
    for start, stop in _written_ranges(fd, path, position, end):
        for at in range(start, stop, _BLOCK):
            written = _without_zeros(read_at(fd, at, min(_BLOCK, stop - at), path))
            if written:
                write_at(fd, path, at, memoryview(_ZEROS)[:written])
                changed = True
    return changed


def rewrite(fd: int, path: object, start: int, stop: int) -> None:
    """Write [start, stop) with the bytes that are there."""
    for at in range(start, stop, _BLOCK):
        write_at(fd, path, at, read_at(fd, at, min(_BLOCK, stop - at), path))


def zero_again(fd: int, path: object, position: int, end: int) -> None:
    """Write zeros to those parts of [position, end) that were ever written."""
    for start, stop in data_ranges(fd, path, position, end):
        for at in range(start, stop, _BLOCK):
            write_at(fd, path, at, memoryview(_ZEROS)[: min(_BLOCK, stop - at)])


def last_nonzero(fd: int, path: object, end: int, begin: int = 0, *, keep_cached: bool = False) -> int:
    """Position behind the last byte of [begin, end) that is not zero, 0 where all are.

    With `keep_cached` what is in memory stays there, for somebody who is about to read it all; but not the zeros at the
    end, which count as data for as long as they are there.
    """
    if keep_cached:
        zeros = _seems_zero_from(fd, path, begin, end)
        if zeros < end:
            disk.posix_fadvise(fd, zeros, end - zeros, os.POSIX_FADV_DONTNEED)
        ranges = list(data_ranges(fd, path, begin, end))
    else:
        ranges = _written_ranges(fd, path, begin, end)
    for start, stop in reversed(ranges):
        at = stop
        while at > start:
            size = min(_BLOCK, at - start)
            written = _without_zeros(read_at(fd, at - size, size, path))
            if written:
                return at - size + written
            at -= size
    return 0


def _seems_zero_from(fd: int, path: object, begin: int, end: int) -> int:
    """About where the zeros begin that [begin, end) ends with, told by a few samples: nothing that is sure."""
    known, step = end, _BLOCK
    while known - step > begin and not any(read_at(fd, known - step, _SAMPLE, path)):
        known, step = known - step, 2 * step
    while step > _BLOCK:
        step //= 2
        if known - step > begin and not any(read_at(fd, known - step, _SAMPLE, path)):
            known -= step
    return known


def _without_zeros(data: bytes) -> int:
    """Length of `data` up to its last byte that is not zero; comparing tells of zeros 50 times sooner than `rstrip`."""
    return 0 if data == (_ZEROS if len(data) == _BLOCK else bytes(len(data))) else len(data.rstrip(b"\0"))


def _written_ranges(fd: int, path: object, begin: int, end: int) -> list[tuple[int, int]]:
    """As `data_ranges`, without what the system only read ahead for somebody: in memory, that counts as data too."""
    found = list(data_ranges(fd, path, begin, end))
    if not found or found[-1][1] >= end:  # written to its end
        return found
    disk.posix_fadvise(fd, begin, end - begin, os.POSIX_FADV_DONTNEED)
    return list(data_ranges(fd, path, begin, end))


def write_atomically(path: Path, data: bytes | pa.Buffer, *, keep_backup: bool = False) -> None:
    """Replace `path` by `data` durably; with `keep_backup` the previous content stays as `NAME.bak`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        fd = disk.open_file(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            write_at(fd, temporary, 0, data)
            sync_file(fd, temporary)
        finally:
            disk.close(fd)
        if keep_backup and path.exists():
            backup = path.with_name(path.name + ".bak")
            staged = path.with_name(f".{path.name}.{os.getpid()}.bak.tmp")
            with contextlib.suppress(FileNotFoundError):
                disk.unlink(staged)
            disk.link(path, staged)
            disk.rename(staged, backup)
        disk.rename(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            disk.unlink(temporary)
        raise access_error(path, error) from error
    sync_directory(path.parent)


def remove_file(path: Path) -> None:
    """Delete a file that may be gone already."""
    try:
        disk.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise access_error(path, error) from error


def rename(source: Path, target: Path) -> None:
    """Give a file or directory another name, in place of what has it; OSError as the system raises it.

    Durable once both directories are synced.
    """
    disk.rename(source, target)


def hard_link(path: Path, other: Path) -> None:
    """Give a file a second name; nothing is done where that is taken."""
    try:
        disk.link(path, other)
    except FileExistsError:
        pass
    except OSError as error:
        raise access_error(other, error) from error


def make_directory(path: Path) -> None:
    """Make a directory and those above it, where they are not there; others may do so at the same time."""
    for tries_left in reversed(range(_DIRECTORY_TRIES)):
        try:
            disk.mkdir(path)
        except FileNotFoundError as error:
            if tries_left == 0 or path.parent == path:  # nothing can be made there, e.g. below /proc
                raise access_error(path, error) from error
            if not path.parent.is_dir():  # else somebody made it just now
                make_directory(path.parent)
        except OSError as error:
            if isinstance(error, FileExistsError) and path.is_dir():
                return
            raise access_error(path, error) from error
        else:
            return


def make_last_directory(path: Path) -> None:
    """Make a directory that may exist, in one that does; OSError as the system raises it."""
    with contextlib.suppress(FileExistsError):
        disk.mkdir(path)


def remove_directory(path: Path) -> None:
    """Delete an empty directory; OSError as the system raises it."""
    disk.rmdir(path)


def remove_tree(path: Path) -> None:
    """Delete a directory with all that is in it, as far as that goes; symbolic links are not followed."""
    with contextlib.suppress(OSError):
        for one in path.iterdir():
            if one.is_dir() and not one.is_symlink():
                remove_tree(one)
            else:
                disk.unlink(one)
        disk.rmdir(path)


def touch(path: Path) -> None:
    """Make an empty file, or set the time of one that is there to now; OSError as the system raises it."""
    disk.close(disk.open_file(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
    disk.utime(path)
