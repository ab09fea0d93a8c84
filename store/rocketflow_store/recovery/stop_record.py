"""`rocketflow/stop`: what the log, the queues and the index were at the last orderly stop.

A queue directory that went missing leaves no trace in the log's end, nor does an index file: without this record the
queue would begin at 0 again. Files of queues only grow, so what the record says of their first bytes stays true, also
behind a crash or another writer, until retention removes them.

One line with the CRC-32 of the rest, then JSON. Written like every small file (temporary, sync, rename, sync of the
directory); where it cannot be read, a sample of the log is asked instead (`derived_state`).
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self

from rocketflow_store.config_files.fastjson import parse_json_object
from rocketflow_store.errors import StoreError
from rocketflow_store.files import os_files
from rocketflow_store.format.consume_queue_unit import UNIT_SIZE
from rocketflow_store.format.index_layout import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE
from rocketflow_store.format.record import BLANK_MAGIC, SIZE_AND_MAGIC

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocketflow_store.config import StorePaths
    from rocketflow_store.index.index_file import IndexFile
    from rocketflow_store.index.index_service import IndexService
    from rocketflow_store.mapped_files.mapped_file import MappedFile
    from rocketflow_store.queues.consume_queue import ConsumeQueue
    from rocketflow_store.queues.queue_table import FileQueueTable

CONTENT_BYTES: Final = 4 << 20
"""So much of the newest queue files is compared as a whole, and of an index file; of the others both ends are."""

NO_CRC: Final = -1


@dataclass(frozen=True, slots=True)
class QueueFile:
    """The file that begins at byte `base` of its queue, of which `length` bytes were written.

    `ends` is the CRC of the first and the last unit, `crc` that of everything (NO_CRC where that was not taken).
    """

    base: int
    length: int
    last_phy_offset: int
    ends: int
    crc: int


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue: `listed` says that its topic was in `config/topics.json`, `end` is behind the last message."""

    end: int
    listed: bool
    files: tuple[QueueFile, ...]


@dataclass(frozen=True, slots=True)
class IndexState:
    """An index file: the physical offset of its newest entry, where its content ends, CRCs of header and content."""

    end_phy_offset: int
    content_end: int
    header: int
    crc: int


@dataclass(frozen=True, slots=True)
class LogHead:
    """Sizes and CRCs of the first two records of a CommitLog file (0 where there is none)."""

    first_size: int
    first: int
    second_size: int
    second: int


@dataclass(frozen=True, slots=True)
class StopRecord:
    """Everything that is compared at the next open; `index` is None where none was kept."""

    min_phy_offset: int
    end_phy_offset: int
    checkpoint: int
    queues: dict[tuple[str, int], QueueState] = field(default_factory=dict)
    index: dict[str, IndexState] | None = None
    heads: dict[int, LogHead] = field(default_factory=dict)
    """By the offset at which the file begins."""
    store_id: str = ""
    record_crc_from: int = -1
    """Every record from here on ends with a CRC of itself; -1 where that is not known."""

    @classmethod
    def load(cls, paths: StorePaths) -> Self | None:
        """The record of a store, None where there is none that can be believed."""
        try:
            head, _, body = os_files.read_file(paths.stop_record).partition(b"\n")
            if int(head, 16) != zlib.crc32(body):
                return None
            return cls._of(parse_json_object(body.decode("utf-8")))
        except (OSError, StoreError, ValueError, KeyError, TypeError, AttributeError):
            return None

    @classmethod
    def _of(cls, told: dict[str, Any]) -> Self:
        queues = {
            (topic, queue_id): QueueState(end, listed, tuple(QueueFile(*one) for one in files))
            for topic, queue_id, end, listed, files in told["queues"]
        }
        index = told["index"]
        return cls(
            told["minPhyOffset"],
            told["endPhyOffset"],
            told["checkpoint"],
            queues,
            None if index is None else {name: IndexState(*one) for name, one in index.items()},
            {int(base): LogHead(*one) for base, one in told["heads"].items()},
            told["storeId"],
            told["recordCrcFrom"],
        )

    def without_files(self) -> Self:
        """What stays true when queues and index are made again: where the log and the queues end."""
        queues = {key: replace(one, files=()) for key, one in self.queues.items()}
        return replace(self, queues=queues, index=None)

    def write(self, paths: StorePaths) -> None:
        """Make this the store's record, durably."""
        told = {
            "minPhyOffset": self.min_phy_offset,
            "endPhyOffset": self.end_phy_offset,
            "checkpoint": self.checkpoint,
            "storeId": self.store_id,
            "recordCrcFrom": self.record_crc_from,
            "queues": [
                [*key, one.end, one.listed, [_numbers(file) for file in one.files]] for key, one in self.queues.items()
            ],
            "heads": {str(base): _numbers(one) for base, one in self.heads.items()},
            "index": None if self.index is None else {name: _numbers(one) for name, one in self.index.items()},
        }
        body = json.dumps(told, separators=(",", ":")).encode()
        os_files.write_atomically(paths.stop_record, b"%08x\n" % zlib.crc32(body) + body)


def take_stop_record(
    paths: StorePaths,
    queues: FileQueueTable,
    index: IndexService | None,
    topics: frozenset[str],
    files: Sequence[MappedFile],
    log_end: int,
    record_crc_from: int,
) -> StopRecord:
    """The record of a store that nobody writes to; `files` are those of its log, which ends at `log_end`."""
    ends = {(one.topic, one.queue_id): queues.end(one.topic, one.queue_id) for one in queues.all()}
    newest_first = sorted(
        (
            (len(queue.paths) - at, queue.topic, queue.queue_id, path)
            for queue in queues.all()
            for at, path in _at(queue)
        ),
    )
    left = CONTENT_BYTES
    by_queue: dict[tuple[str, int], list[QueueFile]] = {key: [] for key in ends}
    for _, topic, queue_id, path in newest_first:
        queue = queues.find(topic, queue_id)
        assert queue is not None
        base = int(path.name)
        length = min(queue.file_size, ends[topic, queue_id] * UNIT_SIZE - base)
        if length > 0:
            by_queue[topic, queue_id].append(_queue_file(queue, base, length, whole=length <= left))
            left -= length
    return StopRecord(
        files[0].file_from_offset if files else 0,
        log_end,
        checkpoint_crc(paths),
        {
            key: QueueState(end, key[0] in topics, tuple(sorted(by_queue[key], key=lambda one: one.base)))
            for key, end in sorted(ends.items())
        },
        None if index is None else {one.path.name: _index_state(one) for one in index.files},
        {one.file_from_offset: log_head(one, log_end) for one in files if one.file_from_offset < log_end},
        store_id(paths),
        record_crc_from,
    )


def log_head(mapped: MappedFile, log_end: int) -> LogHead:
    """What a log file begins with."""
    found, position = [], 0
    for _ in range(2):
        size = 0
        if position + SIZE_AND_MAGIC.size <= mapped.file_size and mapped.file_from_offset + position < log_end:
            size, magic = SIZE_AND_MAGIC.unpack_from(mapped.buffer, position)
            if magic == BLANK_MAGIC or not 0 < size <= mapped.file_size - position:
                size = 0
        found += [size, zlib.crc32(mapped.buffer.slice(position, size))]
        position += size
    return LogHead(*found)


def is_another(mapped: MappedFile, head: LogHead) -> bool:
    """Whether a log file begins with other records than it did: with two, since one may be damaged."""
    if not head.first_size or not head.second_size or head.first_size + head.second_size > mapped.file_size:
        return False
    first = zlib.crc32(mapped.buffer.slice(0, head.first_size))
    second = zlib.crc32(mapped.buffer.slice(head.first_size, head.second_size))
    return first != head.first and second != head.second


def _at(queue: ConsumeQueue) -> list[tuple[int, Path]]:
    return list(enumerate(queue.paths))


def _queue_file(queue: ConsumeQueue, base: int, length: int, *, whole: bool) -> QueueFile:
    first, behind = base // UNIT_SIZE, (base + length) // UNIT_SIZE
    head, tail = queue.units(first, first + 1).tobytes(), queue.units(behind - 1, behind)
    crc = zlib.crc32(queue.units(first, behind).tobytes()) if whole else NO_CRC
    return QueueFile(base, length, int(tail["phy_offset"][0]), zlib.crc32(head + tail.tobytes()), crc)


def _index_state(file: IndexFile) -> IndexState:
    content_end = HEADER_SIZE + SLOT_SIZE * file.hash_slot_num + ENTRY_SIZE * (file.entries + 1)
    return IndexState(file.header.end_phy_offset, *index_crcs(file.path, content_end))


def index_crcs(path: Path, content_end: int) -> tuple[int, int, int]:
    """(bytes compared, CRC of the header, CRC of the content or NO_CRC) of an index file."""
    header = zlib.crc32(read_piece(path, 0, HEADER_SIZE))
    if content_end > CONTENT_BYTES:
        return content_end, header, NO_CRC
    return content_end, header, zlib.crc32(read_piece(path, 0, content_end))


def store_id(paths: StorePaths) -> str:
    """Who the store says it is in `store.meta`; empty where that does not tell."""
    try:
        return str(json.loads(os_files.read_file(paths.meta))["storeId"])
    except (OSError, StoreError, ValueError, KeyError, TypeError):
        return ""


def checkpoint_crc(paths: StorePaths) -> int:
    """CRC of the checkpoint, NO_CRC without one: another writer leaves another."""
    try:
        return zlib.crc32(os_files.read_file(paths.checkpoint))
    except (OSError, StoreError):
        return NO_CRC


def read_piece(path: Path, position: int, size: int) -> bytes:
    """Bytes of a file, as many as are there."""
    fd = os_files.open_file(path, write=False)
    try:
        return os_files.read_at(fd, position, size, path)
    finally:
        os_files.close_file(fd)


def _numbers(one: QueueFile | IndexState | LogHead) -> list[int]:
    return [getattr(one, name) for name in one.__slots__]
