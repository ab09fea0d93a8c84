"""Rows S03 and S20: recovery is killed several times, or gets an error; the result is the same as without that (E2)."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import MessageStore
from rocketflow_store.model.errors import StoreError
from tests.reliability.power import Instant, Run, after_power_loss, config
from tests.reliability.test_kills import under_strace
from tests.reliability.test_power_loss import run_of
from tests.support.disk_calls import KillPoint, kill_points, needs_strace
from tests.support.disk_layer import CHANGES, READS, Call, Failing, Recording
from tests.support.results import Tally
from tests.support.simulated_disk import SimulatedDisk, State
from tests.support.trials import seeds

pytestmark = pytest.mark.slow


def contents(store: Path) -> dict[str, bytes]:
    """Return log and queues by name, index files by their order (a recovery may rename one)."""
    found = {}
    for folder in ("commitlog", "consumequeue"):
        for path in sorted((store / folder).rglob("*")):
            if path.is_file():
                found[str(path.relative_to(store))] = path.read_bytes()
    index = sorted((store / "index").iterdir()) if (store / "index").is_dir() else []
    return found | {f"index {number}": path.read_bytes() for number, path in enumerate(index)}


def image_of(directory: Path, seed: int) -> tuple[Path, Instant, Run]:
    """Return a crash image: of a kill, or of a power loss."""
    run = run_of(directory / "run", seed, ("sync", "async")[seed % 2])
    instant = run.instants[run.rng.randrange(len(run.instants))]
    image = directory / "image"
    if seed % 3:
        instant.state.crash(image, seed, run.rng.choice((0.1, 0.5, 0.9)))
    else:
        instant.state.kill(image)
    return image, instant, run


def recover(store: Path, flush: str) -> None:
    MessageStore.open(store, config(flush)).close()


def calls_of_recovery(image: Path, copy: Path, flush: str) -> int:
    """Return the number of disk calls of a recovery that change something."""
    shutil.copytree(image, copy)
    with Recording() as seen:
        recover(copy, flush)
    return len(seen.calls)


def killed_at(image: Path, target: Path, flush: str, nth: int) -> None:
    """Write the image that a recovery leaves which is killed before its `nth` changing call."""
    left: list[State] = []
    with SimulatedDisk(image) as disk:
        calls = iter(range(1, 1 << 30))

        def look(call: Call) -> None:
            if call.kind in CHANGES and next(calls) == nth:
                left.append(disk.freeze())

        disk.on_call = look
        recover(image, flush)
        left.append(disk.freeze())
    left[0].kill(target)


def test_recovery_is_killed_again_and_again(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counts = tally("S03")
    for seed in seeds(20, 100):
        directory = tmp_path / "trial"
        image, instant, run = image_of(directory, seed)
        undisturbed = directory / "undisturbed"
        calls = calls_of_recovery(image, undisturbed, run.flush)
        times = run.rng.randrange(1, 6)
        for kill in range(times):
            following = directory / f"killed{kill}"
            killed_at(image, following, run.flush, run.rng.randrange(1, calls + 1))
            image = following
        context = f"seed {seed}, {times} kills among {calls} calls"
        recover(image, run.flush)
        here, there = contents(image), contents(undisturbed)
        assert sorted(here) == sorted(there), context
        assert [name for name in here if here[name] != there[name]] == [], context
        after_power_loss_or_kill(image, instant, run, context)
        counts.trial(None, context)
        shutil.rmtree(directory)


def after_power_loss_or_kill(image: Path, instant: Instant, run: Run, context: str) -> None:
    missing, _ = after_power_loss(image, instant, run, context, recovered=True)
    assert run.flush == "async" or not missing, context


@needs_strace
def test_a_recovering_process_is_killed_at_its_calls(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    """The same with real processes, killed at real calls."""
    counts = tally("S03", "strace")
    for seed in seeds(2, 12):
        directory = tmp_path / "trial"
        image, instant, run = image_of(directory, seed)
        undisturbed = directory / "undisturbed"
        calls_of_recovery(image, undisturbed, run.flush)
        process = ["python", "-c", f"from rocketflow_store import MessageStore as M; M.open({str(image)!r}).close()"]
        log = directory / "strace.log"
        probe = directory / "probe"
        shutil.copytree(image, probe)
        traced = [*process[:2], process[2].replace(str(image), str(probe))]
        under_strace(["-o", str(log), "-s", "512", "-e", f"trace={','.join(sorted(calls()))}"], python(traced))
        points: list[KillPoint] = kill_points(log, probe)
        for point in run.rng.sample(points, min(3, len(points))):
            under_strace(["-o", "/dev/null", *point.arguments()], python(process))
        recover(image, run.flush)
        context = f"seed {seed}"
        assert contents(image) == contents(undisturbed), context
        after_power_loss_or_kill(image, instant, run, context)
        counts.trial(None, context)
        shutil.rmtree(directory)


def calls() -> set[str]:
    return {"openat", "pwrite64", "fdatasync", "fsync", "msync", "rename", "unlink", "ftruncate", "fallocate", "mkdir"}


def python(command: list[str]) -> list[str]:
    return [sys.executable, "-B", *command[1:]]


def below(directory: Path) -> Callable[[Call], bool]:
    return lambda call: call.path is not None and call.path.is_relative_to(directory)


def error_of(store: Path, flush: str) -> StoreError | None:
    """Return the typed error of a recovery, or None; no other error may come."""
    try:
        recover(store, flush)
    except StoreError as error:
        return error
    return None


def test_recovery_meets_an_error(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    """S20: a disk call of the recovery fails; it reports that, and the next recovery has the same result as without."""
    counts = tally("S20")
    for seed in seeds(40, 400):
        directory = tmp_path / "trial"
        image, instant, run = image_of(directory, seed)
        undisturbed = directory / "undisturbed"
        calls = calls_of_recovery(image, undisturbed, run.flush)
        kinds = READS if seed % 2 else CHANGES
        failing = Failing(kinds, run.rng.randrange(1, calls + 1), where=below(image))
        with failing:
            error = error_of(image, run.flush)
        context = f"seed {seed}, {failing.hits}"
        assert error is None or failing.hits, f"{context}: {error}"
        recover(image, run.flush)
        after_power_loss_or_kill(image, instant, run, context)
        for name, content in contents(undisturbed).items():
            assert not name.startswith("commitlog") or contents(image)[name] == content, f"{context}: {name}"
        counts.trial(None, context, hit=bool(failing.hits))
        shutil.rmtree(directory)
    assert counts.hits > counts.trials // 3
