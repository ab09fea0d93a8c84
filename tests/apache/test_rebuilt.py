"""Queues and index that were rebuilt from the log alone, served and appended to by Apache RocketMQ."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.rebuild.rebuild import rebuild_store
from tests.apache.judge import ApacheStore, read_with_rocketflow, versions

pytestmark = pytest.mark.apache

SIZES = StoreConfig(
    mapped_file_size_commit_log=1 << 16, mapped_file_size_consume_queue=2000, max_hash_slot_num=100, max_index_num=400
)


@pytest.mark.parametrize("version", versions("5.5.0", "4.9.7"))
def test_apache_serves_a_rebuilt_store(version: str, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, SIZES) as store:
        store.put_messages([Message("t", b"b" * (n % 700), keys=[f"k{n}"], queue_id=n % 3) for n in range(900)])
    expected = read_with_rocketflow(path)
    for folder in ("consumequeue", "index"):
        shutil.rmtree(path / folder)
    assert rebuild_store(path, config=SIZES).units == 900
    apache = ApacheStore(version)
    queues = sorted({(topic, queue_id) for topic, queue_id, _ in expected})
    body = base64.b64encode(b"apache").decode()
    messages, answers = apache.read_and_put(path, SIZES, queues, [f"PUT\tt\t0\t{body}\tat\tak"])
    assert {one.place: one for one in messages} == expected
    assert [one[1] for one in answers if one[0] == "PUT"] == ["PUT_OK"]
    for folder in ("consumequeue", "index"):
        shutil.rmtree(path / folder)
    assert rebuild_store(path, config=SIZES).units == 901
    with MessageStore.open(path) as store:
        assert store.recovery.healed == ()
        assert store.get_message("t", 0, 300).messages[0].body == b"apache"
        assert [one.queue_offset for one in store.query_message("t", key="ak")] == [300]
        assert [one.queue_offset for one in store.query_message("t", key="k899")] == [299]
    assert verify_store(path).findings == []
