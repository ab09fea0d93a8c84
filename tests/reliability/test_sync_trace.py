"""Row S01 by a trace: every SYNC_FLUSH ack was written after a sync that covers its record (A1)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.reliability.sync_trace import CALLS, judge
from tests.support.disk_calls import needs_strace
from tests.support.results import Tally, measured
from tests.support.trials import FULL, environment

pytestmark = pytest.mark.slow

TOGETHER = 8
MESSAGES = 2000 if FULL else 160


@needs_strace
def test_no_ack_without_a_sync(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counts = tally("S01", "trace of syncs")
    found = {}
    for name, writers in (("alone", 1), ("together", TOGETHER)):
        trace = tmp_path / f"{name}.trace"
        traced = ["strace", "-f", "-y", "-s", "32", "-o", str(trace), "-e", f"trace={CALLS}"]
        writing = [sys.executable, "-B", "-m", "tests.reliability.sync_writers", str(tmp_path / name), str(writers)]
        done = subprocess.run(
            [*traced, *writing, str(MESSAGES)],
            capture_output=True,
            text=True,
            env=environment(),
            timeout=300,
            check=False,
        )
        if done.returncode != 0 and "ptrace" in done.stderr:
            pytest.skip(f"strace cannot trace here: {done.stderr[-200:]}")
        assert done.returncode == 0, done.stderr[-2000:]
        judged = judge(trace)
        found[name] = {"writers": writers, **asdict(judged)}
        assert judged.acks == MESSAGES
        assert judged.syncs > 0
        assert judged.uncovered == 0, f"{name}: {judged}"
        counts.trial(None, name)
    measured("syncs", **found)
