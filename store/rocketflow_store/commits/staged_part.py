"""The rows of one task of a sink batch, staged for the commit: encoded records without offsets, as an Arrow IPC stream.

A part of less than `INLINE_BYTES` travels in the commit message itself; a larger one is a file under
`rocketflow/staging/SINK/BATCH/`, named for its attempt, complete once it has its name. It may overwrite a file of an
earlier batch, and then be longer than the part (`pooled_parts`). Its CRC-32 and row digest travel in the message and
are checked by the commit: a part that differs from what was written fails the batch and never reaches the log.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from isal.isal_zlib import crc32

from rocketflow_store.commits import pooled_parts
from rocketflow_store.files import os_files
from rocketflow_store.files.os_files import access_error
from rocketflow_store.model.errors import CorruptRecordError, StoreAccessError
from rocketflow_store.records.arrow.arrays import bool_array
from rocketflow_store.records.arrow.gather import int_array
from rocketflow_store.records.decoding.index_entries import IndexEntries
from rocketflow_store.records.encoding.encode import EncodedChunk
from rocketflow_store.records.encoding.lmq_offsets import LmqOffsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

INLINE_BYTES: Final = 1 << 20

Take = Callable[[memoryview], None]

_SCHEMA: Final = pa.schema(
    [
        ("record", pa.binary()),
        ("topic", pa.int32()),
        ("queueId", pa.int32()),
        ("tagsCode", pa.int64()),
        ("delayLevel", pa.int32()),
        ("indexHashes", pa.list_(pa.int32())),
        ("tagIndexed", pa.bool_()),
    ]
)


LMQ_SCHEMA: Final = pa.schema([*_SCHEMA, ("lightQueues", pa.list_(pa.string())), ("lightAt", pa.list_(pa.int64()))])
"""Of a store with LMQs (light message queues)."""


@dataclass(frozen=True, slots=True)
class StagedPart:
    """A part by reference (`path`) or by value (`inline`).

    `digest` is the sum of row hashes modulo 2 ** 64, None for chunks without them.
    """

    rows: int
    size: int
    crc: int
    digest: int | None
    topics: tuple[str, ...]
    path: str | None = None
    inline: bytes | None = None
    property_crc: bool = False

    def in_file(self, directory: Path) -> StagedPart:
        """Return the part by reference; one by value gets a file in `directory`, which is not synced."""
        if self.inline is None:
            return self
        path = directory / f"inline-{uuid.uuid4().hex}"
        try:
            os_files.make_directory(directory)
            fd = os_files.create_exclusively(path)
            try:
                os_files.append_bytes(fd, path, memoryview(self.inline))
            finally:
                os_files.close_file(fd)
        except OSError as error:
            raise access_error(path, error) from error
        return replace(self, path=str(path), inline=None)

    def discard(self) -> None:
        """Delete the file, if there is one."""
        if self.path is not None:
            os_files.remove_file(Path(self.path))


def sink_directory(staging: Path, sink_id: str) -> Path:
    """Return the directory of one sink's files besides the log; its name is at most as long as the id."""
    return staging / quote(sink_id, safe=":@")


def batch_directory(staging: Path, sink_id: str, batch_id: int) -> Path:
    """Return the directory in which the parts of one batch are staged."""
    return sink_directory(staging, sink_id) / f"{batch_id:012d}"


class _Counted(io.RawIOBase):
    """Hands bytes on, and counts them."""

    def __init__(self, take: Take) -> None:
        super().__init__()
        self._take = take
        self.size, self.crc = 0, 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self.crc = int(crc32(view, self.crc))
        self.size += len(view)
        self._take(view)
        return len(view)


class _Spill:
    """Collects bytes in memory, and continues in a file once there are too many."""

    def __init__(self, directory: Path, name: str, limit: int) -> None:
        self._directory, self._name, self._limit = directory, name, limit
        self._memory: list[bytes] = []
        self._size = 0
        self._fd = -1

    def write(self, view: memoryview) -> None:
        self._size += len(view)
        if self._fd < 0 and self._size <= self._limit:
            self._memory.append(bytes(view))
            return
        if self._fd < 0:
            self._open()
        self._write_out(view)

    def _open(self) -> None:
        try:
            os_files.make_directory(self._directory)
            if pooled_parts.take(self._directory.parent.parent, self._temporary):
                self._fd = os_files.open_file(self._temporary, write=True)
            else:
                self._fd = os_files.create_exclusively(self._temporary)
        except OSError as error:
            raise access_error(self._directory, error) from error
        for data in self._memory:
            self._write_out(memoryview(data))
        self._memory = []

    def _write_out(self, view: memoryview[Any]) -> None:
        os_files.append_bytes(self._fd, self._temporary, view)

    @property
    def _temporary(self) -> Path:
        return self._directory / f".{self._name}.tmp"

    def finish(self) -> tuple[str | None, bytes | None]:
        """Return (path, None) of the finished file, or (None, bytes)."""
        if self._fd < 0:
            return None, b"".join(self._memory)
        os_files.close_file(self._fd)
        self._fd = -1
        path = self._directory / self._name
        os_files.rename(self._temporary, path)
        return str(path), None

    def drop(self) -> None:
        """Delete the unfinished file."""
        if self._fd >= 0:
            os_files.close_file(self._fd)
            self._fd = -1
            os_files.remove_file(self._temporary)


def stage(chunks: Iterable[EncodedChunk], directory: Path, name: str, inline_bytes: int = INLINE_BYTES) -> StagedPart:
    """Write a task's chunks as one part; `name` should contain partition and attempt (it is made unique here)."""
    spill = _Spill(directory, f"{name}-{uuid.uuid4().hex[:12]}", inline_bytes)
    try:
        part = write_part(chunks, spill.write)
    except BaseException:
        spill.drop()
        raise
    path, inline = spill.finish()
    return replace(part, path=path, inline=inline)


def write_part(chunks: Iterable[EncodedChunk], take: Take) -> StagedPart:
    """Write the bytes of a task's part with `take` as they are made; return the part, which does not say where it is.

    The memory that `take` sees is used again after the call.
    """
    out = _Counted(take)
    rows, property_crc = 0, False
    digest: int | None = 0
    topics: dict[str, int] = {}
    coming = iter(chunks)
    begun = next(coming, None)
    schema = _SCHEMA if begun is None or begun.lmqs is None else LMQ_SCHEMA
    with pa.ipc.new_stream(pa.PythonFile(out, "w"), schema) as stream:
        for chunk in chain([] if begun is None else [begun], coming):
            rows += len(chunk.sizes)
            property_crc = chunk.property_crc
            digest = _with_rows(digest, chunk)
            codes = np.array([topics.setdefault(topic, len(topics)) for topic in chunk.topics], np.int32)
            stream.write_batch(_to_batch(chunk, codes[chunk.topic_codes]))
    return StagedPart(rows, out.size, out.crc, digest, tuple(topics), property_crc=property_crc)


def _with_rows(digest: int | None, chunk: EncodedChunk) -> int | None:
    if digest is None or chunk.row_hashes is None:
        return None
    return (digest + int(chunk.row_hashes.sum(dtype=np.uint64))) & 0xFFFFFFFFFFFFFFFF


def stage_alike(chunks: Iterable[EncodedChunk], directory: Path, name: str) -> list[StagedPart]:
    """Stage parts (see `stage`) of records that all have a CRC of themselves, or none: a part records one for all."""
    runs = groupby(chunks, lambda chunk: chunk.property_crc)
    return [stage(alike, directory, f"{name}-{number}") for number, (_, alike) in enumerate(runs)]


def _to_batch(chunk: EncodedChunk, topic_codes: Any) -> pa.RecordBatch:
    count = len(chunk.sizes)
    offsets = np.append(chunk.starts, chunk.starts[-1] + chunk.sizes[-1]).astype(np.int32)
    levels = np.zeros(count, np.int32) if chunk.delay_levels is None else chunk.delay_levels
    columns = [
        pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), chunk.data]),
        int_array(topic_codes, pa.int32()),
        int_array(chunk.queue_ids, pa.int32()),
        int_array(chunk.tags_codes, pa.int64()),
        int_array(levels, pa.int32()),
        chunk.entries.as_lists(count),
        bool_array(chunk.entries.tagged_rows(count)),
    ]
    if chunk.lmqs is None:
        return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
    return pa.RecordBatch.from_arrays([*columns, *chunk.lmqs.as_lists(count)], schema=LMQ_SCHEMA)


def load(part: StagedPart, delay_levels_ms: Sequence[int]) -> Iterator[EncodedChunk]:
    """Yield the part's chunks after its CRC was checked; raise CorruptRecordError if it was changed."""
    if part.inline is not None:
        source = pa.py_buffer(part.inline)
    else:
        assert part.path is not None
        try:
            source = pa.memory_map(part.path).read_buffer()
        except OSError as error:
            raise StoreAccessError(
                part.path, f"staged part cannot be read ({error}); the commit must see the tasks' directory"
            ) from error
    source = source.slice(0, min(part.size, source.size))  # a reused file may be longer
    if source.size != part.size or int(crc32(source)) != part.crc:
        raise CorruptRecordError(part.path or "inline part", 0, "the staged part differs from what the task wrote")
    topics = list(part.topics)
    for batch in _batches(source, part):
        records = batch.column(0)
        count = len(records)
        ends = np.frombuffer(records.buffers()[1], np.int32, count + 1, records.offset * 4).astype(np.int64)
        levels, sizes = np.asarray(batch.column(4)), np.diff(ends)
        lmqs = None
        if batch.num_columns > len(_SCHEMA):
            lmqs = LmqOffsets.of_lists(batch.column(7), batch.column(8), sizes, part.path or "inline part")
        yield EncodedChunk(
            data=records.buffers()[2],
            starts=ends[:-1],
            sizes=sizes,
            topics=topics,
            topic_codes=np.asarray(batch.column(1)),
            queue_ids=np.asarray(batch.column(2)),
            tags_codes=np.asarray(batch.column(3)),
            entries=IndexEntries.of_lists(batch.column(5), np.asarray(batch.column(6))),
            delay_levels=levels if (levels > 0).any() else None,
            delay_levels_ms=delay_levels_ms,
            property_crc=part.property_crc,
            lmqs=lmqs,
        )


def load_all(parts: Iterable[StagedPart], delay_levels_ms: Sequence[int]) -> Iterator[EncodedChunk]:
    """Yield the chunks of parts, in their order."""
    for part in parts:
        yield from load(part, delay_levels_ms)


def _batches(source: pa.Buffer, part: StagedPart) -> Iterator[pa.RecordBatch]:
    """Yield the checked batches of a stream: a task of another version, or with a bug, has a right CRC as well."""
    name = part.path or "inline part"
    rows = 0
    try:
        stream = pa.ipc.open_stream(source)
        if stream.schema not in (_SCHEMA, LMQ_SCHEMA):
            raise CorruptRecordError(name, 0, "the staged part has other columns than this version stages")
        for batch in stream:
            batch.validate(full=True)
            if any(column.null_count for column in batch.columns):
                raise CorruptRecordError(name, 0, "the staged part has nulls")
            codes = np.asarray(batch.column(1))
            if ((codes < 0) | (codes >= len(part.topics))).any():
                raise CorruptRecordError(name, 0, "the staged part names a topic that it does not have")
            rows += len(batch)
            if len(batch):
                yield batch
    except (pa.ArrowException, OSError) as error:
        raise CorruptRecordError(name, 0, f"the staged part is no Arrow stream: {error}") from error
    if rows != part.rows:
        raise CorruptRecordError(name, 0, f"the staged part has {rows} rows, {part.rows} were announced")
