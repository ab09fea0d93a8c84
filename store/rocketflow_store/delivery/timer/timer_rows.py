"""Messages of the timer topic as columns: what of them decides when they are due, and what they are told apart by.

Nothing here trusts a record: one that is damaged, or does not say when it is due and where it belongs, is left out and
told of.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketflow_store.model.errors import UnreadableError
from rocketflow_store.model.property_names import (
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TIMER_DEL_UNIQKEY,
    PROPERTY_TIMER_OUT_MS,
    PROPERTY_TIMER_ROLL_TIMES,
    PROPERTY_UNIQ_KEY,
)
from rocketflow_store.model.topic_names import TIMER_TOPIC, is_directory_name, is_system_topic
from rocketflow_store.records.arrow.hashing import string_hashes
from rocketflow_store.records.decoding.decode import QueueIdentity
from rocketflow_store.records.decoding.properties import integers
from rocketflow_store.records.encoding.reput import reputtable
from rocketflow_store.telemetry import events
from rocketflow_store.views.queues.consume_queue import pre_blank

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.log.resync import Boundaries
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.model.message import MessageExt
    from rocketflow_store.records.decoding.decode import RecordColumns
    from rocketflow_store.records.decoding.properties import PropertySegments
    from rocketflow_store.settings.store_config import StoreConfig

    Ints = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

TIMER_QUEUE_ID: Final = 0
_UNITS_AT_ONCE: Final = 1 << 13
_UNIT_SEPARATOR: Final = "\x1f"


class TimerReads(Protocol):
    """What the timer needs of a store or a reader."""

    path: Path

    @property
    def paths(self) -> StorePaths: ...

    @property
    def config(self) -> StoreConfig: ...

    @property
    def log(self) -> CommitLogView: ...

    @property
    def log_files(self) -> list[MappedFile]: ...

    @property
    def min_phy_offset(self) -> int: ...

    @property
    def max_phy_offset(self) -> int: ...

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]: ...

    def record_boundaries(self) -> Boundaries: ...

    def read_units(self, topic: str, queue_id: int, start: int, end: int) -> npt.NDArray[np.void]: ...

    def look_message_by_offset(self, phy_offset: int) -> MessageExt | None: ...


@dataclass(frozen=True, slots=True)
class TimerRows:
    """Timer messages, one element a message. Times in ms; `rolls` is how often it was put again on its way."""

    queue_offsets: Ints
    phy_offsets: Ints
    sizes: Ints
    due: Ints
    stored: Ints
    rolls: Ints
    deletes: Mask
    topic_hashes: Ints

    def __len__(self) -> int:
        return len(self.queue_offsets)

    def take(self, rows: npt.NDArray[Any]) -> TimerRows:
        """Some of them: a mask, or row numbers."""
        return TimerRows(*(getattr(self, one.name)[rows] for one in fields(self)))

    @classmethod
    def together(cls, parts: Sequence[TimerRows]) -> TimerRows:
        """The rows of several, one behind another."""
        if not parts:
            empty = np.zeros(0, np.int64)
            return cls(empty, empty, empty, empty, empty, empty, np.zeros(0, bool), empty)
        return cls(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(cls)))


def read_timer_rows(reads: TimerReads, start: int, end: int) -> Iterator[tuple[TimerRows, RecordColumns]]:
    """Messages [start, end) of the timer topic in blocks, with their records (row for row)."""
    for at in range(start, end, _UNITS_AT_ONCE):
        stop = min(at + _UNITS_AT_ONCE, end)
        units = reads.read_units(TIMER_TOPIC, TIMER_QUEUE_ID, at, stop)
        offsets = np.arange(at, stop)
        there = ~pre_blank(units)
        yield from rows_of_units(reads, units[there], offsets[there], bodies=False)


def rows_of_units(
    reads: TimerReads, units: npt.NDArray[np.void], queue_offsets: Ints | None, *, bodies: bool
) -> Iterator[tuple[TimerRows, RecordColumns]]:
    """The messages that units (phy_offset, msg_size) point at, a run of one log file at a time.

    Without `queue_offsets` the records' own count. `bodies`: they will be given out, so that their CRCs are compared.
    """
    log, left_out = reads.log, 0
    phy_offsets = units["phy_offset"].astype(np.int64)
    found_rows = 0
    for part, mapped in log.by_file(phy_offsets):
        rows = np.arange(part.start, part.stop)
        found_rows += len(rows)
        try:
            records = log.columns(mapped, units[rows])
        except UnreadableError:
            readable = log.readable(mapped, units[rows])
            left_out += len(rows) - len(readable)
            rows = rows[readable]
            if len(rows) == 0:
                continue
            records = log.columns(mapped, units[rows])
        own = records.field(">i8", 20).astype(np.int64)
        wanted = own if queue_offsets is None else queue_offsets[rows]
        records.check_place(phy_offsets[rows], wanted, QueueIdentity(TIMER_TOPIC, TIMER_QUEUE_ID, ""))
        faults = log.faults(records, mapped, bodies=bodies)
        good = np.setdiff1d(np.arange(len(rows)), list(faults)) if faults else np.arange(len(rows))
        records = records.keep(good) if faults else records
        told, fine = timer_rows(records, phy_offsets[rows[good]])
        left_out += len(rows) - int(fine.sum())
        if not fine.all():
            told, records = told.take(fine), records.keep(np.flatnonzero(fine))
        if len(told):
            yield told, records
    left_out += len(units) - found_rows
    if left_out:
        why = "timer messages that are damaged or gone, or do not say when they are due and where they belong"
        events.tell(events.SKIPPED, reads.path, TIMER_TOPIC, why, offset=int(phy_offsets[0]), count=left_out)


def timer_rows(records: RecordColumns, phy_offsets: Ints) -> tuple[TimerRows, Mask]:
    """Sound records as timer messages, and which of them are."""
    segments = records.property_segments()
    due, with_due = integers(segments.column(PROPERTY_TIMER_OUT_MS))
    rolls, _ = integers(segments.column(PROPERTY_TIMER_ROLL_TIMES))
    topics = segments.column(PROPERTY_REAL_TOPIC)
    queue_ids, with_queue = integers(segments.column(PROPERTY_REAL_QUEUE_ID))
    hashes, _ = string_hashes(topics)
    rows = TimerRows(
        queue_offsets=records.field(">i8", 20).astype(np.int64),
        phy_offsets=phy_offsets,
        sizes=records.sizes.astype(np.int64),
        due=due,
        stored=records.after_born_host(">i8", 56).astype(np.int64),
        rolls=rolls,
        deletes=np.asarray(segments.column(PROPERTY_TIMER_DEL_UNIQKEY).is_valid()),
        topic_hashes=hashes.view(np.int32).astype(np.int64),
    )
    fine = with_due & with_queue & (queue_ids >= 0) & (queue_ids < 1 << 31) & _can_be_a_topic(topics)
    return rows, fine & reputtable(records)


def real_places(segments: PropertySegments) -> tuple[list[str], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """(topics, each row's index among them, each row's queue) that sound timer messages belong to."""
    encoded = pc.dictionary_encode(segments.column(PROPERTY_REAL_TOPIC))
    queue_ids, _ = integers(segments.column(PROPERTY_REAL_QUEUE_ID))
    return encoded.dictionary.to_pylist(), np.asarray(encoded.indices).astype(np.int32), queue_ids.astype(np.int32)


def recall_names(segments: PropertySegments) -> tuple[pa.Array, pa.Array]:
    """Return the two names by which messages are recalled: `topic+uniqKey`, and `uniqKey` alone.

    RocketMQ 5.3.2 and 5.3.3 write the first, versions before and after them the second (since 5.4.0 unless
    appendTopicForTimerDeleteKey is set). A store that was upgraded holds both.
    """
    unique = segments.column(PROPERTY_UNIQ_KEY)
    return pc.binary_join_element_wise(segments.column(PROPERTY_REAL_TOPIC), unique.fill_null(""), "+"), unique


def identities(segments: PropertySegments, born: Ints, rolls: Ints) -> pa.Array:
    """What tells a timer message from others, and does not change while it is put again (`rolls` is given apart)."""
    parts = [
        segments.column(name).fill_null("")
        for name in (
            PROPERTY_REAL_TOPIC,
            PROPERTY_REAL_QUEUE_ID,
            PROPERTY_UNIQ_KEY,
            PROPERTY_TIMER_OUT_MS,
            PROPERTY_TIMER_DEL_UNIQKEY,
        )
    ]
    numbers = [pa.array(one, pa.int64()).cast(pa.string()) for one in (born, rolls)]
    return pc.binary_join_element_wise(*parts, *numbers, _UNIT_SEPARATOR)


def born_timestamps(records: RecordColumns) -> Ints:
    """When each message was born (ms)."""
    return records.field(">i8", 40).astype(np.int64)


def _can_be_a_topic(topics: pa.Array) -> Mask:
    encoded = pc.dictionary_encode(topics)
    fine = np.array(
        [is_directory_name(one) and not is_system_topic(one) for one in encoded.dictionary.to_pylist()], bool
    )
    found = np.asarray(topics.is_valid()).astype(bool)
    codes = np.asarray(encoded.indices.fill_null(0)).astype(np.int64)
    return found & fine[codes] if len(fine) else found & False
