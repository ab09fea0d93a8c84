"""A directory from which RocketFlow's retention removed files, opened and appended to by Apache RocketMQ."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.testing import Probe
from tests.apache.judge import ApacheStore, read_with_rocketflow, versions

pytestmark = pytest.mark.apache

SIZES = StoreConfig(
    mapped_file_size_commit_log=1 << 16, mapped_file_size_consume_queue=2000, max_hash_slot_num=100, max_index_num=400
)


@pytest.mark.parametrize("version", versions("5.3.3"))
def test_apache_appends_after_retention_by_rocketflow(version: str, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, SIZES) as store:
        store.put_messages([Message("quiet", b"expired %d" % n, queue_id=0) for n in range(7)])
        store.put_messages([Message("t", b"b" * 300, keys=[f"k{n}"], queue_id=n % 2) for n in range(2000)])
        for mapped in Probe(store).log_files[:-2]:
            os.utime(mapped.path, (1_000_000, 1_000_000))
        result = store.clean()
        assert result.log_files
        assert result.queue_files
        assert result.index_files
    expected = read_with_rocketflow(path)
    apache = ApacheStore(version)
    queues = sorted({(topic, queue_id) for topic, queue_id, _ in expected})
    body = base64.b64encode(b"apache").decode()
    puts = [f"PUT\tt\t0\t{body}\tat\tak", f"PUT\tquiet\t0\t{body}\tat\tak"]
    messages, answers = apache.read_and_put(path, SIZES, queues, puts)
    assert {one.place: one for one in messages} == expected
    assert [one[1] for one in answers if one[0] == "PUT"] == ["PUT_OK"] * 2
    with MessageStore.open(path) as store:
        assert store.get_message("t", 0, 1000).messages[0].body == b"apache"
        assert store.bounds("quiet", 0) == (7, 8)
        assert store.get_message("quiet", 0, 7).messages[0].body == b"apache"
    assert verify_store(path).findings == []
