"""Retries and dead letters: records that equal a real broker's, and properties that its clients rely on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rocketflow_store import (
    FlushDiskType,
    Message,
    MessageStore,
    PutMessageStatus,
    ReceivedMessage,
    StoreConfig,
    StoreReader,
)
from rocketflow_store.delivery.requeue.bulk_send_back import send_back_many
from rocketflow_store.delivery.requeue.client_resend import put_client_resend
from rocketflow_store.delivery.requeue.ledger import ledger
from rocketflow_store.delivery.requeue.send_back import SendBack, consumer_send_msg_back, consumer_send_msgs_back
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.compression import compress_body
from rocketflow_store.model.errors import CorruptRecordError, MessageNotFoundError, StoreConfigError
from rocketflow_store.model.message_id import decode_offset_msg_id
from rocketflow_store.model.property_names import PROPERTY_CRC32
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC
from rocketflow_store.spi.table_rows import SubscriptionGroupConfig
from tests.support.golden import GOLDEN

SMALL = StoreConfig(
    mapped_file_size_commit_log=1 << 20,
    mapped_file_size_consume_queue=20_000,
    max_hash_slot_num=5_000,
    max_index_num=20_000,
    flush_disk_type=FlushDiskType.ASYNC_FLUSH,
)


def said(message: ReceivedMessage) -> dict[str, Any]:
    """Return the fields of a record, apart from its place and time."""
    return {
        "topic": message.topic,
        "queueId": message.queue_id,
        "body": message.stored_body,
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "bornTimestamp": message.born_timestamp,
        "bornHost": message.born_host,
        "reconsumeTimes": message.reconsume_times,
        "properties": {name: value for name, value in message.properties.items() if name != PROPERTY_CRC32},
    }


def stored(store: MessageStore, result: Any) -> ReceivedMessage:
    assert result.status is PutMessageStatus.PUT_OK
    message = store.look_message_by_offset(result.physical_offset)
    assert message is not None
    return message


def test_send_back_stores_the_records_of_apaches_broker(golden_store: Callable[..., Path], tmp_path: Path) -> None:
    """features-53: first retry, second retry and dead letter of each message, sent back again from the same record."""
    rows = [json.loads(line) for line in (GOLDEN / "features-53" / "messages.jsonl").read_text("utf-8").splitlines()]
    back = [row for row in rows if "ORIGIN_MESSAGE_ID" in row["properties"]]
    shutil.copytree(golden_store("features-53"), tmp_path / "s")
    compared = {"first": 0, "again": 0, "dead": 0, "direct": 0}
    with MessageStore.open(tmp_path / "s") as store:
        delivered = {
            (row["uniqKey"], row["topic"], row["reconsumeTimes"]): row["physicalOffset"]
            for row in back
            if row["topic"].startswith("%RETRY%")
        }
        for row in back:
            properties, times = row["properties"], row["reconsumeTimes"]
            waiting = row["topic"] == SCHEDULE_TOPIC
            dead = row["topic"].startswith("%DLQ%") and properties["DELAY"] == "0"
            if not waiting and not dead:
                continue  # delivered copies, and messages that clients sent themselves
            group = (properties["REAL_TOPIC"] if waiting else row["topic"]).split("%")[2]
            if times == 1:
                source = decode_offset_msg_id(properties["ORIGIN_MESSAGE_ID"])[1]
            else:
                source = delivered[row["uniqKey"], f"%RETRY%{group}", times - 1]
            level = int(properties["DELAY"]) if waiting else -1
            result = consumer_send_msg_back(store, group, source, level, origin_properties=False)
            expected = store.look_message_by_offset(row["physicalOffset"])
            assert expected is not None
            assert said(stored(store, result)) == said(expected), row
            compared["dead" if dead and times > 1 else "direct" if dead else "first" if times == 1 else "again"] += 1
    assert min(compared.values()) >= 10, compared


def put(store: MessageStore, count: int = 1, body: bytes = b"body", **more: Any) -> list[int]:
    message = Message("orders", body, tags="paid", keys=["k-1"], properties={"city": "Köln"}, **more)
    return [result.physical_offset for result in store.put_messages([message] * count)]


def test_retry_levels_grow_until_the_message_is_a_dead_letter(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", SMALL) as store:
        (at,) = put(store)
        first = store.look_message_by_offset(at)
        assert first is not None
        for times in range(16):
            message = stored(store, consumer_send_msg_back(store, "g", at))
            assert (message.topic, message.queue_id, message.reconsume_times) == (SCHEDULE_TOPIC, 2 + times, times + 1)
            expected = {"DELAY": f"{3 + times}", "REAL_TOPIC": "%RETRY%g", "REAL_QID": "0", "RETRY_TOPIC": "orders"}
            assert expected.items() <= message.properties.items()
            assert message.properties["ORIGIN_MESSAGE_ID"] == first.msg_id
            at = message.phy_offset
        dead = stored(store, consumer_send_msg_back(store, "g", at))
        assert (dead.topic, dead.queue_id, dead.reconsume_times) == ("%DLQ%g", 0, 17)
        origin = {"DLQ_ORIGIN_TOPIC": "orders", "DLQ_ORIGIN_MESSAGE_ID": first.msg_id, "DELAY": "0", "WAIT": "false"}
        assert origin.items() <= dead.properties.items()
        assert (dead.body, dead.tags, dead.keys, dead.uniq_key) == (first.body, "paid", ["k-1"], first.uniq_key)
        topics = store.config_files.topics
        for name in ("%RETRY%g", "%DLQ%g"):
            config = topics.get(name)
            assert config is not None
            assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (1, 1, 6)
    assert verify_store(tmp_path / "s").findings == []


def test_limits_of_group_and_client_decide_when_a_message_is_dead(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", SMALL) as store:
        groups = store.config_files.subscription_groups
        groups.put(SubscriptionGroupConfig("few", retry_max_times=0))
        groups.put(SubscriptionGroupConfig("wide", retry_queue_nums=4))
        groups.put(SubscriptionGroupConfig("none", retry_queue_nums=0))
        offsets = put(store, 64)
        assert stored(store, consumer_send_msg_back(store, "few", offsets[0])).topic == "%DLQ%few"
        assert stored(store, consumer_send_msg_back(store, "few", offsets[0], 0, 3)).topic == SCHEDULE_TOPIC
        assert stored(store, consumer_send_msg_back(store, "g", offsets[0], -1)).topic == "%DLQ%g"
        assert stored(store, consumer_send_msg_back(store, "g", offsets[0], 99)).properties["DELAY"] == "18"
        assert consumer_send_msg_back(store, "none", offsets[0]) is None
        assert consumer_send_msgs_back(store, SendBack("none"), offsets) == []
        assert "%RETRY%none" not in store.config_files.topics.topics()
        results = consumer_send_msgs_back(store, SendBack("wide"), offsets)
        places = {stored(store, result).properties["REAL_QID"] for result in results}
        assert places == {"0", "1", "2", "3"}


def test_wrong_request_stores_nothing(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", SMALL) as store:
        offsets = put(store, 2)
        end = store.max_phy_offset
        for group in ("", "a b", "../up", "x" * 121):
            with pytest.raises(StoreConfigError, match="group"):
                consumer_send_msg_back(store, group, offsets[0])
        with pytest.raises(MessageNotFoundError, match="physical offset 7"):
            consumer_send_msgs_back(store, SendBack("g"), [offsets[0], 7])
        assert store.max_phy_offset == end


def test_send_back_keeps_compressed_bodies_flags_and_hosts(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", SMALL) as store:
        (at,) = put(store, sys_flag=1 | 0x300, flag=7, born_host="[2001:db8::1]:9", born_timestamp=5)
        message = stored(store, consumer_send_msg_back(store, "g", at, -1))
        assert (message.flag, message.born_host, message.born_timestamp) == (7, "[2001:db8::1]:9", 5)
        assert (message.sys_flag & 0x301, message.stored_body) == (0x301, b"body")


def resend(times: int, **properties: str) -> Message:
    kept = {"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "A1", "RECONSUME_TIME": str(times), **properties}
    return Message("%RETRY%g", b"body", properties={"DELAY": str(3 + times), **kept}, reconsume_times=times, queue_id=0)


def test_client_resend_is_stored_as_retry_or_dead_letter(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", SMALL) as store:
        later = stored(store, put_client_resend(store, resend(2, MAX_RECONSUME_TIMES="2")))
        assert (later.topic, later.queue_id, later.reconsume_times) == (SCHEDULE_TOPIC, 4, 2)
        dead = stored(store, put_client_resend(store, resend(3, MAX_RECONSUME_TIMES="2")))
        assert (dead.topic, dead.queue_id, dead.reconsume_times, dead.properties["DELAY"]) == ("%DLQ%g", 0, 3, "-1")
        by_property = replace(resend(17), reconsume_times=0)
        assert stored(store, put_client_resend(store, by_property)).topic == "%DLQ%g"
        assert stored(store, put_client_resend(store, resend(1), consumed_in_order=True)).topic == "%DLQ%g"
        other = stored(store, put_client_resend(store, replace(resend(9), topic="orders")))
        assert (other.topic, other.properties["REAL_TOPIC"]) == (SCHEDULE_TOPIC, "orders")  # it has a DELAY too


def test_dead_letters_of_an_ordered_consumer_equal_apaches(golden_store: Callable[..., Path], tmp_path: Path) -> None:
    """features-53 has the last resend of its ordered client: the same request makes the same record here."""
    with StoreReader(golden_store("features-53")) as reader, MessageStore.open(tmp_path / "s", SMALL) as store:
        topic = "%DLQ%cg-orderly"
        low, high = reader.bounds(topic, 0)
        assert high > low
        for expected in reader.get_message(topic, 0, low).messages:
            sent = Message(
                "%RETRY%cg-orderly",
                expected.stored_body,
                properties={**expected.properties, "DELAY": str(3 + expected.reconsume_times)},
                born_timestamp=expected.born_timestamp,
                born_host=expected.born_host,
                reconsume_times=expected.reconsume_times,
                flag=expected.flag,
            )
            assert said(stored(store, put_client_resend(store, sent))) == said(expected)


@pytest.mark.parametrize("level", [0, 5, -1])
def test_bulk_send_back_makes_the_same_records(golden_store: Callable[..., Path], tmp_path: Path, level: int) -> None:
    """All messages that a client sent and retried in features-53, and some with other hosts and compressed bodies."""
    shutil.copytree(golden_store("features-53"), tmp_path / "one")
    with MessageStore.open(tmp_path / "one") as store:
        packed = compress_body(b"body", 3)
        put(store, 5, packed, sys_flag=1 | 0x300, born_host="[2001:db8::1]:9", reconsume_times=15)
        put(store, 5, reconsume_times=16, deliver_timestamp=1)
        store.config_files.subscription_groups.put(SubscriptionGroupConfig("g", retry_queue_nums=3))
    shutil.copytree(tmp_path / "one", tmp_path / "many")
    sent = {}
    for name in ("one", "many"):
        with MessageStore.open(tmp_path / name) as store:
            topics = ("f-retry", "%RETRY%cg-retry", "f-compress", "orders")
            offsets = [
                int(offset)
                for topic in topics
                for queue_id in store.queues(topic)
                for offset in store.read_units(topic, queue_id, *store.bounds(topic, queue_id))["phy_offset"]
            ]
            begin, request = store.max_phy_offset, SendBack("g", level)
            if name == "one":
                results = consumer_send_msgs_back(store, request, sorted(offsets))
                assert all(result.stored for result in results)
            else:
                result = send_back_many(store, request, np.array(offsets[::-1]))
                assert result.retried + result.dead == len(offsets)
                assert result.dead == (len(offsets) if level < 0 else 5)
            sent[name] = [
                said(message)
                for topic in (SCHEDULE_TOPIC, "%DLQ%g")
                for queue_id in store.queues(topic)
                for unit in store.read_units(topic, queue_id, *store.bounds(topic, queue_id))
                if unit["phy_offset"] >= begin
                for message in [store.look_message_by_offset(int(unit["phy_offset"]))]
                if message is not None
            ]
            hosts = {store.look_message_by_offset(int(offset)).store_host for offset in offsets}  # type: ignore[union-attr]
            assert len(hosts) == 2, "the broker's, and RocketFlow's"
        assert verify_store(tmp_path / name).findings == []
    assert len(sent["one"]) == len(offsets) > 50
    assert sent["many"] == sent["one"]


def test_bulk_send_back_stores_all_or_none(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", SMALL) as store:
        offsets = np.array(put(store, 9000))
        end = store.max_phy_offset
        for wrong in (end, offsets[1] - 1, -5):
            with pytest.raises((MessageNotFoundError, CorruptRecordError), match=str(wrong)):
                send_back_many(store, SendBack("g"), np.append(offsets, wrong))
        with pytest.raises(StoreConfigError, match="group"):
            send_back_many(store, SendBack("a b"), offsets)
        store.config_files.subscription_groups.put(SubscriptionGroupConfig("none", retry_queue_nums=0))
        assert send_back_many(store, SendBack("none"), offsets).retried == 0
        assert store.max_phy_offset == end
        assert send_back_many(store, SendBack("g"), offsets).retried == 9000
        (message,) = store.get_message(SCHEDULE_TOPIC, 2, 8999).messages
        assert message.store_host == store.config.store_host
    with StoreReader(tmp_path / "s") as reader:
        (entry,) = [one.as_dict() for one in ledger(reader)]
    assert (entry["kind"], entry["to"], entry["rows"]) == ("send-back", {"%RETRY%g": 9000}, 9000)
    assert verify_store(tmp_path / "s").findings == []
