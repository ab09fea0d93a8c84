"""Send-back of a record as bytes: the stored bytes equal those of consumer_send_msg_back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rocketflow_store import CorruptRecordError, Message, StoreConfig
from rocketflow_store.delivery.requeue.send_back import consumer_send_msg_back
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.spi.broker import SendBack, WritingStore, open_store, send_back
from rocketflow_store.spi.table_rows import SubscriptionGroupConfig

SMALL = StoreConfig(mapped_file_size_commit_log=1 << 16, max_hash_slot_num=100, max_index_num=400)
MESSAGES = [
    Message("t", b"plain", tags="a", keys=["k"], queue_id=0, born_host="10.0.0.9:1", born_timestamp=5),
    Message(
        "t", b"retried", queue_id=0, born_host="[2001:db8::1]:7", reconsume_times=4, properties={"RETRY_TOPIC": "o"}
    ),
    Message("t", b"exhausted", queue_id=0, reconsume_times=16, properties={"ORIGIN_MESSAGE_ID": "X"}),
    Message("t", b"packed", queue_id=0, sys_flag=1, flag=9),
]


def two(path: Path) -> list[WritingStore]:
    config = replace(SMALL, clock=ManualClock(1_700_000_000_000))
    stores = [open_store(path / name, config, store_host="10.1.2.3:10911") for name in ("messages", "raw")]
    for store in stores:
        store.put_messages([replace(one, properties={**one.properties, "UNIQ_KEY": "U"}) for one in MESSAGES])
    return stores


def log_bytes(path: Path) -> bytes:
    return b"".join(one.read_bytes() for one in sorted((path / "commitlog").iterdir()))


@pytest.mark.parametrize(
    "request_", [SendBack("g"), SendBack("g", 5), SendBack("g", -1), SendBack("g", 0, 2), SendBack("g", 99)]
)
def test_stored_bytes_equal_those_of_the_message_form(request_: SendBack, tmp_path: Path) -> None:
    messages, raw = two(tmp_path)
    rules, levels = SubscriptionGroupConfig("g"), len(SMALL.delay_levels_ms)
    with messages, raw:
        for number in range(len(MESSAGES)):
            phy_offset = int(messages.read_units("t", 0, number, number + 1)["phy_offset"][0])
            result = consumer_send_msg_back(
                messages, "g", phy_offset, request_.delay_level, request_.max_reconsume_times
            )
            record = raw.read_record(phy_offset)
            assert record is not None
            back = send_back(record, request_, rules, levels)
            assert back is not None
            raw.ensure_topic(back.topic, 1)
            appended = raw.append([back])
            raw.publish(appended.end)
            assert appended.results[0] == result
    assert log_bytes(tmp_path / "messages") == log_bytes(tmp_path / "raw")


def test_group_without_retry_queues_gets_nothing(tmp_path: Path) -> None:
    store, other = two(tmp_path)
    with store, other:
        record = store.read_record(0)
        assert record is not None
        assert send_back(record, SendBack("g"), SubscriptionGroupConfig("g", retry_queue_nums=0), 18) is None
        with pytest.raises(CorruptRecordError):
            send_back(record[:-1] + b"x", SendBack("g"), SubscriptionGroupConfig("g"), 18)
