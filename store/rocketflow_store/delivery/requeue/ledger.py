"""The requeue ledger: which commits moved which messages, and when, read from the commit topic's envelopes alone.

It has every commit that moved messages together with its progress: deliveries of due messages (delay levels, timers),
manual requeues, bridges; a sink's commits too. Commits that retention removed from the log are no longer in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rocketflow_store.delivery.requeue.requeue_properties import (
    PROPERTY_REQUEUE_ORIGIN_QUEUE_ID,
    PROPERTY_REQUEUE_ORIGIN_QUEUE_OFFSET,
    PROPERTY_REQUEUE_RUN_ID,
)
from rocketflow_store.delivery.requeue.requeue_run import KIND
from rocketflow_store.log.readable_runs import readable_runs
from rocketflow_store.metadata.native.commit_envelope import (
    COMMIT_QUEUE_ID,
    COMMIT_TOPIC,
    CommitEnvelope,
    decode_envelope,
)
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketflow_store.reading.faults import SkipFaults
from rocketflow_store.records.decoding.decode import RecordColumns
from rocketflow_store.records.decoding.properties import integers

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rocketflow_store.delivery.requeue.requeue_run import RequeueRequest
    from rocketflow_store.reading.faults import ReadFaults
    from rocketflow_store.reading.store_reader import StoreReader

    Ints = npt.NDArray[np.int64]

SINK_KIND: Final = "sink"
_DELIVERIES: Final = {"rmq_sys_schedule": ("delay", SCHEDULE_TOPIC), "rmq_sys_timer": ("timer", TIMER_TOPIC)}
"""Kind and source of due deliveries, by sink id."""
KINDS: Final = (KIND, "delay", "timer", "send-back", "quality", "kafka-bridge", SINK_KIND)
"""Kinds of commits that RocketFlow writes. An application's sinks may have others."""
_OFFSET_BITS: Final = 44


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One commit as it is in the log; `time` in ms."""

    commit: CommitEnvelope
    time: int

    @property
    def kind(self) -> str:
        """Kind of the writer: "requeue", "delay" (and retries), "timer", the begin of the sink id, or "sink"."""
        sink_id, progress = self.commit.sink_id, self.commit.progress
        if sink_id in _DELIVERIES:
            return _DELIVERIES[sink_id][0]
        kind = progress.get("kind") or (sink_id.partition(":")[0] if progress else SINK_KIND)
        return kind if isinstance(kind, str) else SINK_KIND

    def as_dict(self) -> dict[str, Any]:
        """Return one line of the ledger."""
        commit, progress = self.commit, self.commit.progress
        return {
            "time": self.time,
            "kind": self.kind,
            "runId": commit.run_id,
            "sinkId": commit.sink_id,
            "batchId": commit.batch_id,
            "from": _DELIVERIES.get(commit.sink_id, (None, progress.get("from")))[1],
            "to": progress.get("topics") or progress.get("to"),
            "rows": commit.rows,
            "beginOffset": commit.begin_offset,
            "endOffset": commit.end_offset,
            "progress": dict(progress),
        }


def ledger(reader: StoreReader, faults: ReadFaults | None = None) -> Iterator[LedgerEntry]:
    """Yield all commits of the log, oldest first; without `faults`, envelopes that cannot be read are skipped."""
    low, high = reader.bounds(COMMIT_TOPIC, COMMIT_QUEUE_ID)
    columns, policy = ("body", "physicalOffset", "storeTimestamp"), SkipFaults() if faults is None else faults
    for batch in reader.read(COMMIT_TOPIC, COMMIT_QUEUE_ID, low, high, columns, faults=policy):
        places, times = (np.asarray(batch.column(at).cast("int64")).tolist() for at in (1, 2))
        for body, place, time_us in zip(batch.column(0).to_pylist(), places, times, strict=True):
            commit = decode_envelope(body)
            if commit is not None and commit.begin_offset == place:
                yield LedgerEntry(commit, time_us // 1000)


def requeued_by_others(reader: StoreReader, request: RequeueRequest) -> RequeuedRows:
    """Return rows of the request's source that other runs moved, as far as the log still has their commits."""
    found = [np.zeros(0, np.int64)]
    for entry in ledger(reader):
        commit = entry.commit
        of_source = entry.kind == KIND and commit.progress.get("from") == request.from_topic
        if of_source and commit.rows and commit.run_id != request.run_id:
            found.append(_origins(reader, commit))
    return RequeuedRows(np.unique(np.concatenate(found)))


@dataclass(frozen=True, slots=True)
class RequeuedRows:
    """Rows by queue id and queue offset."""

    keys: Ints

    def among(self, queue_ids: npt.NDArray[np.int32], queue_offsets: Ints) -> npt.NDArray[np.bool_]:
        """Return the mask of the given rows that are among these."""
        found: npt.NDArray[np.bool_] = np.isin(_keys(queue_ids, queue_offsets), self.keys)
        return found


def _keys(queue_ids: npt.NDArray[np.int32], queue_offsets: Ints) -> Ints:
    return (queue_ids.astype(np.int64) << _OFFSET_BITS) | queue_offsets


def _origins(reader: StoreReader, commit: CommitEnvelope) -> Ints:
    """Return the original places of the rows that a commit moved."""
    found = [np.zeros(0, np.int64)]
    offset = max(commit.begin_offset, reader.min_phy_offset)
    files = {mapped.file_from_offset: mapped for mapped in reader.log_files}
    while offset < commit.end_offset:
        begin = offset - offset % reader.log.file_size
        if begin not in files:
            break
        mapped = files[begin]
        limit = min(commit.end_offset - begin, mapped.file_size)
        for positions, sizes in readable_runs(mapped, offset - begin, limit, reader.record_boundaries()):
            segments = RecordColumns(mapped.buffer, positions, sizes).property_segments()
            moved = np.flatnonzero(np.asarray(segments.column(PROPERTY_REQUEUE_RUN_ID).is_valid()))
            names = (PROPERTY_REQUEUE_ORIGIN_QUEUE_ID, PROPERTY_REQUEUE_ORIGIN_QUEUE_OFFSET)
            ids, offsets = (integers(segments.column(name))[0][moved] for name in names)
            found.append(_keys(ids.astype(np.int32), offsets))
        offset = begin + mapped.file_size
    return np.concatenate(found)
