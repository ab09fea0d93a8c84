"""A broker's tables: RocketMQ's JSON with its versions, read from memory, written atomically."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketflow_store import Message, StoreAccessError, StoreConfig, StoreConfigError, StoreError
from rocketflow_store.files import disk
from rocketflow_store.metadata.config_files import ConfigFileError, ConsumerOffsetsFile
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.spi.broker import WritingStore, open_store
from rocketflow_store.spi.table_rows import SubscriptionGroupConfig, TopicConfig

NOW_MS = 1_700_000_000_000
SMALL = StoreConfig(mapped_file_size_commit_log=1 << 16, max_hash_slot_num=100, max_index_num=400)


def opened(path: Path, **changes: Any) -> WritingStore:
    config = replace(SMALL, clock=ManualClock(NOW_MS), **changes)
    return open_store(path / "s", config, store_host="10.1.2.3:10911")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WritingStore]:
    with opened(tmp_path) as one:
        yield one


def document(path: Path, name: str) -> Any:
    return json.loads((path / "s" / "config" / name).read_text())


def test_topic_is_written_with_the_next_data_version(store: WritingStore, tmp_path: Path) -> None:
    before = store.topic_table.data_version.counter
    config = TopicConfig("t", 3, 2, 6, order=True, topic_sys_flag=1, attributes={"+message.type": "NORMAL"})
    store.topic_table.put(config)
    assert store.topic_table.get("t") == config
    assert store.topic_table.items()["t"] == config
    written = document(tmp_path, "topics.json")
    assert written["dataVersion"] == {"counter": before + 1, "stateVersion": 0, "timestamp": NOW_MS}
    assert written["topicConfigTable"]["t"]["order"] is True
    store.topic_table.put(config)
    assert store.topic_table.data_version.counter == before + 1, "an equal put changes nothing"


def test_put_uses_the_queues_of_the_topic_table(store: WritingStore) -> None:
    store.topic_table.put(TopicConfig("t", 2, 2))
    assert {store.put_message(Message("t", b"")).queue_id for _ in range(6)} == {0, 1}
    store.topic_table.put(TopicConfig("t", 4, 4))
    assert {store.put_message(Message("t", b"")).queue_id for _ in range(8)} == {0, 1, 2, 3}


def test_reads_of_topics_and_groups_make_no_system_call(store: WritingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.topic_table.put(TopicConfig("t"))
    store.group_table.put(SubscriptionGroupConfig("g"))

    def stat(*_: Any, **__: Any) -> Any:
        raise AssertionError("stat")

    monkeypatch.setattr(Path, "stat", stat)
    monkeypatch.setattr(os, "stat", stat)
    assert store.topic_table.get("t") is not None
    assert store.group_table.get("g") is not None
    assert store.topic_table.get("other") is None


def test_queue_type_of_a_topic_in_use_is_not_changed(store: WritingStore) -> None:
    batch = TopicConfig("t", 1, 1, attributes={"queue.type": "BatchCQ"})
    store.topic_table.put(batch)
    store.topic_table.put(TopicConfig("t", 1, 1))
    store.put_message(Message("t", b"", queue_id=0))
    with pytest.raises(StoreConfigError) as caught:
        store.topic_table.put(batch)
    assert caught.value.key == "queue.type"


def test_deleted_topic_has_no_queue_and_no_offsets(store: WritingStore, tmp_path: Path) -> None:
    store.put_message(Message("t", b"", queue_id=0))
    store.offset_table.commit("g", "t", 0, 1)
    store.offset_table.save()
    store.topic_table.delete("t")
    store.offset_table.save()
    assert store.topic_table.get("t") is None
    assert store.offset_table.query("g", "t", 0) is None
    assert document(tmp_path, "consumerOffset.json")["offsetTable"] == {}
    with pytest.raises(StoreConfigError):
        store.topic_table.delete("SCHEDULE_TOPIC_XXXX")


def test_failed_write_leaves_the_table_as_it_is_on_disk(store: WritingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.topic_table.put(TopicConfig("t", 1, 1))

    def fsync(fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(disk, "fsync", fsync)
    monkeypatch.setattr(disk, "fdatasync", fsync)
    with pytest.raises(StoreError):
        store.topic_table.put(TopicConfig("t", 9, 9))
    monkeypatch.undo()
    found = store.topic_table.get("t")
    assert found is not None
    assert found.write_queue_nums == 1


def test_groups_and_what_is_forbidden_survive_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.group_table.put(SubscriptionGroupConfig("g", retry_max_times=3))
        store.group_table.forbid("g", "t", 4)
        store.group_table.forbid("g", "u", 4)
        store.group_table.forbid("g", "u", 0)
        assert store.group_table.data_version.counter == 4
    assert document(tmp_path, "subscriptionGroup.json")["forbiddenTable"] == {"g": {"t": 4}}
    with opened(tmp_path) as store:
        assert store.group_table.items()["g"].retry_max_times == 3
        assert (store.group_table.forbidden("g", "t"), store.group_table.forbidden("g", "u")) == (4, 0)
        assert store.group_table.delete("g")
        assert not store.group_table.delete("g")
        assert store.group_table.forbidden("g", "t") == 0


def test_offsets_are_in_memory_until_saved(store: WritingStore, tmp_path: Path) -> None:
    file = tmp_path / "s" / "config" / "consumerOffset.json"
    store.offset_table.commit("g", "t", 1, 7)
    assert store.offset_table.query("g", "t", 1) == 7
    assert store.offset_table.query("g", "t", 0) is None
    assert not file.exists()
    store.offset_table.save()
    assert document(tmp_path, "consumerOffset.json")["offsetTable"] == {"t@g": {"1": 7}}
    written = file.stat().st_mtime_ns
    store.offset_table.save()
    assert file.stat().st_mtime_ns == written
    for queue_id, offset in ((-1, 0), (0, -1)):
        with pytest.raises(StoreConfigError):
            store.offset_table.commit("g", "t", queue_id, offset)


def test_failed_save_keeps_the_changes_for_the_next(store: WritingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.offset_table.commit("old", "t", 0, 1)
    store.offset_table.save()
    store.offset_table.commit("g", "t", 0, 7)
    store.offset_table.delete_group("old")

    def change(*_: Any) -> None:
        raise StoreAccessError("consumerOffset.json", "cannot be written")

    monkeypatch.setattr(ConsumerOffsetsFile, "change", change)
    with pytest.raises(StoreAccessError):
        store.offset_table.save()
    monkeypatch.undo()
    store.offset_table.commit("g", "t", 1, 8)
    store.offset_table.save()
    assert store.config_files.consumer_offsets.table() == {("t", "g"): {0: 7, 1: 8}}


def test_deleted_group_loses_its_offsets(store: WritingStore) -> None:
    for group in ("g", "g@broadcast", "other"):
        store.offset_table.commit(group, "t", 0, 3)
    store.offset_table.save()
    store.offset_table.delete_group("g")
    store.offset_table.commit("g", "u", 0, 1)
    store.offset_table.save()
    assert store.config_files.consumer_offsets.table() == {("t", "other"): {0: 3}, ("u", "g"): {0: 1}}
    assert store.offset_table.of_group("g") == {"u": {0: 1}}
    store.offset_table.delete_topic("t")
    store.offset_table.save()
    assert [store.offset_table.of_group(one) for one in ("other", "unknown")] == [{}, {}]
    assert store.offset_table.items() == store.config_files.consumer_offsets.table()


def test_reset_is_answered_once(store: WritingStore) -> None:
    store.offset_table.commit("g", "t", 0, 50)
    store.offset_table.reset("g", "t", {0: 10, 1: 20})
    assert store.offset_table.has_reset("g", "t", 0)
    assert store.offset_table.of("g", "t") == {0: 10, 1: 20}
    assert store.offset_table.take_reset("g", "t", 0) == 10
    assert store.offset_table.take_reset("g", "t", 0) is None
    assert not store.offset_table.has_reset("g", "t", 0)
    assert store.offset_table.take_reset("g", "t", 1) == 20


def test_offsets_beyond_a_queue_are_clamped(store: WritingStore) -> None:
    store.put_messages([Message("t", b"", queue_id=0)] * 3)
    for queue_id, offset in ((0, 9), (1, 2)):
        store.offset_table.commit("g", "t", queue_id, offset)
    store.offset_table.commit("h", "t", 0, 2)
    assert store.offset_table.clamp_to_queues() == 2
    assert store.offset_table.of("g", "t") == {0: 3, 1: 0}
    assert store.offset_table.of("h", "t") == {0: 2}


def test_offsets_with_lmq_are_in_the_file_of_lmqs(tmp_path: Path) -> None:
    with opened(tmp_path, enable_lmq=True) as store:
        store.offset_table.commit("%LMQ%g", "%LMQ%q", 0, 4)
        store.offset_table.save()
    assert document(tmp_path, "lmqConsumerOffset.json")["lmqOffsetTable"] == {"%LMQ%q@%LMQ%g": 4}


def test_plain_file_keeps_the_brokers_members(store: WritingStore, tmp_path: Path) -> None:
    file = store.json_file("consumerFilter.json")
    assert file.load() == {}
    members = {"filterDataByTopic": {"t": {"topic": "t", "groupFilterData": {"g": {"expression": "a > 1"}}}}}
    file.save(members)
    assert document(tmp_path, "consumerFilter.json") == members
    assert store.json_file("consumerFilter.json").load() == members
    file.save({})
    assert store.json_file("consumerFilter.json").load() == {}
    path = tmp_path / "s" / "config" / "consumerFilter.json"
    assert json.loads(path.with_name("consumerFilter.json.bak").read_text()) == members
    path.write_text("{")
    assert store.json_file("consumerFilter.json").load() == members, "the .bak counts"
    path.with_name("consumerFilter.json.bak").write_text("[")
    with pytest.raises(ConfigFileError):
        store.json_file("consumerFilter.json").load()
    with pytest.raises(StoreConfigError):
        store.json_file("../topics.json")
