"""Lag as data: exact, estimated, and through a report's JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketflow.spark import lag as lag_module
from rocketflow.spark.lag import QueueLag, lag_of_report, lag_report, measure_lag
from rocketflow.spark.options import StoreLocation
from rocketflow.spark.store_access import QueueBounds, SourceStores
from rocketflow.spark.stream_offset import QueueKey
from tests.rocketflow.spark.stores import append, numbered

KEY = QueueKey("", "orders", 0)


def test_messages_bytes_and_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(tmp_path, numbered("orders", range(1000, 1400), queues=1))
    stores = SourceStores([StoreLocation("", str(tmp_path))])
    stored = stores.store_timestamp_ms(KEY, 100)
    assert stored is not None
    sizes = stores.record_sizes(KEY, 100, 400)
    bounds = QueueBounds(0, 400)
    expected = QueueLag(400, 300, int(sizes.sum()), 5000)
    assert measure_lag(stores, KEY, 100, bounds, stored + 5000) == expected
    assert measure_lag(stores, KEY, 400, bounds, stored) == QueueLag(400)
    monkeypatch.setattr(lag_module, "_EXACT_UNITS", 100)
    monkeypatch.setattr(lag_module, "_SAMPLE_UNITS", 10)
    estimate = measure_lag(stores, KEY, 100, bounds, stored).bytes
    assert abs(estimate - expected.bytes) < expected.bytes // 50


def test_a_report_survives_json() -> None:
    lags = {QueueKey("b", "orders", 2): QueueLag(9, 4, 400, 12), QueueKey("b", "a", 10): QueueLag(3)}
    report = json.loads(json.dumps(lag_report(lags, 1, 7)))
    assert lag_of_report(report) == lags
    assert report["dataLoss"] == {"events": 1, "messages": 7}
