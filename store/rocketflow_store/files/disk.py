"""The system calls that reach a disk, by name: the only place of the engine that has them.

`os_files` makes of them what the engine uses. Each is looked up here at the time of the call, so that another disk (one
that records, fails, or forgets what was not synced) can be put in its place by assigning to these names.
"""

from __future__ import annotations

import mmap
import os
from typing import Any, Final

_MADV_POPULATE_READ: Final = 22
"""Linux 5.14; EINVAL before."""

open_file = os.open
close = os.close
fstat = os.fstat
statvfs = os.statvfs
lseek = os.lseek
pread = os.pread
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


def map_file(fd: int, size: int, prot: int) -> mmap.mmap:
    """The file's first `size` bytes, shared with everybody."""
    return mmap.mmap(fd, size, prot=prot)


def populate(mapped: mmap.mmap, start: int, length: int) -> None:
    """Have pages of a map in memory: where one cannot be read this fails (EFAULT), and looking at it would kill."""
    mapped.madvise(_MADV_POPULATE_READ, start, length)


def msync(mapped: mmap.mmap) -> Any:
    """Make what was stored through a map durable."""
    return mapped.flush()
