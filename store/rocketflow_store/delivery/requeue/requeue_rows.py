"""Rows of a requeue, chosen by place and encoded as records of their target topics."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from rocketflow_store.delivery.requeue.requeue_properties import (
    BOOKKEEPING,
    PROPERTY_REQUEUE_ORIGIN_MSG_ID,
    PROPERTY_REQUEUE_ORIGIN_QUEUE_ID,
    PROPERTY_REQUEUE_ORIGIN_QUEUE_OFFSET,
    PROPERTY_REQUEUE_ORIGIN_TOPIC,
    PROPERTY_REQUEUE_RUN_ID,
)
from rocketflow_store.model.errors import CorruptRecordError, MessageRejectedError, StoreError
from rocketflow_store.model.property_names import PROPERTY_SHARDING_KEY
from rocketflow_store.records.arrow.chunking import CHUNK_ROWS, chunks
from rocketflow_store.records.arrow.gather import constant_string, int_array
from rocketflow_store.records.arrow.hashing import string_hashes
from rocketflow_store.records.decoding.decode import ColumnBuilder, QueueIdentity, RecordColumns
from rocketflow_store.records.encoding.reput import TargetQueues, reput

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rocketflow_store.reading.store_reader import StoreReader
    from rocketflow_store.records.encoding.encode import EncodedChunk
    from rocketflow_store.settings.store_config import StoreConfig

    Ints = npt.NDArray[np.int64]

_CHUNK_SPAN: Final = 1 << 20
"""The most queue offsets from a chunk's first row to its last: the units between them are read."""


@dataclass(frozen=True, slots=True)
class ChosenRows:
    """Rows of one topic by (queue id, queue offset), ascending; row i goes to `topics[topic_of[i]]`.

    `queue_counts` are the queues of `topics`. Rows without a sharding key are distributed over them in turn;
    `first_turn` is the number of earlier rows of the run.
    """

    run_id: str
    from_topic: str
    queue_ids: npt.NDArray[np.int32]
    queue_offsets: Ints
    topics: tuple[str, ...]
    topic_of: npt.NDArray[np.int32]
    queue_counts: tuple[int, ...]
    first_turn: int = 0

    def __len__(self) -> int:
        return len(self.queue_offsets)

    def part(self, start: int, stop: int) -> ChosenRows:
        """Return rows [start, stop)."""
        return ChosenRows(
            self.run_id,
            self.from_topic,
            self.queue_ids[start:stop],
            self.queue_offsets[start:stop],
            self.topics,
            self.topic_of[start:stop],
            self.queue_counts,
            self.first_turn + start,
        )


def requeued_chunks(reader: StoreReader, rows: ChosenRows, config: StoreConfig) -> Iterator[EncodedChunk]:
    """Yield the records to append, in order.

    Raises:
        CorruptRecordError: a source record is damaged.
        StoreError: a record cannot be stored again. Both errors name the record.
    """
    cuts = [0, *(np.flatnonzero(np.diff(rows.queue_ids)) + 1).tolist(), len(rows)]
    for begin, end in pairwise(cuts):
        start = begin
        while start < end:
            first = int(rows.queue_offsets[start])
            stop = min(start + CHUNK_ROWS, end)
            stop = start + int(np.searchsorted(rows.queue_offsets[start:stop], first + _CHUNK_SPAN))
            yield from _of_one_queue(reader, rows.part(start, stop), config)
            start = stop


def _of_one_queue(reader: StoreReader, rows: ChosenRows, config: StoreConfig) -> Iterator[EncodedChunk]:
    queue_id, offsets = int(rows.queue_ids[0]), rows.queue_offsets
    first = int(offsets[0])
    units = reader.read_units(rows.from_topic, queue_id, first, int(offsets[-1]) + 1)[offsets - first]
    identity = QueueIdentity(rows.from_topic, queue_id, reader.config.broker_name)
    phy_offsets, log = units["phy_offset"].astype(np.int64), reader.log
    found = 0
    for run, mapped in log.by_file(phy_offsets):
        for part in chunks(units["msg_size"][run]):
            start, stop = run.start + part.start, run.start + part.stop
            records = log.columns(mapped, units[start:stop])
            records.check_place(phy_offsets[start:stop], offsets[start:stop], identity)
            faults = log.faults(records, mapped, bodies=True)
            if faults:
                row = min(faults)
                raise CorruptRecordError(
                    mapped.path,
                    int(phy_offsets[start + row]),
                    f"{faults[row]} ({_place(rows, start + row)}); exclude it with --where",
                )
            yield _requeued(records, rows.part(start, stop), identity, phy_offsets[start:stop], config)
            found += stop - start
    if found < len(rows):
        raise StoreError(f"{_place(rows, found)}: its CommitLog file no longer exists")


def _requeued(
    records: RecordColumns, rows: ChosenRows, identity: QueueIdentity, phy_offsets: Ints, config: StoreConfig
) -> EncodedChunk:
    count = len(rows)
    columns = ColumnBuilder(records, identity, rows.queue_offsets, phy_offsets)
    try:
        return reput(
            records,
            TargetQueues(
                rows.topics, rows.topic_of, _target_queues(columns.segments.column(PROPERTY_SHARDING_KEY), rows)
            ),
            config,
            set_properties={
                PROPERTY_REQUEUE_RUN_ID: constant_string(rows.run_id, count),
                PROPERTY_REQUEUE_ORIGIN_TOPIC: constant_string(rows.from_topic, count),
                PROPERTY_REQUEUE_ORIGIN_QUEUE_ID: constant_string(str(identity.queue_id), count),
                PROPERTY_REQUEUE_ORIGIN_QUEUE_OFFSET: int_array(rows.queue_offsets, pa.int64()).cast(pa.string()),
                PROPERTY_REQUEUE_ORIGIN_MSG_ID: columns.column("msgId"),
            },
            drop_properties=BOOKKEEPING,
            reconsume_times=np.zeros(count, np.int32),
        )
    except MessageRejectedError as error:
        raise StoreError(f"{_place(rows, error.row or 0)}: {error.why}; exclude it with --where") from error


def _target_queues(sharding_keys: pa.Array, rows: ChosenRows) -> npt.NDArray[np.int32]:
    """Return queues by sharding key, the same as for any sender; rows without a key take turns."""
    counts = np.array(rows.queue_counts, np.int64)[rows.topic_of]
    turns = (rows.first_turn + np.arange(len(rows))) % counts
    if sharding_keys.null_count == len(rows):
        return turns.astype(np.int32)
    hashes = np.abs(string_hashes(sharding_keys)[0].view(np.int32).astype(np.int64)) % counts
    return np.where(np.asarray(sharding_keys.is_valid()), hashes, turns).astype(np.int32)


def _place(rows: ChosenRows, row: int) -> str:
    return f"topic {rows.from_topic}, queue {int(rows.queue_ids[row])}, queue offset {int(rows.queue_offsets[row])}"
