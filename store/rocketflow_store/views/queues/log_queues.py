"""The queue offsets of the records in a part of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rocketflow_store.format.lmq_properties import LMQ_QUEUE_ID
from rocketflow_store.log.scan_file import scan_file
from rocketflow_store.metadata.config_files.listed_topics import batch_topics
from rocketflow_store.metadata.native.deleted_topics import DeletedTopics
from rocketflow_store.records.decoding.decode import RecordColumns
from rocketflow_store.records.decoding.dispatch_rows import rows_of_records
from rocketflow_store.records.decoding.record_crc import content_faults
from rocketflow_store.records.decoding.scan import ScanStop
from rocketflow_store.views.queues.queue_gaps import drop_deleted, drop_strays

if TYPE_CHECKING:
    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.records.decoding.dispatch_rows import DispatchRows
    from rocketflow_store.settings.store_config import StoreConfig

Queue = tuple[str, int]
Ranges = dict[Queue, tuple[int, int]]


def queues_of_log(
    paths: StorePaths, config: StoreConfig, files: MappedFileQueue, start: int, stop: int
) -> tuple[Ranges, Ranges]:
    """Return ranges [first, end) of queue offsets in records of `[start, stop)`: of plain queues, of BatchCQ topics.

    `start` is a record boundary. Records with impossible fields are skipped; damage ends the scan.
    """
    plain: Ranges = {}
    batch: Ranges = {}
    floors, of_batches = DeletedTopics.load(paths).floors, batch_topics(paths)
    offset = start
    while offset < stop:
        mapped = files.find(offset)
        if mapped is None:
            break
        base = mapped.file_from_offset
        scan = scan_file(mapped, offset - base, min(stop - base, mapped.file_size))
        records = RecordColumns(mapped.buffer, scan.positions, scan.sizes)
        if records.count:
            records.check_own_offset(base)
            records.faults.update(content_faults(records.before_faults()))
            sound = records.keep(np.setdiff1d(np.arange(records.count), list(records.faults)))
            rows = rows_of_records(sound, base, config.delay_levels_ms)
            drop_deleted(rows, floors)
            drop_strays(rows)
            _add(rows, plain, batch, of_batches)
        following = mapped.end_offset if scan.stop is ScanStop.BLANK else base + scan.end
        if following == offset:
            break
        offset = following
    return plain, batch


def _add(rows: DispatchRows, plain: Ranges, batch: Ranges, of_batches: frozenset[str]) -> None:
    if len(rows.queue_of) == 0:
        return
    order = np.argsort(rows.queue_of, kind="stable")
    queue_of = rows.queue_of[order]
    offsets = rows.queue_offsets[order]
    ends = offsets + (1 if rows.batch_nums is None else rows.batch_nums[order])
    starts = np.flatnonzero(np.diff(queue_of, prepend=-2))
    for first, following in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
        if queue_of[first] >= 0:
            key = rows.queues[int(queue_of[first])]
            known = batch if key[0] in of_batches else plain
            _widen(known, key, int(offsets[first:following].min()), int(ends[first:following].max()))
    for _, name, offset in rows.lmq:
        _widen(plain, (name, LMQ_QUEUE_ID), offset, offset + 1)


def _widen(known: Ranges, key: Queue, first: int, end: int) -> None:
    low, high = known.get(key, (first, end))
    known[key] = min(low, first), max(high, end)
