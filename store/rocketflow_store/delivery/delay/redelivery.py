"""Selection of due delayed messages, level by level, and the records that they become. No clock, no writing.

A message of delay level n waits in queue n - 1 of SCHEDULE_TOPIC_XXXX; its unit's tagsCode is the time (ms) from which
it is due. It is due at t if that time is <= t, whatever a clock did meanwhile: that time comes from storeTimestamp,
which never falls. (RocketMQ delivers at once what is due later than now + the level's delay, to make up for a clock
that went back, and so delivers early after that, or after a level was shortened. Here no message is early; one that
was stored while the clock ran ahead waits until the clock has caught up.)

Messages of a level are delivered in the order of its queue, each into REAL_TOPIC and REAL_QID with its properties
unchanged. Skipped, and counted by reason: records that cannot be read; that name no legal topic and queue (or one that
only the store itself writes to); halves of transactions, which RocketMQ leaves to its transaction service.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow.compute as pc

from rocketflow_store.format.consume_queue_unit import MAX_EXT_ADDRESS
from rocketflow_store.model.errors import StoreConfigError
from rocketflow_store.model.property_names import PROPERTY_DELAY, PROPERTY_REAL_QUEUE_ID, PROPERTY_REAL_TOPIC
from rocketflow_store.model.topic_names import HALF_TOPIC, RETRY_PREFIX, SCHEDULE_TOPIC, is_send_refused, validate_topic
from rocketflow_store.reading.queue_records import QueueRecords, queue_records
from rocketflow_store.records.decoding.properties import integers
from rocketflow_store.records.encoding.reput import TargetQueues, reput, reputtable
from rocketflow_store.views.queues.consume_queue import pre_blank

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt
    import pyarrow as pa

    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.records.encoding.encode import EncodedChunk
    from rocketflow_store.settings.store_config import StoreConfig

    Ints = npt.NDArray[np.int64]

MAX_QUEUE_ID: Final = (1 << 16) - 1
"""Larger queue ids are refused: they would create a topic with too many queues."""
ABSURD_MS: Final = 100 * 365 * 86_400_000
"""A message due this much later has a damaged or placeholder unit, which must not block its level."""
_BLOCK_UNITS: Final = 1 << 14

UNREADABLE: Final = "unreadable"
NO_TARGET: Final = "noTarget"
HALF: Final = "half"


class ScheduleReads(Protocol):
    """Reads that the engine needs of a store or a reader."""

    @property
    def log(self) -> CommitLogView: ...

    def queues(self, topic: str) -> list[int]: ...

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]: ...

    def read_units(self, topic: str, queue_id: int, start: int, end: int) -> npt.NDArray[np.void]: ...


@dataclass(frozen=True, slots=True)
class Skipped:
    """A skipped message, and why: `kind` is UNREADABLE, NO_TARGET or HALF."""

    queue_offset: int
    kind: str
    place: str
    why: str


@dataclass(frozen=True, slots=True)
class Redelivery:
    """The next due messages of a level: up to `next_offset` of its queue all are in `chunk`, or in `skipped`.

    `next_due_ms` is set if the message at `next_offset` is not due yet; `retries` of the rows go to %RETRY% topics.
    """

    level: int
    next_offset: int
    rows: int
    retries: int = 0
    bytes: int = 0
    chunk: EncodedChunk | None = None
    skipped: list[Skipped] = field(default_factory=list)
    next_due_ms: int | None = None


def levels_of(reads: ScheduleReads) -> list[int]:
    """List the delay levels that ever had a message, whatever levels the configuration has now."""
    return [queue_id + 1 for queue_id in reads.queues(SCHEDULE_TOPIC)]


def due_units(reads: ScheduleReads, level: int, start: int, until_ms: int) -> tuple[int, int | None]:
    """Return (offset after the due units from `start` on, when the unit there is due or None)."""
    _, high = reads.bounds(SCHEDULE_TOPIC, level - 1)
    for block in range(start, high, _BLOCK_UNITS):
        units = reads.read_units(SCHEDULE_TOPIC, level - 1, block, min(block + _BLOCK_UNITS, high))
        dues = units["tags_code"].astype(np.int64)
        late = np.flatnonzero((dues > until_ms) & (dues <= until_ms + ABSURD_MS) & ~pre_blank(units))
        if len(late):
            return block + int(late[0]), int(dues[late[0]])
    return max(high, start), None


def redeliveries(
    reads: ScheduleReads,
    config: StoreConfig,
    level: int,
    start: int,
    end: int,
    until_ms: int,
    *,
    encode: bool = True,
) -> Iterator[Redelivery]:
    """Yield the due messages of [start, end) of a level's queue, a few MB at a time.

    Without `encode` they are only counted. If a unit does not say when its message is due (an address of the queue's
    extension, a time before the message was stored), the record does; the last one then has `next_due_ms`.
    """
    for block in range(start, end, _BLOCK_UNITS):
        units = reads.read_units(SCHEDULE_TOPIC, level - 1, block, min(block + _BLOCK_UNITS, end))
        for found in queue_records(reads.log, SCHEDULE_TOPIC, level - 1, units, block):
            one = redelivery(found, config, level, until_ms, encode=encode)
            yield one
            if one.next_due_ms is not None:
                return


def redelivery(found: QueueRecords, config: StoreConfig, level: int, until_ms: int, *, encode: bool) -> Redelivery:
    """Return the redelivery of these messages of a level's queue, up to the first that is not due."""
    records, next_offset, next_due_ms = found.records, found.next_offset, None
    bad, count = found.bad, records.count
    dues = due_times(found, config, level)
    late = np.flatnonzero(dues > until_ms)
    if len(late):
        count, next_due_ms = int(late[0]), int(dues[late[0]])
        next_offset = int(found.queue_offsets[count])
        bad = [one for one in bad if one[0] < next_offset]
        records = records.keep(np.arange(count))
    skipped = [Skipped(offset, UNREADABLE, place, why) for offset, place, why in bad]
    if count == 0:
        return Redelivery(level, next_offset, 0, skipped=skipped, next_due_ms=next_due_ms)
    segments = records.property_segments()
    topics, topic_of, kinds = _targets(segments.column(PROPERTY_REAL_TOPIC))
    queue_ids = _queue_ids(segments.column(PROPERTY_REAL_QUEUE_ID))
    faults = kinds[topic_of]
    faults[(faults == "") & ((queue_ids < 0) | ~reputtable(records))] = NO_TARGET
    rows = np.flatnonzero(faults == "")
    skipped += [_skipped(int(found.queue_offsets[row]), str(faults[row])) for row in np.flatnonzero(faults != "")]
    skipped.sort(key=lambda one: one.queue_offset)
    if len(rows) == 0:
        return Redelivery(level, next_offset, 0, skipped=skipped, next_due_ms=next_due_ms)
    used, targets = np.unique(topic_of[rows], return_inverse=True)
    names = [topics[one] for one in used.tolist()]
    retry = np.array([name.startswith(RETRY_PREFIX) for name in names], bool)
    if len(rows) < records.count:
        records = records.keep(rows)
    chunk = None
    if encode:
        ids = queue_ids[rows].astype(np.int32)
        chunk = reput(records, TargetQueues(names, targets.astype(np.int32), ids), config)
    return Redelivery(
        level,
        next_offset,
        rows=len(rows),
        retries=int(retry[targets].sum()),
        bytes=int(records.sizes.sum()),
        chunk=chunk,
        skipped=skipped,
        next_due_ms=next_due_ms,
    )


def due_times(found: QueueRecords, config: StoreConfig, level: int) -> Ints:
    """Return when messages are due (ms): by their units, or by the record if the unit cannot be right."""
    stored = found.records.after_born_host(">i8", 56).astype(np.int64)
    dues = found.tags_codes.copy()
    odd = np.flatnonzero((dues <= MAX_EXT_ADDRESS) | (dues < stored) | (dues > stored + ABSURD_MS))
    if len(odd) == 0:
        return dues
    delays = config.delay_levels_ms
    named = integers(found.records.property_segments().column(PROPERTY_DELAY))[0][odd]
    by_level = np.array([0, *delays], np.int64)
    dues[odd] = stored[odd] + by_level[np.clip(named, 0, len(delays))]
    return dues


def _targets(real_topics: pa.Array) -> tuple[list[str], npt.NDArray[np.int32], npt.NDArray[np.str_]]:
    """Return (distinct topics, index of each row's topic, reason to skip messages of each topic or "")."""
    encoded = pc.dictionary_encode(real_topics.fill_null(""))
    topics: list[str] = encoded.dictionary.to_pylist()
    return topics, np.asarray(encoded.indices).astype(np.int32), np.array([why_not(one) for one in topics], "U16")


def why_not(topic: str) -> str:
    """Return why messages for this topic are skipped: NO_TARGET or HALF, or "" if they are not."""
    if topic == HALF_TOPIC:
        return HALF
    if is_send_refused(topic):
        return NO_TARGET
    try:
        validate_topic(topic)
    except StoreConfigError:
        return NO_TARGET
    return ""


def _queue_ids(texts: pa.Array) -> Ints:
    """Return the queue ids of the rows, -1 if a text is not one."""
    found, valid = integers(texts)
    found[~valid | (found > MAX_QUEUE_ID)] = -1
    return found


def _skipped(queue_offset: int, kind: str) -> Skipped:
    why = {
        HALF: "half of a transaction: it is left to the transaction service",
        NO_TARGET: "REAL_TOPIC and REAL_QID name no topic and queue that may receive it",
    }[kind]
    return Skipped(queue_offset, kind, SCHEDULE_TOPIC, why)
