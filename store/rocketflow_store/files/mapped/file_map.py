"""A map of a file, of which only what can be read is looked at.

A page that the disk cannot read (EIO), or that is behind the end of a file that was cut, ends the process that looks at
it through a map: SIGBUS. So every range is populated first: asked for by a system call that answers instead of killing.
That costs as much as the page faults that it saves. A range that was populated a moment ago is not asked for again: its
pages are in memory; whether the file was cut since is.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from rocketflow_store.files import os_files
from rocketflow_store.model.errors import UnreadableError

if TYPE_CHECKING:
    from pathlib import Path

_BLOCK_BITS: Final = 16
"""Populated at a time: 64 KiB, what the system maps around a page that is looked at."""
_KEPT_SECONDS: Final = 30.0
"""How long a page that was just read is taken to be in memory. One that the system took back before, and that the disk
cannot read any more, still kills."""


class FileMap:
    """A read-only map of a file, and the descriptor that it is of."""

    __slots__ = ("_memory", "_path", "_populated", "buffer", "descriptor")

    def __init__(self, descriptor: Descriptor, path: Path, size: int) -> None:
        self.descriptor, self._path = descriptor, path
        self._memory = os_files.map_read_only(descriptor.fd, size)
        self.buffer = pa.py_buffer(self._memory)
        self._populated = np.full((size >> _BLOCK_BITS) + 1, -np.inf)

    def populate(self, start: int, stop: int) -> None:
        """Have the part of [start, stop) that is in the file in memory; UnreadableError where it cannot be read."""
        size = self.buffer.size
        start, stop = max(start, 0), min(stop, size)
        if start >= stop:
            return
        if os_files.file_size(self.descriptor.fd) < size:  # it was cut
            os_files.populate(self._memory, self.descriptor.fd, self._path, start, stop)
            return
        first, last = start >> _BLOCK_BITS, ((stop - 1) >> _BLOCK_BITS) + 1
        now = time.monotonic()
        since = now - _KEPT_SECONDS
        if last - first == 1:
            if self._populated[first] > since:
                return
        else:
            due = np.flatnonzero(self._populated[first:last] <= since)
            if len(due) == 0:
                return
            first, last = first + int(due[0]), first + int(due[-1]) + 1
        try:
            stretch = first << _BLOCK_BITS, min(last << _BLOCK_BITS, size)
            os_files.populate(self._memory, self.descriptor.fd, self._path, *stretch)
        except UnreadableError:  # it may be beside what is wanted
            os_files.populate(self._memory, self.descriptor.fd, self._path, start, stop)
            return
        self._populated[first:last] = now


class Descriptor:
    """A file descriptor that is closed when nobody refers to it any more.

    Whoever reads keeps a reference for as long as the call takes: a number that was closed meanwhile may already
    belong to another file.
    """

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        if self.fd >= 0:
            os_files.close_file(self.fd)
