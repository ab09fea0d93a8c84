"""Writes of chunks with direct I/O, which bypass the page cache.

The source buffer has the same alignment within a disk block as the target file. The disk starts writing at once, and no
other pages are evicted; the first reader reads the bytes from disk.
"""

from __future__ import annotations

import mmap
import threading
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.append.chunk_append import ChunkWriter
from rocketflow_store.files.os_files import BLOCK_BYTES

if TYPE_CHECKING:
    import numpy.typing as npt

    from rocketflow_store.append.chunk_append import PlacedChunk

_LEAST_SCRATCH: Final = 8 << 20


class AlignedChunkWriter(ChunkWriter):
    """Patches chunks in a per-thread buffer whose alignment matches that of the file."""

    _buffers = threading.local()

    def _octets(self, placed: PlacedChunk) -> npt.NDArray[np.uint8]:
        size = placed.chunk.size
        shift = int(placed.phy_offsets[0] - placed.chunk.starts[0]) % BLOCK_BYTES
        buffer: mmap.mmap | None = getattr(self._buffers, "buffer", None)
        if buffer is None or len(buffer) < shift + size:
            buffer = mmap.mmap(-1, max(_LEAST_SCRATCH, BLOCK_BYTES + size * 5 // 4))
            self._buffers.buffer = buffer
        octets = np.frombuffer(buffer, np.uint8)[shift : shift + size]
        placed.chunk.copy_into(octets)
        return octets

    def _write(self, placed: PlacedChunk, octets: npt.NDArray[np.uint8]) -> None:
        starts = placed.chunk.starts
        self._commit_log.write_runs(octets.data, starts, starts + placed.sizes, placed.runs, direct=True)
