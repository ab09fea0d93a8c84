"""Row P16 for timer messages: deliveries killed at any disk call, run twice at once, repeated, while clocks jump and
the timer's files are lost, old or damaged. Each message is delivered once, none early, none that was recalled."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store.fsck.verify import verify_store
from tests.reliability.test_kills import under_strace
from tests.support.checker import Verdict
from tests.support.disk_calls import CALLS, kill_points, needs_strace, spread
from tests.support.results import Tally
from tests.support.timer_worlds import DAY, HOUR, SECOND, START, World, keep, lose_something
from tests.support.trials import FULL, LEVEL, SEED, environment, seeds, some

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000 if FULL else 600)]

SOON, LATER = START + 10 * SECOND, START + 3 * HOUR


def command(world: World, now_ms: int, how: str = "once", count: int = 1) -> list[str]:
    worker = "tests.reliability.delivering_timers"
    return [sys.executable, "-B", "-m", worker, *map(str, (world.path, now_ms, how, count))]


def waiting_store(path: Path) -> World:
    """Write 30 messages of three ticks, some recalled, and one that is rolled twice, with the recall of another one."""
    world = World(path, roll_window=3_600)
    with world.open() as store:
        for number in range(30):
            world.send(store, (2 + number % 3) * SECOND)
        for after in (2 * HOUR + 5 * SECOND, 2 * HOUR + 5 * SECOND, 40 * DAY - SECOND):
            world.send(store, after)
        for number in (4, 15, 31):
            world.recall(store, number)
    return world


def verdict(world: World, at: int) -> Verdict:
    """Check for once each of the due messages, and nothing else."""
    found, due = world.delivered(), world.due_by_now(at)
    judged = Verdict()
    judged.lost = sorted(due - set(found))
    judged.doubled = sorted(number for number, times in found.items() if times > 1)
    judged.phantom = sorted(set(found) - due)
    judged.disorder = [str(one) for one in verify_store(world.path).findings]
    return judged


@needs_strace
def test_killed_at_a_disk_call(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counts = tally("P16", "timers, kill at a disk call")
    image, log = tmp_path / "image", tmp_path / "strace.log"
    world = waiting_store(image)
    world.path = tmp_path / "s"
    shutil.copytree(image, world.path)
    done = under_strace(["-o", str(log), "-s", "512", "-e", f"trace={CALLS}"], command(world, SOON))
    if "delivered" not in done.stdout:
        pytest.skip(f"strace cannot trace here: {done.stderr[-200:]}")
    assert done.stdout.split()[-1] == "28"
    points = kill_points(log, tmp_path)
    for number, point in enumerate(points if FULL else spread(points, some(4), SEED)):
        rng = random.Random(SEED + number)
        shutil.rmtree(world.path)
        shutil.copytree(image, world.path)
        first = under_strace(["-o", "/dev/null", *point.arguments()], command(world, SOON))
        context = f"seed {SEED}, killed at {point} of {len(points)} points"
        if rng.random() < 0.5:
            context += f", then {lose_something(world, rng, tmp_path / 'none')}"
        for now_ms in (SOON, LATER - 2 * HOUR, LATER):
            world.now = now_ms
            world.run()
            counts.trial(verdict(world, now_ms), context, hit=now_ms == SOON and "delivered" not in first.stdout)
    counts.assert_happened(counts.trials // 3, 2 / 3)


@pytest.mark.skipif(LEVEL == "sample", reason="test_requeue_kills.py does so with delays: RF_FAULTS=1 runs it")
def test_run_again_and_again_twice_at_once_while_the_clock_jumps(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    """Jobs and the service in turn and at once, killed at random times, at times that go back and forth."""
    counts = tally("P16", "timers, runs in turn and at once")
    image = tmp_path / "image"
    sent = waiting_store(image).sent
    for seed in seeds(3, 40):
        rng = random.Random(seed)
        world = World(tmp_path / "s", roll_window=3_600, sent=sent)
        shutil.copytree(image, world.path)
        steps: list[str] = []
        for _ in range(2 if LEVEL == "sample" else 4):
            now_ms = rng.choice([START - DAY, START + 3 * SECOND, SOON, START + HOUR + 20 * SECOND, LATER - HOUR])
            hows = rng.choices(["once", "service"], k=2)
            steps.append(f"{hows} at {now_ms - START}")
            running = [
                subprocess.Popen(command(world, now_ms, how), stdout=subprocess.PIPE, text=True, env=environment())
                for how in hows
            ]
            for one in running:
                assert one.stdout is not None
                how_long = rng.randrange(3)
                if how_long:
                    one.stdout.readline()
                if how_long == 1 or "service" in hows:  # a service that finds nothing would wait
                    one.kill()
            for one in running:
                with one:
                    one.wait(120)
            steps.append(lose_something(world, rng, tmp_path / "kept"))
            keep(world, tmp_path / "kept")
        context = f"seed {seed}: {steps}"
        world.now = LATER
        world.run()
        counts.trial(verdict(world, LATER), context)
        world.now = LATER + HOUR
        assert world.run().delivered == 0, context
        shutil.rmtree(world.path)


def test_the_verdict_sees_what_is_wrong(tmp_path: Path) -> None:
    """The check of this row finds missing and early messages."""
    world = waiting_store(tmp_path / "s")
    world.now = SOON
    world.run()
    assert verdict(world, SOON).clean
    assert len(verdict(world, LATER).lost) == 1
    assert len(verdict(world, START + 3 * SECOND).phantom) == 10
