"""Writes of a job: to the store itself if no process has locked it, else through the broker that serves it.

The choice is made here, anew for each write, so that a query goes on when a broker starts, stops or is killed. If an
answer of the broker is lost, the write is repeated: the last envelope in the log says whether it was done. For a store
that another process has locked, a write waits.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rocketflow.errors import UsageError
from rocketflow_store import MessageStore, StoreError, StoreLockedError
from rocketflow_store.spi import writing
from rocketflow_store.spi.commits import (
    CheckpointWentBackError,
    CommitResult,
    CommitStatus,
    ProgressMovedError,
    ReplayMismatchError,
    StoreCommits,
    SupersededRunError,
    decode_envelope,
)
from rocketflow_store.spi.places import serving_broker, store_id
from rocketflow_store.spi.staging import StagingArea, stage_alike

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocketflow.client.store_client import StoreClient
    from rocketflow.remoting.codes import RequestCode
    from rocketflow.remoting.store_bodies import PartBody, RequeueResultBody, StoreBody
    from rocketflow_store import StoreConfig
    from rocketflow_store.spi.commits import CommitEnvelope, Commits, ProgressBatch, SinkBatch
    from rocketflow_store.spi.staging import StagedPart

COMMITS_TAKE_S: Final = 5.0
"""Longest time that a commit holds the lock; a process that holds it for longer does other work."""

_RESTART_S: Final = 60.0
"""How long a write waits for the store after the broker's answer was lost."""

_MOST_LOSSES: Final = 5
Result = TypeVar("Result")
Answer = TypeVar("Answer")


class BrokerError(StoreError):
    """The broker that serves the store refused a write, or could not be asked for it."""


class PartRefusedError(BrokerError):
    """A staged part is not what its commit announces: nothing of it was written, and a repeated commit is refused."""

    exit_code = 3


class AnswerLostError(BrokerError):
    """The connection to the broker ended before the answer: the write may have been done."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How a write waits for a store that another process has locked.

    After `timeout_s` it fails, or with `wait` prints a line that names the holder and goes on waiting. `pause` sleeps
    for a number of seconds, and returns True to end the wait at once.
    """

    timeout_s: float = COMMITS_TAKE_S
    wait: bool = False
    pause: Callable[[float], object] = time.sleep


def write(
    path: str | Path,
    config: StoreConfig | None,
    directly: Callable[[MessageStore], Result],
    through: Callable[[BrokerWrites], Result],
    patience: Patience = Patience(),
) -> Result:
    """Return the result of a write: `directly` to the store, or `through` the broker that serves it.

    Raises StoreLockedError when the wait for another process ends. After a lost answer one of the functions is called
    again.
    """

    def attempt() -> Result:
        try:
            store = MessageStore.open(path, config)
        except StoreLockedError:
            broker = find_broker(path, config)
            if broker is None:
                raise
            return through(broker)
        with store:
            return directly(store)

    losses = 0
    while True:
        try:
            return writing.when_free(attempt, patience.timeout_s, patience.pause)
        except AnswerLostError:
            losses += 1
            if losses == _MOST_LOSSES:
                raise
            patience = replace(patience, timeout_s=max(patience.timeout_s, _RESTART_S))
        except StoreLockedError as error:
            if not patience.wait:
                raise
            print(f"waiting: {error.path} is held by {error.holder}", file=sys.stderr, flush=True)
            patience = replace(patience, timeout_s=math.inf, wait=False)


def commit(
    path: str | Path,
    config: StoreConfig | None,
    action: Callable[[Commits], Result],
    patience: Patience = Patience(),
) -> Result:
    """Return the result of `action`, which commits to the store or through its broker; waits as `write`."""
    began = False

    def acting(commits: Commits) -> Result:
        nonlocal began
        repeats, began = began, True
        return action(_Repeated(commits) if repeats else commits)

    return write(path, config, lambda store: acting(StoreCommits(store)), acting, patience)


class _Repeated:
    """Commits that are repeated because an answer was lost: progress that has moved may have been moved by them."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits
        self.last_commit, self.commit_batch = commits.last_commit, commits.commit_batch

    def commit_progress(self, batch: ProgressBatch) -> CommitEnvelope:
        try:
            return self._commits.commit_progress(batch)
        except ProgressMovedError:
            last = self.last_commit(batch.sink_id)
            number = 0 if batch.after is None else batch.after.batch_id + 1
            if last is None or (last.batch_id, last.run_id, last.progress) != (number, batch.run_id, batch.progress):
                raise
            return last


def find_broker(path: str | Path, config: StoreConfig | None) -> BrokerWrites | None:
    """Return the broker that serves the locked store at a path, or None if none answers for it.

    Raises UsageError if this environment cannot speak to it.
    """
    known = serving_broker(path)
    if known is None:
        return None
    try:
        from rocketflow.client.store_client import NoBrokerError, StoreClient, unchecked_tls
    except ImportError as error:
        raise UsageError(
            f"{path}: served by the broker at {known.address}; to write through it, install the extra "
            f"(pip install 'rocketflow[broker]': {error}), or stop the broker"
        ) from None
    tls = unchecked_tls() if known.tls else None
    client = StoreClient(known.address, path, store_id(path), tls=tls, secret=known.secret)
    with suppress(NoBrokerError):
        client.check()
        return BrokerWrites(path, client, sync=config is not None and config.sync_flush)
    return None


class BrokerWrites:
    """Commits and deliveries by the broker that serves the store at `path`; an implementation of `Commits`.

    With `sync` they are on the disk when the broker answers, whatever its own flush mode. With `uploaded` the parts'
    bytes were sent to the broker before, and `path` is a text for errors.

    Raises what the store raises, StoreLockedError if the broker stops or is busy, AnswerLostError, and BrokerError.
    """

    def __init__(self, path: str | Path, client: StoreClient, *, sync: bool, uploaded: bool = False) -> None:
        self._path, self._client, self._sync, self._uploaded = path, client, sync, uploaded
        self.address = client.address

    def last_commit(self, sink_id: str) -> CommitEnvelope | None:
        """Return the newest envelope of a sink."""
        from rocketflow.remoting.codes import RequestCode
        from rocketflow.remoting.store_bodies import EnvelopeBody, LastCommitBody

        found = self._ask(RequestCode.ROCKETFLOW_LAST_COMMIT, LastCommitBody(sink_id=sink_id), EnvelopeBody)
        return None if found.envelope is None else decode_envelope(found.envelope.encode())

    def commit_batch(self, batch: SinkBatch, *, queues: int, replay_mismatch: str = "error") -> CommitResult:
        """Commit a batch once."""
        from rocketflow.remoting.codes import RequestCode
        from rocketflow.remoting.store_bodies import CommitBatchBody, CommitResultBody

        body = CommitBatchBody(
            sink_id=batch.sink_id,
            query_id=batch.query_id,
            batch_id=batch.batch_id,
            run_id=batch.run_id,
            run_seq=batch.run_seq,
            parts=self._files(batch.sink_id, batch.batch_id, batch.parts),
            more_follow=batch.more_follow,
            queues=queues,
            replay_mismatch=replay_mismatch,
            sync=self._sync,
        )
        found = self._ask(RequestCode.ROCKETFLOW_COMMIT_BATCH, body, CommitResultBody)
        return CommitResult(CommitStatus(found.status), found.rows, found.begin_offset, found.end_offset)

    def commit_progress(self, batch: ProgressBatch) -> CommitEnvelope:
        """Commit progress with its rows; those that are not staged yet are staged for the time of the commit."""
        number = 0 if batch.after is None else batch.after.batch_id + 1
        staging = StagingArea(self._path, batch.sink_id)
        directory = staging.directory(number)
        own = [one.in_file(directory) for one in stage_alike(batch.chunks, directory, "rows")]
        try:
            envelope = self._progress_committed(replace(batch, parts=[*batch.parts, *own], chunks=()), number)
        finally:  # also of a commit whose answer was lost: no later one need come
            if own:
                staging.abort(number, own)
        if own and not batch.parts:  # else the caller sweeps
            staging.sweep(number)
        return envelope

    def _progress_committed(self, batch: ProgressBatch, number: int) -> CommitEnvelope:
        from rocketflow.remoting.codes import RequestCode
        from rocketflow.remoting.store_bodies import CommitProgressBody, EnvelopeBody

        body = CommitProgressBody(
            sink_id=batch.sink_id,
            run_id=batch.run_id,
            after=None if batch.after is None else batch.after.encode().decode(),
            progress=dict(batch.progress),
            parts=self._files(batch.sink_id, number, batch.parts),
            queues=dict(batch.queues),
            least_queues=dict(batch.least_queues),
            sync=self._sync,
        )
        found = self._ask(RequestCode.ROCKETFLOW_COMMIT_PROGRESS, body, EnvelopeBody)
        envelope = None if found.envelope is None else decode_envelope(found.envelope.encode())
        if envelope is None:
            raise BrokerError(f"{self._client.address}: answered a commit without its envelope; update the broker")
        return envelope

    def deliver_due(self, until_ms: int, *, levels: bool, timers: bool) -> RequeueResultBody:
        """Deliver the messages that are due at `until_ms`, of the delay levels and of the timer; return the counts."""
        from rocketflow.remoting.codes import RequestCode
        from rocketflow.remoting.store_bodies import RequeueBody, RequeueResultBody

        body = RequeueBody(until_ms=until_ms, levels=levels, timers=timers, sync=self._sync)
        return self._ask(RequestCode.ROCKETFLOW_REQUEUE, body, RequeueResultBody)

    def make_durable(self) -> int:
        """Make durable what the broker acknowledged and its groups' offsets; return the confirm offset after that."""
        from rocketflow.remoting.codes import RequestCode
        from rocketflow.remoting.store_bodies import SnapshotBody, SnapshotResultBody

        return self._ask(RequestCode.ROCKETFLOW_SNAPSHOT, SnapshotBody(), SnapshotResultBody).confirm_offset

    def publish_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit the next offset of each (topic, queue id) for a consumer group."""
        self._called(lambda: self._client.commit_offsets(group, offsets))

    def _files(self, sink_id: str, batch_id: int, parts: Sequence[StagedPart]) -> list[PartBody]:
        """Return the parts as files in the directory of their batch, which the broker sees."""
        from rocketflow.remoting.store_bodies import PartBody

        directory = None if self._uploaded else StagingArea(self._path, sink_id).directory(batch_id)
        return [
            PartBody(
                file=str(one.path) if directory is None else _name_in(directory, one),
                rows=one.rows,
                size=one.size,
                crc=one.crc,
                digest=None if one.digest is None else f"{one.digest:016x}",
                topics=list(one.topics),
                property_crc=one.property_crc,
            )
            for one in parts
        ]

    def _ask(self, code: RequestCode, body: StoreBody, answer: type[Answer]) -> Answer:
        return self._called(lambda: self._client.ask(code, body, answer))

    def _called(self, call: Callable[[], Result]) -> Result:
        """Return the result of a call of the client; its errors become the store's."""
        from rocketflow.client import store_client as client

        address = self._client.address
        try:
            return call()
        except client.NoBrokerError as error:  # it stopped since it was found
            raise StoreLockedError(self._path, f"the broker at {address}", f"it does not answer: {error}") from None
        except client.AnswerLostError as error:
            raise AnswerLostError(f"{self._path}: the broker's answer was lost ({error}); run it again") from None
        except client.RequestRefusedError as error:
            raise self._refusal(error.code, str(error.remark)) from None

    def _refusal(self, code: int, why: str) -> StoreError:
        from rocketflow.remoting.codes import ResponseCode

        kinds: dict[int, Any] = {
            ResponseCode.ROCKETFLOW_REPLAY_MISMATCH: ReplayMismatchError,
            ResponseCode.ROCKETFLOW_CHECKPOINT_WENT_BACK: CheckpointWentBackError,
            ResponseCode.ROCKETFLOW_SUPERSEDED_RUN: SupersededRunError,
            ResponseCode.ROCKETFLOW_PROGRESS_MOVED: ProgressMovedError,
        }
        if code in kinds:
            found: StoreError = kinds[code](why)
            return found
        if code in (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.GO_AWAY):
            return StoreLockedError(self._path, f"the broker at {self._client.address}", why)
        kind = PartRefusedError if code == ResponseCode.ROCKETFLOW_PART_REFUSED else BrokerError
        return kind(f"{self._path}: the broker at {self._client.address} refused the request: {why}")


def _name_in(directory: Path, part: StagedPart) -> str:
    """Return the name of a part's file in `directory`; a file of another directory gets a link there."""
    path = Path(str(part.in_file(directory).path))
    if path.parent != directory:
        directory.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):  # a repeated commit
            (directory / path.name).hardlink_to(path)
    return path.name
