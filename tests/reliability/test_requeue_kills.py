"""Row P16: deliveries of delayed messages killed at any disk call, run twice at once, repeated, while clocks jump and
delayOffset.json is lost, old or impossible. Each message is delivered once, none early, each level in order."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketflow_store import FlushDiskType, Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.delivery.delay.delivery import DelayDelivery
from rocketflow_store.format.record import RecordFields
from rocketflow_store.metadata.config_files.delay_offsets import DelayOffsetsFile
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.message_id import encode_host
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC
from tests.reliability.delivering import COMMIT_BYTES
from tests.reliability.test_kills import under_strace
from tests.support.checker import Verdict, check_copy, disorder
from tests.support.disk_calls import CALLS, kill_points, needs_strace, spread
from tests.support.results import Tally
from tests.support.trials import FULL, LEVEL, SEED, environment, seeds, some
from tests.support.workload import SMALL, body, number_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000 if FULL else 600)]

NOW = 1_700_000_000_000
LEVELS = (1, 2, 3)
COUNT = 45
SETTINGS: dict[str, Any] = {**SMALL, "flush_disk_type": FlushDiskType.ASYNC_FLUSH}


def command(store: Path, now_ms: int, how: str = "once", count: int = 0) -> list[str]:
    return [sys.executable, "-B", "-m", "tests.reliability.delivering", *map(str, (store, now_ms, how, count))]


def run(store: Path, now_ms: int, how: str = "once", count: int = 0) -> int:
    """Run an undisturbed delivery; return the number of delivered messages."""
    done = subprocess.run(
        command(store, now_ms, how, count), capture_output=True, text=True, env=environment(), timeout=120, check=False
    )
    assert "delivered" in done.stdout, done.stderr[-2000:]
    return int(done.stdout.split()[-1])


def waiting_store(path: Path, *, rows: int = COUNT) -> None:
    """Write a store with delayed messages of three levels in turn, for two queues of topic `t`."""
    with MessageStore.open(path, StoreConfig(clock=ManualClock(NOW), **SETTINGS)) as store:
        store.create_topic("t", 2)
        for number in range(rows):
            level = LEVELS[number % 3]
            one = Message("t", body(number), keys=[f"k{number}"], delay_time_level=level, queue_id=number % 2)
            assert store.put_message(one).stored


def due(level: int) -> int:
    return NOW + StoreConfig().delay_levels_ms[level - 1]


def verdict(store: Path, numbers: set[int]) -> Verdict:
    """Check for once each, nothing else, in the order of its level, not early; later messages must still wait."""
    found = check_copy(store, numbers, "t")
    found.disorder += disorder(store, "t")
    with StoreReader(store) as reader:
        last: dict[tuple[int, int], int] = {}
        for queue in reader.queues("t"):
            columns = ["body", "storeTimestamp", "properties"]
            for batch in reader.read("t", queue, *reader.bounds("t", queue), columns=columns):
                for row in batch.to_pylist():
                    number, level = number_of(row["body"]), int(dict(row["properties"])["DELAY"])
                    if row["storeTimestamp"].timestamp() * 1000 < due(level):
                        found.disorder.append(f"{number} was early")
                    if number < last.get((level, queue), -1):
                        found.disorder.append(f"{number} of level {level} came after {last[level, queue]}")
                    last[level, queue] = number
        for level in LEVELS:
            if reader.max_offset(SCHEDULE_TOPIC, level - 1) != COUNT // 3:
                found.disorder.append(f"level {level} has {reader.max_offset(SCHEDULE_TOPIC, level - 1)} messages")
    return found


def spoil_file(store: Path, rng: random.Random) -> str:
    """Lose delayOffset.json, or write old or impossible offsets to it; return what was done."""
    how = rng.choice(["kept", "kept", "lost", "old", "future", "impossible"])
    if how != "kept":
        for one in (store / "config").glob("delayOffset.json*"):
            one.unlink()
    offsets = {"old": rng.randrange(3), "future": rng.randrange(5, 16), "impossible": 1 << 50}
    if how in offsets:
        DelayOffsetsFile(store / "config").commit(dict.fromkeys(LEVELS, offsets[how]))
    return how


ALL = set(range(COUNT))
FIRST = {number for number in ALL if LEVELS[number % 3] < 3}


@needs_strace
def test_killed_at_a_disk_call(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counts = tally("P16", "kill at a disk call")
    image, store, log = tmp_path / "image", tmp_path / "s", tmp_path / "strace.log"
    waiting_store(image)
    shutil.copytree(image, store)
    done = under_strace(["-o", str(log), "-s", "512", "-e", f"trace={CALLS}"], command(store, due(2)))
    if "delivered" not in done.stdout:
        pytest.skip(f"strace cannot trace here: {done.stderr[-200:]}")
    assert done.stdout.split()[-1] == str(len(FIRST))
    points = kill_points(log, tmp_path)
    for number, point in enumerate(points if FULL else spread(points, some(4), SEED)):
        rng = random.Random(SEED + number)
        shutil.rmtree(store)
        shutil.copytree(image, store)
        first = under_strace(["-o", "/dev/null", *point.arguments()], command(store, due(2)))
        context = f"seed {SEED}, killed at {point} of {len(points)} points, file {spoil_file(store, rng)}"
        with MessageStore.open(store, StoreConfig(clock=ManualClock(rng.choice([NOW, due(2)])), **SETTINGS)) as opened:
            DelayDelivery(opened, commit_bytes=COMMIT_BYTES).deliver()
            opened.config.clock.set(due(2))  # type: ignore[attr-defined]
            DelayDelivery(opened).deliver()
        counts.trial(verdict(store, FIRST), context, hit="delivered" not in first.stdout)
        context += f", then {spoil_file(store, rng)}"
        with MessageStore.open(store, StoreConfig(clock=ManualClock(due(3)), **SETTINGS)) as opened:
            assert DelayDelivery(opened).deliver().rows == len(ALL - FIRST), context
        counts.trial(verdict(store, ALL), context, hit=False)
    counts.assert_happened(counts.trials // 2)


def test_run_again_and_again_twice_at_once_while_the_clock_jumps(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    """Jobs and the service in turn and at once, killed at random times, at times that go back and forth."""
    counts = tally("P16", "runs in turn and at once")
    image, store = tmp_path / "image", tmp_path / "s"
    waiting_store(image)
    for seed in seeds(3, 40):
        rng = random.Random(seed)
        shutil.copytree(image, store)
        steps = []
        for _ in range(2 if LEVEL == "sample" else 3):
            now_ms = rng.choice([NOW - 86_400_000, due(1) - 1, due(1), due(2), due(3) - 1])
            hows = rng.choices(["once", "service"], k=2)
            steps.append(f"{hows} at {now_ms - NOW}")
            running = [
                subprocess.Popen(command(store, now_ms, how, 1), stdout=subprocess.PIPE, text=True, env=environment())
                for how in hows
            ]
            for one in running:
                assert one.stdout is not None
                if how_long := rng.randrange(3):
                    one.stdout.readline()
                if how_long == 1 or "service" in hows:  # a service that finds nothing would wait
                    one.kill()
            for one in running:
                with one:
                    one.wait(120)
            steps.append(spoil_file(store, rng))
        context = f"seed {seed}: {steps}"
        rows = run(store, due(3))
        assert rows <= COUNT, context
        assert run(store, due(3) + 86_400_000) == 0, context
        counts.trial(verdict(store, ALL), context)
        shutil.rmtree(store)


def test_threads_of_one_process_deliver_at_once(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    """A service and jobs beside it plan from the same commits: the second one has to plan again."""
    import threading

    from rocketflow_store.delivery.delay.service import ScheduleMessageService

    counts = tally("P16", "threads at once")
    for seed in seeds(3, 60):
        rng = random.Random(seed)
        store = tmp_path / f"s{seed}"
        waiting_store(store)
        clock = ManualClock(NOW)
        with MessageStore.open(store, StoreConfig(clock=clock, **SETTINGS)) as opened:
            service = ScheduleMessageService(opened, poll_s=0.001, first_s=0.0)
            errors: list[BaseException] = []

            def deliver(opened: MessageStore = opened, errors: list[BaseException] = errors) -> None:
                try:
                    for _ in range(4):
                        DelayDelivery(opened, commit_bytes=1000).deliver()
                except BaseException as error:
                    errors.append(error)

            for now_ms in (due(1), due(1) - 500, due(3), rng.choice([NOW, due(2)]), due(3)):
                clock.set(now_ms)
                threads = [threading.Thread(target=deliver) for _ in range(2)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            service.stop()
            assert not errors, f"seed {seed}: {errors}"
            assert service.error is None
        counts.trial(verdict(store, ALL), f"seed {seed}")


def test_the_verdict_sees_what_is_wrong(tmp_path: Path) -> None:
    """The check of this row finds messages that are doubled, early or missing."""
    store = tmp_path / "s"
    waiting_store(store)
    clock = ManualClock(due(2))
    with MessageStore.open(store, StoreConfig(clock=clock, **SETTINGS)) as opened:
        DelayDelivery(opened).deliver()
    assert verdict(store, FIRST).clean
    assert len(verdict(store, ALL).lost) == COUNT // 3
    with MessageStore.open(store, StoreConfig(clock=ManualClock(due(2)), **SETTINGS)) as opened:
        host = encode_host("10.0.0.5:10911")
        for number in (0, 2):
            properties = b"DELAY\x01%d\x02" % LEVELS[number % 3]
            fields = RecordFields(b"t", number % 2, body(number), properties, 0, 0, NOW, host, host)
            assert opened.put_record(fields).stored
    wrong = verdict(store, FIRST)
    assert (wrong.doubled, wrong.phantom) == ([0], [2])
    assert Counter(one.split()[-1] for one in wrong.disorder)["early"] == 1
