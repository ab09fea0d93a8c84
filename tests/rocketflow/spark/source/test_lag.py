"""Lag: exact, estimated, and after a round trip through a report's JSON."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from rocketflow.spark.shared.store_locations import StoreLocation
from rocketflow.spark.source import lag as lag_module
from rocketflow.spark.source.lag import QueueLag, lag_of_report, lag_report, measure_lag
from rocketflow.spark.source.lag_listener import LagListener
from rocketflow.spark.source.store_access import QueueBounds, SourceStores
from rocketflow.spark.source.stream_offset import QueueKey
from rocketflow_store import StoreReader
from tests.support.spark_stores import append, numbered

KEY, OTHER = QueueKey("", "orders", 0), QueueKey("", "orders", 1)


def test_lag_counts_messages_bytes_and_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(tmp_path, numbered("orders", range(1000, 1400), queues=1))
    stores = SourceStores([StoreLocation("", str(tmp_path))])
    stored = stores.store_timestamp_ms(KEY, 100)
    assert stored is not None
    sizes = stores.record_sizes(KEY, 100, 400)
    bounds = QueueBounds(0, 400)
    expected = QueueLag(400, 300, int(sizes.sum()), 5000)
    assert measure_lag(stores, KEY, 100, bounds, stored + 5000) == expected
    assert measure_lag(stores, KEY, 400, bounds, stored) == QueueLag(400)
    monkeypatch.setattr(SourceStores, "exact_units", 100)
    monkeypatch.setattr(lag_module, "SAMPLE_UNITS", 10)
    estimate = measure_lag(stores, KEY, 100, bounds, stored).bytes
    assert abs(estimate - expected.bytes) < expected.bytes // 50


def test_lag_report_survives_json() -> None:
    lags = {QueueKey("b", "orders", 2): QueueLag(9, 4, 400, 12), QueueKey("b", "a", 10): QueueLag(3)}
    report = json.loads(json.dumps(lag_report(lags, 1, 7)))
    assert lag_of_report(report) == lags
    assert report["dataLoss"] == {"events": 1, "messages": 7}


def test_unreadable_lag_is_unknown_and_not_0(tmp_path: Path) -> None:
    append(tmp_path, numbered("orders", range(1000, 1100), queues=1))
    bounds = QueueBounds(0, 100)
    with StoreReader(tmp_path) as reader:
        second = int(reader.read_units("orders", 0, 1, 2)["phy_offset"][0])
    log = next((tmp_path / "commitlog").iterdir())
    with log.open("r+b") as file:
        file.seek(second + 4)
        file.write(b"\0\0\0\0")  # the magic code
    damaged = measure_lag(SourceStores([StoreLocation("", str(tmp_path))]), KEY, 1, bounds, 1 << 50)
    assert damaged.ms is None
    assert damaged.bytes
    assert measure_lag(SourceStores([StoreLocation("", str(tmp_path))]), KEY, 2, bounds, 1 << 50).ms
    shutil.rmtree(tmp_path / "consumequeue" / "orders")
    lost = measure_lag(SourceStores([StoreLocation("", str(tmp_path))]), KEY, 1, bounds, 1 << 50)
    assert lost == QueueLag(100, 99, None, None)
    report = json.loads(json.dumps(lag_report({KEY: lost, OTHER: damaged}, 0, 0)))
    assert report["queues"]["orders"]["0"] == {"latest": 100, "messages": 99}
    assert lag_of_report(report) == {KEY: lost, OTHER: damaged}


@pytest.mark.parametrize(
    ("lags", "total"),
    [
        ([], QueueLag(0)),
        ([QueueLag(7)], QueueLag(7)),
        ([QueueLag(7), QueueLag(9, 3, None, None)], QueueLag(16, 3, None, None)),
        ([QueueLag(7, 1, 90, 5), QueueLag(9, 3, None, None)], QueueLag(16, 4, 90, 5)),
    ],
)
def test_total_lag_sums_known_values_only(lags: list[QueueLag], total: QueueLag) -> None:
    listener = LagListener()
    report = lag_report({QueueKey("", "orders", at): lag for at, lag in enumerate(lags)}, 0, 0)
    source = SimpleNamespace(latestOffset=json.dumps(report))
    listener.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(id="q", sources=[source])))  # type: ignore[arg-type]
    assert listener.total() == total
