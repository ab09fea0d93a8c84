"""The tables of an open: one row for every combination of their inputs; `explain` prints the steps that run."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from rocketflow.cli.app import run
from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.recovery.decide import (
    CUTS,
    PREPARATION,
    SETTLING,
    WALK,
    Found,
    LogFound,
    Step,
    Stop,
    decide,
    decide_log,
    matching_rows,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BOTH = (False, True)
SMALL = StoreConfig(
    mapped_file_size_commit_log=1 << 16, mapped_file_size_consume_queue=400, max_hash_slot_num=50, max_index_num=200
)
TABLES = {
    "preparation": (PREPARATION, (BOTH, BOTH, BOTH, BOTH)),
    "walk": (WALK, (tuple(Stop), BOTH)),
    "cuts": (CUTS, (BOTH, BOTH, BOTH, BOTH, BOTH)),
    "settling": (SETTLING, (BOTH, BOTH)),
}


@pytest.mark.parametrize("name", TABLES)
def test_table_has_exactly_one_row_for_every_combination(name: str) -> None:
    table, inputs = TABLES[name]
    used = set()
    for combination in product(*inputs):
        rows = matching_rows(table, combination)
        assert len(rows) == 1, (combination, rows)
        used.add(id(rows[0]))
    assert used == {id(row) for row in table}, "a row that no combination reaches"


def test_steps_of_every_combination_are_in_order() -> None:
    order, reached = list(Step), set()
    for stopped, stop, *rest in product(BOTH, Stop, BOTH, BOTH, BOTH, BOTH):
        found = Found(stopped, stop, *rest)
        before = decide(found)
        for log in (LogFound(*one) for one in product(BOTH, BOTH, BOTH)):
            steps = before if before[-1] is Step.OBSERVE_AGAIN else before + decide_log(found, log)
            numbers = [order.index(one) for one in steps]
            assert numbers == sorted(set(numbers)), (found, log, steps)
            reached |= set(steps)
    assert reached == set(Step)


def test_only_a_walk_from_the_begin_follows_a_rebuild() -> None:
    for stop, deletions, misplaced, unfinished in product(Stop, BOTH, BOTH, BOTH):
        steps = decide(Found(False, stop, deletions, misplaced, True, unfinished))
        assert Step.QUARANTINE in steps
        assert steps[-1] is Step.WALK_FROM_BEGIN


def _kill(path: Path) -> None:
    child = os.fork()
    if child == 0:
        MessageStore.open(path).put_messages([Message("t", b"x") for _ in range(10)])
        os._exit(9)
    os.waitpid(child, 0)


def _lose_queue(path: Path) -> None:
    shutil.rmtree(path / "consumequeue" / "t")


def _misplace_confirm(path: Path) -> None:
    (path / "rocketflow" / "confirm").mkdir()


def _of_another_writer(path: Path) -> None:
    (path / "abort").write_bytes(b"1")


def _stop_rebuild(path: Path) -> None:
    (path / "rocketflow" / "rebuild").mkdir()


def _digests(path: Path) -> dict[str, str]:
    return {str(one): hashlib.sha256(one.read_bytes()).hexdigest() for one in path.rglob("*") if one.is_file()}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda _: None, {Step.WALK_FROM_LAST_UNIT, Step.SYNC_CHANGES}),
        (_kill, {Step.COMPLETE_LAST_FILES, Step.WALK_FROM_FRONTIER, Step.CUT_LOG, Step.SYNC}),
        (_lose_queue, {Step.QUARANTINE, Step.WALK_FROM_BEGIN, Step.END_REBUILD}),
        (_misplace_confirm, {Step.QUARANTINE, Step.WALK_FROM_LAST_UNIT}),
        (_of_another_writer, {Step.WALK_FROM_BEGIN, Step.CUT_QUEUES}),
    ],
)
def test_open_runs_the_steps_that_explain_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Path], None], expected: set[Step]
) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, SMALL) as store:
        store.put_messages([Message("t", b"x") for _ in range(10)])
    change(path)
    before = _digests(path)
    plan = _explained(capsys, path)
    assert _digests(path) == before
    with MessageStore.open(path) as store:
        assert [one["step"] for one in plan["steps"]] == [one.label for one in store.recovery.steps]
        assert expected <= set(store.recovery.steps)
        assert plan["logEnd"] == store.recovery.truncated_to
        assert plan["rebuilt"] == list(store.recovery.healed)


def test_explain_prints_the_steps_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with MessageStore.open(tmp_path / "s", SMALL) as store:
        store.put_message(Message("t", b"x"))
    _stop_rebuild(tmp_path / "s")
    assert run(["store", "recover", str(tmp_path / "s"), "--explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["last", "stop"],
        ["1.", "finish-rebuild"],
        ["2.", "observe-again"],
    ]
    assert (tmp_path / "s" / "rocketflow" / "rebuild").is_dir()
    with MessageStore.open(tmp_path / "s") as store:
        assert store.recovery.steps[0] is Step.RECORD_STORE


def _explained(capsys: pytest.CaptureFixture[str], path: Path) -> dict[str, Any]:
    assert run(["store", "recover", str(path), "--explain", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    plan: dict[str, Any] = json.loads(line)
    return plan
