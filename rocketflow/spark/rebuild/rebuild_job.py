"""Rebuild queues and index of a store on Spark: what `jobs/rebuild_index.py` and `store rebuild --engine spark` run."""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketflow.environment import DEBUG
from rocketflow.process.arguments import JobParser, argument
from rocketflow.process.job_timing import timing
from rocketflow_store import StoreConfig
from rocketflow_store.spi.places import check_directory, check_unlocked, is_uri
from rocketflow_store.spi.rebuild import PROFILES, RebuildRequest, RebuildResult, check_target_given
from rocketflow_store.spi.setting_rows import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    Progress = Callable[[int, int], None]


ARGUMENTS: Final = (
    argument("--store", "store directory, seen by every executor", form="PATH|URI", required=True),
    argument("--only", "rebuild only one of them", choices=("consumequeue", "index")),
    argument("--topic", "only queues of this topic", kind=Kind.LIST, form="T"),
    argument("--queue", "only this queue of the topics", form="N", kind=Kind.COUNT),
    argument("--profile", "convert to the derived files of this RocketMQ version", choices=PROFILES),
    argument("--dry-run", "print what would be rebuilt", False),
    argument("--force", "go on if CommitLog files are missing", False),
    argument("--wait", "wait for the process that has locked the store", False),
    argument("--log", "read the CommitLog from here, and not from the store", form="URI"),
    argument("--target", "write consumequeue/ and index/ here, not into the store", form="DIR|URI"),
    argument("--scratch", "directory to build a remote target's files in; all executors must see it", form="DIR"),
    argument("--config", "broker.conf, for a store that does not name its file sizes or paths", form="FILE"),
)


_REBUILD: Final = {
    "path": "the store",
    "engine": "local or spark",
    "dryRun": "whether nothing was written",
    "profile": "RocketMQ version of the derived files",
    "records": "records of the log",
    "bytes": "their bytes",
    "units": "ConsumeQueue units",
    "indexEntries": "index entries",
    "files": "files that were written",
    "queues": "queues",
    "changedFiles": "files whose content differs from before",
    "damaged": "damaged ranges of the log",
    "deletedTopics": "topics that were deleted and stay so",
    "swapped": "whether the new files took the place of the old ones",
    "seconds": "time it took",
    "mbPerSecond": "MB of the log a second",
    "estimatedSeconds": "with --dry-run: time that the rebuild will take",
    "neededBytes": "with --dry-run: space that it will need",
    "noRoom": "with --dry-run: directories without that space",
}
FIELDS: Final[dict[str, dict[str, str]]] = {
    "store rebuild": _REBUILD,
    "submit rebuild_index": {
        "job": "rebuild_index",
        "rows": "records of the log",
        "batches": "1",
        **_REBUILD,
        "rowsPerSecond": "records a second",
    },
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


@dataclass(frozen=True, slots=True)
class RebuildJob:
    """A store, and the files of it to rebuild."""

    store: str
    request: RebuildRequest
    config: str | None = None

    def store_config(self) -> StoreConfig:
        """Return the settings of the environment, of a broker.conf, or the defaults."""
        return StoreConfig.load(self.config)


def parse_arguments(arguments: Sequence[str] | None = None) -> RebuildJob:
    """Parse a command line; argparse ends the process with exit code 2 if it is wrong."""
    parser = JobParser(
        prog="rocketflow submit rebuild_index",
        description="Rebuild queues and index of a RocketMQ store from its log, and swap them in at once.",
        epilog="example: rocketflow submit rebuild_index --store /data/store --only consumequeue --dry-run",
    )
    parser.add_rows(ARGUMENTS)
    given = Namespace(**parser.values(arguments))
    if given.only == "index" and (given.topic or given.queue is not None):
        parser.error("--only index covers all topics; remove --topic and --queue")
    if given.queue is not None and not given.topic:
        parser.error("--queue needs --topic")
    if given.profile is not None and (given.only == "consumequeue" or given.topic):
        parser.error("--profile converts the index; remove --only consumequeue, --topic and --queue")
    request = RebuildRequest(
        given.only,
        frozenset(given.topic),
        given.queue,
        given.dry_run,
        given.force,
        given.wait,
        given.log,
        given.target,
        given.scratch,
        given.profile,
    )
    return RebuildJob(given.store, request, given.config)


def preflight(job: RebuildJob) -> None:
    """Check, before a JVM starts, that the path is a store and that no other process has locked it."""
    config, request = job.store_config(), job.request
    if is_uri(job.store):
        check_target_given(job.store, request)
        return
    path = Path(job.store)
    check_directory(path, must_exist=True)
    if not (request.dry_run or request.wait or request.target):
        check_unlocked(path, config)


def run(spark: SparkSession, job: RebuildJob, progress: Progress | None = None) -> RebuildResult:
    """Rebuild on the executors of `spark`; the driver does the swap."""
    from rocketflow.spark.rebuild.rebuild_engine import SparkEngine
    from rocketflow_store.spi.rebuild import rebuild_store

    return rebuild_store(job.store, job.request, job.store_config(), engine=SparkEngine(spark), progress=progress)


def run_in_own_session(
    job: RebuildJob, begin_progress: Callable[[], Progress | None] | None = None, *, master: str | None = None
) -> RebuildResult:
    """Start a session, rebuild as `run` does, and stop the session."""
    from rocketflow.spark.session import build_session

    preflight(job)
    spark = build_session("rocketflow-rebuild", master)
    try:
        if not DEBUG.text():
            spark.sparkContext.setLogLevel("FATAL")  # the job prints a failure as one line
        return run(spark, job, begin_progress() if begin_progress is not None else print_progress())
    finally:
        spark.stop()


def print_progress() -> Progress:
    printed, began = 0, time.monotonic()

    def step(done: int, total: int) -> None:
        nonlocal printed
        if done * 20 // max(total, 1) > printed:
            printed = done * 20 // max(total, 1)
            seconds = max(time.monotonic() - began, 0.001)
            rate, left = done / seconds, (total - done) * seconds / done
            said = f"{done:,} of {total:,} bytes of log, {rate / 1e6:,.0f} MB/s, {left:,.0f} s left"
            print(said, file=sys.stderr, flush=True)

    return step


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments, build the session and rebuild; return the exit code."""
    result = run_in_own_session(parse_arguments(arguments))
    fields = {"job": "rebuild_index", "rows": result.records, "batches": 1, **result.as_dict()}
    print(json.dumps({**fields, **timing(result.records, result.seconds)}), flush=True)
    return result.exit_code
