"""The steps and the result of a recovery, without a lock and without changing a byte."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
from rocketflow_store.log.log_view import CommitLogView
from rocketflow_store.log.record_crc_range import readable_range
from rocketflow_store.metadata.layout.other_engines import warn_of_rocksdb_data
from rocketflow_store.metadata.layout.store_meta import refuse_another_version
from rocketflow_store.metadata.layout.store_paths import StorePaths, check_directory
from rocketflow_store.model.errors import NotAStoreError
from rocketflow_store.recovery.decide import Step, decide, decide_log
from rocketflow_store.recovery.fit_log import refuse_unfit
from rocketflow_store.recovery.observation import Observation, observe
from rocketflow_store.recovery.recovery import LogWalk, OpenedLog
from rocketflow_store.recovery.result import RecoveryResult
from rocketflow_store.settings.store_config import StoreConfig
from rocketflow_store.views.queues.batch_consume_queue import BatchQueueTable
from rocketflow_store.views.queues.queue_table import FileQueueTable

if TYPE_CHECKING:
    import os


class RecoveryPlan(NamedTuple):
    """The steps and the result of an open; no result if it must observe the store again first."""

    found: Observation
    steps: tuple[Step, ...]
    result: RecoveryResult | None


def preview_recovery(path: str | os.PathLike[str], config: StoreConfig | None = None) -> RecoveryResult:
    """Return the result that opening the store for writing would have; `dispatched` counts the records of the walk.

    A stopped or running rebuild is ignored.
    """
    paths, config = _store(path, config)
    found = observe(paths, config, during_rebuild=True)
    return _walked(found, decide(found.found))[1]


def explain_recovery(path: str | os.PathLike[str], config: StoreConfig | None = None) -> RecoveryPlan:
    """Return the steps that opening the store for writing would take now."""
    paths, config = _store(path, config)
    found = observe(paths, config)
    steps = decide(found.found)
    if Step.OBSERVE_AGAIN in steps:
        return RecoveryPlan(found, steps, None)
    after, result = _walked(found, steps)
    return RecoveryPlan(found, steps + after, result)


def _store(path: str | os.PathLike[str], config: StoreConfig | None) -> tuple[StorePaths, StoreConfig]:
    root = Path(path).absolute()
    check_directory(root, must_exist=True)
    paths = StorePaths.of(root, config)
    warn_of_rocksdb_data(root)
    if not paths.looks_like_store() and any(root.iterdir()):
        raise NotAStoreError(root, "holds no commitlog/; give the directory that storePathRootDir names")
    refuse_another_version(paths)
    return paths, config or StoreConfig()


def _walked(found: Observation, steps: tuple[Step, ...]) -> tuple[tuple[Step, ...], RecoveryResult]:
    """Walk the log as the last of `steps` says; return the steps after it, and the result."""
    paths, config = found.paths, found.config
    with ExitStack() as after:
        files = MappedFileQueue(paths.log_directories(), config.mapped_file_size_commit_log, write=False)
        after.callback(files.close)
        files.refuse_other_sizes()
        refuse_unfit(paths, files, found.stop.record)
        log = CommitLogView(files, readable_range(paths))
        size = config.mapped_file_size_consume_queue
        queues = FileQueueTable(paths.consume_queue, size, log, write=False, past_gaps=True)
        after.callback(queues.close)
        queues.refresh()
        size = config.mapper_file_size_batch_consume_queue
        batch_queues = BatchQueueTable(paths.batch_consume_queue, size, write=False)
        after.callback(batch_queues.close)
        batch_queues.refresh()
        walk = LogWalk(found, OpenedLog(files, log, queues, batch_queues))
        walked = walk.run(steps[-1])
        end, cut = walked.end.offset, walk.cut(walked)
        after_walk = decide_log(found.found, walk.found(walked))
        if cut is not None and Step.CUT_LOG in after_walk:
            walk.damage.cut(cut.start, cut.stop - cut.start, cut.why)
        result = RecoveryResult(
            found.stop.abort_found,
            walked.start,
            walked.reached,
            end,
            walk.records.count(walked.start, end),
            quarantined=walk.damage.listed,
            healed=found.lost.names,
        )
        return after_walk, result
