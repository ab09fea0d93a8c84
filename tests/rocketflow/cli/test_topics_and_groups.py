"""`store topics`, `store groups` and `store info --sizes`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rocketflow.cli.app import run
from rocketflow.process.times import iso_time
from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.metadata.config_files import ConfigFiles
from tests.support.output_fields import check_fields

SIZES = StoreConfig(
    mapped_file_size_commit_log=1 << 16, mapped_file_size_consume_queue=2000, max_hash_slot_num=100, max_index_num=400
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with two queues of five messages, and a group that read three of the first."""
    path = tmp_path_factory.mktemp("topics") / "s"
    with MessageStore.open(path, SIZES) as store:
        store.create_topic("orders", 2)
        store.create_topic("quiet", 3)
        for n in range(10):
            store.put_message(Message("orders", b"%d" % n, queue_id=n % 2))
        store.config_files.consumer_offsets.commit("billing", "orders", {0: 3})
        store.config_files.consumer_offsets.commit("audit", "orders", {0: 5, 1: 9, 7: 1})
    return path


def rows(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> list[dict[str, Any]]:
    assert run(["store", *map(str, words), "--json"]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def text(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> str:
    assert run(["store", *map(str, words)]) == code
    out, err = capsys.readouterr()
    return err if code else out


def test_topics_lists_and_describes(capsys: pytest.CaptureFixture[str], made: Path) -> None:
    found = {one["topic"]: one for one in rows(capsys, "topics", made)}
    assert [found["orders"][name] for name in ("writeQueueNums", "queues", "messages", "perm")] == [2, 2, 10, "RW"]
    assert (found["quiet"]["queues"], found["quiet"]["messages"]) == (0, 0)
    assert text(capsys, "topics", made).splitlines()[0].split()[0] == "topic"
    (orders,) = rows(capsys, "topics", made, "describe", "orders")
    check_fields("store topics describe", orders)
    assert orders["groups"] == ["audit", "billing"]
    assert [one["messages"] for one in orders["queues"]] == [5, 5]
    with StoreReader(made) as reader:
        messages = reader.get_message("orders", 1, 0).messages
    assert orders["queues"][1]["bytes"] == sum(one.store_size for one in messages)
    assert orders["queues"][1]["endTimestamp"] == messages[-1].store_timestamp
    assert iso_time(messages[-1].store_timestamp) in text(capsys, "topics", made, "describe", "orders")


def test_topics_are_created_changed_and_deleted(capsys: pytest.CaptureFixture[str], made: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    shutil.copytree(made, path)
    topics = "topics", path
    (created,) = rows(capsys, *topics, "create", "flights", 4)
    assert (created["writeQueueNums"], created["readQueueNums"], created["queues"]) == (4, 4, [])
    (fewer,) = rows(capsys, *topics, "queues", "flights", 2)
    assert (fewer["writeQueueNums"], fewer["readQueueNums"]) == (2, 4)
    assert "--yes" in text(capsys, *topics, "delete", "orders", code=2)
    (deleted,) = rows(capsys, *topics, "delete", "orders", "--yes")
    assert deleted == {"topic": "orders", "deleted": True}
    check_fields("store topics delete", deleted)
    assert "orders" not in ConfigFiles(path / "config").topics.topics()
    assert not (path / "consumequeue" / "orders").exists()
    assert rows(capsys, "groups", path) == []
    assert rows(capsys, "verify", path)[0]["findings"] == []
    for words, said in (
        (("create", "flights"), "exists"),
        (("create", "SCHEDULE_TOPIC_XXXX"), "SCHEDULE_TOPIC_XXXX"),
        (("delete", "flight", "--yes"), "did you mean flights?"),
        (("describe", "flight"), "did you mean flights?"),
        (("queues", "flights"), "needs a number"),
        (("queues", "flights", 0), "1 to"),
        (("create", "f", 0), "1 to"),
        (("create", "a/b"), "a/b"),
        (("create",), "needs a topic"),
        (("list", "flights"), "no topic"),
        (("dscribe", "flights"), "describe"),
    ):
        assert said in text(capsys, *topics, *words, code=2)
    assert "stor" in text(capsys, "topics", tmp_path / "stor", "create", "t", code=2)
    assert not (tmp_path / "stor").exists()


def test_topics_are_not_changed_beside_a_writer(capsys: pytest.CaptureFixture[str], made: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    shutil.copytree(made, path)
    with MessageStore.open(path):
        for words in (("create", "f"), ("queues", "orders", 3), ("delete", "orders", "--yes")):
            assert run(["store", "topics", str(path), *map(str, words)]) == 75
        capsys.readouterr()
        assert len(rows(capsys, "topics", path)) >= 2


def test_groups_prints_offset_end_and_lag_of_each_queue(capsys: pytest.CaptureFixture[str], made: Path) -> None:
    first, second = rows(capsys, "groups", made, "billing")
    with StoreReader(made) as reader:
        waiting = reader.get_message("orders", 0, 3).messages
    assert (first["offset"], first["maxOffset"], first["lagMessages"]) == (3, 5, 2)
    assert first["lagBytes"] == sum(one.store_size for one in waiting)
    assert first["lagMs"] > 0
    assert [second[name] for name in ("offset", "maxOffset", "lagMessages", "lagBytes", "lagMs")] == [
        *(None, 5),
        *[None] * 3,
    ]
    done, beyond, unknown = rows(capsys, "groups", made, "audit", "--topic", "orders")
    assert [done[name] for name in ("lagMessages", "lagBytes", "lagMs")] == [0, 0, 0]
    assert [beyond[name] for name in ("offset", "maxOffset", "lagMessages")] == [9, 5, None]
    assert [unknown[name] for name in ("queueId", "offset", "maxOffset", "lagMessages")] == [7, 1, None, None]
    assert text(capsys, "groups", made).splitlines()[1].split()[-3:] == ["0", "0", "0"]
    assert "did you mean billing?" in text(capsys, "groups", made, "biling", code=2)
    assert "did you mean orders?" in text(capsys, "groups", made, "--topic", "order", code=2)


def test_unknown_lag_is_not_zero(capsys: pytest.CaptureFixture[str], made: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    shutil.copytree(made, path)
    shutil.rmtree(path / "consumequeue" / "orders" / "0")
    (first, _) = rows(capsys, "groups", path, "billing")
    assert [first[name] for name in ("lagMessages", "lagBytes", "lagMs")] == [2, None, None]
    (info,) = rows(capsys, "info", path, "--sizes")
    assert info["topics"][0]["bytes"] is None


def test_info_prints_sizes_with_the_option_only(capsys: pytest.CaptureFixture[str], made: Path) -> None:
    (plain,) = rows(capsys, "info", made)
    assert "bytes" not in plain["topics"][0]
    (info,) = rows(capsys, "info", made, "--sizes")
    with StoreReader(made) as reader:
        messages = [one for queue in (0, 1) for one in reader.get_message("orders", queue, 0).messages]
    assert info["topics"][0]["bytes"] == sum(one.store_size for one in messages)
    assert info["topics"][0]["beginTimestamp"] == min(one.store_timestamp for one in messages)
    assert info["topics"][0]["endTimestamp"] == max(one.store_timestamp for one in messages)
    assert iso_time(info["topics"][0]["endTimestamp"]) in text(capsys, "info", made, "--sizes")
