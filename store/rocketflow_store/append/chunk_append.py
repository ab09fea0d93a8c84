"""Encoded chunks on their way into the log: each gets its place in turn, then its bytes are patched and written.

Places are given one after another; bytes may be written by several threads at once (`ParallelWriter`), because a chunk
that has its place depends on no other. Nothing written here is published: the store does that, or takes all of it back.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.format.light_queue_properties import LMQ_QUEUE_ID
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
    from rocketflow_store.records.encoding.light_queues import LightQueues
    from rocketflow_store.views.queues.queue_offsets import QueueOffsets

_WRITERS: Final = 2
SYNC_EVERY_BYTES: Final = 48 << 20


@dataclass(frozen=True, slots=True)
class PlacedChunk:
    """A chunk whose records know where they go; `end` is the offset behind the last."""

    chunk: EncodedChunk
    sizes: npt.NDArray[np.int64]
    phy_offsets: npt.NDArray[np.int64]
    queue_offsets: npt.NDArray[np.int64]
    runs: list[Run]
    rows: DispatchRows
    end: int
    light_offsets: npt.NDArray[np.int64]
    """Queue offsets in the light queues of `chunk.light`."""


class ChunkPlacer:
    """Gives chunks consecutive places from the log's end on, and their rows the next offsets of their queues.

    `offsets` are those behind all that was placed; the store's queues `advance` to them once all of it is written.
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
        self._light: set[str] = set()
        self.offsets = offsets.fork()
        self.store_timestamp = store_timestamp_ms
        self.end = commit_log.wrote_offset
        self.count = 0
        """Records that were placed."""

    def reserve(self, size: int) -> int:
        """Physical offset of a single record of `size` bytes, to be written later."""
        phy_offset, _ = self._commit_log.place_one(size)
        self.end = phy_offset + size
        self.count += 1
        return phy_offset

    def place(self, chunk: EncodedChunk) -> PlacedChunk:
        """The next place; files that it needs exist when this returns."""
        sizes = chunk.sizes.astype(np.int64)
        phy_offsets, runs = self._commit_log.place(sizes, self.end)
        queues, queue_of = chunk.queues()
        for topic, part in queues.by_topic():
            self._topics.have_queue(topic, int(queues.ids[part][-1]))
        queue_offsets = self.offsets.assign(queues, queue_of)
        self.count += len(sizes)
        self.end = self._commit_log.make_room(self.end, runs)
        rows = chunk.dispatch_rows(phy_offsets, queue_offsets, queues, queue_of, self.store_timestamp)
        light_offsets = np.zeros(0, np.int64)
        if chunk.light is not None:
            light_offsets = self._light_offsets(chunk.light)
            rows.lmq = list(zip(chunk.light.rows.tolist(), chunk.light.names, light_offsets.tolist(), strict=True))
        return PlacedChunk(chunk, sizes, phy_offsets, queue_offsets, runs, rows, self.end, light_offsets)

    def _light_offsets(self, light: LightQueues) -> npt.NDArray[np.int64]:
        """The next offsets of light queues, in the order of the records."""
        wanted = set(light.names)
        self._assigned.check_light_queues(self._light | wanted)
        self._light |= wanted
        offsets = np.empty(len(light.names), np.int64)
        for at, name in enumerate(light.names):
            offsets[at] = self.offsets.next(name, LMQ_QUEUE_ID)
            self.offsets.advance(name, LMQ_QUEUE_ID)
        return offsets

    def advance(self, offsets: QueueOffsets) -> None:
        """Let the queues end behind what was placed, light queues included."""
        offsets.join(self.offsets)
        self._assigned.have_light_queues(self._light)


class ChunkWriter:
    """Patches placed chunks' bytes and writes them."""

    def __init__(self, commit_log: CommitLog, store_timestamp_ms: int) -> None:
        self._commit_log, self._store_timestamp_ms = commit_log, store_timestamp_ms
        self._file = threading.Lock()

    def write(self, placed: PlacedChunk) -> int:
        """Any number of threads may; bytes written."""
        octets = self._octets(placed)
        if placed.chunk.light is not None:
            placed.chunk.light.fill_in(octets, placed.chunk.starts, placed.light_offsets)
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
        """The chunk's bytes, to be patched."""
        return placed.chunk.writable()

    def _write(self, placed: PlacedChunk, octets: npt.NDArray[np.uint8]) -> None:
        starts = placed.chunk.starts
        with self._file:  # the kernel writes into a file one at a time; who waits there burns a processor
            self._commit_log.write_runs(octets.data, starts, starts + placed.sizes, placed.runs)


class ParallelWriter:
    """Writes chunks with a few threads, and lets the disk begin before the last one is written.

    `sync_early` makes durable what is written so far; it is called now and then, by one thread at a time. Leaving the
    context waits for everything and raises the first error.
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
        """Write this chunk soon."""
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
