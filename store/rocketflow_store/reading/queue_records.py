"""Complete records of a queue, many at a time, for storing them again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rocketflow_store.records.arrow.chunking import chunks
from rocketflow_store.records.decoding.decode import QueueIdentity, RecordColumns
from rocketflow_store.views.queues.consume_queue import pre_blank

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt
    import pyarrow as pa

    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.log.log_view import CommitLogView

    Units = npt.NDArray[np.void]
    Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class QueueRecords:
    """Consecutive messages of a queue: `records` are the valid ones, row i the message at `queue_offsets[i]`.

    `tags_codes` are those of their units. `bad` has (queue offset, file or place, problem) of the messages between them
    that cannot be read. `next_offset` is after all of them.
    """

    queue_offsets: Ints
    tags_codes: Ints
    records: RecordColumns
    bad: list[tuple[int, str, str]]
    next_offset: int


def queue_records(
    log: CommitLogView, topic: str, queue_id: int, units: Units, first_offset: int
) -> Iterator[QueueRecords]:
    """Yield the records of `units`, the queue's from `first_offset` on; a few MB at a time, in order.

    A record is valid if it claims to be the unit's message and its CRC is right. Filler units before a queue's first
    message have none.
    """
    identity = QueueIdentity(topic, queue_id, "")
    sizes = units["msg_size"].astype(np.int64)
    sizes[pre_blank(units)] = 0
    for rows in chunks(sizes):
        yield from _of_files(log, identity, units[rows], first_offset + rows.start)


def _of_files(log: CommitLogView, identity: QueueIdentity, units: Units, first_offset: int) -> Iterator[QueueRecords]:
    real = np.flatnonzero(~pre_blank(units))
    offsets, units, last = first_offset + real, units[real], first_offset + len(units)
    covered, missing = 0, "its CommitLog file is not there"
    for rows, mapped in log.by_file(units["phy_offset"].astype(np.int64)):
        bad = [(int(one), identity.topic, missing) for one in offsets[covered : rows.start]]
        covered = rows.stop
        following = int(offsets[covered]) if covered < len(units) else last
        found = _of_file(log, identity, mapped, units[rows], offsets[rows])
        yield replace(found, bad=sorted(bad + found.bad), next_offset=following)
    bad = [(int(one), identity.topic, missing) for one in offsets[covered:]]
    if bad or len(units) == 0:
        nothing = RecordColumns(_no_bytes(), np.zeros(0, np.int64), np.zeros(0, np.int64))
        yield QueueRecords(np.zeros(0, np.int64), np.zeros(0, np.int64), nothing, bad, last)


def _of_file(
    log: CommitLogView, identity: QueueIdentity, mapped: MappedFile, units: Units, offsets: Ints
) -> QueueRecords:
    place, bad, next_offset = str(mapped.path), list[tuple[int, str, str]](), int(offsets[-1]) + 1
    records, good, why = log.readable_columns(mapped, units)
    if why:
        bad += [(int(offsets[row]), place, why) for row in np.setdiff1d(np.arange(len(units)), good).tolist()]
        units, offsets = units[good], offsets[good]
    records.check_place(units["phy_offset"].astype(np.int64), offsets, identity)
    faults = log.faults(records, mapped, bodies=True)
    if faults:
        bad += [(int(offsets[row]), place, why) for row, why in sorted(faults.items())]
        good = np.setdiff1d(np.arange(records.count), list(faults))
        records, units, offsets = records.keep(good), units[good], offsets[good]
    return QueueRecords(offsets, units["tags_code"].astype(np.int64), records, bad, next_offset)


def _no_bytes() -> pa.Buffer:
    import pyarrow

    return pyarrow.py_buffer(b"")
