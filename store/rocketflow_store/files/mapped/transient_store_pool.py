"""RocketMQ's TransientStorePool: appends go to memory first, and from there to the files.

A new log file borrows a buffer of its size; `CommitLog.commit` writes the appended bytes to the file, and returns the
buffer once the file is full. The buffers are never read: a message is readable once it is committed. Messages that were
appended and not committed are lost with the process, even if PUT_OK was returned: at most those of the last
`commitIntervalCommitLog` and of the commit itself. A system crash loses what was not flushed, as without a pool.
"""

from __future__ import annotations

import mmap
import threading
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from rocketflow_store.files import memory_lock
from rocketflow_store.model.errors import StoreConfigError

if TYPE_CHECKING:
    from rocketflow_store.files.mapped.mapped_file import MappedFile


class WriteBuffer:
    """Memory for one file of the log; zeros where it was not written."""

    def __init__(self, size: int) -> None:
        self._memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.locked = memory_lock.lock(self._memory)
        """True if the system keeps it in RAM."""
        self._view = memoryview(self._memory)
        self._used = 0

    def put(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """Write `data`; one thread at a time for each position."""
        octets = memoryview(data).cast("B")
        end = position + len(octets)
        self._used = max(self._used, end)
        self._view[position:end] = octets

    def taken(self, start: int, stop: int) -> memoryview:
        """Return a view of [start, stop), valid until the buffer is returned."""
        return self._view[start:stop]

    def zero_from(self, position: int) -> None:
        """Zero everything at or after `position`."""
        if self._used > position:
            np.frombuffer(self._memory, np.uint8)[position : self._used] = 0  # lets other threads run
        self._used = min(self._used, position)

    def close(self) -> None:
        """Release the memory."""
        self._view.release()
        self._memory.close()


class TransientStorePool:
    """`size` buffers of `file_size` bytes, all allocated (and locked if that is allowed) at once."""

    def __init__(self, size: int, file_size: int) -> None:
        try:
            self._buffers = [WriteBuffer(file_size) for _ in range(size)]
        except (OSError, ValueError) as error:
            raise StoreConfigError(
                "transientStorePoolSize", size, f"buffers of {file_size} bytes each: {error}; reduce it"
            ) from error
        self._available = deque(self._buffers)
        self.size = size

    @property
    def available(self) -> int:
        """Unused buffers: RocketMQ's remainTransientStoreBufferNumbs."""
        return len(self._available)

    @property
    def locked(self) -> int:
        """Buffers that the system keeps in RAM."""
        return sum(one.locked for one in self._buffers)

    def borrow(self) -> WriteBuffer | None:
        """Return a buffer of zeros, None if all are in use."""
        try:
            return self._available.popleft()
        except IndexError:
            return None

    def give_back(self, buffer: WriteBuffer) -> None:
        """Return a buffer to the pool; its content is zeroed."""
        buffer.zero_from(0)
        self._available.append(buffer)

    def close(self) -> None:
        """Release the memory; no buffer may be in use."""
        for one in self._buffers:
            one.close()
        self._buffers, self.size = [], 0
        self._available.clear()


class BufferedFiles:
    """The log files with a buffer: those begun since the store was opened, and not completely committed."""

    def __init__(self, pool: TransientStorePool, *, fail_fast: bool) -> None:
        self.pool, self._fail_fast = pool, fail_fast
        self._buffers: dict[int, tuple[MappedFile, WriteBuffer]] = {}  # by offset of the file, rising
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._buffers)

    @property
    def refuses(self) -> bool:
        """True if no file may be begun: all buffers are used, and `fastFailIfNoBufferInStorePool` is set."""
        return self._fail_fast and self.pool.available == 0

    def begin(self, mapped: MappedFile) -> None:
        """Assign a buffer to a new file; if there is none, the file is written directly."""
        buffer = self.pool.borrow()
        if buffer is not None:
            with self._lock:
                self._buffers[mapped.file_from_offset] = mapped, buffer

    def write(self, mapped: MappedFile, position: int, data: bytes | bytearray | memoryview) -> None:
        """Write `data` at `position` of the file: into its buffer, or directly if it has none."""
        found = self._buffers.get(mapped.file_from_offset)
        if found is None:
            mapped.write(position, data)
        else:
            found[1].put(position, data)

    def commit(self, start: int, stop: int) -> None:
        """Write the buffered part of log bytes `[start, stop)` to the files; one thread at a time.

        A failure raises StoreAccessError or StoreFullError, and keeps everything for the next attempt.
        """
        for file_from_offset, (mapped, buffer) in list(self._buffers.items()):
            begin, end = max(start - file_from_offset, 0), min(stop - file_from_offset, mapped.file_size)
            if begin < end:
                mapped.write(begin, buffer.taken(begin, end))
            if end == mapped.file_size:
                self._return(file_from_offset)

    def undo(self, offset: int) -> None:
        """Discard buffered bytes at or after `offset`; files that begin there lose their buffers."""
        for file_from_offset, (mapped, buffer) in list(self._buffers.items()):
            if file_from_offset >= offset:
                self._return(file_from_offset)
            elif mapped.end_offset > offset:
                buffer.zero_from(offset - file_from_offset)

    def _return(self, file_from_offset: int) -> None:
        with self._lock:
            found = self._buffers.pop(file_from_offset, None)
        if found is not None:
            self.pool.give_back(found[1])

    def close(self) -> None:
        """Discard what was not committed, and close the pool."""
        self.undo(0)
        self.pool.close()
