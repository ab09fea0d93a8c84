"""Row P16, requeue by hand: killed at disk calls and at random times, repeated, run twice at once."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import FlushDiskType, Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.delivery.requeue.send_back import SendBack, consumer_send_msgs_back
from rocketflow_store.fsck.verify import verify_store
from tests.reliability.requeue_worker import SOURCE, TARGET
from tests.support.checker import Verdict
from tests.support.disk_calls import CALLS, kill_points, needs_strace, spread
from tests.support.results import Tally
from tests.support.trials import FULL, LEVEL, ROOT, SEED, environment, seeds

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600 if FULL else 600)]

SIZES = StoreConfig(
    mapped_file_size_commit_log=16 << 10,
    mapped_file_size_consume_queue=2_000,
    max_hash_slot_num=500,
    max_index_num=2_000,
    flush_disk_type=FlushDiskType.ASYNC_FLUSH,
)
DEAD = 60


def dead_letters(path: Path, count: int, first: int = 0) -> None:
    """Put messages that group billing gives up, by the store's own send-back."""
    with MessageStore.open(path, SIZES) as store:
        store.create_topic(TARGET, 3)
        put = store.put_messages(Message("orders", b"%d" % number) for number in range(first, first + count))
        consumer_send_msgs_back(store, SendBack("billing", -1), [one.physical_offset for one in put])


def requeueing(path: Path, batch_rows: int) -> list[str]:
    worker = [sys.executable, "-B", "-m", "tests.reliability.requeue_worker"]
    return [*worker, str(path), "run", str(batch_rows)]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=120, check=False)


def verdict(path: Path, dead: int) -> Verdict:
    """Check that every third dead letter is in its topic once more, and nothing else; numbers are their offsets."""
    found: Counter[int] = Counter()
    wrong = []
    with StoreReader(path) as reader:
        for queue_id in reader.queues(TARGET):
            at, end = reader.bounds(TARGET, queue_id)
            while at < end:
                got = reader.get_message(TARGET, queue_id, at)
                for one in got.messages:
                    if one.properties.get("REQUEUE_RUN_ID") == "run":
                        offset = int(one.properties["REQUEUE_ORIGIN_QUEUE_OFFSET"])
                        found[offset] += 1
                        if one.body != b"%d" % offset or one.properties["REQUEUE_ORIGIN_TOPIC"] != SOURCE:
                            wrong.append(offset)
                at = got.next_begin_offset
    chosen = set(range(0, dead, 3))
    return Verdict(
        lost=sorted(chosen - found.keys()),
        phantom=sorted(found.keys() - chosen),
        doubled=sorted(offset for offset, count in found.items() if count > 1),
        moved=wrong,
        findings=[str(one) for one in verify_store(path).findings],
    )


@pytest.mark.skipif(LEVEL == "sample", reason="test_requeue_kills.py kills at such calls: RF_FAULTS=1 runs it")
@needs_strace
def test_killed_at_a_disk_call(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    """The sample's points are spread over the run; `make test-full` takes 50."""
    counts = tally("P16", "requeue by hand")
    whole, path, log = tmp_path / "whole", tmp_path / "s", tmp_path / "strace.log"
    dead_letters(whole, DEAD)
    shutil.copytree(whole, path)
    traced = run(["strace", "-f", "-o", str(log), "-s", "512", "-e", f"trace={CALLS}", *requeueing(path, 9)])
    if "done 20 20" not in traced.stdout:
        pytest.skip(f"strace cannot trace here: {traced.stderr[-200:]}")
    points = kill_points(log, path)
    assert len(points) > 40
    for point in spread(points, 50 if FULL else 12 if LEVEL == "fast" else 2, SEED):
        shutil.rmtree(path)
        shutil.copytree(whole, path)
        first = run(["strace", "-f", "-o", "/dev/null", *point.arguments(), *requeueing(path, 9)])
        context = f"seed {SEED}, killed at {point} of {len(points)} points"
        last = run(requeueing(path, 9))
        assert "done" in last.stdout, context + last.stderr
        assert last.stdout.split()[2] == "20", context
        counts.trial(verdict(path, DEAD), context, hit="done" not in first.stdout)
        assert not list((path / "rocketflow" / "staging").glob("*/0*/*")), context
    counts.assert_happened()


def test_killed_at_random_times_and_run_twice_at_once(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    """Until one run is done: some are killed, some run beside another one; dead letters are added all the while."""
    counts = tally("P16", "requeue by hand, random")
    kills = 0
    for seed in seeds(3, 50):
        rng, path = random.Random(seed), tmp_path / f"{seed}"
        dead = 300
        dead_letters(path, dead)
        command = requeueing(path, rng.choice((5, 17, 60)))
        grown, done, hit = dead, False, False
        while not done:
            both = [
                subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
                for _ in range(rng.choice((1, 1, 2)))
            ]
            if not hit or rng.random() < 0.5:
                _wait_for_a_commit(path, both[0], rng)
                both[0].kill()
            ended = [one.communicate(timeout=120) for one in both]
            killed = both[0].returncode < 0
            hit, kills = hit or killed, kills + killed
            done = any(one.returncode == 0 for one in both)
            assert all(one.returncode <= 0 for one in both), ended
            dead_letters(path, 9, grown)
            grown += 9
        counts.trial(verdict(path, dead), f"seed {seed}, {kills} kills", hit=hit)
        shutil.rmtree(path)
    assert kills


@pytest.mark.spark
def test_the_job_killed_with_its_jvm(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    """The same for the job, `python jobs/requeue.py`: full counts only, since each start of Spark takes seconds."""
    if not FULL:
        pytest.skip("RF_FULL=1 starts Spark for each trial")
    counts = tally("P16", "requeue by hand, the job")
    for seed in seeds(5, 5):
        rng, path = random.Random(seed), tmp_path / f"{seed}"
        dead_letters(path, 300)
        command = [sys.executable, str(ROOT / "jobs" / "requeue.py"), "--store", str(path), "--from-topic", SOURCE]
        command += ["--to-topic", TARGET, "--where", "queueOffset % 3 = 0", "--run-id", "run", "--rate", "20"]
        job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment())
        assert job.stderr is not None
        said = ""
        while "batch 1:" not in said and job.poll() is None:
            said += job.stderr.readline()
        time.sleep(rng.uniform(0, 2))
        job.kill()
        job.communicate(timeout=60)
        dead_letters(path, 30, 300)
        last = run([*command[:-1], "100000"])
        assert last.returncode == 0, last.stderr
        counts.trial(verdict(path, 300), f"seed {seed}", hit=job.returncode < 0)
    assert counts.hits


def _wait_for_a_commit(path: Path, process: subprocess.Popen[str], rng: random.Random) -> None:
    """Wait until the process opened the store, and a little longer, or until it ended."""
    before = _mark(path)
    while process.poll() is None and _mark(path) == before:
        time.sleep(0.002)
    time.sleep(rng.uniform(0, 0.3))


def _mark(path: Path) -> int:
    with StoreReader(path) as reader:
        return reader.max_phy_offset
