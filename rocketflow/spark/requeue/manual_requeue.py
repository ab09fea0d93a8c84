"""Requeue by hand: choose rows with Spark, encode them in tasks, commit batch after batch until the run is done.

Every batch is one commit with the run's progress (`retry.requeue_run`): a run that is killed and repeated continues
after its last batch. Two processes with one run id share the work; each batch is committed by one of them.
"""

from __future__ import annotations

import sys
import time
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from rocketflow import store_writes
from rocketflow.errors import UsageError
from rocketflow.process.nearest import did_you_mean
from rocketflow.spark.shared.shared_paths import shared_paths
from rocketflow_store import StoreConfig, StoreReader
from rocketflow_store.spi.commits import ProgressMovedError
from rocketflow_store.spi.names import check_send_topic
from rocketflow_store.spi.records import config_for_encoding
from rocketflow_store.spi.requeue import (
    Choice,
    ChosenRows,
    NoOriginError,
    RequeuedBatch,
    advance_run,
    begin_run,
    find_run,
    queue_count,
    requeued_by_others,
    requeued_chunks,
    windows,
)
from rocketflow_store.spi.staging import StagingArea, stage_alike
from rocketflow_store.spi.tables import topics_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from rocketflow.spark.requeue.requeue_arguments import RequeueJob
    from rocketflow_store.spi.commits import Commits
    from rocketflow_store.spi.requeue import Queues, RequeueRequest, RequeueRun
    from rocketflow_store.spi.staging import StagedPart

BATCH_ROWS: Final = 200_000
_BATCH_BYTES: Final = 256 << 20
TASK_BYTES: Final = 8 << 20
_SAMPLE_ROWS: Final = 5
_SAMPLE_COLUMNS: Final = ("queueId", "queueOffset", "msgId", "keys", "tags", "reconsumeTimes", "storeTimestamp")


@dataclass(slots=True)
class ManualResult:
    """The rows that a job moved now (`rows`, `batches`, `topics`), and those of the complete run (`total_rows`).

    Other runs moved `already_requeued` of the rows before; `skipped` of those were not moved again. Retention removed
    `missing` offsets before the run reached them.
    """

    request: RequeueRequest
    rows: int = 0
    batches: int = 0
    total_rows: int = 0
    topics: dict[str, int] = field(default_factory=dict)
    already_requeued: int = 0
    skipped: int = 0
    missing: int = 0
    finished: bool = False
    dry_run: bool = False
    sample: list[dict[str, Any]] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        return 3 if self.missing else 0

    def as_dict(self) -> dict[str, Any]:
        """Return the fields of the job's last line."""
        request = self.request
        fields = {
            "kind": "requeue",
            "runId": request.run_id,
            "from": request.from_topic,
            "to": dict(sorted(self.topics.items())),
            "rows": self.rows,
            "batches": self.batches,
            "totalRows": self.total_rows,
            "alreadyRequeued": self.already_requeued,
            "skipped": self.skipped,
            "missing": self.missing,
            "finished": self.finished,
            "dryRun": self.dry_run,
        }
        return {**fields, "sample": self.sample} if self.dry_run else fields


@dataclass(frozen=True, slots=True)
class StageTask:
    """Rows that one task encodes, and the directory and name of its part."""

    store: str
    rows: ChosenRows
    config: StoreConfig
    directory: str
    name: str


def stage_rows(task: StageTask) -> list[StagedPart]:
    """Read, encode and stage rows, in a Spark task or in the driver."""
    with StoreReader(task.store, task.config) as reader:  # its own: a driver may have runs in several threads
        return stage_alike(requeued_chunks(reader, task.rows, task.config), Path(task.directory), task.name)


def _stage_there(task: StageTask) -> list[StagedPart]:
    """Run `stage_rows` on an executor."""
    with shared_paths():
        return stage_rows(task)


def look(job: RequeueJob, request: RequeueRequest) -> tuple[RequeueRun | None, Queues]:
    """Return (the run if it was begun before, the source's queues now). Needs no JVM.

    Raises:
        UsageError: the store has no such source topic.
        RequeueMismatchError: the run id belongs to another request.
    """
    with StoreReader(job.store, job.store_config()) as reader:
        run = find_run(reader, request)
        if run is None and request.from_topic not in reader.topics():
            hint = did_you_mean(request.from_topic, reader.topics())
            raise UsageError(f"--from-topic: no topic {request.from_topic!r} in this store: {hint}")
        return run, {queue_id: reader.bounds(request.from_topic, queue_id) for queue_id in _queues(reader, request)}


def _queues(reader: StoreReader, request: RequeueRequest) -> list[int]:
    return reader.queues(request.from_topic)


def requeue_on_spark(spark: SparkSession, job: RequeueJob, request: RequeueRequest) -> ManualResult:
    """Start or continue a run; raise WhereError before anything is written."""
    from rocketflow.spark.requeue.requeue_where import Chooser

    chooser = Chooser(spark, str(Path(job.store).absolute()), request)
    return ManualRequeue(job, request, chooser, SparkTasks(spark, request.run_id)).run()


class RowChooser(Protocol):
    """Chooses the rows of a part of the source to move, and their target topics."""

    def choose(self, window: Queues) -> Choice: ...

    def rows_without_origin(self, left: Queues) -> int: ...


class TaskRunner(Protocol):
    """Runs tasks, `parallel` at a time; returns their parts in the order of the tasks."""

    parallel: int

    def __call__(self, tasks: Sequence[StageTask]) -> list[StagedPart]: ...


class SparkTasks:
    """Runs tasks on the executors; a single task in the driver."""

    def __init__(self, spark: SparkSession, run_id: str) -> None:
        self._context, self._run_id = spark.sparkContext, run_id
        self.parallel = self._context.defaultParallelism

    def __call__(self, tasks: Sequence[StageTask]) -> list[StagedPart]:
        if len(tasks) == 1:
            return stage_rows(tasks[0])
        rows = sum(len(task.rows) for task in tasks)
        self._context.setJobDescription(f"rocketflow requeue {self._run_id}: encode {rows} rows")
        try:
            return self._context.parallelize(tasks, len(tasks)).flatMap(_stage_there).collect()
        finally:
            self._context.setJobDescription(None)  # type: ignore[arg-type]


class ManualRequeue:
    """One job's part of a run."""

    def __init__(self, job: RequeueJob, request: RequeueRequest, chooser: RowChooser, run_tasks: TaskRunner) -> None:
        self._job, self._request = job, request
        self._chooser, self._run_tasks = chooser, run_tasks
        self._store = str(Path(job.store).absolute())
        self._staging = StagingArea(self._store, request.sink_id)
        self._config = config_for_encoding(self._store, job.store_config())
        self._result = ManualResult(request, dry_run=job.dry_run)
        self._free_from_s = 0.0
        """Time (monotonic seconds) from which the rate allows another batch."""

    def run(self) -> ManualResult:
        """Move the remaining rows of the run; a dry run writes nothing."""
        result = self._result
        known, queues = look(self._job, self._request)
        with StoreReader(self._store, self._job.store_config()) as reader:
            self._moved_by_others = requeued_by_others(reader, self._request)
        if self._job.dry_run:
            left = queues if known is None else self._still_there(known, queues).left
            return self._counted(left, None if known is None else known.most_rows)
        if known is None:
            self._check_origins(queues)
            known = self._commit(lambda commits: begin_run(commits, self._request, queues))
        run = self._still_there(known, queues)
        while not run.finished:
            run = self._went_on(run)
        result.total_rows, result.finished = run.rows, True
        return result

    def _check_origins(self, queues: Queues) -> None:
        """Raise NoOriginError, before any row is moved, if a source of several windows has rows without origin."""
        left = {queue_id: bounds for queue_id, bounds in queues.items() if bounds[0] < bounds[1]}
        without = self._chooser.rows_without_origin(left) if len(list(windows(left))) > 1 else 0
        if without:
            raise NoOriginError(
                f"{without} rows of topic {self._request.from_topic} do not name their origin topic: give --to-topic"
            )

    def _still_there(self, run: RequeueRun, queues: Queues) -> RequeueRun:
        """Return the run without the offsets that retention removed; count them as missing."""
        positions = dict(run.positions)
        for queue_id, (begin, end) in run.left.items():
            low = min(queues.get(queue_id, (end, end))[0], end)
            if low > begin:
                self._result.missing += low - begin
                positions[queue_id] = low
                _say(f"queue {queue_id}: messages {begin} to {low - 1} of the run were removed by retention")
        return replace(run, positions=positions)

    # -- moving

    def _went_on(self, run: RequeueRun) -> RequeueRun:
        """Commit the next windows of the run; return the run after them, or as another process left it."""
        todo = list(windows(run.left)) or [{}]
        for number, window in enumerate(todo):
            choice = self._chosen(window)
            most = run.most_rows
            last = number == len(todo) - 1
            if most is not None and len(choice) >= most:
                choice, last, window = choice.keep(np.arange(most)), True, choice.processed(window, most)
            begin = 0
            while True:
                end = begin + self._batch_rows(choice, begin)
                complete = end == len(choice)
                done = window if complete else choice.processed(window, end)
                positions = {queue_id: stop for queue_id, (_, stop) in done.items()}
                part = choice.keep(np.arange(begin, end))
                after = self._committed(run, part, positions, finished=last and complete)
                if after is None:
                    return self._found()
                run, begin = after, end
                if complete:
                    break
            if run.finished:
                break
        return run

    def _chosen(self, window: Queues) -> Choice:
        choice = self._chooser.choose(window) if window else Choice.nothing()
        for topic in choice.topics:
            check_send_topic(topic)
        if self._request.skip_requeued:
            before = self._moved_by_others.among(choice.queue_ids, choice.queue_offsets)
            self._result.skipped += int(before.sum())
            self._result.already_requeued += int(before.sum())
            choice = choice.keep(np.flatnonzero(~before))
        return choice

    def _count(self, choice: Choice) -> None:
        result = self._result
        result.rows += len(choice)
        result.already_requeued += int(self._moved_by_others.among(choice.queue_ids, choice.queue_offsets).sum())
        for topic, count in choice.by_topic().items():
            result.topics[topic] = result.topics.get(topic, 0) + count

    def _batch_rows(self, choice: Choice, begin: int) -> int:
        most = min(len(choice) - begin, BATCH_ROWS, self._job.rate or BATCH_ROWS)
        fitting = int(np.searchsorted(np.cumsum(choice.sizes[begin : begin + most]), _BATCH_BYTES, side="right"))
        return min(max(fitting, 1), most)

    def _committed(
        self, run: RequeueRun, choice: Choice, positions: dict[int, int], *, finished: bool
    ) -> RequeueRun | None:
        """Commit a batch; return the run after it, or None if another process advanced the run."""
        parts = self._staged(run, choice) if len(choice) else []
        self._wait_for_the_rate(len(choice))
        batch = RequeuedBatch(positions, finished, len(choice), parts, choice.by_topic())
        try:
            after = self._commit(lambda commits: advance_run(commits, run, batch))
        except ProgressMovedError:
            for part in parts:
                part.discard()
            return None
        self._staging.sweep(after.commit.batch_id)
        if len(choice):
            self._count(choice)
            self._result.batches += 1
            _say(f"batch {after.commit.batch_id}: {len(choice)} rows, {after.rows} in all")
        return after

    def _commit(self, action: Callable[[Commits], RequeueRun]) -> RequeueRun:
        return store_writes.commit(
            self._store, self._job.store_config(), action, store_writes.Patience(wait=self._job.wait)
        )

    def _staged(self, run: RequeueRun, choice: Choice) -> list[StagedPart]:
        used = np.unique(choice.topic_of)
        topics = tuple(choice.topics[code] for code in used.tolist())
        known = topics_of(self._store)
        rows = ChosenRows(
            run_id=self._request.run_id,
            from_topic=self._request.from_topic,
            queue_ids=choice.queue_ids,
            queue_offsets=choice.queue_offsets,
            topics=topics,
            topic_of=np.searchsorted(used, choice.topic_of).astype(np.int32),
            queue_counts=tuple(queue_count(known, topic) for topic in topics),
            first_turn=run.rows,
        )
        directory = self._staging.directory(run.commit.batch_id + 1)
        ends = np.cumsum(choice.sizes)
        count = max(1, min(int(ends[-1]) // TASK_BYTES, len(rows), 4 * self._run_tasks.parallel))
        cuts = np.searchsorted(ends, np.arange(1, count) * (int(ends[-1]) / count), side="right").tolist()
        mine = uuid.uuid4().hex[:8]
        tasks = [
            StageTask(self._store, rows.part(start, stop), self._config, str(directory), f"p{number}-{mine}")
            for number, (start, stop) in enumerate(zip([0, *cuts], [*cuts, len(rows)], strict=True))
            if start < stop
        ]
        return self._run_tasks(tasks)

    def _wait_for_the_rate(self, rows: int) -> None:
        """Sleep until the rate allows the rows; time spent on other work is not saved up for a burst."""
        if self._job.rate is not None:
            time.sleep(max(self._free_from_s - time.monotonic(), 0))
            self._free_from_s = time.monotonic() + rows / self._job.rate

    def _found(self) -> RequeueRun:
        _say("another process works on this run too; going on from its position")
        run, queues = look(self._job, self._request)
        assert run is not None
        return self._still_there(run, queues)

    # -- looking

    def _counted(self, left: Queues, most: int | None) -> ManualResult:
        result = self._result
        left = {queue_id: bounds for queue_id, bounds in left.items() if bounds[0] < bounds[1]}
        for window in windows(left):
            choice = self._chosen(window)
            if most is None and self._request.max_rows is not None:
                most = self._request.max_rows
            if most is not None:
                choice = choice.keep(np.arange(min(len(choice), most - result.rows)))
            self._count(choice)
            self._take_sample(choice)
        return result

    def _take_sample(self, choice: Choice) -> None:
        with StoreReader(self._store, self._job.store_config()) as reader:
            for row in range(min(len(choice), _SAMPLE_ROWS - len(self._result.sample))):
                queue_id, offset = int(choice.queue_ids[row]), int(choice.queue_offsets[row])
                for batch in reader.read(self._request.from_topic, queue_id, offset, offset + 1, _SAMPLE_COLUMNS):
                    fields = batch.to_pylist()[0]
                    fields["storeTimestamp"] = int(fields["storeTimestamp"].timestamp() * 1000)
                    self._result.sample.append({**fields, "toTopic": choice.topics[int(choice.topic_of[row])]})


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
