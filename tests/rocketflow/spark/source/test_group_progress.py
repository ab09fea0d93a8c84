"""Offsets of a consumer group, published in RocketMQ's file beside its writer."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from rocketflow.spark.shared.store_locations import StoreLocation
from rocketflow.spark.source.group_progress import GroupProgress, publish_offsets
from rocketflow.spark.source.store_access import SourceStores
from rocketflow.spark.source.stream_offset import QueueKey
from rocketflow_store import MessageStore
from tests.support.privileges import open_directory, unprivileged
from tests.support.servers import running_broker, send, store_of
from tests.support.spark_stores import append, numbered, small_config

BROKERS_OWN = """{
	"dataVersion":{"counter":7,"stateVersion":0,"timestamp":1795225719610},
	"groupTopicMap":{"other":["orders"]},
	"offsetTable":{"orders@other":{0:3,1:9},"orders@mine":{0:1,5:2}},
	"somethingNew":{"kept":true}
}"""


def table(path: Path) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = json.loads(path.read_text(encoding="utf-8"))["offsetTable"]
    return found


def test_publish_keeps_the_other_entries_of_the_file(tmp_path: Path) -> None:
    append(tmp_path, numbered("orders", range(8)))
    (tmp_path / "config").mkdir(exist_ok=True)
    file = tmp_path / "config" / "consumerOffset.json"
    file.write_text(BROKERS_OWN, encoding="utf-8")
    assert publish_offsets(tmp_path, "mine", {QueueKey("", "orders", 0): 2, QueueKey("", "orders", 3): 2}) == file
    assert table(file) == {"orders@other": {"0": 3, "1": 9}, "orders@mine": {"0": 2, "3": 2, "5": 2}}
    content = json.loads(file.read_text(encoding="utf-8"))
    assert content["somethingNew"] == {"kept": True}
    assert content["dataVersion"]["counter"] == 8
    assert (tmp_path / "config" / "consumerOffset.json.bak").read_text(encoding="utf-8") == BROKERS_OWN


def test_offsets_wait_in_rocketflows_file_while_the_store_is_locked(tmp_path: Path) -> None:
    append(tmp_path, numbered("orders", range(8)))
    key = QueueKey("", "orders", 0)
    with MessageStore.open(tmp_path, small_config(tmp_path)):
        held_back = publish_offsets(tmp_path, "mine", {key: 1})
        assert held_back == tmp_path / "rocketflow" / "consumerOffset.json"
        publish_offsets(tmp_path, "yours", {key: 2})
        assert table(held_back) == {"orders@mine": {"0": 1}, "orders@yours": {"0": 2}}
    publish_offsets(tmp_path, "mine", {key: 2})
    found = table(tmp_path / "config" / "consumerOffset.json")
    assert (found["orders@mine"], found["orders@yours"]) == ({"0": 2}, {"0": 2})
    assert not held_back.exists()


def test_a_broker_that_serves_the_store_commits_the_offsets(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        store = store_of(broker)

        send(broker, "orders", ["first"])
        assert publish_offsets(store, "mine", {QueueKey("", "orders", 0): 1, QueueKey("", "orders", 1): 0}) is None
        broker.stop_in_order()
    assert table(store / "config" / "consumerOffset.json")["orders@mine"] == {"0": 1, "1": 0}
    assert not (store / "rocketflow" / "consumerOffset.json").exists()
    publish_offsets(store, "mine", {QueueKey("", "orders", 1): 4})  # the broker has stopped
    assert table(store / "config" / "consumerOffset.json")["orders@mine"] == {"0": 1, "1": 4}


def test_publish_writes_the_file_of_a_broker_with_lmq_too(tmp_path: Path) -> None:
    """Such a broker reads its table from lmqConsumerOffset.json instead."""
    append(tmp_path, numbered("orders", range(8)))
    (tmp_path / "config").mkdir(exist_ok=True)
    file = tmp_path / "config" / "lmqConsumerOffset.json"
    file.write_text('{"lmqOffsetTable":{"%LMQ%a@%LMQ%g":7},' + BROKERS_OWN[1:], encoding="utf-8")
    publish_offsets(tmp_path, "mine", {QueueKey("", "orders", 0): 2})
    assert table(file) == {"orders@other": {"0": 3, "1": 9}, "orders@mine": {"0": 2, "5": 2}}
    assert json.loads(file.read_text(encoding="utf-8"))["lmqOffsetTable"] == {"%LMQ%a@%LMQ%g": 7}
    assert table(tmp_path / "config" / "consumerOffset.json") == {"orders@mine": {"0": 2}}


def test_publish_to_a_read_only_store_logs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with open_directory() as home:
        append(home / "s", numbered("orders", range(8)))
        progress = GroupProgress("mine", SourceStores([StoreLocation("", str(home / "s"))]).publish)
        (home / "s" / "rocketflow").chmod(0o555)
        with unprivileged():
            progress.publish({QueueKey("", "orders", 0): 1})
    assert "progress of group mine is not published" in caplog.text


def test_publish_to_a_malformed_file_logs_a_warning_and_keeps_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    append(tmp_path, numbered("orders", range(8)))
    (tmp_path / "config").mkdir(exist_ok=True)
    file = tmp_path / "config" / "consumerOffset.json"
    file.write_text("{not json", encoding="utf-8")
    progress = GroupProgress("mine", SourceStores([StoreLocation("", str(tmp_path))]).publish)
    with caplog.at_level(logging.WARNING):
        progress.publish({QueueKey("", "orders", 0): 1})
        progress.publish({QueueKey("", "orders", 0): 2})
    assert caplog.text.count("progress of group mine is not published") == 1
    assert file.read_text(encoding="utf-8") == "{not json"
