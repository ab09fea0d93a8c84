"""RocketFlow's own requests: jobs commit and deliver through the store's broker, backups begin with its flush.

A job that sees the store's directory reads it and stages rows by path; what needs the store's lock comes as a request.
A job of another host sends the bytes of its parts first.
Commits run one after the other in a thread of their own, so that the event loop waits neither for the put lock nor for
the disk. A request that is repeated after a lost answer changes nothing: the last envelope in the log decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rocketflow.access.permissions import JOB_ROW
from rocketflow.access.served import serves
from rocketflow.aio.server import OVERLOAD, RefusedError, Request
from rocketflow.broker.parts import Parts
from rocketflow.broker.puts import check_writable
from rocketflow.remoting import store_bodies as bodies
from rocketflow.remoting.bodies import encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers.rocketflow import StagePartRequestHeader, StagePartResponseHeader
from rocketflow.remoting.store_bodies import STORE_BODY_VERSION, decode_store_body
from rocketflow_store import FlushDiskTimeoutError, StagedPartError, StoreError, StoreFencedError
from rocketflow_store.spi.commits import (
    CheckpointWentBackError,
    CommitEnvelope,
    CommitResult,
    CommitStatus,
    ProgressBatch,
    ProgressMovedError,
    ReplayMismatchError,
    SinkBatch,
    StoreCommits,
    SupersededRunError,
    check_sink_id,
    commit_batch,
    decode_envelope,
    last_commit,
)
from rocketflow_store.spi.delivery import deliver_due, deliver_due_timers
from rocketflow_store.spi.names import CHECK_RESULTS_TOPIC, check_send_topic
from rocketflow_store.spi.staging import StagedPart, StagingArea

if TYPE_CHECKING:
    from rocketflow.aio.exposition import Exposition
    from rocketflow.broker.operators import Access
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow.broker.topics import Topics
    from rocketflow_store.spi.broker import WritingStore

T = TypeVar("T")
B = TypeVar("B", bound=bodies.StoreBody)

MAX_WAITING: Final = 64
"""Requests of each kind that may wait for the one that runs."""

MAX_RUN_ID: Final = 120
SYNC_SECONDS: Final = 600.0

_CODES: Final[dict[type[StoreError], ResponseCode]] = {
    ReplayMismatchError: ResponseCode.ROCKETFLOW_REPLAY_MISMATCH,
    CheckpointWentBackError: ResponseCode.ROCKETFLOW_CHECKPOINT_WENT_BACK,
    SupersededRunError: ResponseCode.ROCKETFLOW_SUPERSEDED_RUN,
    ProgressMovedError: ResponseCode.ROCKETFLOW_PROGRESS_MOVED,
    StagedPartError: ResponseCode.ROCKETFLOW_PART_REFUSED,
    StoreFencedError: ResponseCode.SERVICE_NOT_AVAILABLE,
}


@dataclass(slots=True)
class JobTotals:
    """Commits since the start, and their messages."""

    commits: int = 0
    rows: int = 0

    def add(self, rows: int) -> None:
        """Count a commit."""
        self.commits += 1
        self.rows += rows


class StoreRequests(Parts):
    """Requests 30001 to 30006 and 30008."""

    def __init__(
        self, store: WritingStore, settings: BrokerSettings, topics: Topics, access: Access, *, needs_tls: bool
    ) -> None:
        super().__init__(self)
        self._store = store
        self._settings = settings
        self._topics = topics
        self._job_secret, self._needs_tls = access.job_secret, needs_tls
        self._commits = _OneAtATime("commits")
        self._deliveries = _OneAtATime("requeue")
        self._staging = _OneAtATime("staging")
        self._snapshots = _OneAtATime("snapshot")
        self.totals = {"batch": JobTotals(), "progress": JobTotals()}
        """What jobs have committed, by kind of commit; a replay commits nothing."""

    async def serve(self) -> None:
        """Let jobs on the store's directory find the broker."""
        address = self._settings.broker_address
        await asyncio.to_thread(self._store.serve_at, address, tls=self._needs_tls, secret=self._job_secret)

    def add_figures(self, shown: Exposition) -> None:
        """Add what jobs have committed."""
        commits = [((kind,), one.commits) for kind, one in self.totals.items()]
        shown.counter("rocketflow_job_commits_total", "Commits of jobs through the broker", commits, ("kind",))
        rows = [((kind,), one.rows) for kind, one in self.totals.items()]
        shown.counter("rocketflow_job_rows_total", "Messages that jobs committed through the broker", rows, ("kind",))

    def end_waiting(self) -> None:
        """Begin no further commit or delivery; one that runs is completed before the store is closed."""
        self._commits.stop()
        self._deliveries.stop()
        self._staging.stop()
        self._snapshots.stop()

    @serves(RequestCode.ROCKETFLOW_COMMIT_BATCH, JOB_ROW)
    async def _commit_batch(self, request: Request) -> None:
        check_writable(self._settings)
        body = _decoded(request, bodies.CommitBatchBody)

        def commit() -> CommitResult:
            batch = SinkBatch(
                sink_id=check_sink_id(body.sink_id),
                query_id=body.query_id,
                batch_id=body.batch_id,
                run_id=body.run_id,
                run_seq=body.run_seq,
                parts=self._parts(body.sink_id, body.batch_id, body.parts),
                more_follow=body.more_follow,
            )
            result = commit_batch(self._store, batch, queues=body.queues, replay_mismatch=body.replay_mismatch)
            self._sync(body, result.end_offset)
            return result

        result = await self._run(self._commits, commit)
        if result.status is CommitStatus.COMMITTED:
            self.totals["batch"].add(result.rows)
        answer = bodies.CommitResultBody(
            status=result.status.value,
            rows=result.rows,
            begin_offset=result.begin_offset,
            end_offset=result.end_offset,
        )
        request.reply(body=encode_body(answer))

    @serves(RequestCode.ROCKETFLOW_STAGE_PART, JOB_ROW)
    async def _stage_part(self, request: Request) -> None:
        """Write bytes of a part, or only register the run that begins to stage rows."""
        header = request.command.header(StagePartRequestHeader)
        data = request.command.body

        def stage() -> int:
            area = StagingArea(self._store.path, check_sink_id(header.sink_id))
            if len(header.run_id) > MAX_RUN_ID:
                raise RefusedError(ResponseCode.INVALID_PARAMETER, f"runId has more than {MAX_RUN_ID} characters")
            run_seq = area.run_number(header.run_id, self._store.config)
            if header.file is not None:
                area.receive(header.batch_id, header.file, header.position, header.size, data)
            return run_seq

        run_seq = await self._run(self._staging, stage)
        request.reply(header=StagePartResponseHeader(run_seq=run_seq))

    @serves(RequestCode.ROCKETFLOW_COMMIT_PROGRESS, JOB_ROW)
    async def _commit_progress(self, request: Request) -> None:
        check_writable(self._settings)
        body = _decoded(request, bodies.CommitProgressBody)

        def commit() -> CommitEnvelope:
            after = None
            if body.after is not None and (after := decode_envelope(body.after.encode())) is None:
                raise RefusedError(ResponseCode.INVALID_PARAMETER, "after: is not an envelope of this version")
            batch_id = 0 if after is None else after.batch_id + 1
            parts = self._parts(check_sink_id(body.sink_id), batch_id, body.parts)
            rows = sum(one.rows for one in parts)
            for topic in body.least_queues:
                check_send_topic(topic)
            batch = ProgressBatch(
                body.sink_id,
                body.run_id,
                after,
                body.progress,
                rows,
                parts=parts,
                queues=body.queues,
                least_queues=body.least_queues,
            )
            envelope = StoreCommits(self._store).commit_progress(batch)
            self._sync(body, envelope.end_offset)
            return envelope

        envelope = await self._run(self._commits, commit)
        self.totals["progress"].add(envelope.rows)
        request.reply(body=encode_body(_envelope_body(envelope)))

    @serves(RequestCode.ROCKETFLOW_LAST_COMMIT, JOB_ROW)
    async def _last_commit(self, request: Request) -> None:
        body = _decoded(request, bodies.LastCommitBody)
        found = await self._run(self._commits, lambda: last_commit(self._store, check_sink_id(body.sink_id)))
        request.reply(body=encode_body(_envelope_body(found)))

    @serves(RequestCode.ROCKETFLOW_STORE_INFO, JOB_ROW)
    def _info(self, request: Request) -> None:
        store = self._store
        answer = bodies.StoreInfoBody(
            store_id=store.meta.store_id,
            path=str(store.path),
            confirm_offset=store.confirm_offset,
            min_phy_offset=store.min_phy_offset,
            max_phy_offset=store.max_phy_offset,
            property_crc=store.config.append_prop_crc,
            store_host=store.config.store_host,
        )
        request.reply(body=encode_body(answer))

    @serves(RequestCode.ROCKETFLOW_SNAPSHOT, JOB_ROW)
    async def _snapshot(self, request: Request) -> None:
        """Write the offsets of groups, make everything durable, and answer how far the log is confirmed then."""
        _decoded(request, bodies.SnapshotBody)

        def flush() -> int:
            self._store.offset_table.save()
            self._store.flush()
            return self._store.confirm_offset

        end = await self._run(self._snapshots, flush)
        request.reply(body=encode_body(bodies.SnapshotResultBody(confirm_offset=end)))

    @serves(RequestCode.ROCKETFLOW_REQUEUE, JOB_ROW)
    async def _requeue(self, request: Request) -> None:
        body = _decoded(request, bodies.RequeueBody)

        def deliver() -> bodies.RequeueResultBody:
            levels: dict[str, Any] | None = None
            timers: dict[str, Any] | None = None
            if body.levels:
                levels = deliver_due(self._store, body.until_ms).as_dict()
            if body.timers:
                timers = asdict(deliver_due_timers(self._store, body.until_ms))
            self._sync(body, self._store.max_phy_offset)
            return bodies.RequeueResultBody(levels=levels, timers=timers)

        request.reply(body=encode_body(await self._run(self._deliveries, deliver)))

    async def _run(self, queue: _OneAtATime, call: Callable[[], T]) -> T:
        """Return the result of a call that blocks, once NameServers have the topics that it made.

        Raises RefusedError for the store's refusals.
        """
        before = self._topics.changes
        try:
            result = await queue.run(call)
        except StoreError as error:
            raise RefusedError(_CODES.get(type(error), ResponseCode.SYSTEM_ERROR), str(error)) from None
        finally:
            self._topics.report_changes()
        if self._topics.changes != before:
            await self._topics.registered()
        return result

    def _parts(self, sink_id: str, batch_id: int, parts: Sequence[bodies.PartBody]) -> list[StagedPart]:
        """Return staged parts, whose files can only lie in the directory of this batch. Raises StoreError."""
        for topic in {topic for one in parts for topic in one.topics} - {CHECK_RESULTS_TOPIC}:
            check_send_topic(topic)
        directory = StagingArea(self._store.path, sink_id).directory(batch_id)
        return [
            StagedPart(
                rows=one.rows,
                size=one.size,
                crc=one.crc,
                digest=None if one.digest is None else int(one.digest, 16),
                topics=tuple(one.topics),
                path=str(directory / one.file),
                property_crc=one.property_crc,
            )
            for one in parts
        ]

    def _sync(self, body: bodies.WriteBody, end: int) -> None:
        """Wait until the log is on the disk up to `end` if the job asks for it. Raises FlushDiskTimeoutError."""
        if body.sync and not self._store.flush_to(end, SYNC_SECONDS):
            raise FlushDiskTimeoutError(self._store.path, SYNC_SECONDS)


class _OneAtATime:
    """Runs calls one after the other in a thread; at most MAX_WAITING wait."""

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, name)
        self._count = 0
        self._stopped = False

    async def run(self, call: Callable[[], T]) -> T:
        """Return the result of a call. Raises RefusedError if too many wait, or after `stop`."""
        if self._stopped:
            raise RefusedError(ResponseCode.SERVICE_NOT_AVAILABLE, "the broker stops")
        if self._count > MAX_WAITING:
            raise RefusedError(ResponseCode.SYSTEM_BUSY, OVERLOAD)
        self._count += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, call)
        finally:
            self._count -= 1

    def stop(self) -> None:
        """Begin no further call."""
        self._stopped = True
        self._executor.shutdown(wait=False, cancel_futures=True)


def _decoded(request: Request, body: type[B]) -> B:
    found = decode_store_body(request.command.body, body)
    if found.v != STORE_BODY_VERSION:
        raise RefusedError(
            ResponseCode.VERSION_NOT_SUPPORTED,
            f"version {found.v} of this request is not known, the broker knows {STORE_BODY_VERSION}: "
            "use the same version of RocketFlow for job and broker",
        )
    return found


def _envelope_body(envelope: CommitEnvelope | None) -> bodies.EnvelopeBody:
    return bodies.EnvelopeBody(envelope=None if envelope is None else envelope.encode().decode())
