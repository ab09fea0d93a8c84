"""A map of a file of which only readable parts are accessed.

An access through a map to a page that the disk cannot read (EIO), or that is after the end of a truncated file, ends
the process with SIGBUS. So every range is populated first, by a system call that returns an error instead. That costs
as much as the page faults that it saves. A range that was populated a moment ago is not populated again: its pages are
in memory; only the file's size is checked.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from rocketflow_store.files import os_files
from rocketflow_store.model.errors import UnreadableError

if TYPE_CHECKING:
    from rocketflow_store.files.open_files import Descriptor

_BLOCK_BITS: Final = 16
"""Populated at a time: 64 KiB, as many as the system maps around an accessed page."""
_KEPT_SECONDS: Final = 30.0
"""The time for which a page that was just read is assumed to be in memory.

If the system evicted it earlier, and the disk can no longer read it, an access still ends the process."""


class FileMap:
    """A read-only map of a file, and its descriptor."""

    __slots__ = ("_memory", "_path", "_populated", "buffer", "descriptor")

    def __init__(self, descriptor: Descriptor, path: str, size: int) -> None:
        self.descriptor, self._path = descriptor, path
        self._memory = os_files.map_read_only(descriptor.fd, size)
        self.buffer = pa.py_buffer(self._memory)
        self._populated = np.full((size >> _BLOCK_BITS) + 1, -np.inf)

    def populate(self, start: int, stop: int) -> None:
        """Read the part of [start, stop) that is in the file into memory; raise UnreadableError if that fails."""
        size = self.buffer.size
        start, stop = max(start, 0), min(stop, size)
        if start >= stop:
            return
        self.descriptor.used = True
        if os_files.file_size(self.descriptor.fd) < size:  # it was truncated
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
        except UnreadableError:  # the unreadable page may be beside the wanted ones
            os_files.populate(self._memory, self.descriptor.fd, self._path, start, stop)
            return
        self._populated[first:last] = now
