"""The advice of `store verify` and `store info`: a command that helps with the findings,never the same one twice."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow.cli.app import run
from tests.support.damage import Planted, copied, flip, make

REPAIR = re.compile(r"^next: `rocketflow store verify \S+ --repair`", re.MULTILINE)
RESTORE = re.compile(r"^next: `rocketflow store restore BACKUP ", re.MULTILINE)
ACCEPT = re.compile(r"^next: `rocketflow store verify \S+ --accept FILE`", re.MULTILINE)
MANUAL = re.compile(r"^next: a repair cannot correct the rest", re.MULTILINE)


def _record(planted: Planted) -> None:
    file, start = planted.log_file(planted.places["orders", 1, 40][0])
    flip(file, start + 90)


def _log_file(planted: Planted) -> None:
    sorted((planted.path / "commitlog").iterdir())[1].unlink()


def _end_mark(planted: Planted) -> None:
    end = max(offset + size for offset, size in planted.places.values() if offset < 1 << 14)
    flip(planted.path / "commitlog" / f"{0:020d}", end + 6)


def _longer(planted: Planted) -> None:
    with (planted.path / "commitlog" / f"{0:020d}").open("ab") as opened:
        opened.write(b"x" * 40)


def _tail(planted: Planted) -> None:
    file, start = planted.log_file(max(offset + size for offset, size in planted.places.values()))
    with file.open("r+b") as opened:
        opened.seek(start)
        opened.write(b"half a record")


def _queue(planted: Planted) -> None:
    shutil.rmtree(planted.path / "consumequeue" / "orders" / "1")


def _queues(planted: Planted) -> None:
    shutil.rmtree(planted.path / "consumequeue")


def _queue_is_a_file(planted: Planted) -> None:
    _queue(planted)
    (planted.path / "consumequeue" / "orders" / "1").write_text("x")


def _index(planted: Planted) -> None:
    shutil.rmtree(planted.path / "index")


def _checkpoint(planted: Planted) -> None:
    flip(planted.path / "checkpoint", 0, 0x40)


def _other_file(planted: Planted) -> None:
    (planted.path / "commitlog" / "notes.txt").write_text("mine")


def _topics(planted: Planted) -> None:
    (planted.path / "config" / "topics.json").write_text("{noise")


def _offsets(planted: Planted) -> None:
    for name in ("consumerOffset.json", "consumerOffset.json.bak"):
        (planted.path / "config" / name).write_text("{noise")


def _meta(planted: Planted) -> None:
    (planted.path / "rocketflow" / "store.meta").write_bytes(b"?" * 40)


def _record_and_queue(planted: Planted) -> None:
    _record(planted)
    _queue(planted)


def _log_file_and_queue(planted: Planted) -> None:
    _log_file(planted)
    _queue(planted)


def _record_and_offsets(planted: Planted) -> None:
    _record(planted)
    _offsets(planted)


CASES: dict[str, tuple[Callable[[Planted], None], int]] = {
    **{
        one.__name__: (one, 0)
        for one in (
            *(_end_mark, _longer, _tail, _queue, _queues, _queue_is_a_file, _index, _checkpoint, _other_file, _topics),
            _meta,
        )
    },
    "offsets": (_offsets, 1),
    **{
        one.__name__: (one, 3)
        for one in (_record, _log_file, _record_and_queue, _log_file_and_queue, _record_and_offsets)
    },
}
"""A damage, and the exit code of its repair: that of what no repair can correct."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return make(tmp_path_factory.mktemp("whole") / "s")


@pytest.mark.parametrize(("damage", "left"), CASES.values(), ids=CASES)
def test_following_the_hints_of_verify_ends(
    capsys: pytest.CaptureFixture[str],
    whole: Planted,
    tmp_path: Path,
    damage: Callable[[Planted], None],
    left: int,
) -> None:
    """A repair is advised if it helps, and only once; it ends with the exit code of what is left."""
    planted = copied(whole, tmp_path / "s")
    damage(planted)
    path = str(planted.path)
    code = run(["store", "verify", path])
    said = capsys.readouterr().out
    assert code in {1, 3}
    if REPAIR.search(said):
        assert run(["store", "verify", path, "--repair"]) == left
        repaired = capsys.readouterr().out
        assert not REPAIR.search(repaired)
        assert "nothing to repair" not in repaired
    assert run(["store", "verify", path]) == left
    said = capsys.readouterr().out
    assert not REPAIR.search(said)
    assert bool(RESTORE.search(said)) == bool(ACCEPT.search(said)) == (left == 3)
    assert bool(MANUAL.search(said)) == (damage in {_offsets, _record_and_offsets})
    assert ("next: " in said) == (left != 0)


def test_info_names_queues_without_files_in_its_first_line(
    capsys: pytest.CaptureFixture[str], whole: Planted, tmp_path: Path
) -> None:
    planted = copied(whole, tmp_path / "s")
    first: list[str] = []
    for lose in (lambda _: None, _queue, _queues):
        lose(planted)
        assert run(["store", "info", str(planted.path)]) == 0
        first.append(capsys.readouterr().out.splitlines()[0].removeprefix(f"{planted.path}: "))
    assert first == ["clean", "clean, 1 queue without files", "clean, 4 queues without files"]
