"""Placement and writing of encoded chunks: each chunk gets its offsets in turn, then its bytes are patched and written.

Chunks are placed one after another; several threads may write their bytes (`ParallelWriter`), because a placed chunk
depends on no other chunk. This module publishes nothing: the store publishes all chunks, or takes them all back.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.files.open_files import OPEN_FILES
from rocketflow_store.format.lmq_properties import LMQ_QUEUE_ID
from rocketflow_store.records.encoding.relocate import relocate

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from types import TracebackType
    from typing import Self

    import numpy.typing as npt

    from rocketflow_store.append.assigned_properties import AssignedProperties
    from rocketflow_store.log.commit_log import CommitLog, Run
    from rocketflow_store.metadata.config_files.topic_table import TopicTable
    from rocketflow_store.records.decoding.dispatch_rows import DispatchRows
    from rocketflow_store.records.encoding.encode import EncodedChunk
    from rocketflow_store.records.encoding.lmq_offsets import LmqOffsets
    from rocketflow_store.views.queues.queue_offsets import QueueOffsets

_WRITERS: Final = 2
SYNC_EVERY_BYTES: Final = 48 << 20


@dataclass(frozen=True, slots=True)
class PlacedChunk:
    """A chunk with the physical and queue offsets of its records, each (n,) int64; `end` is exclusive."""

    chunk: EncodedChunk
    sizes: npt.NDArray[np.int64]
    phy_offsets: npt.NDArray[np.int64]
    queue_offsets: npt.NDArray[np.int64]
    runs: list[Run]
    rows: DispatchRows
    end: int
    lmq_offsets: npt.NDArray[np.int64]
    """Queue offsets in the LMQs of `chunk.lmqs`."""


class ChunkPlacer:
    """Assigns consecutive physical offsets from the log's end on, and the next queue offset to each row.

    `offsets` has the next offset of each queue after all placed rows. The store's queues `advance` to them once all
    rows are written.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        offsets: QueueOffsets,
        topics: TopicTable,
        assigned: AssignedProperties,
        store_timestamp_ms: int,
    ) -> None:
        self._commit_log, self._topics, self._assigned = commit_log, topics, assigned
        self._lmq: set[str] = set()
        self.offsets = offsets.fork()
        self.store_timestamp = store_timestamp_ms
        self.end = commit_log.wrote_offset
        self.count = 0
        """Number of placed records."""

    def reserve(self, size: int) -> int:
        """Return the physical offset for a single record of `size` bytes, which the caller writes later."""
        phy_offset, _ = self._commit_log.place_one(size)
        self.end = phy_offset + size
        self.count += 1
        return phy_offset

    def place(self, chunk: EncodedChunk) -> PlacedChunk:
        """Assign the chunk its offsets, and allocate the log files that it needs."""
        sizes = chunk.sizes.astype(np.int64)
        phy_offsets, runs = self._commit_log.place(sizes, self.end)
        queues, queue_of = chunk.queues()
        with self._topics.one_write():
            for topic, part in queues.by_topic():
                self._topics.have_queue(topic, int(queues.ids[part][-1]))
        queue_offsets = self.offsets.assign(queues, queue_of)
        if not queue_offsets.all():
            OPEN_FILES.check_new(f"a queue of {', '.join(queues.topics)}")
        self.count += len(sizes)
        self.end = self._commit_log.make_room(self.end, runs)
        rows = chunk.dispatch_rows(phy_offsets, queue_offsets, queues, queue_of, self.store_timestamp)
        lmq_offsets = np.zeros(0, np.int64)
        if chunk.lmqs is not None:
            lmq_offsets = self._assign_lmq_offsets(chunk.lmqs)
            rows.lmq = list(zip(chunk.lmqs.rows.tolist(), chunk.lmqs.names, lmq_offsets.tolist(), strict=True))
        return PlacedChunk(chunk, sizes, phy_offsets, queue_offsets, runs, rows, self.end, lmq_offsets)

    def _assign_lmq_offsets(self, lmqs: LmqOffsets) -> npt.NDArray[np.int64]:
        """Take the next offsets of the LMQs, one for each of `lmqs.names`, in the order of the records."""
        wanted = set(lmqs.names)
        self._assigned.check_lmq_limit(self._lmq | wanted)
        self._lmq |= wanted
        offsets = np.empty(len(lmqs.names), np.int64)
        for at, name in enumerate(lmqs.names):
            offsets[at] = self.offsets.next(name, LMQ_QUEUE_ID)
            self.offsets.advance(name, LMQ_QUEUE_ID)
        return offsets

    def advance(self, offsets: QueueOffsets) -> None:
        """Advance the queues, and the LMQs, to the offsets after the placed rows."""
        offsets.join(self.offsets)
        self._assigned.add_lmqs(self._lmq)


class ChunkWriter:
    """Patches the bytes of placed chunks and writes them; `write` may run in several threads."""

    def __init__(self, commit_log: CommitLog, store_timestamp_ms: int) -> None:
        self._commit_log, self._store_timestamp_ms = commit_log, store_timestamp_ms
        self._file = threading.Lock()

    def write(self, placed: PlacedChunk) -> int:
        """Patch and write a chunk; return the number of bytes written."""
        octets = self._octets(placed)
        if placed.chunk.lmqs is not None:
            placed.chunk.lmqs.fill_in(octets, placed.chunk.starts, placed.lmq_offsets)
        relocate(
            octets,
            placed.chunk.starts,
            placed.sizes,
            placed.phy_offsets,
            placed.queue_offsets,
            self._store_timestamp_ms,
            property_crc=placed.chunk.property_crc,
        )
        self._write(placed, octets)
        return int(placed.sizes.sum())

    def _octets(self, placed: PlacedChunk) -> npt.NDArray[np.uint8]:
        return placed.chunk.writable()

    def _write(self, placed: PlacedChunk, octets: npt.NDArray[np.uint8]) -> None:
        starts = placed.chunk.starts
        with self._file:  # the kernel serialises writes to a file, and a thread that waits there burns CPU
            self._commit_log.write_runs(octets.data, starts, starts + placed.sizes, placed.runs)


class ParallelWriter:
    """Writes chunks in a few threads, and starts syncing before the last chunk is written.

    `sync_early` syncs what is written so far; one thread at a time calls it, every `SYNC_EVERY_BYTES`. Exiting the
    context waits for all writes and raises the first error.
    """

    def __init__(self, writer: ChunkWriter, sync_early: Callable[[], None] | None) -> None:
        self._writer, self._sync_early = writer, sync_early
        self._pool = ThreadPoolExecutor(_WRITERS + 1, "chunk-writer")
        self._jobs: list[Future[None]] = []
        self._lock = threading.Lock()
        self._unsynced, self._syncing = 0, False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=error is not None)
        if error is None:
            for job in self._jobs:
                job.result()

    def submit(self, placed: PlacedChunk) -> None:
        """Queue a chunk for writing."""
        self._jobs.append(self._pool.submit(self._write, placed))

    def _write(self, placed: PlacedChunk) -> None:
        written = self._writer.write(placed)
        with self._lock:
            self._unsynced += written
            if self._sync_early is None or self._syncing or self._unsynced < SYNC_EVERY_BYTES:
                return
            self._unsynced, self._syncing = 0, True
        try:
            self._sync_early()
        finally:
            with self._lock:
                self._syncing = False
