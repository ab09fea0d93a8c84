"""Worker processes of a rebuild: their answers, and their end when they or their parent are stopped."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time

import pytest

from rocketflow_store.model.errors import CorruptRecordError, StoreError
from rocketflow_store.rebuild.engine import LocalEngine
from rocketflow_store.rebuild.worker_process import WorkerLostError
from tests.support.trials import SEED, environment

STOPPED = """
import random, signal, sys, time
from rocketflow_store.rebuild.engine import LocalEngine

class Stop(BaseException):
    pass

def stop(number, frame):
    raise Stop

def nap(seconds):
    time.sleep(seconds)

rng, stopped = random.Random(int(sys.argv[1])), 0
signal.signal(signal.SIGALRM, stop)
for _ in range(60):
    try:
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.001, 0.06))
        with LocalEngine(2) as engine:
            engine.run(nap, [0.0001] * 2_000, "", lambda _: None)
    except Stop:
        stopped += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
print(stopped)
"""


def doubled(number: int) -> int:
    if number < 0:
        raise StoreError("negative")
    return 2 * number


def not_there(number: int) -> None:
    raise CorruptRecordError("/data/commitlog/0", number, "no record")


def ends_itself(number: int) -> None:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01)


def test_answers_come_in_the_order_of_the_tasks() -> None:
    done: list[int] = []
    with LocalEngine(3) as engine:
        assert engine.run(doubled, range(50), "", done.append) == [2 * one for one in range(50)]
        assert engine.run(doubled, [], "", done.append) == []
        assert engine.run(doubled, [7], "", done.append) == [14]
    assert sorted(done) == sorted([*range(50), 7])
    assert multiprocessing.active_children() == []


def test_error_of_a_task_is_raised_and_ends_all_workers() -> None:
    with pytest.raises(StoreError, match="negative"), LocalEngine(2) as engine:
        engine.run(doubled, [1, 2, -1, 3], "", lambda _: None)
    assert multiprocessing.active_children() == []


def test_error_of_a_task_keeps_its_type_and_fields() -> None:
    with pytest.raises(CorruptRecordError, match="no record") as raised, LocalEngine(2) as engine:
        engine.run(not_there, [5], "", lambda _: None)
    here = CorruptRecordError("/data/commitlog/0", 5, "no record")
    assert (str(raised.value), raised.value.offset, raised.value.exit_code) == (str(here), 5, here.exit_code)


def test_every_error_of_a_store_can_go_to_another_process() -> None:
    kinds = [StoreError]
    for kind in kinds:
        kinds += kind.__subclasses__()
        error = kind.__new__(kind, "text")
        error.path = "carried"  # type: ignore[attr-defined]
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), copy.args, vars(copy)) == (kind, ("text",), {"path": "carried"})
    assert len(kinds) > 20


def test_killed_worker_raises_worker_lost() -> None:
    with pytest.raises(WorkerLostError, match="SIGKILL"), LocalEngine(2) as engine:
        engine.run(ends_itself, range(20), "", lambda _: None)
    assert multiprocessing.active_children() == []


def test_stop_at_any_moment_leaves_no_lock_held() -> None:
    """Pools of the standard library were left locked by some stops."""
    command = [sys.executable, "-c", STOPPED, str(SEED)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 0
