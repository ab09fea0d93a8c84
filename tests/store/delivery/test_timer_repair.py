"""`verify` and `repair` of the timer's files: impossible contents are found, and rebuilt without delivering."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rocketflow_store.delivery.timer.timer_checkpoint import read_timer_checkpoint, write_timer_checkpoint
from rocketflow_store.format.timer_checkpoint_layout import TimerCheckpoint
from rocketflow_store.format.timer_layout import TIMER_UNIT_SIZE, WHEEL_SIZE
from rocketflow_store.fsck.repair import repair_store
from rocketflow_store.fsck.verify import verify_store
from tests.support.timer_worlds import HOUR, SECOND, START, World
from tests.support.trials import sampled


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Return a store with 20 of 60 messages delivered; the others wait, some longer than the wheel's window."""
    world = World(tmp_path_factory.mktemp("whole") / "s", roll_window=3_600)
    with world.open() as store:
        for number in range(60):
            world.send(store, (number + 1) * SECOND if number < 40 else HOUR * (number - 30))
    world.now = START + 20 * SECOND
    assert world.run().delivered == 20
    return world


@pytest.fixture
def world(whole: World, tmp_path: Path) -> World:
    shutil.copytree(whole.path, tmp_path / "s")
    return replace(whole, path=tmp_path / "s", sent=dict(whole.sent))


def cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def noise(path: Path) -> None:
    path.write_bytes(bytes(range(1, 250)) * (path.stat().st_size // 249 + 1))
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 4096 * 4096 if path.name != "timerwheel" else WHEEL_SIZE)


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def missing(path: Path) -> None:
    path.unlink()


def log_file(world: World) -> Path:
    return min((world.path / "timerlog").iterdir())


DAMAGE: list[tuple[str, Callable[[Path], None]]] = [
    ("timerwheel", cut),
    ("timerwheel", noise),
    ("timerwheel", directory),
    ("config/timercheck", empty),
    ("config/timercheck", noise),
    ("config/timercheck", directory),
    ("timerlog", cut),
    ("timerlog", noise),
    ("timerlog", empty),
    ("timerlog", directory),
]


@pytest.mark.parametrize(("name", "damage"), sampled(DAMAGE, 2))
def test_damage_is_found_and_rebuilt(world: World, name: str, damage: Callable[[Path], None]) -> None:
    damage(log_file(world) if name == "timerlog" else world.path / name)
    before = world.delivered()
    found = verify_store(world.path).findings
    assert {one.kind for one in found} == {"timer"}
    assert all(one.file.startswith(str(world.path / name)) for one in found)
    repaired = repair_store(world.path, world.config())
    assert (repaired.left.findings, repaired.exit_code) == ([], 0)
    assert [step.action for step in repaired.steps] == ["rebuild-timer"] * len(found)
    assert (world.path / "quarantine" / name).exists()
    assert world.delivered() == before
    check = read_timer_checkpoint(world.path / "config/timercheck")
    assert (check.last_read_time_ms, check.last_timer_queue_offset) == (world.now, check.master_timer_queue_offset)
    assert repair_store(world.path, world.config()).exit_code == 0
    for after in (60, 10 * 3600, 40 * 3600, 80 * 3600):
        world.now = START + after * SECOND
        world.run()
    world.check()
    assert verify_store(world.path).findings == []


def test_timer_log_that_ends_before_timercheck_is_found(world: World) -> None:
    path = log_file(world)
    data = bytearray(path.read_bytes())
    data[7 * TIMER_UNIT_SIZE :] = bytes(len(data) - 7 * TIMER_UNIT_SIZE)
    path.write_bytes(data)
    (one,) = verify_store(world.path).findings
    assert (one.kind, one.file, one.offset) == ("timer", str(path), 7 * TIMER_UNIT_SIZE)
    assert "are not there" in one.detail
    assert repair_store(world.path, world.config()).left.findings == []
    world.now = START + 80 * HOUR
    world.run()
    world.check()


@pytest.mark.parametrize("lost", [0, 3])
def test_only_log_file_that_is_cut_is_found_if_it_lost_records(tmp_path: Path, lost: int) -> None:
    world = World(tmp_path / "s")
    with world.open() as store:
        for number in range(30):
            world.send(store, (number + 1) * SECOND)
    world.now = START + 10 * SECOND
    world.run()
    (path,) = (world.path / "timerlog").iterdir()
    end = read_timer_checkpoint(world.path / "config/timercheck").last_timer_log_flush_pos
    assert lost * TIMER_UNIT_SIZE < end < path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(end - lost * TIMER_UNIT_SIZE + 16)
    found = [one.detail for one in verify_store(world.path).findings]
    assert found == (["records that timercheck counts on are not there"] if lost else [])
    assert repair_store(world.path, world.config()).left.findings == []
    world.now = START + HOUR
    world.run()
    world.check()
    assert verify_store(world.path).findings == []


def test_positions_after_the_ends_are_found(world: World) -> None:
    path = world.path / "config/timercheck"
    check = read_timer_checkpoint(path)
    write_timer_checkpoint(path, TimerCheckpoint(check.last_read_time_ms, check.last_timer_log_flush_pos, 99_999, 0))
    (one,) = verify_store(world.path).findings
    assert (one.kind, one.file, one.offset) == ("timer", str(path), 16)
    assert repair_store(world.path, world.config()).left.findings == []


def test_timer_files_without_known_progress_are_quarantined(tmp_path: Path) -> None:
    """The progress of the delivery is unknown: the next one rebuilds the files, from the deliveries in the log."""
    world = World(tmp_path / "s")
    with world.open() as store:
        world.send(store, 3_000)
    (world.path / "timerwheel").write_bytes(b"x" * 100)
    (world.path / "config/timercheck").write_bytes(b"x" * 100)
    repaired = repair_store(world.path, world.config())
    assert repaired.left.findings == []
    assert not (world.path / "timerwheel").exists()
    world.now = START + HOUR
    world.run()
    world.check()


def test_missing_timer_files_are_no_finding(world: World) -> None:
    for name in ("timerwheel", "config/timercheck", "rocketflow/timer"):
        (world.path / name).unlink()
    shutil.rmtree(world.path / "timerlog")
    assert verify_store(world.path).findings == []
