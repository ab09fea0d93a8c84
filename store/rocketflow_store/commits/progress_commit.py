"""Commits of messages together with the progress of their source: delivery of due messages, bridges, replays.

A job that derives messages from others (of a delay queue, of a Kafka partition) keeps its positions in the envelope of
the commit that holds these messages (`CommitEnvelope.progress`): after a kill both exist or neither. A commit is
planned from the last one; if another commit came between, it is refused and must be planned again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.commits.batch_commit import (
    CommitResult,
    CommitStatus,
    SinkCommitError,
    append_with_envelope,
    check_sink_id,
    last_commit,
)
from rocketflow_store.commits.proven_parts import proven_chunks
from rocketflow_store.metadata.native.commit_envelope import COMMIT_TOPIC, CommitEnvelope
from rocketflow_store.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocketflow_store.commits.commit_target import CommitTarget
    from rocketflow_store.commits.staged_part import StagedPart
    from rocketflow_store.records.encoding.encode import EncodedChunk

_NO_DIGEST: Final = ""
"""A replayed batch is recognised by its progress, not by its rows."""


class ProgressMovedError(SinkCommitError):
    """Another commit under this id came after the plan was made: read the last commit and plan again."""


@dataclass(frozen=True, slots=True)
class ProgressBatch:
    """Messages to append, and the progress of their source once they are stored.

    `after` is the last commit of `sink_id` that the plan was made from (`last_commit`), None if there was none;
    `progress` is the complete new state, a JSON object; `rows` records are in `parts` and `chunks`, in this order, none
    if there is only progress. `queues` are the numbers of queues of topics that the commit creates; topics in
    `least_queues` have at least so many queues after it.
    """

    sink_id: str
    run_id: str
    after: CommitEnvelope | None
    progress: Mapping[str, Any]
    rows: int = 0
    chunks: Sequence[EncodedChunk] = field(default=())
    parts: Sequence[StagedPart] = field(default=())
    queues: Mapping[str, int] = field(default_factory=dict)
    least_queues: Mapping[str, int] = field(default_factory=dict)


def commit_progress(store: CommitTarget, batch: ProgressBatch, *, queues: int | None = None) -> CommitResult:
    """Append the envelope and all rows as one commit: durable on return, visible at one instant, all or nothing.

    New topics that `batch.queues` does not name get `queues` queues. Raises ProgressMovedError, with nothing written,
    if `after` is not the last commit.
    """
    check_sink_id(batch.sink_id)
    store.dispatch_pending()
    _check_unmoved(store, batch)
    proven = proven_chunks(batch.parts, store.config, redelivered=True)
    for topic, count in sorted(batch.least_queues.items()):
        store.create_topic(topic, count)
    rows: list[StagedPart | EncodedChunk] = [*batch.parts, *batch.chunks]
    with store.one_topic_write():
        for topic in sorted({topic for some in rows for topic in some.topics}):
            store.ensure_topic(topic, batch.queues.get(topic, queues))
    after = batch.after
    envelope = CommitEnvelope(
        batch.sink_id,
        0 if after is None else after.batch_id + 1,
        batch.run_id,
        1 if after is None else after.run_seq + (batch.run_id != after.run_id),
        batch.rows,
        _NO_DIGEST,
        query_id=batch.sink_id,
        record_crc=all([some.property_crc for some in rows] or [store.config.append_prop_crc]),
        progress=dict(batch.progress),
    )
    result = append_with_envelope(
        store, envelope, chain(proven, batch.chunks), check=lambda: _check_unmoved(store, batch)
    )
    assert result.rows == batch.rows, f"{result.rows} rows were written, {batch.rows} were announced"
    return CommitResult(CommitStatus.COMMITTED, batch.rows, result.first_phy_offset, result.next_phy_offset)


def _check_unmoved(store: CommitTarget, batch: ProgressBatch) -> None:
    seen, now = _named(batch.after), _named(last_commit(store, batch.sink_id))
    if seen != now:
        why = f"{batch.sink_id}: planned from {seen}, but the last commit is {now}; plan again from there"
        events.report(events.SUPERSEDED, store.path, COMMIT_TOPIC, why)
        raise ProgressMovedError(why)


def _named(commit: CommitEnvelope | None) -> str:
    """Name a commit: batch ids are never reused."""
    return "none" if commit is None else f"batch {commit.batch_id} of run {commit.run_id}"
