"""Files of a log in object storage, accessed as if they were mapped: ranges are fetched before they are read.

The memory of a file is as large as the file and initially empty; `populate` fetches missing ranges, and the next range
ahead of a sequential reader. Ranges that were read are released (`forget`), so that a file takes no more memory than a
few ranges.
"""

from __future__ import annotations

import mmap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import pyarrow as pa

from rocketflow_store.files.mapped.log_directories import LogDirectories
from rocketflow_store.files.mapped.mapped_file import MappedFile, file_name
from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Future

    from rocketflow_store.files.mapped.file_map import FileMap
    from rocketflow_store.files.remote import RemoteDirectory, RemoteFile

_BLOCK_BITS: Final = 16
_GOING_THROUGH: Final = 4 << 20
"""A reader of so many bytes at once is taken for a sequential one."""
_BACKWARDS: Final = 8 << 20


class RemoteMap:
    """A `FileMap` of the file `name` of a RemoteDirectory. Raises RemoteStoreError if a range cannot be read."""

    def __init__(self, directory: RemoteDirectory, name: str, size: int) -> None:
        self._directory, self._name = directory, name
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        self._memory = mmap.mmap(-1, size, flags=flags)
        self.buffer = pa.py_buffer(self._memory)
        self._there = np.zeros((size >> _BLOCK_BITS) + 1, bool)
        self._file: RemoteFile | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._ahead: tuple[int, Future[memoryview]] | None = None
        self._forgotten = 0

    def populate(self, start: int, stop: int) -> None:
        """Fetch the part of [start, stop) that is in the file."""
        size = self.buffer.size
        start, stop = max(start, 0), min(stop, size)
        if start >= stop:
            return
        self._take_ahead(start, stop)
        first, last = start >> _BLOCK_BITS, ((stop - 1) >> _BLOCK_BITS) + 1
        missing = np.flatnonzero(~self._there[first:last]) + first
        for run in np.split(missing, np.flatnonzero(np.diff(missing) > 1) + 1) if len(missing) else ():
            begin = int(run[0]) << _BLOCK_BITS
            self._put(begin, self._read(begin, min((int(run[-1]) + 1) << _BLOCK_BITS, size) - begin))
        if stop - start >= _GOING_THROUGH and stop < size and self._ahead is None:
            self._begin_ahead(last << _BLOCK_BITS, stop - start)

    def forget(self, below: int) -> None:
        """Release the memory before `below`, which is not read again."""
        stop = below >> _BLOCK_BITS
        if stop > self._forgotten:
            start = self._forgotten << _BLOCK_BITS
            self._memory.madvise(mmap.MADV_DONTNEED, start, (stop << _BLOCK_BITS) - start)
            self._there[self._forgotten : stop] = False
            self._forgotten = stop

    def close(self) -> None:
        """Stop reading."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)
        if self._file is not None:
            self._file.close()
        self._thread, self._file, self._ahead = None, None, None

    def _begin_ahead(self, begin: int, count: int) -> None:
        count = min(count, self.buffer.size - begin)
        if count <= 0 or self._there[begin >> _BLOCK_BITS]:
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "read-ahead")
        count = ((count >> _BLOCK_BITS) << _BLOCK_BITS) or count  # whole blocks, or the file's rest
        self._ahead = begin, self._thread.submit(self._read, begin, count)

    def _take_ahead(self, start: int, stop: int) -> None:
        if self._ahead is None:
            return
        begin, coming = self._ahead
        if begin < stop and start <= begin + _GOING_THROUGH:
            self._ahead = None
            self._put(begin, coming.result())
        elif coming.done():
            self._ahead = None

    def _put(self, begin: int, data: memoryview) -> None:
        self._memory[begin : begin + len(data)] = data
        is_end = begin + len(data) == self.buffer.size
        self._there[begin >> _BLOCK_BITS : ((begin + len(data)) >> _BLOCK_BITS) + is_end] = True

    def _read(self, begin: int, count: int) -> memoryview:
        if self._file is None:
            self._file = self._directory.opened(self._name)
        return self._file.read_at(begin, count)


class RemoteLogFile(MappedFile):
    """A file of a log in object storage: a read-only `MappedFile`."""

    __slots__ = ("_remote",)

    def __init__(self, directory: RemoteDirectory, file_from_offset: int, file_size: int) -> None:
        name = file_name(file_from_offset)
        self._path = cast("Path", directory.name_of(name))  # for messages only: it is never opened
        self.name = str(self._path)
        self.file_from_offset, self.file_size = file_from_offset, file_size
        self._write, self._descriptor, self._direct, self._holds = False, None, None, None
        self._is_closed = True  # it is never opened as a file
        self._retired_ms, self._lock = -1, threading.Lock()
        self._remote = RemoteMap(directory, name, file_size)
        self._file_map = cast("FileMap", self._remote)

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position`; fewer at the file's end."""
        stop = min(position + size, self.file_size)
        return self.bytes_of(position, stop).to_pybytes() if position < stop else b""

    def written_end(self, begin: int = 0, *, keep_cached: bool = False) -> int:
        """Return the position after the last byte that is not zero, at or after `begin`; 0 if there is none."""
        stop = self.file_size
        while stop > begin:
            start = max(stop - _BACKWARDS, begin)
            data = self.read(start, stop - start)
            if end := len(data.rstrip(b"\0")):
                return start + end
            stop = start
        return 0

    def forget(self, below: int) -> None:
        """Release the memory before position `below`, which is not read again."""
        self._remote.forget(below)

    def close(self) -> None:
        """Stop reading."""
        self._remote.close()


class RemoteLogFiles(MappedFileQueue):
    """The files of a log in object storage that begin at `offsets`."""

    __slots__ = ()

    def __init__(self, directory: RemoteDirectory, offsets: Iterable[int], file_size: int) -> None:
        self.directories = LogDirectories((cast("Path", directory.name),))
        self.file_size, self._write = file_size, False
        self._lock = threading.Lock()
        self._files = {one: RemoteLogFile(directory, one, file_size) for one in sorted(offsets)}
        self.replacements = 0
