"""The end of the pass, in the tasks: rows are encoded and staged as the sink's, conditions counted, examples kept.

A task writes nothing that readers can see: it returns a staged part and a report, the driver decides.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketflow.quality.bodies.malformed import BodyReasons
from rocketflow.quality.check.record_room import fitted
from rocketflow.quality.check.split import BAD_BIT, QUEUE_ID, REASON, TOPIC_SHIFT, WELL_FORMED_BIT, is_undecoded
from rocketflow.quality.pass_columns import BITS, MASK, NAMES, OBSERVED, OFFSET, PASSED, QUEUE, VALUES
from rocketflow_store import MessageRejectedError, StoreConfig, StoreError
from rocketflow_store.spi.records import BatchEncoder, config_for_encoding
from rocketflow_store.spi.staging import StagedPart, StagingArea, stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from rocketflow_store.spi.records import EncodedChunk

    Ints = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

EXAMPLES: Final = 20
"""Number of examples of rows that break an expectation: the first, by topic, queue and offset."""
REPORT_SCHEMA: Final = "report binary"

Example = tuple[int, int, str]
"""Origin queue (topic number << 32 | queue id), queue offset, observed values as JSON."""


@dataclass(slots=True)
class PassReport:
    """The report of a task: rows by counter, ranges {origin queue: [first, last, rows]}, examples by counter."""

    partition: int
    part: StagedPart | None
    rows: int = 0
    malformed: int = 0
    malformed_by: Counter[str] = field(default_factory=Counter)
    """Rows by the kind of the reason why their body could not be read."""
    quarantined: int = 0
    counts: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    ranges: dict[int, list[int]] = field(default_factory=dict)
    examples: dict[int, list[Example]] = field(default_factory=dict)

    def add(self, other: PassReport) -> None:
        """Add the report of another task."""
        self.rows += other.rows
        self.malformed += other.malformed
        self.malformed_by += other.malformed_by
        self.quarantined += other.quarantined
        self.counts = self.counts + other.counts
        for queue, (first, last, rows) in other.ranges.items():
            _extend(self.ranges, queue, first, last, rows)
        for counter, found in other.examples.items():
            self.examples[counter] = sorted([*self.examples.get(counter, []), *found])[:EXAMPLES]

    def as_batch(self) -> pa.RecordBatch:
        """Return the pickled report as one row for the driver."""
        import pickle

        return pa.RecordBatch.from_arrays([pa.array([pickle.dumps(self)], pa.binary())], names=["report"])


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of one Arrow batch: of each its origin queue, queue offset, and whether it is well formed or bad."""

    batch: pa.RecordBatch
    queues: Ints
    offsets: Ints
    well_formed: Mask
    bad: Mask

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> _Rows:
        places = np.asarray(batch[QUEUE])
        well_formed, bad = ((places & one) != 0 for one in (WELL_FORMED_BIT, BAD_BIT))
        return cls(batch, places & ~(WELL_FORMED_BIT | BAD_BIT), np.asarray(batch[OFFSET]), well_formed, bad)

    def take(self, rows: npt.NDArray[np.intp]) -> _Rows:
        """Select rows by their indices."""
        return _Rows.of(self.batch.take(pa.array(rows)))


@dataclass(frozen=True, slots=True)
class PassTask:
    """The function of `mapInArrow`. Without `store` it stages nothing (a check without a stream)."""

    counters: int
    shown: tuple[int, ...]
    """Counters with examples."""
    good: str | None
    quarantine: str
    queues: dict[str, int]
    """Number of queues by topic: a row goes to the queue of its own id, modulo this number."""
    reasons: BodyReasons
    store: str | None = None
    sink_id: str = ""
    batch_id: int = 0

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        report = PassReport(context.partitionId(), None, counts=np.zeros(self.counters, np.int64))
        if self.store is None:
            for batch in batches:
                self._count(_Rows.of(batch), report)
        else:
            config = config_for_encoding(self.store, StoreConfig.load())
            encoder = BatchEncoder(config, lambda topic: 1)
            name = f"p{report.partition}-a{context.taskAttemptId()}"
            directory = StagingArea(self.store, self.sink_id).directory(self.batch_id)
            chunks = self._encoded(batches, report, encoder, config.clock.now_ms())
            report.part = stage(chunks, directory, name)
        yield report.as_batch()

    def _encoded(
        self, batches: Iterable[pa.RecordBatch], report: PassReport, encoder: BatchEncoder, now_ms: int
    ) -> Iterator[EncodedChunk]:
        for batch in batches:
            given = _Rows.of(batch)
            rows = self._sink_rows(given, self._count(given, report))
            if rows.num_rows == 0:
                continue
            try:
                encoder.validate(rows)
            except MessageRejectedError as error:
                raise StoreError(
                    f"partition {report.partition}: {error.why}; nothing of the batch is written"
                ) from error
            yield from encoder.encode(rows, now_ms)

    def _count(self, rows: _Rows, report: PassReport) -> list[str]:
        """Add the rows to the report: counts, ranges and examples; return the reason of each malformed row."""
        report.rows += len(rows.bad)
        if len(rows.bad) == 0:
            return []
        reasons = self._why(rows)
        report.malformed_by.update(map(_kind_of_reason, reasons))
        report.malformed += int(np.count_nonzero(~rows.well_formed))
        report.quarantined += int(np.count_nonzero(rows.bad))
        for queue in np.unique(rows.queues).tolist():
            of_queue = rows.offsets[rows.queues == queue]
            _extend(report.ranges, queue, int(of_queue.min()), int(of_queue.max()), len(of_queue))
        for first in range(0, self.counters, BITS):
            mask = np.asarray(rows.batch[f"{MASK}{first // BITS}"])
            for at in range(min(BITS, self.counters - first)):
                held = (mask & (1 << at)) != 0
                count = int(np.count_nonzero(held))
                report.counts[first + at] += count
                if count and first + at in self.shown:
                    _keep_examples(rows, report, first + at, np.flatnonzero(held))
        return reasons

    def _why(self, rows: _Rows) -> list[str]:
        """Return the reason of each malformed row: the decoder's, or the one that the second parser finds."""
        picked = pa.array(np.flatnonzero(~rows.well_formed))
        found = (rows.batch[name].take(picked).to_pylist() for name in ("body", NAMES, VALUES))
        return [
            values[-1] if names and names[-1] == REASON else _printable(self.reasons.why(body))
            for body, names, values in zip(*found, strict=True)
        ]

    def _sink_rows(self, given: _Rows, reasons: list[str]) -> pa.RecordBatch:
        """Return the sink's columns; malformed rows get their reason, good rows are dropped without a good topic."""
        if self.good is None:
            given = given.take(np.flatnonzero(given.bad))
        bad, batch = pa.array(given.bad), given.batch
        topics = pc.if_else(bad, self.quarantine, pa.scalar(self.good, pa.string()))
        counts = np.where(given.bad, self.queues[self.quarantine], self.queues.get(self.good or "", 1))
        columns = {
            "topic": topics,
            "queueId": pa.array((given.queues & QUEUE_ID) % counts, pa.int32()),
            "properties": _as_map(batch[NAMES], batch[VALUES]),
        }
        rows = batch.select(PASSED)
        for name, column in columns.items():
            rows = rows.append_column(name, column)
        malformed = np.flatnonzero(~given.well_formed)
        return fitted(_with_reasons(rows, malformed, reasons) if len(malformed) else rows, self.quarantine)


def _with_reasons(rows: pa.RecordBatch, malformed: Ints, reasons: list[str]) -> pa.RecordBatch:
    column = rows["properties"]
    properties = column.take(pa.array(malformed)).to_pylist()
    explained = [
        own if is_undecoded(own) else [*own, (REASON, why)] for own, why in zip(properties, reasons, strict=True)
    ]
    both = pa.concat_arrays([column, pa.array(explained, column.type)])
    order = np.arange(rows.num_rows)
    order[malformed] = rows.num_rows + np.arange(len(malformed))
    return rows.set_column(rows.schema.get_field_index("properties"), "properties", both.take(pa.array(order)))


def _kind_of_reason(why: str) -> str:
    """Return a reason without the value that it shows, so that equal causes are counted together."""
    return re.split(r": | but ", why, maxsplit=1)[0]


def _keep_examples(given: _Rows, report: PassReport, counter: int, rows: npt.NDArray[np.intp]) -> None:
    queues, offsets = given.queues, given.offsets
    order = rows[np.lexsort((offsets[rows], queues[rows]))][:EXAMPLES]
    known = report.examples.get(counter, [])
    if len(known) == EXAMPLES:
        last = known[-1]
        order = np.array([row for row in order.tolist() if (int(queues[row]), int(offsets[row])) < last[:2]], np.intp)
    if len(order):
        values = given.batch[OBSERVED].take(pa.array(order)).to_pylist()
        found = [
            (int(queues[row]), int(offsets[row]), value or "{}")
            for row, value in zip(order.tolist(), values, strict=True)
        ]
        report.examples[counter] = sorted([*known, *found])[:EXAMPLES]


def _as_map(names: pa.ListArray, values: pa.ListArray) -> pa.MapArray:
    """Return a map of each row's `names` to `values`, null where they are null."""
    kind = pa.map_(pa.string(), pa.string())
    pairs = pa.StructArray.from_arrays([names.values, values.values], fields=[kind.key_field, kind.item_field])
    return pa.Array.from_buffers(kind, len(names), names.buffers()[:2], offset=names.offset, children=[pairs])


def _extend(ranges: dict[int, list[int]], queue: int, first: int, last: int, rows: int) -> None:
    known = ranges.setdefault(queue, [first, last, 0])
    ranges[queue] = [min(known[0], first), max(known[1], last), known[2] + rows]


def _printable(text: str) -> str:
    """Replace control characters, among them the separators of properties, by blanks."""
    return "".join(one if one.isprintable() else " " for one in text)


def named_ranges(ranges: dict[int, list[int]], topics: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return [{topic, queueId, from, to, rows}] in order; `to` is exclusive."""
    return [
        {
            "topic": topics[queue >> TOPIC_SHIFT],
            "queueId": queue & QUEUE_ID,
            "from": first,
            "to": last + 1,
            "rows": rows,
        }
        for queue, (first, last, rows) in sorted(ranges.items())
    ]
