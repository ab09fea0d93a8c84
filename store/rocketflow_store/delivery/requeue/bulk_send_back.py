"""Bulk send-back: the records that `send_back` makes, encoded by columns and appended as one commit.

The commit has an envelope (kind "send-back" in the ledger): all records exist, or none. If the store's host and a
record's are not both IPv4, or both IPv6, the record keeps the host of its first store.
"""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketflow_store.commits.batch_commit import last_commit
from rocketflow_store.commits.progress_commit import ProgressBatch, ProgressMovedError, commit_progress
from rocketflow_store.delivery.requeue.retry_topics import (
    DLQ_QUEUE_NUMS,
    PROPERTY_DLQ_ORIGIN_MESSAGE_ID,
    PROPERTY_DLQ_ORIGIN_TOPIC,
    PROPERTY_ORIGIN_MESSAGE_ID,
    PROPERTY_RETRY_TOPIC,
    dlq_topic,
    retry_topic,
)
from rocketflow_store.delivery.requeue.send_back import OF_AN_EARLIER_DELAY, delay_levels_of, retry_queues
from rocketflow_store.format.record import MIN_RECORD_SIZE
from rocketflow_store.model.errors import CorruptRecordError, MessageNotFoundError
from rocketflow_store.model.message_id import encode_host
from rocketflow_store.model.property_names import (
    PROPERTY_DELAY,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_WAIT,
)
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC
from rocketflow_store.records.arrow.chunking import CHUNK_ROWS, chunks
from rocketflow_store.records.arrow.gather import constant_string, int_array
from rocketflow_store.records.arrow.unit_types import units_of
from rocketflow_store.records.decoding.decode import ColumnBuilder, QueueIdentity, RecordColumns
from rocketflow_store.records.encoding.reput import TargetQueues, reput
from rocketflow_store.tables.subscription_group_config import SubscriptionGroupConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rocketflow_store.delivery.requeue.send_back import SendBack
    from rocketflow_store.engine.message_store import MessageStore
    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.records.encoding.encode import EncodedChunk

    Ints = npt.NDArray[np.int64]

SINK_ID: Final = "rmq_sys_send_back"


@dataclass(frozen=True, slots=True)
class SentBack:
    """Numbers of messages to retry and of dead letters, and their place in the log."""

    retried: int
    dead: int
    begin_offset: int
    end_offset: int


def send_back_many(store: MessageStore, request: SendBack, phy_offsets: npt.NDArray[np.int64]) -> SentBack:
    """Send messages back in the order of the log; durable on return, all or none.

    Stores nothing for a group without retry queues.

    Raises:
        StoreConfigError: the group's name is not valid.
        MessageNotFoundError: no record begins at an offset.
        CorruptRecordError: a record is damaged.
    """
    back, dead = retry_topic(request.group), dlq_topic(request.group)
    config = store.config_files.subscription_groups.of(request.group)
    if config.retry_queue_nums <= 0 or len(phy_offsets) == 0:
        return SentBack(0, 0, store.max_phy_offset, store.max_phy_offset)
    chunks: list[EncodedChunk] = []
    topics: Counter[str] = Counter()
    for records, places in _records(store, np.sort(phy_offsets)):
        for topic, chunk in _sent_back(store, request, config, records, places):
            chunks.append(chunk)
            topics[topic] += len(chunk.sizes)
    store.ensure_topic(back, config.retry_queue_nums)
    if topics[dead]:
        store.ensure_topic(dead, DLQ_QUEUE_NUMS)
    progress = {"kind": "send-back", "from": None, "topics": dict(+topics)}
    run_id, rows = uuid.uuid4().hex, sum(topics.values())
    while True:
        try:
            batch = ProgressBatch(SINK_ID, run_id, last_commit(store, SINK_ID), progress, rows, chunks)
            result = commit_progress(store, batch)
        except ProgressMovedError:  # another thread sent back meanwhile
            continue
        return SentBack(topics[back], topics[dead], result.begin_offset, result.end_offset)


def _records(store: MessageStore, phy_offsets: Ints) -> Iterator[tuple[RecordColumns, Ints]]:
    """Yield valid records and their places, a bounded part at a time."""
    log, found = store.log, 0
    outside = (phy_offsets < store.min_phy_offset) | (phy_offsets + MIN_RECORD_SIZE > store.max_phy_offset)
    if outside.any():
        raise MessageNotFoundError(store.path, int(phy_offsets[outside][0]))
    for run, mapped in log.by_file(phy_offsets):
        for start in range(run.start, run.stop, CHUNK_ROWS):
            places = phy_offsets[start : min(start + CHUNK_ROWS, run.stop)]
            sizes = log.columns(mapped, units_of(places, MIN_RECORD_SIZE)).field(">i4", 0)
            for rows in chunks(np.clip(sizes, 0, None)):
                yield _sound(store, mapped, places[rows], sizes[rows]), places[rows]
            found += len(places)
    if found < len(phy_offsets):
        raise MessageNotFoundError(store.path, int(phy_offsets[found]))


def _sound(store: MessageStore, mapped: MappedFile, places: Ints, sizes: npt.NDArray[Any]) -> RecordColumns:
    records = store.log.columns(mapped, units_of(places, sizes))
    records.check_own_offset(mapped.file_from_offset)
    faults = store.log.faults(records, mapped, bodies=True)
    if faults:
        raise CorruptRecordError(mapped.path, int(places[min(faults)]), faults[min(faults)])
    unproven = store.proven_records.first_unproven(records, mapped.file_from_offset, store.config.delay_levels_ms)
    if unproven is not None:
        raise MessageNotFoundError(store.path, int(places[unproven]))
    return records


def _sent_back(
    store: MessageStore, request: SendBack, group: SubscriptionGroupConfig, records: RecordColumns, places: Ints
) -> Iterator[tuple[str, EncodedChunk]]:
    """Yield (target topic, records to append) of the messages to retry and of the dead letters."""
    times = records.after_hosts(">i4", 72)
    most = group.retry_max_times if request.max_reconsume_times is None else request.max_reconsume_times
    is_dead = (times >= most) | (request.delay_level < 0)
    for dead in (False, True):
        rows = np.flatnonzero(is_dead == dead)
        if len(rows) == 0:
            continue
        some = records if len(rows) == records.count else records.keep(rows)
        yield (
            dlq_topic(request.group) if dead else retry_topic(request.group),
            _encoded(store, request, group, some, places[rows], dead=dead),
        )


def _encoded(
    store: MessageStore,
    request: SendBack,
    group: SubscriptionGroupConfig,
    records: RecordColumns,
    places: Ints,
    *,
    dead: bool,
) -> EncodedChunk:
    count, times = records.count, records.after_hosts(">i4", 72)
    columns = ColumnBuilder(records, QueueIdentity("", 0, ""), places, places)
    origin = pc.coalesce(columns.segments.column(PROPERTY_RETRY_TOPIC), records.topics())
    origin_id = pc.coalesce(columns.segments.column(PROPERTY_ORIGIN_MESSAGE_ID), columns.column("msgId"))
    properties = {
        PROPERTY_RETRY_TOPIC: origin,
        PROPERTY_ORIGIN_MESSAGE_ID: origin_id,
        PROPERTY_WAIT: constant_string("false", count),
    }
    if dead:
        topic, queue_ids = dlq_topic(request.group), np.zeros(count, np.int32)
        properties[PROPERTY_DELAY] = constant_string("0", count)
        if request.origin_properties:
            properties |= {PROPERTY_DLQ_ORIGIN_TOPIC: origin, PROPERTY_DLQ_ORIGIN_MESSAGE_ID: origin_id}
    else:
        levels = delay_levels_of(times, request.delay_level, len(store.config.delay_levels_ms))
        topic, queue_ids = SCHEDULE_TOPIC, (levels - 1).astype(np.int32)
        properties[PROPERTY_DELAY] = _texts(levels)
        properties[PROPERTY_REAL_TOPIC] = constant_string(retry_topic(request.group), count)
        properties[PROPERTY_REAL_QUEUE_ID] = _texts(retry_queues(places, group.retry_queue_nums))
    chunk = reput(
        records,
        TargetQueues([topic], np.zeros(count, np.int32), queue_ids),
        store.config,
        set_properties=properties,
        drop_properties=() if dead else OF_AN_EARLIER_DELAY,
        reconsume_times=(times + 1).astype(np.int32),
    )
    return _of_this_store(store, records, chunk)


def _of_this_store(store: MessageStore, records: RecordColumns, chunk: EncodedChunk) -> EncodedChunk:
    """Return the records with this store's host if it has the same width."""
    host = np.frombuffer(encode_host(store.config.store_host), np.uint8)
    rows = np.flatnonzero(records.store_v6 == (len(host) == 20))
    if len(rows) == 0:
        return chunk
    octets = chunk.writable()
    at = chunk.starts[rows] + 64 + 12 * records.born_v6[rows].astype(np.int64)
    np.lib.stride_tricks.sliding_window_view(octets, len(host), writeable=True)[at] = host
    return replace(chunk, data=pa.py_buffer(octets))


def _texts(values: npt.NDArray[Any]) -> pa.Array:
    return int_array(values.astype(np.int64), pa.int64()).cast(pa.string())
