"""A real RocketMQ 5.3.3 broker boots on a directory of ours, stops in order, and leaves what we can read on."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, StoreReader
from rocketflow_store.verify import verify_store
from tests.apache.judge import read_ours
from tests.apache.real_broker import RealBroker
from tests.apache.test_apache_reads_ours import SIZES, fill

pytestmark = pytest.mark.apache


def test_a_broker_boots_on_ours(tmp_path: Path) -> None:
    path = tmp_path / "s"
    fill(path)
    mine = read_ours(path)
    with RealBroker("5.3.3", path, SIZES, tmp_path / "home"):
        assert (path / "abort").exists()
        with StoreReader(path) as reader:
            assert reader.state == "running"
        assert {key: value for key, value in read_ours(path).items() if key in mine} == mine
    assert not (path / "abort").exists()
    assert {key: value for key, value in read_ours(path).items() if key in mine} == mine
    with MessageStore.open(path) as store:
        before = store.max_offset("orders", 0)
        assert store.put_message(Message("orders", b"on", queue_id=0)).queue_offset == before
    assert verify_store(path).findings == []
