"""Row P15 on Spark: a worker's process, the driver's JVM or an executor is killed in the middle of a rebuild."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rocketflow.spark.rebuild.rebuild_engine import SparkEngine
from rocketflow.spark.shared import quiet_daemon
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.layout.store_paths import StorePaths
from rocketflow_store.rebuild import log_ranges
from rocketflow_store.rebuild.rebuild import rebuild_store
from rocketflow_store.recovery.derived_swap import finish_swap
from tests.reliability.test_killed_rebuilds import children, derived, harm, have_ended, made
from tests.support.results import Tally, until_one_happened
from tests.support.spark_cluster import standalone_cluster
from tests.support.trials import FULL, LEVEL, environment, seeds

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_RANGE = 400_000
"""Bytes of log a task: some fifty tasks in a store of 60,000 messages."""
_DEADLINE_S = 300
DRIVER = f"""
import sys
from rocketflow_store.rebuild import log_ranges
log_ranges.LEAST_RANGE = log_ranges.MOST_RANGE = {_RANGE}
from rocketflow.process.job_entry import run_job
from rocketflow.spark import session
from rocketflow.spark.rebuild import rebuild_job
if sys.argv[1]:
    right = session.build_session
    session.build_session = lambda name, _: right(name, sys.argv[1], {{"spark.executor.memory": "512m"}})
sys.exit(run_job(lambda: rebuild_job.main(["--store", sys.argv[2]])))
"""
"""A rebuild in a session of its own: `python -c DRIVER MASTER STORE`."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """Return a store, and its queues and index."""
    path = tmp_path_factory.mktemp("whole") / "s"
    return path, made(path)


@pytest.fixture(autouse=True)
def many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_ranges, "LEAST_RANGE", _RANGE)
    monkeypatch.setattr(log_ranges, "MOST_RANGE", _RANGE)


def descendants(pid: int) -> Iterator[int]:
    """Yield all processes below `pid`; each thread of a JVM has children of its own."""
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, thread.read_text().split()):
                yield child
                yield from descendants(child)


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def workers_of(pid: int) -> list[int]:
    """Return the Python workers of a driver or a cluster below `pid`: the children of Spark's daemons."""
    daemons = [one for one in descendants(pid) if quiet_daemon.__name__ in command_line(one)]
    return [one for daemon in daemons for one in children(daemon)]


def made_beside(path: Path, count: int, over: Callable[[], bool]) -> bool:
    """Wait until the rebuild has written `count` files; return False if it ended before."""
    deadline = time.monotonic() + _DEADLINE_S
    while time.monotonic() < deadline:
        if sum(len(files) for _, _, files in os.walk(path / "rocketflow" / "rebuild")) >= count:
            return True
        if over():
            return False
        time.sleep(0.002)
    raise AssertionError(f"no {count} files after {_DEADLINE_S} s")


def all_or_nothing(path: Path, before: dict[str, bytes], wanted: dict[str, bytes], context: str) -> None:
    """Check that the rebuild changed all or nothing, and that the next one completes and cleans up."""
    if (path / "rocketflow" / "rebuild" / "swap").exists():
        finish_swap(StorePaths.of(path))
        assert derived(path) == wanted, context
    else:
        assert derived(path) in (before, wanted), context
    rebuild_store(path)
    assert derived(path) == wanted, context
    assert not (path / "rocketflow" / "rebuild").exists(), context
    assert verify_store(path).findings == [], context


def strike(path: Path, number: int, rng: random.Random, over: threading.Event, killed: list[int]) -> None:
    """Kill all Python workers, idle or busy, after `number` files."""
    if made_beside(path, number, over.is_set):
        workers = workers_of(os.getpid())
        rng.shuffle(workers)
        for worker in workers if not over.is_set() else ():
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)


def test_a_worker_is_killed(
    spark: SparkSession, whole: tuple[Path, dict[str, bytes]], tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    """Without a second attempt, as in local mode, the job fails and cleans up; the session stays usable."""
    counts = tally("P15", "a Python worker on Spark")
    engine = SparkEngine(spark)
    for seed in until_one_happened(counts, 6, 20):
        rng, path = random.Random(seed), tmp_path / "s"
        shutil.copytree(whole[0], path)
        harm(path, rng)
        before, number, over = derived(path), rng.randrange(1, 40), threading.Event()
        killed: list[int] = []
        striker = threading.Thread(target=strike, args=(path, number, rng, over, killed))
        striker.start()
        try:
            rebuild_store(path, engine=engine)
            failed = ""
        except Exception as error:  # Spark's, of a task that was lost
            failed = str(error)
        over.set()
        striker.join()
        context = f"seed {seed}, worker {killed} killed after {number} files: {failed[:200]!r}"
        assert not (path / "rocketflow" / "rebuild").exists(), context
        assert derived(path) == (before if failed else whole[1]), context
        all_or_nothing(path, before, whole[1], context)
        counts.trial(None, context, hit=bool(killed and failed))
        shutil.rmtree(path)
    counts.assert_happened(share=0)


@contextmanager
def started(path: Path, master: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """Start a rebuild; end it with the block, if the trial failed before that."""
    command = [sys.executable, "-c", DRIVER, master, str(path)]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.skipif(LEVEL == "sample", reason="Sparks of their own; a killed worker is sampled: RF_FAULTS=1 runs it")
def test_the_driver_is_killed(
    whole: tuple[Path, dict[str, bytes]], tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    """Kill its JVM, or the process that started it: in either case all processes end, and the next run cleans up."""
    counts = tally("P15", "the JVM of the driver")
    for seed in until_one_happened(counts, 3, 12):
        rng, path = random.Random(seed), tmp_path / "s"
        shutil.copytree(whole[0], path)
        harm(path, rng)
        before, number, how = derived(path), rng.randrange(1, 30), rng.choice(("JVM", "JVM", "driver"))
        with started(path) as process:
            hit = made_beside(path, number, lambda: process.poll() is not None)
            family = list(descendants(process.pid))
            jvms = [one for one in family if "java" in command_line(one).split(" ")[0]]
            hit = hit and bool(jvms) and process.poll() is None
            if hit:
                os.kill(jvms[0] if how == "JVM" else process.pid, signal.SIGKILL)
            code = process.wait(_DEADLINE_S)
        context = f"seed {seed}, {how} killed after {number} files, exit code {code}"
        assert have_ended(family), context
        if hit and how == "JVM" and code:
            assert not (path / "rocketflow" / "rebuild").exists(), context
            assert derived(path) == before, context
        all_or_nothing(path, before, whole[1], context)
        counts.trial(None, context, hit=hit and code != 0)
        shutil.rmtree(path)
    counts.assert_happened(share=0)


@pytest.mark.skipif(not FULL, reason="starts a cluster: RF_FULL=1")
def test_an_executor_is_killed(
    whole: tuple[Path, dict[str, bytes]], tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    """A cluster runs its tasks again elsewhere: the rebuild succeeds, and no file is missing or left over."""
    counts = tally("P15", "an executor of a cluster")
    (tmp_path / "cluster").mkdir()
    with standalone_cluster(tmp_path / "cluster") as url:
        for seed in seeds(3, 6):
            rng, path = random.Random(seed), tmp_path / "s"
            shutil.copytree(whole[0], path)
            harm(path, rng)
            before, number = derived(path), rng.randrange(1, 30)
            with started(path, url) as process:
                hit = made_beside(path, number, lambda: process.poll() is not None)
                executors = [
                    one for one in descendants(os.getpid()) if "CoarseGrainedExecutorBackend" in command_line(one)
                ]
                hit = hit and bool(executors) and process.poll() is None
                if hit:
                    os.kill(rng.choice(executors), signal.SIGKILL)
                code = process.wait(_DEADLINE_S)
            context = f"seed {seed}, an executor of {len(executors)} killed after {number} files, exit code {code}"
            assert code == 0, context
            assert derived(path) == whole[1], context
            assert not (path / "rocketflow" / "rebuild").exists(), context
            all_or_nothing(path, before, whole[1], context)
            counts.trial(None, context, hit=hit)
            shutil.rmtree(path)
    counts.assert_happened(share=0)
