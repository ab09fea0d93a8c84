"""Rebuild queues and index of a store on Spark: what `jobs/rebuild_index.py` and `store rebuild --engine spark` run."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocketflow.process.arguments import JobParser
from rocketflow.process.job_timing import timing
from rocketflow_store import StoreConfig, StoreLockedError
from rocketflow_store.spi.places import check_directory, is_uri, store_holder
from rocketflow_store.spi.rebuild import PROFILES, RebuildRequest, RebuildResult, check_target_given

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class RebuildJob:
    """Which store, and which of its files."""

    store: str
    request: RebuildRequest
    config: str | None = None

    def store_config(self) -> StoreConfig:
        """Return the settings of the environment, of a broker.conf, or the defaults."""
        return StoreConfig.load(self.config)


def parse_arguments(arguments: Sequence[str] | None = None) -> RebuildJob:
    """The job from a command line; argparse ends a wrong one with exit code 2."""
    parser = JobParser(
        prog="rocketflow submit rebuild_index",
        description="Make queues and index of a RocketMQ store anew from its log, and swap them in at once.",
        epilog="example: rocketflow submit rebuild_index --store /data/store --only consumequeue --dry-run",
    )
    parser.add_argument("--store", required=True, metavar="PATH|URI", help="store directory, seen by every executor")
    parser.add_argument("--only", choices=("consumequeue", "index"), help="only one of them")
    parser.add_argument("--topic", action="append", default=[], metavar="T", help="only queues of this topic")
    parser.add_argument("--queue", type=int, metavar="N", help="only this queue of the topics")
    parser.add_argument("--profile", choices=PROFILES, help="convert to the derived files of this RocketMQ version")
    parser.add_argument("--dry-run", action="store_true", help="say what would be made")
    parser.add_argument("--force", action="store_true", help="go on where CommitLog files are missing")
    parser.add_argument("--wait", action="store_true", help="wait for whoever writes to the store")
    parser.add_argument("--log", metavar="URI", help="read the CommitLog from here, and not from the store")
    parser.add_argument("--target", metavar="DIR|URI", help="write consumequeue/ and index/ here, not into the store")
    parser.add_argument("--scratch", metavar="DIR", help="where a remote target's files are made; all executors see it")
    parser.add_argument(
        "--config", metavar="FILE", help="broker.conf, where the store does not tell file sizes or paths"
    )
    given = parser.parse_args(arguments)
    if given.only == "index" and (given.topic or given.queue is not None):
        parser.error("--only index is of all topics; leave out --topic and --queue")
    if given.queue is not None and not given.topic:
        parser.error("--queue needs --topic")
    if given.profile is not None and (given.only == "consumequeue" or given.topic):
        parser.error("--profile converts the index; leave out --only consumequeue, --topic and --queue")
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
    """Find before a JVM starts what can be found: the path is a store, and nobody writes to it."""
    config, request = job.store_config(), job.request
    if is_uri(job.store):
        check_target_given(job.store, request)
        return
    path = Path(job.store)
    check_directory(path, must_exist=True)
    holder = store_holder(path, config)
    if holder is not None and not (request.dry_run or request.wait or request.target):
        raise StoreLockedError(path, holder)


def run(spark: SparkSession, job: RebuildJob, progress: Progress | None = None) -> RebuildResult:
    """Rebuild on the executors of `spark`; the swap is the driver's."""
    from rocketflow.spark.rebuild.rebuild_engine import SparkEngine
    from rocketflow_store.spi.rebuild import rebuild_store

    return rebuild_store(job.store, job.request, job.store_config(), engine=SparkEngine(spark), progress=progress)


def run_in_own_session(
    job: RebuildJob, begin_progress: Callable[[], Progress | None] | None = None, *, master: str | None = None
) -> RebuildResult:
    """As `run`, in a session that is begun for it, and ended."""
    from rocketflow.spark.session import build_session

    preflight(job)
    spark = build_session("rocketflow-rebuild", master)
    try:
        if "ROCKETFLOW_DEBUG" not in os.environ:
            spark.sparkContext.setLogLevel("FATAL")  # a failure is told in one line
        return run(spark, job, begin_progress() if begin_progress is not None else print_progress())
    finally:
        spark.stop()


def print_progress() -> Progress:
    told, began = 0, time.monotonic()

    def step(done: int, total: int) -> None:
        nonlocal told
        if done * 20 // max(total, 1) > told:
            told = done * 20 // max(total, 1)
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
