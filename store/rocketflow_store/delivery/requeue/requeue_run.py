"""A manual requeue of a topic's messages: its request, the rows that it is about, and its progress.

All of it is in the envelopes of the run's commits (`sink.progress_commit`), under the sink id `requeue:RUN`. The first
commit of a run has no rows: it fixes the source's queues [begin, end) for good, so that a repeated run sees the same
rows, however the topic grew. Each later one has rows and the positions after them.

A run reads the queues in the order of their ids, each by offset.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.commits.batch_commit import last_commit
from rocketflow_store.commits.progress_commit import ProgressBatch, ProgressMovedError
from rocketflow_store.model.errors import StoreConfigError, StoreError
from rocketflow_store.model.topic_names import DLQ_PREFIX, RETRY_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocketflow_store.commits.commit_target import CommitLogReads
    from rocketflow_store.commits.staged_part import StagedPart
    from rocketflow_store.commits.store_commits import Commits
    from rocketflow_store.metadata.config_files import TopicsFile
    from rocketflow_store.metadata.native.commit_envelope import CommitEnvelope

KIND: Final = "requeue"
_RUN_ID: Final = re.compile(r"[A-Za-z0-9_.@-]{1,100}\Z")
_NEW_TOPIC_QUEUES: Final = 8

Queues = dict[int, tuple[int, int]]
"""[begin, end) of queue offsets by queue id."""


class RequeueMismatchError(StoreError):
    """A run id was used again with another request."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class RequeueRequest:
    """A request to move rows of `from_topic` that satisfy `where`, the first `max_rows` of them at most.

    `to_topic` None: each to the topic that it came from. `skip_requeued`: without rows that other runs moved already.
    """

    run_id: str
    from_topic: str
    to_topic: str | None = None
    where: str | None = None
    max_rows: int | None = None
    skip_requeued: bool = False

    @property
    def sink_id(self) -> str:
        return f"{KIND}:{self.run_id}"

    def as_json(self) -> dict[str, Any]:
        """Return the fields that every envelope of the run has."""
        return {
            "kind": KIND,
            "from": self.from_topic,
            "to": self.to_topic,
            "where": self.where,
            "max": self.max_rows,
            "skipRequeued": self.skip_requeued,
        }


@dataclass(frozen=True, slots=True)
class RequeueRun:
    """A run after its last commit: `positions` are the next queue offsets, `rows` is the number of moved rows."""

    request: RequeueRequest
    queues: Queues
    positions: dict[int, int]
    rows: int
    finished: bool
    commit: CommitEnvelope

    @property
    def left(self) -> Queues:
        """Ranges that are not processed yet."""
        found = {queue_id: (self.positions[queue_id], end) for queue_id, (_, end) in sorted(self.queues.items())}
        return {queue_id: (begin, end) for queue_id, (begin, end) in found.items() if begin < end}

    @property
    def most_rows(self) -> int | None:
        """Number of rows that may still be moved; None without a limit."""
        return None if self.request.max_rows is None else max(self.request.max_rows - self.rows, 0)


@dataclass(frozen=True, slots=True)
class RequeuedBatch:
    """Rows to append, and the state of the run after them."""

    positions: Mapping[int, int]
    finished: bool
    rows: int = 0
    parts: Sequence[StagedPart] = field(default=())
    topics: Mapping[str, int] = field(default_factory=dict)
    """Number of rows by target topic."""


def check_run_id(run_id: str) -> str:
    """Return the id; raise StoreConfigError if it cannot be a tag and a key."""
    if not _RUN_ID.match(run_id):
        raise StoreConfigError("runId", run_id, "must be 1 to 100 of letters, digits and _.@-")
    return run_id


def find_run(reads: CommitLogReads, request: RequeueRequest) -> RequeueRun | None:
    """Return the run of this id after its last commit, None if it never began.

    Raises:
        RequeueMismatchError: the run began with another request.
    """
    commit = last_commit(reads, request.sink_id)
    return None if commit is None else _run_after(commit, request)


def begin_run(commits: Commits, request: RequeueRequest, queues: Queues) -> RequeueRun:
    """Fix the rows of a run and return it; return the existing run if it began before."""
    check_run_id(request.run_id)
    positions = {queue_id: begin for queue_id, (begin, _) in queues.items()}
    progress = _progress(request, queues, positions, 0, finished=not any(begin < end for begin, end in queues.values()))
    try:
        commit = commits.commit_progress(ProgressBatch(request.sink_id, request.run_id, None, progress))
    except ProgressMovedError:
        known = commits.last_commit(request.sink_id)
        assert known is not None, f"run {request.run_id} began before"
        return _run_after(known, request)
    return _run_after(commit, request)


def advance_run(commits: Commits, run: RequeueRun, batch: RequeuedBatch) -> RequeueRun:
    """Append the rows of a batch and advance the run in one commit; raise ProgressMovedError if it moved meanwhile."""
    positions = {**run.positions, **batch.positions}
    progress = _progress(run.request, run.queues, positions, run.rows + batch.rows, finished=batch.finished)
    moved = {str(one): [run.positions[one], at] for one, at in sorted(positions.items()) if at > run.positions[one]}
    progress |= {"moved": moved, "topics": dict(batch.topics)}
    queues = {topic: queues_of_a_new(topic) for topic in batch.topics}
    sink_id, run_id = run.request.sink_id, run.request.run_id
    commit = commits.commit_progress(
        ProgressBatch(sink_id, run_id, run.commit, progress, batch.rows, parts=batch.parts, queues=queues)
    )
    return _run_after(commit, run.request)


def queues_of_a_new(topic: str) -> int:
    """Return the number of queues that a topic is created with."""
    return 1 if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) else _NEW_TOPIC_QUEUES


def queue_count(topics: TopicsFile, topic: str) -> int:
    """Return the number of write queues that a topic has, or will be created with."""
    known = topics.get(topic)
    return known.queues_to_write() if known is not None else queues_of_a_new(topic)


def _run_after(commit: CommitEnvelope, request: RequeueRequest) -> RequeueRun:
    """Return the run after one of its commits. Raises RequeueMismatchError if it began with another request."""
    progress, asked = commit.progress, request.as_json()
    for name, value in asked.items():
        if progress.get(name) != value:
            raise RequeueMismatchError(
                f"run id {request.run_id} began with {name} {progress.get(name)!r}, not {value!r}: "
                "repeat the original request, or give another run id"
            )
    queues = {int(queue_id): (int(begin), int(end)) for queue_id, (begin, end) in progress["queues"].items()}
    positions = {int(queue_id): int(at) for queue_id, at in progress["positions"].items()}
    return RequeueRun(request, queues, positions, int(progress["rows"]), bool(progress["finished"]), commit)


def _progress(
    request: RequeueRequest, queues: Queues, positions: Mapping[int, int], rows: int, *, finished: bool
) -> dict[str, Any]:
    return {
        **request.as_json(),
        "queues": {str(queue_id): list(bounds) for queue_id, bounds in sorted(queues.items())},
        "positions": {str(queue_id): at for queue_id, at in sorted(positions.items())},
        "rows": rows,
        "finished": finished,
    }
