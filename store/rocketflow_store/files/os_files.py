"""Every disk operation of the engine, one function each, with typed errors. The system calls are those of `disk`.

Durability recipe for small files: temporary file in the same directory, write, sync, rename, sync the directory.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import mmap
import os
import stat
from typing import TYPE_CHECKING, Final

from rocketflow_store.files import disk, places
from rocketflow_store.files.open_files import NONE_FREE, OPEN_FILES
from rocketflow_store.model.errors import StoreAccessError, StoreFencedError, StoreFullError, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa


_BLOCK: Final = 1 << 20
_ZEROS: Final = bytes(_BLOCK)
_SAMPLE: Final = 4096
_LEAST_READ: Final = 4096
_DIRECTORY_TRIES: Final = 3
_LEAST_WRITEBACK: Final = 1 << 18
BLOCK_BYTES: Final = 4096
"""Writes that bypass the page cache are multiples of this size."""
_NO_DIRECT: Final = (errno.EINVAL, errno.EOPNOTSUPP)
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _open(path: Path | str, flags: int, mode: int = 0o777) -> int:
    """Open what is not opened on demand; files that are make room for it if no descriptor is free."""
    try:
        return disk.open_file(path, flags, mode)
    except OSError as error:
        if error.errno not in NONE_FREE:
            raise
    return OPEN_FILES.open_other(path, flags, mode)


def open_file(path: Path, *, write: bool, create: bool = False) -> int:
    """Open `path` and return the descriptor; raise StoreAccessError if that fails."""
    if write and places.LOST:
        places.refuse_lost(path)
    flags = (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    try:
        return _open(path, flags, 0o644)
    except OSError as error:
        raise access_error(path, error) from error


def access_error(path: object, error: OSError) -> StoreAccessError | StoreFullError:
    """Return the typed form of an OSError on `path`."""
    if error.errno in _NO_SPACE:
        return StoreFullError(path, f"no space left ({error.strerror})")
    return StoreAccessError(path, f"{error.strerror or error}; check that it exists and that you may access it")


def close_file(fd: int) -> None:
    disk.close(fd)


def create_exclusively(path: Path, *, write: bool = False) -> int:
    """Create a file and return its descriptor; raise OSError as the system does (FileExistsError if it exists)."""
    if places.HELD:
        places.refuse_second(path)
    return _open(path, (os.O_RDWR if write else os.O_WRONLY) | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)


def read_file(path: Path) -> bytes:
    """Return all bytes of a file; raise StoreAccessError if the disk cannot read them.

    If it cannot be opened, OSError is raised as by the system, so that callers can distinguish missing from refused.
    """
    fd = _open(path, os.O_RDONLY | os.O_CLOEXEC)
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
    """Return the status of an open file."""
    return disk.fstat(fd)


def status_of(path: str) -> os.stat_result:
    """Return the status of a file by its name; raise StoreAccessError if that fails."""
    try:
        return os.stat(path)
    except OSError as error:
        raise access_error(path, error) from error


def file_size(fd: int) -> int:
    """Return the size of an open file in bytes."""
    return disk.fstat(fd).st_size


def modified_ms(fd: int) -> int:
    """Return the time of the last write to an open file, ms."""
    return disk.fstat(fd).st_mtime_ns // 1_000_000


def cache_mark(file: os.stat_result) -> int:
    """Return a number that identifies a file on this boot of the system, 0 if the boot is unknown.

    While it is the same, the page cache has what any process wrote to the file system of the file. No copy has the same
    number, since nothing can set the time of the last change of an inode.
    """
    boot = disk.boot_id()
    if not boot:
        return 0
    digest = hashlib.blake2b(f"{boot} {file.st_dev} {file.st_ino} {file.st_ctime_ns}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def disk_used_percent(path: object) -> int:
    """Return the used part of the file system of `path` in percent, rounded up; -1 if unknown.

    As RocketMQ counts: blocks reserved for root are neither used nor usable.
    """
    try:
        status = disk.statvfs(os.fspath(path))  # type: ignore[call-overload]
    except OSError:
        return -1
    used = status.f_blocks - status.f_bfree
    return -1 if used + status.f_bavail == 0 else -(-used * 100 // (used + status.f_bavail))


def disk_free_bytes(path: object) -> int:
    """Return the bytes that may still be written to the file system of `path`."""
    try:
        status = disk.statvfs(os.fspath(path))  # type: ignore[call-overload]
    except OSError as error:
        raise access_error(path, error) from error
    return int(status.f_bavail * status.f_frsize)


def map_read_only(fd: int, size: int) -> mmap.mmap:
    """Map the file's first `size` bytes, which show later writes; raise OSError as the system does."""
    return disk.map_file(fd, size, mmap.PROT_READ)


def populate(mapped: mmap.mmap, fd: int, path: object, start: int, stop: int) -> None:
    """Read [start, stop) of a map of `fd` into memory, so that it can be accessed.

    Raises UnreadableError if the disk cannot read it, or the file ends before: an access would end this process
    (SIGBUS).
    """
    first = start // mmap.PAGESIZE * mmap.PAGESIZE
    try:
        disk.populate(mapped, first, stop - first)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise UnreadableError(path, start, stop) from error
        _read_through(fd, path, start, stop)


def _read_through(fd: int, path: object, start: int, stop: int) -> None:
    """Read [start, stop) with pread, on systems without populate."""
    while start < stop:
        try:
            found = len(disk.pread(fd, min(_BLOCK, stop - start), start))
        except OSError as error:
            raise UnreadableError(path, start, stop) from error
        if found == 0:
            raise UnreadableError(path, start, stop)
        start += found


def map_file(fd: int, path: object, size: int, *, write: bool) -> mmap.mmap:
    """Map the file's first `size` bytes; with `write`, stores go to the file (which must have its blocks)."""
    try:
        return disk.map_file(fd, size, mmap.PROT_READ | mmap.PROT_WRITE if write else mmap.PROT_READ)
    except OSError as error:
        raise access_error(path, error) from error


def map_window(fd: int, start: int, size: int) -> mmap.mmap | None:
    """Map [start, start + size) of a file for stores, with blocks for all of it; None if that is not possible.

    `start` is a multiple of the page size. Without its blocks a store would end this process (SIGBUS).
    """
    try:
        disk.posix_fallocate(fd, start, size)
        mapped = disk.map_file(fd, size, mmap.PROT_READ | mmap.PROT_WRITE, start)
        disk.populate_write(mapped)
    except OSError:
        return None
    return mapped


def sync_map(mapped: mmap.mmap, path: object) -> None:
    """Make data that was stored through a map durable; a failure fences as in `sync_file`."""
    try:
        disk.msync(mapped)
    except OSError as error:
        raise StoreFencedError(path, error.strerror or str(error)) from error


def preallocate(fd: int, path: object, size: int) -> None:
    """Give the file `size` bytes of real blocks, so that no later write fails on a full disk."""
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
    """Write `size` zeros from the begin on, so that the pages are in memory; end early if `stopping` returns True.

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
    """Return up to `size` bytes from `position`; raise StoreAccessError if the disk cannot read them."""
    try:
        return disk.pread(fd, size, position)
    except OSError as error:
        raise access_error(path, error) from error


_NOWAIT_TRIES: Final = 3
"""The kernel also answers EAGAIN for a page that is in memory while it is locked for a moment, to be written back."""


def read_into(fd: int, position: int, buffer: bytearray | memoryview, path: object, *, nowait: bool = False) -> int:
    """Fill `buffer` from `position`; return the number of bytes, fewer where the file ends.

    With `nowait` they also end before the first page that is not in the page cache, if the file system can say so
    (RWF_NOWAIT, ext4, XFS and btrfs among them; others wait for the disk). StoreAccessError if the disk cannot read.
    """
    try:
        if nowait:
            for _ in range(_NOWAIT_TRIES):
                try:
                    return disk.preadv(fd, [buffer], position, os.RWF_NOWAIT)
                except BlockingIOError:
                    continue
                except OSError as error:
                    if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                        raise
                    break
            else:
                return 0
        done = disk.preadv(fd, [buffer], position)
        while 0 < done < len(buffer):
            more = disk.preadv(fd, [memoryview(buffer)[done:]], position + done)
            if more == 0:
                break
            done += more
        return done
    except OSError as error:
        raise access_error(path, error) from error


def _taken(written: int) -> int:
    """Return how many bytes a call wrote; raise OSError for none, so that no writer loops for ever."""
    if written <= 0:
        raise OSError(errno.EIO, "nothing was written")
    return written


def append_bytes(fd: int, path: object, data: memoryview) -> None:
    """Write all of `data` at the descriptor's position; a short write is completed."""
    try:
        while len(data):
            data = data[_taken(disk.write(fd, data)) :]
    except OSError as error:
        raise access_error(path, error) from error


def write_at(fd: int, path: object, position: int, data: bytes | bytearray | memoryview | pa.Buffer) -> None:
    """Write all of `data` (octets) at `position`; a short write is completed."""
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


def open_direct(path: str) -> int:
    """Open a descriptor whose writes bypass the page cache; return -1 if the file system does not support it."""
    try:
        return _open(path, os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if error.errno in _NO_DIRECT:
            return -1
        raise access_error(path, error) from error


def write_direct(fd: int, path: object, position: int, data: memoryview) -> int:
    """Write whole blocks of `data` (octets) to `position`; return the bytes written, 0 if they are not aligned.

    The position, the size and the address in memory must be multiples of `BLOCK_BYTES`, and of the disk's own blocks.
    """
    from pyarrow import py_buffer  # a NameServer and a client do without it

    done = 0
    if position % BLOCK_BYTES or py_buffer(data).address % BLOCK_BYTES:
        return 0
    size = len(data) // BLOCK_BYTES * BLOCK_BYTES
    try:
        while done < size:
            written = disk.pwrite(fd, data[done:size], position + done)
            done += written
            if written % BLOCK_BYTES:  # a short write: the rest is no longer aligned
                break
    except OSError as error:
        if error.errno not in _NO_DIRECT:
            raise access_error(path, error) from error
    return done


def sync_file(fd: int, path: object) -> None:
    """Make the file's data durable; a failure fences (the success of a second sync would prove nothing)."""
    try:
        disk.fdatasync(fd)
    except OSError as error:
        raise StoreFencedError(path, error.strerror or str(error)) from error


def begin_writeback(fd: int, position: int, size: int) -> None:
    """Start writing [position, position + size) to the disk, so that a later sync has less to do; not for small sizes.

    The advice that the pages are not needed starts their write; those being written stay in memory.
    """
    if size < _LEAST_WRITEBACK:
        return
    with contextlib.suppress(OSError):  # advice
        disk.posix_fadvise(fd, position, size, os.POSIX_FADV_DONTNEED)


def sync_directory(path: Path) -> None:
    """Make creates, renames and deletes in a directory durable."""
    try:
        fd = _open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        if places.HELD:
            places.refuse_second(path)
        raise access_error(path, error) from error
    try:
        disk.fsync(fd)
    except OSError as error:
        raise StoreFencedError(path, error.strerror or str(error)) from error
    finally:
        disk.close(fd)


def directory_state(path: str) -> tuple[int, int, int]:
    """Return what changes if a directory is replaced, or gets or loses a name; zeros if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0, 0
    return status.st_dev, status.st_ino, status.st_mtime_ns


def data_ranges(fd: int, path: object, position: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of [position, end) that were ever written; the others are holes, which read as zeros."""
    while position < end:
        try:
            position = disk.lseek(fd, position, os.SEEK_DATA)
            stop = min(disk.lseek(fd, position, os.SEEK_HOLE), end)
        except OSError as error:
            if error.errno == errno.ENXIO:  # no data after position
                return
            raise access_error(path, error) from error
        if position < stop:
            yield position, stop
        position = max(stop, position + 1)


def zero_from(fd: int, path: object, position: int, end: int) -> bool:
    """Zero [position, end); return True if anything but zeros was there."""
    changed = False
    for start, stop in _written_ranges(fd, path, position, end):
        for at in range(start, stop, _BLOCK):
            written = _without_zeros(read_at(fd, at, min(_BLOCK, stop - at), path))
            if written:
                write_at(fd, path, at, memoryview(_ZEROS)[:written])
                changed = True
    return changed


def copy_range(source: tuple[int, object], target: tuple[int, object], start: int, stop: int) -> None:
    """Copy [start, stop) of a file to the same place of another; both are (descriptor, path).

    The kernel copies, and shares the blocks of both files (a reflink) if the file system can; else the bytes are read
    and written. Raises UnreadableError if the source ends before.
    """
    while start < stop:
        done = _copied_by_kernel(source[0], target, start, stop - start)
        if not done:
            data = read_at(source[0], start, min(_BLOCK, stop - start), source[1])
            if not data:
                raise UnreadableError(source[1], start, stop)
            write_at(target[0], target[1], start, data)
            done = len(data)
        start += done


def _copied_by_kernel(source: int, target: tuple[int, object], position: int, size: int) -> int:
    """Return how many bytes the kernel copied; 0 if it cannot copy between these files.

    Raises StoreFullError if the disk has no space.
    """
    try:
        return disk.copy_file_range(source, target[0], size, position, position)
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise access_error(target[1], error) from error
        return 0


def rewrite(fd: int, path: object, start: int, stop: int) -> None:
    """Write [start, stop) with its present bytes."""
    for at in range(start, stop, _BLOCK):
        write_at(fd, path, at, read_at(fd, at, min(_BLOCK, stop - at), path))


def zero_again(fd: int, path: object, position: int, end: int) -> None:
    """Write zeros to those parts of [position, end) that were ever written."""
    for start, stop in data_ranges(fd, path, position, end):
        for at in range(start, stop, _BLOCK):
            write_at(fd, path, at, memoryview(_ZEROS)[: min(_BLOCK, stop - at)])


def last_nonzero(fd: int, path: object, end: int, begin: int = 0, *, keep_cached: bool = False) -> int:
    """Return the position after the last byte of [begin, end) that is not zero, 0 if all are.

    With `keep_cached` pages in memory stay there, for a caller that is about to read them all; except for the zeros at
    the end, which count as data while they are in memory.
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
    """Estimate where the zeros at the end of [begin, end) begin, from a few samples."""
    known, step = end, _BLOCK
    while known - step > begin and not any(read_at(fd, known - step, _SAMPLE, path)):
        known, step = known - step, 2 * step
    while step > _BLOCK:
        step //= 2
        if known - step > begin and not any(read_at(fd, known - step, _SAMPLE, path)):
            known -= step
    return known


def _without_zeros(data: bytes) -> int:
    """Return the length of `data` up to its last byte that is not zero.

    The comparison detects zeros 50 times faster than `rstrip`.
    """
    return 0 if data == (_ZEROS if len(data) == _BLOCK else bytes(len(data))) else len(data.rstrip(b"\0"))


def _written_ranges(fd: int, path: object, begin: int, end: int) -> list[tuple[int, int]]:
    """Return the data ranges without those that the system only read ahead: in memory, these count as data too."""
    found = list(data_ranges(fd, path, begin, end))
    if not found or found[-1][1] >= end:  # written to its end
        return found
    disk.posix_fadvise(fd, begin, end - begin, os.POSIX_FADV_DONTNEED)
    return list(data_ranges(fd, path, begin, end))


def write_atomically(path: Path, data: bytes | pa.Buffer, *, keep_backup: bool = False, mode: int = 0o644) -> None:
    """Replace `path` by `data` durably; with `keep_backup` the previous content is kept as `NAME.bak`."""
    if places.HELD:
        places.refuse_second(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        fd = _open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
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
    """Delete a file, which may be missing."""
    if places.LOST:
        places.refuse_lost(path)
    try:
        disk.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise access_error(path, error) from error


def rename(source: Path, target: Path) -> None:
    """Rename a file or directory, and replace an existing one; raise OSError as the system does.

    Durable once both directories are synced.
    """
    if places.LOST:
        places.refuse_lost(target)
    disk.rename(source, target)


def hard_link(path: Path, other: Path) -> None:
    """Give a file a second name; do nothing if that is taken."""
    if places.LOST:
        places.refuse_lost(other)
    try:
        disk.link(path, other)
    except FileExistsError:
        pass
    except OSError as error:
        raise access_error(other, error) from error


def make_directory(path: Path) -> None:
    """Create a directory and its missing parents; other processes may do so at the same time.

    Raises StoreMovedError for a directory that a writer of this process holds, and that is no longer there.
    """
    if places.HELD:
        places.refuse_second(path)
    for tries_left in reversed(range(_DIRECTORY_TRIES)):
        try:
            disk.mkdir(path)
        except FileNotFoundError as error:
            if tries_left == 0 or path.parent == path:  # nothing can be created there, e.g. below /proc
                raise access_error(path, error) from error
            if not path.parent.is_dir():  # else another process has just created it
                make_directory(path.parent)
        except OSError as error:
            if isinstance(error, FileExistsError) and path.is_dir():
                return
            raise access_error(path, error) from error
        else:
            return


def create_directory(path: Path) -> None:
    """Create a directory in one that exists; raise OSError as the system does (FileExistsError if it exists)."""
    if places.HELD:
        places.refuse_second(path)
    disk.mkdir(path)


def make_last_directory(path: Path) -> None:
    """Create a directory, which may exist, in one that exists; raise OSError as the system does."""
    if places.HELD:
        places.refuse_second(path)
    with contextlib.suppress(FileExistsError):
        disk.mkdir(path)


def remove_directory(path: Path) -> None:
    """Delete an empty directory; raise OSError as the system does."""
    if places.LOST:
        places.refuse_lost(path)
    disk.rmdir(path)


def remove_tree(path: Path) -> None:
    """Delete a directory with its content, as far as possible; symbolic links are not followed."""
    if places.LOST:
        places.refuse_lost(path)
    with contextlib.suppress(OSError):
        for one in path.iterdir():
            if one.is_dir() and not one.is_symlink():
                remove_tree(one)
            else:
                disk.unlink(one)
        disk.rmdir(path)


def touch(path: Path) -> None:
    """Create an empty file, or set the time of an existing one to now; raise OSError as the system does."""
    if places.LOST:
        places.refuse_lost(path)
    disk.close(_open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
    disk.utime(path)
