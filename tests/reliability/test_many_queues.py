"""Row S32: more queues than file descriptors, in every phase of a store; only what is new is refused near the limit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.checker import findings
from tests.support.results import Tally, measured
from tests.support.trials import FULL, LEVEL, environment

pytestmark = pytest.mark.slow

QUEUES, LIMIT = (100_000, 1024) if FULL else (2_000, 256) if LEVEL == "fast" else (400, 128)
WITHIN_S = 3_600


def command(store: Path, mode: str) -> list[str]:
    return [sys.executable, "-m", "tests.reliability.crowding", str(store), str(QUEUES), str(LIMIT), mode]


def test_more_queues_than_descriptors_are_written_recovered_and_read(
    tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    counts = tally("S32")
    store = tmp_path / "s"
    peaks = {}
    with subprocess.Popen(
        command(store, "fill"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    ) as writer:
        assert writer.stdout is not None
        try:
            peaks["fill"] = json.loads(writer.stdout.readline() or "{}")
        finally:
            writer.kill()
    for mode in ("again", "read"):
        done = subprocess.run(
            command(store, mode), capture_output=True, text=True, env=environment(), timeout=WITHIN_S, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
        peaks[mode] = json.loads(done.stdout)
    assert all(0 < one["descriptors"] <= LIMIT for one in peaks.values()), peaks
    assert all(one["maps"] < 2_000 for one in peaks.values()), peaks
    measured("manyQueuesS32", queues=QUEUES, limit=LIMIT, **peaks)
    assert not findings(store)
    if LEVEL != "sample":
        program = f"ulimit -n {LIMIT}; exec {sys.executable} -c 'from rocketflow.cli import main; main()' store"
        backup = tmp_path / "copy"
        for arguments in (f"rebuild {store}", f"verify {store}", f"backup {store} {backup}", f"verify {backup}"):
            run = subprocess.run(
                ["bash", "-c", f"{program} {arguments}"], capture_output=True, text=True, env=environment(), check=False
            )
            assert run.returncode == 0, (arguments, run.stdout[-500:], run.stderr[-2000:])
    counts.trial(None, f"{QUEUES} queues, {LIMIT} descriptors")
