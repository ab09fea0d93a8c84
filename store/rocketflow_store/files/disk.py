"""The system calls that reach a disk, by name: no other module of the engine calls them.

`os_files` builds the engine's operations from them. Each is looked up here at the time of the call, so that another
disk (one that records, fails, or loses what was not synced) can replace it by an assignment to these names.
"""

from __future__ import annotations

import functools
import mmap
import os
from typing import Any, Final

_MADV_POPULATE_READ: Final = 22
_MADV_POPULATE_WRITE: Final = 23
"""Linux 5.14; EINVAL before."""

open_file = os.open
close = os.close
eventfd = os.eventfd
fstat = os.fstat
statvfs = os.statvfs
lseek = os.lseek
pread = os.pread
preadv = os.preadv
copy_file_range = os.copy_file_range
posix_fadvise = os.posix_fadvise
write = os.write
pwrite = os.pwrite
posix_fallocate = os.posix_fallocate
ftruncate = os.ftruncate
fdatasync = os.fdatasync
fsync = os.fsync
rename = os.replace
link = os.link
unlink = os.unlink
mkdir = os.mkdir
rmdir = os.rmdir
utime = os.utime


def map_file(fd: int, size: int, prot: int, start: int = 0) -> mmap.mmap:
    """Map `size` bytes of a file from `start` on, shared with other processes."""
    return mmap.mmap(fd, size, prot=prot, offset=start)


def populate(mapped: mmap.mmap, start: int, length: int) -> None:
    """Read pages of a map into memory; raise OSError (EFAULT) if one is unreadable, which would kill on access."""
    mapped.madvise(_MADV_POPULATE_READ, start, length)


def populate_write(mapped: mmap.mmap) -> None:
    """Make all pages of a map writable; raise OSError (EFAULT) if the disk has no space for one, or cannot read it."""
    mapped.madvise(_MADV_POPULATE_WRITE)


def msync(mapped: mmap.mmap) -> Any:
    """Make data that was stored through a map durable."""
    return mapped.flush()


@functools.cache
def boot_id() -> str:
    """Return what identifies this boot of the system, the same in all its containers; empty if it cannot be read."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""


def open_descriptors() -> int:
    """Return the number of descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))
