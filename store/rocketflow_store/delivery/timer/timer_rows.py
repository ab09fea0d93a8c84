"""Messages of the timer topic as columns: their due times, their places, and the names that identify them.

No record is trusted: a record that is damaged, or has no due time or no real topic and queue, is skipped and logged.
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
from rocketflow_store.model.topic_names import TIMER_TOPIC, is_directory_name, is_send_refused
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
    from rocketflow_store.model.message import ReceivedMessage
    from rocketflow_store.records.decoding.decode import RecordColumns
    from rocketflow_store.records.decoding.properties import PropertySegments
    from rocketflow_store.settings.store_config import StoreConfig

    Ints = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

TIMER_QUEUE_ID: Final = 0
_UNITS_AT_ONCE: Final = 1 << 13
_UNIT_SEPARATOR: Final = "\x1f"


class TimerReads(Protocol):
    """The reads of a MessageStore or StoreReader that timer delivery uses."""

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

    def check_open(self) -> None: ...

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]: ...

    def record_boundaries(self) -> Boundaries: ...

    def read_units(self, topic: str, queue_id: int, start: int, end: int) -> npt.NDArray[np.void]: ...

    def look_message_by_offset(self, phy_offset: int) -> ReceivedMessage | None: ...


@dataclass(frozen=True, slots=True)
class TimerRows:
    """Timer messages, one element a message. Times in ms; `rolls` counts how often the message was rolled."""

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
        """Return the rows that `rows` selects: a mask, or row numbers."""
        return TimerRows(*(getattr(self, one.name)[rows] for one in fields(self)))

    @classmethod
    def concatenate(cls, parts: Sequence[TimerRows]) -> TimerRows:
        """Return the rows of all `parts`, in their order."""
        if not parts:
            empty = np.zeros(0, np.int64)
            return cls(empty, empty, empty, empty, empty, empty, np.zeros(0, bool), empty)
        return cls(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(cls)))


def read_timer_rows(reads: TimerReads, start: int, end: int) -> Iterator[tuple[TimerRows, RecordColumns]]:
    """Yield the messages `[start, end)` of the timer topic in blocks, with their records (row for row)."""
    for at in range(start, end, _UNITS_AT_ONCE):
        stop = min(at + _UNITS_AT_ONCE, end)
        units = reads.read_units(TIMER_TOPIC, TIMER_QUEUE_ID, at, stop)
        offsets = np.arange(at, stop)
        exists = ~pre_blank(units)
        yield from rows_of_units(reads, units[exists], offsets[exists], bodies=False)


def rows_of_units(
    reads: TimerReads, units: npt.NDArray[np.void], queue_offsets: Ints | None, *, bodies: bool
) -> Iterator[tuple[TimerRows, RecordColumns]]:
    """Yield the messages that `units` (phy_offset, msg_size) point at, one run of a log file at a time.

    If `queue_offsets` is None, the queue offsets that the records store are used. With `bodies`, the bodies' CRCs are
    checked too, since the bodies will be delivered.
    """
    log, skipped = reads.log, 0
    phy_offsets = units["phy_offset"].astype(np.int64)
    found_rows = 0
    for part, mapped in log.by_file(phy_offsets):
        rows = np.arange(part.start, part.stop)
        found_rows += len(rows)
        try:
            records = log.columns(mapped, units[rows])
        except UnreadableError:
            readable = log.readable(mapped, units[rows])
            skipped += len(rows) - len(readable)
            rows = rows[readable]
            if len(rows) == 0:
                continue
            records = log.columns(mapped, units[rows])
        stored = records.field(">i8", 20).astype(np.int64)
        wanted = stored if queue_offsets is None else queue_offsets[rows]
        records.check_place(phy_offsets[rows], wanted, QueueIdentity(TIMER_TOPIC, TIMER_QUEUE_ID, ""))
        faults = log.faults(records, mapped, bodies=bodies)
        good = np.setdiff1d(np.arange(len(rows)), list(faults)) if faults else np.arange(len(rows))
        records = records.keep(good) if faults else records
        messages, is_timer = timer_rows(records, phy_offsets[rows[good]])
        skipped += len(rows) - int(is_timer.sum())
        if not is_timer.all():
            messages, records = messages.take(is_timer), records.keep(np.flatnonzero(is_timer))
        if len(messages):
            yield messages, records
    skipped += len(units) - found_rows
    if skipped:
        why = "timer messages are damaged or missing, or have no due time or no real topic and queue"
        events.report(events.SKIPPED, reads.path, TIMER_TOPIC, why, offset=int(phy_offsets[0]), count=skipped)


def timer_rows(records: RecordColumns, phy_offsets: Ints) -> tuple[TimerRows, Mask]:
    """Return (`records` as rows, mask of the rows that are valid timer messages); the records are undamaged."""
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
    """Return (topics, each row's index among them, each row's queue id) that valid timer messages were sent to."""
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
    """Return a string for each message that identifies it and stays the same when it is rolled, except for `rolls`."""
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
    """Return the born timestamp of each message (ms)."""
    return records.field(">i8", 40).astype(np.int64)


def _can_be_a_topic(topics: pa.Array) -> Mask:
    encoded = pc.dictionary_encode(topics)
    fine = np.array(
        [is_directory_name(one) and not is_send_refused(one) for one in encoded.dictionary.to_pylist()], bool
    )
    found = np.asarray(topics.is_valid()).astype(bool)
    codes = np.asarray(encoded.indices.fill_null(0)).astype(np.int64)
    return found & fine[codes] if len(fine) else found & False
