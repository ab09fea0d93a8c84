"""Row P15: a rebuild is killed, or runs beside another one or an appender; all of it is done, or nothing."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.layout.store_paths import StorePaths
from rocketflow_store.recovery.derived_swap import finish_swap
from tests.support.bulk_rows import rows
from tests.support.results import Tally
from tests.support.trials import COMMAND_LINE, LEVEL, environment, seeds

pytestmark = pytest.mark.slow

SIZES = StoreConfig(mapped_file_size_commit_log=1 << 23, max_hash_slot_num=5000, max_index_num=40_000)
DERIVED = ("consumequeue", "index")
_DEADLINE_S = 20


def made(path: Path) -> dict[str, bytes]:
    """Write a store of 60,000 messages; return its queues and index."""
    with MessageStore.open(path, SIZES) as store:
        for _ in range(3):
            store.append_batch(rows(20_000, 300), topic="t")
    return derived(path)


def derived(path: Path) -> dict[str, bytes]:
    """Return the contents of the queue files by name, and of the index files by their order."""
    found = {str(one.relative_to(path)): one.read_bytes() for one in (path / DERIVED[0]).rglob("*") if one.is_file()}
    index = sorted((path / "index").iterdir()) if (path / "index").is_dir() else []
    return found | {f"index {number}": one.read_bytes() for number, one in enumerate(index)}


def harm(path: Path, rng: random.Random) -> None:
    """Delete some queues and index files, and damage others."""
    for one in sorted((path / DERIVED[0] / "t").iterdir()):
        if rng.random() < 0.4:
            shutil.rmtree(one)
    for one in sorted((path / "index").iterdir()):
        if rng.random() < 0.5:
            data = bytearray(one.read_bytes())
            data[rng.randrange(len(data))] ^= 1
            one.write_bytes(data)
    shutil.rmtree(path / DERIVED[0] / "t" / "0", ignore_errors=True)


def rebuilding(path: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", COMMAND_LINE, "store", "rebuild", str(path), "--workers", "2", "--json", *more]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def ended(process: subprocess.Popen[bytes]) -> int:
    """Wait for the process to end; return its exit code."""
    process.communicate(timeout=120)
    return process.returncode


def children(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def have_ended(pids: list[int]) -> bool:
    deadline = time.monotonic() + _DEADLINE_S
    while time.monotonic() < deadline:
        if not [one for one in pids if Path(f"/proc/{one}").exists() and "(zombie)" not in _status(one)]:
            return True
        time.sleep(0.05)
    return False


def _status(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "(zombie)"


def test_killed_at_random_times(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counts = tally("P15")
    whole = tmp_path / "whole"
    wanted = made(whole)
    for seed in seeds(9, 40):
        rng, path = random.Random(seed), tmp_path / "s"
        shutil.copytree(whole, path)
        harm(path, rng)
        before = derived(path)
        took = time.monotonic()
        probe = tmp_path / "probe"
        shutil.copytree(path, probe)
        assert ended(rebuilding(probe)) == 0
        took = time.monotonic() - took
        process = rebuilding(path)
        time.sleep(rng.uniform(0.3, 1.0) * took)
        workers = children(process.pid)
        hit = process.poll() is None
        how = rng.choice(("all", "worker", "asked")) if hit and workers else "all"
        if how == "worker":  # the job fails and changes nothing
            os.kill(rng.choice(workers), signal.SIGKILL)
        else:
            process.send_signal(signal.SIGTERM if how == "asked" else signal.SIGKILL)
        process.wait(120)
        context = f"seed {seed}, killed {'in time' if hit else 'too late'}: {how}"
        assert have_ended(workers), context
        if how == "asked":
            assert process.returncode in (0, 128 + signal.SIGTERM), context
            assert not (path / "rocketflow" / "rebuild").exists(), context
        process.communicate()
        if (path / "rocketflow" / "rebuild" / "swap").exists():
            finish_swap(StorePaths.of(path))
            assert derived(path) == wanted, context
        else:
            assert derived(path) in (before, wanted), context
        assert ended(rebuilding(path)) == 0
        assert derived(path) == wanted, context
        assert not (path / "rocketflow" / "rebuild").exists(), context
        assert verify_store(path).findings == [], context
        counts.trial(None, context, hit=hit)
        for one in (path, probe):
            shutil.rmtree(one)


@pytest.mark.skipif(LEVEL == "sample", reason="a killed rebuild is sampled: RF_FAULTS=1 runs it")
def test_two_rebuilds_and_an_appender(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    """One holds the lock; the others wait, or fail and name it. All appended messages are in the queues."""
    counts = tally("P15", "two at once")
    path = tmp_path / "s"
    made(path)
    shutil.rmtree(path / DERIVED[0])
    both = [rebuilding(path, "--wait"), rebuilding(path, "--wait"), rebuilding(path)]
    said = [one.communicate(timeout=120) for one in both]
    codes = [one.returncode for one in both]
    assert codes[:2] == [0, 0], said
    assert codes[2] in (0, 75), said
    swapped = [json.loads(out)["swapped"] for (out, _), code in zip(said, codes, strict=True) if code == 0]
    assert sorted(swapped)[-1]
    assert sum(swapped) == 1, swapped
    with MessageStore.open(path) as store:
        waiting = rebuilding(path, "--wait")
        refused = rebuilding(path)
        assert refused.wait(120) == 75
        assert str(os.getpid()).encode() in refused.communicate()[1]
        for number in range(100):
            assert store.put_message(Message("t", b"beside", keys=[f"k{number}"], queue_id=0)).stored
    out, _ = waiting.communicate(timeout=120)
    assert (json.loads(out)["swapped"], waiting.returncode) == (False, 0)
    assert verify_store(path).findings == []
    counts.trial(None, "")
