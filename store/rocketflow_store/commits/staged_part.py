"""The rows of one task of a sink batch, staged for the commit: encoded records without offsets, as an Arrow IPC stream.

A part of less than `INLINE_BYTES` travels in the commit message itself; a larger one is a file under
`rocketflow/staging/SINK/BATCH/`, named for its attempt, complete once it has its name. It may overwrite a file of an
earlier batch, and then be longer than the part (`pooled_parts`). Its CRC-32 and row digest travel in the message and
are checked by the commit: a part that differs from what was written fails the batch and never reaches the log. A right
CRC says nothing about the rows: `proven_parts` judges them.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from isal.isal_zlib import crc32

from rocketflow_store.commits import pooled_parts
from rocketflow_store.files import os_files
from rocketflow_store.files.file_names import check_file_name
from rocketflow_store.files.os_files import access_error
from rocketflow_store.model.errors import CorruptRecordError, StagedPartError, StoreAccessError
from rocketflow_store.records.arrow.arrays import bool_array
from rocketflow_store.records.arrow.gather import int_array
from rocketflow_store.records.decoding.index_entries import IndexEntries
from rocketflow_store.records.encoding.encode import EncodedChunk
from rocketflow_store.records.encoding.lmq_offsets import LmqOffsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

INLINE_BYTES: Final = 1 << 20
_READ_BYTES: Final = 4 << 20

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
    """Return the directory of one sink's files besides the log; raise StoreConfigError if the id cannot name one."""
    return staging / check_file_name("sinkId", sink_id)


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
    """Yield the part's chunks, whose records nothing has judged (see `proven_parts`), and check its CRC at the end.

    Raises StagedPartError for another stream than a task of this version writes.
    """
    reader = PartReader(part)
    try:
        yield from reader.chunks(delay_levels_ms)
    finally:
        reader.close()


class PartReader:
    """Reads a part from its first byte to its last, once: the bytes that are decoded are those of the CRC.

    An abandoned task may overwrite a file at any time.
    """

    closed = False
    """For Arrow, which reads from this object."""

    def __init__(self, part: StagedPart) -> None:
        self._part, self.name = part, part.path or "inline part"
        self._bytes = PartBytes(part)
        self._position, self._crc = 0, 0
        self._last = np.zeros(0, np.uint8)

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        self._bytes.close()

    def read(self, size: int = -1) -> npt.NDArray[np.uint8]:
        """Return the next bytes in new memory, as many as there are."""
        rest = self._part.size - self._position
        octets = np.empty(max(0, min(size, rest) if size >= 0 else rest), np.uint8)
        self._bytes.read_into(self._position, octets)
        self._position += len(octets)
        self._crc = int(crc32(octets, self._crc))
        self._last = octets
        return octets

    def chunks(self, delay_levels_ms: Sequence[int]) -> Iterator[EncodedChunk]:
        """Yield the chunks; raise StagedPartError, that the bytes were changed if that is the reason."""
        try:
            for batch in self._batches():
                yield self._chunk(batch, delay_levels_ms)
        except StagedPartError:
            self.check_crc()
            raise
        self.check_crc()

    def check_crc(self) -> None:
        """Read the rest, and raise StagedPartError if the bytes are not those that the task wrote."""
        while self._position < self._part.size:
            self.read(_READ_BYTES)
        if self._crc != self._part.crc:
            raise StagedPartError(self.name, "the staged part differs from what the task wrote")

    def position_of(self, chunk: EncodedChunk) -> int:
        """Return the position in the part of the newest chunk's first byte."""
        return int(self._position - len(self._last) + chunk.data.address - self._last.ctypes.data)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the checked batches of a stream: a task of another version, or with a bug, has a right CRC as well."""
        name, rows = self.name, 0
        try:
            stream = pa.ipc.open_stream(pa.PythonFile(self, "r"))
            if stream.schema not in (_SCHEMA, LMQ_SCHEMA):
                raise StagedPartError(name, "the staged part has other columns than this version stages")
            for batch in stream:
                batch.validate(full=True)
                hashes, tagged = batch.column(5), batch.column(6)
                if any(column.null_count for column in (*batch.columns, hashes.values)):
                    raise StagedPartError(name, "the staged part has nulls")
                if (np.asarray(tagged) & (np.diff(np.asarray(hashes.offsets)) == 0)).any():
                    raise StagedPartError(name, "the staged part has a tag's index entry for a row without entries")
                codes = np.asarray(batch.column(1))
                if ((codes < 0) | (codes >= len(self._part.topics))).any():
                    raise StagedPartError(name, "the staged part names a topic that it does not have")
                rows += len(batch)
                if len(batch):
                    yield batch
        except (pa.ArrowException, OSError) as error:
            raise StagedPartError(name, f"the staged part is no Arrow stream: {error}") from error
        if rows != self._part.rows:
            self.check_crc()
            raise CorruptRecordError(name, 0, f"the staged part has {rows} rows, {self._part.rows} were announced")

    def _chunk(self, batch: pa.RecordBatch, delay_levels_ms: Sequence[int]) -> EncodedChunk:
        """Return a batch as a chunk, whose columns but the records are copied: they need little memory."""
        records, part = batch.column(0), self._part
        count = len(records)
        ends = np.frombuffer(records.buffers()[1], np.int32, count + 1, records.offset * 4).astype(np.int64)
        levels, sizes = np.array(batch.column(4)), np.diff(ends)
        lmqs = None
        if batch.num_columns > len(_SCHEMA):
            lmqs = LmqOffsets.of_lists(batch.column(7), batch.column(8), sizes, self.name)
        return EncodedChunk(
            data=self._octets(records.buffers()[2], int(ends[0]), int(ends[-1])),
            starts=ends[:-1] - ends[0],
            sizes=sizes,
            topics=list(part.topics),
            topic_codes=np.array(batch.column(1)),
            queue_ids=np.array(batch.column(2)),
            tags_codes=np.array(batch.column(3)),
            entries=IndexEntries.of_lists(batch.column(5), np.asarray(batch.column(6))).copied(),
            delay_levels=levels if levels.any() else None,
            delay_levels_ms=delay_levels_ms,
            property_crc=part.property_crc,
            lmqs=lmqs,
        )

    def _octets(self, data: pa.Buffer | None, start: int, end: int) -> pa.Buffer:
        """Return bytes of a column as a writable part of what was read last."""
        if data is None or start == end:
            return pa.py_buffer(b"")
        at = data.address - self._last.ctypes.data
        if not 0 <= at <= at + end <= len(self._last):
            raise StagedPartError(self.name, "the staged part is compressed")
        return pa.py_buffer(self._last[at + start : at + end])


class PartBytes:
    """The bytes of a part, in its file or in its message."""

    def __init__(self, part: StagedPart) -> None:
        self._inline, self._name = part.inline, part.path or "inline part"
        self._fd = -1
        size = len(part.inline or b"")
        if part.inline is None:
            try:
                self._fd = os_files.open_file(Path(self._name), write=False)
                size = os_files.file_size(self._fd)
            except OSError as error:
                raise StoreAccessError(
                    self._name, f"staged part cannot be read ({error}); the commit must see the tasks' directory"
                ) from error
        if size < part.size or (part.inline is not None and size != part.size):  # a reused file may be longer
            self.close()
            raise StagedPartError(self._name, "the staged part differs from what the task wrote")

    def read_into(self, position: int, octets: npt.NDArray[np.uint8]) -> None:
        """Fill an array with the bytes from a position on."""
        if self._inline is not None:
            octets[:] = np.frombuffer(self._inline, np.uint8, len(octets), position)
        elif len(octets):
            done = os_files.read_into(self._fd, position, octets.data, self._name)
            if done < len(octets):
                raise StagedPartError(self._name, "the staged part became shorter while it was read")

    def close(self) -> None:
        if self._fd >= 0:
            os_files.close_file(self._fd)
            self._fd = -1
