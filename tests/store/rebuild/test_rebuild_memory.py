"""Memory of a rebuild: a task no more than its range needs, the driver nothing for a single message."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rocketflow_store import MessageStore, StoreConfig
from rocketflow_store.rebuild import log_ranges
from rocketflow_store.rebuild.engine import LocalEngine
from rocketflow_store.rebuild.parts import PartKind
from rocketflow_store.rebuild.rebuild import rebuild_store
from rocketflow_store.rebuild.scan_task import QueueRuns, ScanReport
from rocketflow_store.rebuild.write_plan import PlaceJudge, plan_index, plan_queues
from rocketflow_store.views.queues.claimed_places import DamagedBytes, KnownPlaces
from tests.support.memory import rss_anon_mib
from tests.support.trials import LEVEL

TASK_MIB = 512
QUEUES = 8


def fill(path: Path, count: int) -> None:
    """Store small messages with two index entries each: the most units for each byte of log."""
    batch = pa.table({"body": [b"x" * 8] * 50_000, "keys": [f"k{number}" for number in range(50_000)]})
    with MessageStore.open(path, StoreConfig(mapped_file_size_commit_log=256 << 20)) as store:
        for _ in range(max(count // 50_000, 1)):
            store.append_batch(batch.slice(0, min(count, 50_000)).to_batches()[0], topic="t")


class Watched(LocalEngine):
    """Runs tasks in this process, and keeps their reports and the memory that the largest of them took."""

    def __init__(self) -> None:
        super().__init__(1)
        self.most_mib = 0.0
        self.reports: list[object] = []

    def run(self, function, tasks, what, done):  # type: ignore[no-untyped-def]
        def measured(task):  # type: ignore[no-untyped-def]
            over, before, most = threading.Event(), rss_anon_mib(), [0.0]

            def look() -> None:
                while not over.wait(0.002):
                    most[0] = max(most[0], rss_anon_mib())

            looker = threading.Thread(target=look)
            looker.start()
            try:
                return function(task)
            finally:
                over.set()
                looker.join()
                self.most_mib = max(self.most_mib, most[0] - before)

        found = super().run(measured, tasks, what, done)
        self.reports += found
        return found


@pytest.mark.slow
def test_memory_of_a_task_is_bounded_by_its_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges have a maximum size in files of any size; this is the densest one."""
    fill(tmp_path / "s", 700_000)
    monkeypatch.setattr(log_ranges, "LEAST_RANGE", log_ranges.MOST_RANGE)  # as of a log of any size
    engine = Watched()
    result = rebuild_store(tmp_path / "s", engine=engine)
    assert result.bytes > log_ranges.MOST_RANGE
    assert result.index_entries == 2 * result.records
    assert 0 < engine.most_mib < TASK_MIB, engine.most_mib


def test_reports_do_not_grow_with_the_number_of_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times the messages in as many ranges and queues."""
    sizes = []
    for count in (5000, 50_000):
        path, engine = tmp_path / str(count), Watched()
        fill(path, count)
        monkeypatch.setattr(log_ranges, "LEAST_RANGE", count * 30)
        monkeypatch.setattr(log_ranges, "MOST_RANGE", count * 30)
        made = rebuild_store(path, engine=engine)
        reports = [one for one in engine.reports if isinstance(one, ScanReport)]
        assert (made.queues, made.records) == (QUEUES, count)
        sizes.append((len(reports), sum(len(pickle.dumps(one)) for one in reports)))
    (few, small), (many, large) = sizes
    assert few == many > 2
    assert large <= small * 1.05, sizes


NOTHING_KNOWN = KnownPlaces(DamagedBytes(), {}, lambda queue, first: None, lambda queue: True)


def of_a_tebibyte(ranges: int, queues: int) -> list[ScanReport]:
    """Return the reports of a log of 1 KiB records whose queues all occur in every range."""
    each = (log_ranges.MOST_RANGE // 1100) // queues
    found = []
    for number in range(ranges):
        runs = QueueRuns(
            [("topic", queue) for queue in range(queues)],
            np.arange(queues, dtype=np.int32),
            np.arange(queues, dtype=np.int64) * each,
            np.full(queues, each, np.int64),
            np.full(queues, number * each, np.int64),
            np.full(queues, (number + 1) * each, np.int64),
            np.full(queues, number * each * 1100, np.int64),
            np.full(queues, (number + 1) * each * 1100 - 1100, np.int64),
        )
        found.append(ScanReport(number, records=each * queues, entries=2 * each * queues, units=runs))
    return found


def test_plan_of_a_tebibyte_fits_into_driver_memory(growth: Callable[[], float]) -> None:
    """100 queues that all occur in every range: unpickled reports, the plan of all files; a sample has a quarter."""
    share = 1 if LEVEL != "sample" else 4
    ranges = (1 << 40) // log_ranges.MOST_RANGE // share
    reports = [pickle.loads(pickle.dumps(one)) for one in of_a_tebibyte(ranges, 100)]
    plans = plan_queues(reports, PartKind.UNITS, 300_000, PlaceJudge(NOTHING_KNOWN), {})
    index = plan_index(reports, 20_000_000 - 1)
    assert sum(len(one.files) for one in plans) > 3000 // share
    assert len(index) > 90 // share
    assert growth() < 1024 // share


@pytest.fixture
def growth() -> Callable[[], float]:
    before = rss_anon_mib()
    return lambda: rss_anon_mib() - before
