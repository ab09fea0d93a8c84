"""Row S08: a writer killed at the calls that preallocate files of the log and give them their names."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import MessageStore
from rocketflow_store.metadata.layout.store_paths import StorePaths
from tests.reliability.test_kills import acknowledged, command, points_of, under_strace
from tests.support.checker import check
from tests.support.disk_calls import needs_strace, spread
from tests.support.results import Tally
from tests.support.trials import FULL, SEED, sampled, some

pytestmark = pytest.mark.slow

COUNT = 120
ALLOCATING = ("fallocate", "rename", "fsync", "unlink")


@needs_strace
@pytest.mark.parametrize("flush", sampled(["async", "sync"], 2))
def test_kill_while_a_log_file_is_preallocated_or_renamed(
    tmp_path: Path, flush: str, tally: Callable[..., Tally]
) -> None:
    counts = tally("S08", f"allocation, {flush}")
    points = [point for point in points_of(tmp_path, flush, COUNT) if point.call in ALLOCATING]
    assert {point.call for point in points} >= {"fallocate", "rename"}
    left_overs = 0
    for point in points if FULL else spread(points, some(12), SEED):
        store = tmp_path / "counted"
        shutil.rmtree(store)
        done = under_strace(["-o", "/dev/null", *point.arguments()], command(store, flush, 0, COUNT))
        acked = acknowledged(done.stdout)
        context = f"seed {SEED}, {point} of {len(points)} points"
        verdict = None
        if (store / "consumequeue" / "t").is_dir():
            paths = StorePaths(store)
            left_overs += paths.allocating.is_dir() and len(list(paths.allocating.iterdir()))
            with MessageStore.open(store):
                assert not paths.allocating.is_dir() or not list(paths.allocating.iterdir()), context
            verdict = check(store, acked, set(range(COUNT)))
        else:
            assert not acked, context
        store.mkdir(exist_ok=True)
        counts.trial(verdict, context, hit="closed" not in done.stdout)
    counts.assert_happened(share=0.5)
    assert left_overs or not FULL, "no kill left a preallocated file"
