"""Cuts of a log for a rebuild: they cover everything once, and no task runs alone at the end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow_store.rebuild.log_ranges import CutPlan

_FILE = 1 << 30


@given(st.integers(1, 20 * _FILE), st.integers(1, 16))
def test_cuts_ascend_and_cover_the_file(log_bytes: int, workers: int) -> None:
    plan = CutPlan.of(log_bytes, log_bytes, workers)
    for file_from_offset in range(0, log_bytes, _FILE):
        limit = min(_FILE, log_bytes - file_from_offset)
        cuts = plan.cuts(file_from_offset, limit)
        assert cuts[-1] == limit
        assert all(one < following for one, following in zip([0, *cuts], cuts, strict=False))


@pytest.mark.parametrize("workers", [2, 4])
def test_last_ranges_are_the_smallest(workers: int) -> None:
    plan = CutPlan.of(2 * _FILE, 2 * _FILE, workers)
    ends = [start + cut for start in (0, _FILE) for cut in plan.cuts(start, _FILE)]
    sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    assert max(sizes[-workers:]) * 3 < max(sizes)
    assert sum(sizes) == 2 * _FILE


def test_one_worker_gets_ranges_of_equal_size() -> None:
    plan = CutPlan.of(_FILE, _FILE, 1)
    cuts = plan.cuts(0, _FILE)
    sizes = [end - start for start, end in zip([0, *cuts], cuts, strict=False)]
    assert max(sizes) - min(sizes) <= 1
