"""The stop record of a store without a writer: see `metadata.native.stop_record`."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
from rocketflow_store.format.index_layout import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE
from rocketflow_store.format.record import BLANK_MAGIC, SIZE_AND_MAGIC
from rocketflow_store.log.record_crc_range import crc_from_at_stop
from rocketflow_store.metadata.config_files.listed_topics import listed_topics
from rocketflow_store.metadata.native.known_tag_entries import known_tag_entries
from rocketflow_store.metadata.native.stop_record import (
    CONTENT_BYTES,
    NO_CRC,
    IndexState,
    LogHead,
    QueueFile,
    QueueState,
    StopRecord,
    checkpoint_crc,
    read_piece,
)
from rocketflow_store.metadata.native.store_meta_fields import recorded_store_id
from rocketflow_store.metadata.native.tag_entries import TagEntries
from rocketflow_store.views.queues.batch_consume_queue import BatchQueueTable
from rocketflow_store.views.queues.queue_table import FileQueueTable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.settings.store_config import StoreConfig
    from rocketflow_store.views.index.index_file import IndexFile
    from rocketflow_store.views.index.index_service import IndexService
    from rocketflow_store.views.queues.batch_consume_queue import BatchConsumeQueue
    from rocketflow_store.views.queues.consume_queue import ConsumeQueue

    AnyQueue: TypeAlias = ConsumeQueue | BatchConsumeQueue


@dataclass(frozen=True, slots=True)
class StoppedFiles:
    """The files of a store without a writer."""

    log: MappedFileQueue
    queues: FileQueueTable
    batch_queues: BatchQueueTable
    index: IndexService


def leave_stop_record(
    paths: StorePaths,
    config: StoreConfig,
    stopped: StoppedFiles,
    log_end: int,
    written: tuple[int, bool] | None = None,
    tag_entries: TagEntries | None = None,
) -> None:
    """Record the files of a log that ends at `log_end`; all of them are synced.

    `written` is the offset from which on the caller wrote it, and whether every record has a CRC (None: it wrote
    nothing). `tag_entries` is where the index names every record's TAGS; None: the known range stays.
    """
    began, record_crc = written or (None, False)
    crc_from = crc_from_at_stop(paths, log_end, began, record_crc=record_crc)
    tags = known_tag_entries(paths, paths.index) if tag_entries is None else tag_entries
    index_files = stopped.index.files
    tags = replace(tags, newest_file=index_files[-1].path.name if index_files else "")
    record = _take_stop_record(paths, stopped, log_end, with_index=config.message_index_enable)
    replace(record, record_crc_from=crc_from, tag_entries=tags).write(paths)


def _take_stop_record(paths: StorePaths, stopped: StoppedFiles, log_end: int, *, with_index: bool) -> StopRecord:
    """Return the record of these files; `with_index` is True if the index is maintained."""
    queues, topics, files = stopped.queues, listed_topics(paths) or frozenset(), stopped.log.files
    plain, batches = queues.all(), stopped.batch_queues.all()
    of_files = _files_of(
        [*((one, queues.end(one.topic, one.queue_id)) for one in plain), *((one, one.end_unit) for one in batches)]
    )
    return StopRecord(
        files[0].file_from_offset if files else 0,
        log_end,
        checkpoint_crc(paths),
        {
            (one.topic, one.queue_id): QueueState.of(
                queues.end(one.topic, one.queue_id), listed=one.topic in topics, files=of_files[number]
            )
            for number, one in enumerate(plain)
        },
        {
            (one.topic, one.queue_id): QueueState.of(
                one.bounds(0)[1], listed=one.topic in topics, files=of_files[number]
            )
            for number, one in enumerate(batches, len(plain))
        },
        batches[0].file_size if batches else 0,
        {one.path.name: _index_state(one) for one in stopped.index.files} if with_index else None,
        {one.file_from_offset: log_head(one, log_end) for one in files if one.file_from_offset < log_end},
        recorded_store_id(paths.meta),
    )


def _files_of(queues: Sequence[tuple[AnyQueue, int]]) -> list[tuple[QueueFile, ...]]:
    """Return the files of each queue, whose end is a number of units; the newest files are read completely."""
    newest_first = sorted(
        (len(queue.paths) - at, queue.topic, queue.queue_id, number, path)
        for number, (queue, _) in enumerate(queues)
        for at, path in enumerate(queue.paths)
    )
    left = CONTENT_BYTES
    found: list[list[QueueFile]] = [[] for _ in queues]
    for _, _, _, number, path in newest_first:
        queue, end = queues[number]
        base = int(path.name)
        length = min(queue.file_size, end * queue.UNIT_SIZE - base)
        if length > 0:
            found[number].append(_queue_file(queue, base, length, whole=length <= left))
            left -= length
    return [tuple(sorted(one, key=lambda file: file.base)) for one in found]


def log_head(mapped: MappedFile, log_end: int) -> LogHead:
    """Return the sizes and CRCs of the first two records of a log file."""
    found, position = [], 0
    for _ in range(2):
        size = 0
        if position + SIZE_AND_MAGIC.size <= mapped.file_size and mapped.file_from_offset + position < log_end:
            size, magic = SIZE_AND_MAGIC.unpack_from(
                mapped.populate(position, position + SIZE_AND_MAGIC.size), position
            )
            if magic == BLANK_MAGIC or not 0 < size <= mapped.file_size - position:
                size = 0
        found += [size, zlib.crc32(mapped.bytes_of(position, position + size))]
        position += size
    return LogHead(*found)


def is_another(mapped: MappedFile, head: LogHead) -> bool:
    """Return True if a log file begins with two other records than `head`: one alone may be damaged."""
    if not head.first_size or not head.second_size or head.first_size + head.second_size > mapped.file_size:
        return False
    first = zlib.crc32(mapped.bytes_of(0, head.first_size))
    second = zlib.crc32(mapped.bytes_of(head.first_size, head.first_size + head.second_size))
    return first != head.first and second != head.second


def _queue_file(queue: AnyQueue, base: int, length: int, *, whole: bool) -> QueueFile:
    first, end = base // queue.UNIT_SIZE, (base + length) // queue.UNIT_SIZE
    head, tail = queue.units(first, first + 1).tobytes(), queue.units(end - 1, end)
    crc = zlib.crc32(queue.units(first, end).tobytes()) if whole else NO_CRC
    return QueueFile(base, length, int(tail["phy_offset"][0]), zlib.crc32(head + tail.tobytes()), crc)


def _index_state(file: IndexFile) -> IndexState:
    content_end = HEADER_SIZE + SLOT_SIZE * file.hash_slot_num + ENTRY_SIZE * (file.entries + 1)
    return IndexState(file.header.end_phy_offset, *index_crcs(file.path, content_end))


def index_crcs(path: Path, content_end: int) -> tuple[int, int, int]:
    """Return (bytes compared, CRC of the header, CRC of the content or NO_CRC) of an index file."""
    is_short = content_end <= CONTENT_BYTES
    content = read_piece(path, 0, max(content_end, HEADER_SIZE) if is_short else HEADER_SIZE)
    crc = zlib.crc32(content[:content_end]) if is_short else NO_CRC
    return content_end, zlib.crc32(content[:HEADER_SIZE]), crc
