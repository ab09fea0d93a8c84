"""Records of one queue that a broker has answered, as RecordBatches: each checked, none missing without a fault.

The answer's bytes are records as they are stored, one after the other. What a queue unit says by path (place and size
of a record) follows from the records themselves here; CRC, topic, queue and the order of offsets are checked alike.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.errors import CorruptRecordError, DamagedBodyError
from rocketflow_store.model.system_flags import COMPRESSED_FLAG, WRAPPED
from rocketflow_store.model.topic_names import LMQ_PREFIX
from rocketflow_store.reading.range_read import ALL_ROWS, Wanted, chosen_rows, decodes
from rocketflow_store.reading.skipped import REMOVED, SkippedMessages
from rocketflow_store.records.arrow.gather import fixed_width_at, int_array
from rocketflow_store.records.decoding.checked_columns import EVERY_CRC, RECORD_CRC, checked_columns
from rocketflow_store.records.decoding.decode import ColumnBuilder, QueueIdentity, RecordColumns, decompressed_runs
from rocketflow_store.records.decoding.dispatch_rows import batch_nums
from rocketflow_store.records.decoding.inner_batches import RECORD_COLUMNS, NoBatchBodyError, unwrap, without_batch
from rocketflow_store.records.decoding.record_crc import judge_contents
from rocketflow_store.records.decoding.scan import scan_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy.typing as npt

    from rocketflow_store.model.errors import OffsetOutOfRangeError
    from rocketflow_store.reading.faults import ReadFaults
    from rocketflow_store.reading.range_read import Condition, RowChoice
    from rocketflow_store.records.decoding.checked_columns import CheckedColumns
    from rocketflow_store.records.decoding.scan import Scan

    Ints = npt.NDArray[np.int64]

_MAX_DECOMPRESSED: Final = 32 << 20
_NO_RECORD: Final = "the broker's answer has no record there"
_MISSING: Final = "the broker's answer lacks the message"


class PulledRecords:
    """Decoder of one queue's answers; `faults` decides about messages that cannot be returned.

    Raises UnknownColumnError for a column that the source does not have, and InvalidFilterError.
    """

    def __init__(
        self,
        queue: tuple[str, str, int],
        columns: Sequence[str] | None,
        tags: str | None,
        faults: ReadFaults,
        condition: Condition | None = None,
    ) -> None:
        """Take (broker name, topic, queue id), the columns, and the tags and the condition that messages must meet."""
        broker, topic, queue_id = queue
        self._identity = QueueIdentity(topic, queue_id, broker, exact=not topic.startswith(LMQ_PREFIX))
        self._wanted = Wanted.of(columns, tags, 0, faults, condition)
        self._faults = faults
        self._undecoded: list[int] = []
        """Queue offsets of records of several messages whose body cannot be decoded."""
        more = (*self._wanted.columns, "queueOffset", *self._wanted.choice.columns)
        self._more = tuple(dict.fromkeys(more))
        self._needed = tuple(dict.fromkeys((*more, *RECORD_COLUMNS)))

    def batches(
        self,
        data: bytes,
        start: int,
        end: int,
        *,
        skipped: Iterable[tuple[int, int, str]] = (),
        lacking: Callable[[tuple[int, int]], object] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the messages [start, end) of the queue that are in an answer.

        Messages of the range that are not in it are faults, for the reasons of those offsets [start, end) that the
        broker says it has `skipped`. `lacking` gets each span of them instead, if given: the broker may have filtered
        them. Other messages are ignored.
        """
        buffer, position = pa.py_buffer(data), 0
        seen: list[Ints] = []
        following = start
        while position < buffer.size:
            scan = scan_records(buffer, position, buffer.size)
            if not len(scan.positions):
                why = f"{_NO_RECORD} ({self._where(following)})"
                self._faults.meet(CorruptRecordError(self._identity.broker_name, position, why))
                break
            usual = self._usual(buffer, scan, start, end)
            if usual is not None:
                offsets, checked = usual
                seen.append(offsets)
                following, position = int(offsets[-1]) + 1, scan.end
                yield from chosen_rows(checked, self._wanted.columns, self._wanted.choice)
                continue
            records = RecordColumns(buffer, scan.positions, scan.sizes)
            offsets = self._offsets(records, following)
            yield from self._checked(records, offsets, (start, end), seen)
            following, position = int(offsets[-1]) + 1, scan.end
        missing = _missing(seen, start, end)
        if lacking is None:
            self._meet_missing(missing, skipped)
            return
        for some in missing:
            lacking((int(some[0]), int(some[-1]) + 1))

    def removed(self, error: OffsetOutOfRangeError, end: int) -> None:
        """Meet messages from the offset of `error` up to `end`, which the broker does not have any more."""
        self._faults.meet(error)
        self._skip([SkippedMessages(error.offset, end - error.offset, -1, REMOVED)])

    def _usual(self, buffer: pa.Buffer, scan: Scan, start: int, end: int) -> tuple[Ints, CheckedColumns] | None:
        """Return queue offsets and columns of records that are all usual, sound and wanted, else None."""
        if COMPILED is None:
            return None
        octets = np.frombuffer(buffer, np.uint8)
        offsets, places = (fixed_width_at(octets, ">i8", scan.positions + at).astype(np.int64) for at in (20, 28))
        if offsets.min() < start or offsets.max() >= end:
            return None
        columns, choice = self._wanted.columns, self._wanted.choice
        contents = EVERY_CRC if decodes(columns) else RECORD_CRC
        asked = columns if choice.matches_all else (*columns, *choice.columns)
        records = buffer, scan.positions, scan.sizes
        checked = checked_columns(records, (offsets, places), self._identity, asked, contents)
        return None if checked is None or checked.flags & WRAPPED == WRAPPED else (offsets, checked)

    def _offsets(self, records: RecordColumns, following: int) -> Ints:
        """Return the queue offsets that records claim; those of an LMQ name others, they count on."""
        if self._identity.exact:
            return records.field(">i8", 20).astype(np.int64)
        return np.arange(following, following + records.count)

    def _checked(
        self, records: RecordColumns, offsets: Ints, wanted: tuple[int, int], seen: list[Ints]
    ) -> Iterator[pa.RecordBatch]:
        start, end = wanted
        places = records.field(">i8", 28).astype(np.int64)
        records.check_place(places, offsets, self._identity)
        faults = _faults_of(records, bodies=decodes(self._wanted.columns))
        good = np.ones(records.count, bool)
        if faults:
            good[list(faults)] = False
            seen.append(offsets[~good])
            self._damaged(offsets, places, {row: why for row, why in faults.items() if start <= offsets[row] < end})
        wrapped = (records.sys_flag & WRAPPED == WRAPPED) & good
        if wrapped.any():
            rows = np.flatnonzero(good)
            yield from self._inner(records.keep(rows), offsets[rows], places[rows], wanted, seen)
            return
        good &= (offsets >= start) & (offsets < end)
        if not good.all():
            rows = np.flatnonzero(good)
            records, offsets, places = records.keep(rows), offsets[rows], places[rows]
        seen.append(offsets)
        yield from self._decoded(records, offsets, places, self._wanted.columns, self._wanted.choice)

    def _inner(
        self, records: RecordColumns, offsets: Ints, places: Ints, wanted: tuple[int, int], seen: list[Ints]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the messages of records that hold several."""
        start, end = wanted
        self._undecoded.clear()
        covered: list[Ints] = []
        for batch in self._decoded(records, offsets, places, self._needed, ALL_ROWS):
            for part in self._unwrapped(batch):
                found = np.asarray(part.column(part.schema.get_field_index("queueOffset")))
                covered.append(found)
                keep = (found >= start) & (found < end)
                keep &= self._wanted.choice.mask_batch(part)
                if keep.any():
                    yield _rows_of(part.select(self._wanted.columns), keep)
        if self._undecoded:
            counts = batch_nums(records, records.property_segments())
            rows = np.flatnonzero(np.isin(offsets, self._undecoded))
            one_by_one = [
                np.arange(offsets[row], offsets[row] + (1 if counts is None else counts[row])) for row in rows
            ]
            covered.append(np.setdiff1d(np.concatenate(one_by_one), np.concatenate([np.zeros(0, np.int64), *covered])))
        seen += covered

    def _unwrapped(self, records: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        try:
            yield unwrap(records, self._more)
        except NoBatchBodyError as error:
            at = records.column(records.schema.get_field_index("queueOffset"))[error.row].as_py()
            yield from self._unwrapped(records.slice(0, error.row))
            if self._keeps(SkippedMessages(at, 1, -1, str(error))):
                yield without_batch(records, error, self._more)
            yield from self._unwrapped(records.slice(error.row + 1))

    def _decoded(
        self, records: RecordColumns, offsets: Ints, places: Ints, columns: tuple[str, ...], choice: RowChoice
    ) -> Iterator[pa.RecordBatch]:
        """Yield the chosen ones of sound records as batches, their bodies decompressed."""
        if not records.count:
            return
        builder = ColumnBuilder(records, self._identity, offsets, places)
        if not decodes(columns) or not (records.sys_flag & COMPRESSED_FLAG).any():
            yield from chosen_rows(builder, columns, choice)
            return
        if not choice.matches_all:
            chosen = np.flatnonzero(choice.mask(builder.column, records.count))
            records, offsets, places = records.keep(chosen), offsets[chosen], places[chosen]

        def keeps(row: int, why: str) -> bool:
            return self._keeps(SkippedMessages(int(offsets[row]), 1, int(places[row]), why))

        for run, bodies in decompressed_runs(records, _MAX_DECOMPRESSED, keeps):
            some = records.keep(np.array(run))
            yield ColumnBuilder(some, self._identity, offsets[run], places[run], bodies).batch(columns)

    # -- messages that cannot be returned

    def _keeps(self, one: SkippedMessages) -> bool:
        """Return True to return a message whose body cannot be decoded as it is stored; else it is skipped."""
        identity = self._identity
        message = identity.topic, identity.queue_id, one.queue_offset
        self._undecoded.append(one.queue_offset)
        if self._faults.keeps_bad_body(DamagedBodyError(identity.broker_name, one.phy_offset, message, one.why)):
            return True
        self._faults.skipped_body([one], **self._place_of(one, f"body: {one.why}"))
        return False

    def _damaged(self, offsets: Ints, places: Ints, faults: dict[int, str]) -> None:
        """Meet rows whose records are damaged, or are other messages."""
        if not faults:
            return
        first = min(faults)
        why = f"{faults[first]} ({self._where(int(offsets[first]))})"
        self._faults.meet(CorruptRecordError(self._identity.broker_name, int(places[first]), why))
        rows = [SkippedMessages(int(offsets[row]), 1, int(places[row]), one) for row, one in sorted(faults.items())]
        self._skip(rows)

    def _meet_missing(self, runs: list[Ints], skipped: Iterable[tuple[int, int, str]]) -> None:
        """Meet the messages that were in no record."""
        rows = []
        for run in runs:
            for start, end, why in skipped:
                left, some, run = np.split(run, np.searchsorted(run, (start, max(start, end))))
                rows += [(left, _MISSING), (some, why)]
            rows.append((run, _MISSING))
        missing = [SkippedMessages(int(run[0]), len(run), -1, why) for run, why in rows if len(run)]
        if missing:
            first = missing[0]
            why = f"{first.why} ({self._where(first.queue_offset)})"
            self._faults.meet(CorruptRecordError(self._identity.broker_name, -1, why))
            self._skip(missing)

    def _skip(self, rows: list[SkippedMessages]) -> None:
        self._faults.skipped(rows, **self._place_of(rows[0], rows[0].why))

    def _place_of(self, first: SkippedMessages, why: str) -> dict[str, Any]:
        """Return the arguments that say where messages were skipped, and why."""
        identity = self._identity
        place = f"broker {identity.broker_name}"
        why = f"skipped in topic {identity.topic}, queue {identity.queue_id}: {why}"
        return {"store": Path(place), "place": place, "offset": first.queue_offset, "why": why}

    def _where(self, queue_offset: int) -> str:
        return f"topic {self._identity.topic}, queue {self._identity.queue_id}, queue offset {queue_offset}"


def _missing(seen: list[Ints], start: int, end: int) -> list[Ints]:
    """Return the offsets of [start, end) that are not among `seen`, each run of them."""
    if sum(map(len, seen)) == end - start and all(len(one) == 0 or (one[0] >= start and one[-1] < end) for one in seen):
        return []
    missing = np.setdiff1d(np.arange(start, end), np.concatenate([np.zeros(0, np.int64), *seen]))
    return np.split(missing, np.flatnonzero(np.diff(missing) != 1) + 1) if len(missing) else []


def _faults_of(records: RecordColumns, *, bodies: bool) -> dict[int, str]:
    """Return the faults of records and of their contents, by row."""
    faults = dict(records.faults)
    if not faults:
        return judge_contents(records, bodies=bodies)[0]
    rows = np.setdiff1d(np.arange(records.count), list(faults))
    found, _ = judge_contents(records.keep(rows), bodies=bodies)
    return faults | {int(rows[at]): why for at, why in found.items()}


def _rows_of(batch: pa.RecordBatch, mask: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    return batch if mask.all() else batch.take(int_array(np.flatnonzero(mask), pa.int64()))
