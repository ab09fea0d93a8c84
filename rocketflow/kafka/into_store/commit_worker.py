"""The worker thread that decodes, encodes and commits polled batches while the main thread continues to poll."""

from __future__ import annotations

import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rocketflow.kafka.client.batch_consumer import rows_of
from rocketflow.kafka.client.record_batches import BrokenBatchError
from rocketflow.kafka.client.topic_ids import TopicIds
from rocketflow.kafka.errors import KafkaRefusedError
from rocketflow.kafka.into_store.store_commit import CommitOutcome, PartEncoder, PartsCommit
from rocketflow_store.spi.commits import ProgressMovedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from rocketflow.kafka.into_store.backlog import NextPart
    from rocketflow.kafka.into_store.store_port import StorePort
    from rocketflow.kafka.options.bridge_options import BridgeOptions

_COMMIT_TRIES: Final = 5


class CommitWorker:
    """Runs at most one commit at a time; `in_commit` are the parts of the last one."""

    def __init__(self, options: BridgeOptions, port: StorePort) -> None:
        self._options, self._port = options, port
        self._run_id = uuid.uuid4().hex
        self._encoder = PartEncoder(port.config, options)
        self._ids = TopicIds(options)
        self._pool = ThreadPoolExecutor(1, "bridge-commit")
        self._commit: Future[CommitOutcome] | None = None
        self.in_commit: Sequence[NextPart] = ()

    def __enter__(self) -> CommitWorker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.shutdown(wait=True)
        self._ids.close()

    @property
    def is_busy(self) -> bool:
        """True while a commit runs, and until its outcome is taken."""
        return self._commit is not None

    def submit(self, parts: Sequence[NextPart]) -> None:
        """Start to commit these parts."""
        self.in_commit = parts
        self._commit = self._pool.submit(self._run, parts)

    def outcome(self, *, wait: bool) -> CommitOutcome | None:
        """Take the outcome of the commit, or raise its error. Return None without a commit, or without `wait` while it
        runs."""
        if self._commit is None or not (wait or self._commit.done()):
            return None
        outcome, self._commit = self._commit.result(), None
        return outcome

    def _run(self, parts: Sequence[NextPart]) -> CommitOutcome:
        """Decode and encode the parts, then commit them.

        Raises TopicReplacedError if a topic was recreated since its partitions were started: the parts may be of the
        new one.
        """
        encoded = []
        for one in parts:
            try:
                rows = list(rows_of(one.part.topic, one.part.partition, one.batches))
            except BrokenBatchError as error:
                raise KafkaRefusedError(f"{one.part.topic} partition {one.part.partition}: {error}") from error
            encoded.append(self._encoder.encode(replace(one.part, rows=rows)))
        self._ids.check({one.part.topic: one.part.topic_id for one in parts})
        for attempt in range(_COMMIT_TRIES):
            try:
                return self._port.commit(PartsCommit(self._options, self._run_id, encoded))
            except ProgressMovedError:
                if attempt + 1 == _COMMIT_TRIES:
                    raise
        raise AssertionError("unreachable")
