"""Messages that request a delay or a delivery time in their properties: refused, delivered now, or later."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.errors import MessageRejectedError, StoreConfigError
from rocketflow_store.model.status import PutMessageStatus
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC, TIMER_TOPIC
from tests.support.trials import COMMAND_LINE, environment

NOW = 1_800_000_000_400
DAY = 86_400_000
ILLEGAL, DISABLED = PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL, PutMessageStatus.WHEEL_TIMER_NOT_ENABLE
CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 20,
    mapped_file_size_consume_queue=2000,
    max_hash_slot_num=100,
    max_index_num=400,
    clock=ManualClock(NOW),
)

ACCEPTED = [
    # (properties, topic it is stored under, queue, TIMER_OUT_MS)
    ({"TIMER_DELAY_SEC": "5"}, TIMER_TOPIC, 0, NOW - 400 + 5_000),
    ({"TIMER_DELAY_MS": "600"}, TIMER_TOPIC, 0, NOW + 600 - 1_000),  # a whole second: the tick before it
    ({"TIMER_DELAY_MS": "599"}, TIMER_TOPIC, 0, NOW - 400),
    ({"TIMER_DELIVER_MS": str(NOW + 7_123)}, TIMER_TOPIC, 0, NOW - 400 + 7_000),
    ({"TIMER_DELIVER_MS": "5", "TIMER_DELAY_MS": "9000", "TIMER_DELAY_SEC": "3"}, TIMER_TOPIC, 0, NOW - 400 + 3_000),
    ({"TIMER_DELIVER_MS": "5", "TIMER_DELAY_MS": "9000"}, TIMER_TOPIC, 0, NOW - 400 + 9_000),
    ({"TIMER_DELAY_SEC": "259200"}, TIMER_TOPIC, 0, NOW - 400 + 3 * DAY),
    ({"TIMER_DELAY_SEC": "+4"}, TIMER_TOPIC, 0, NOW - 400 + 4_000),
    ({"DELAY": "3", "TIMER_DELAY_SEC": "5", "TIMER_DELAY_MS": "x"}, SCHEDULE_TOPIC, 2, None),
    ({"DELAY": "99"}, SCHEDULE_TOPIC, 17, None),
    ({"DELAY": "0", "TIMER_DELAY_SEC": "5"}, TIMER_TOPIC, 0, NOW - 400 + 5_000),
    ({"DELAY": "-1"}, "t", 1, None),
    ({"TIMER_DELIVER_MS": str(NOW)}, "t", 1, None),
    ({"TIMER_DELAY_SEC": "-9"}, "t", 1, None),
    ({"TIMER_OUT_MS": "77", "TIMER_DELAY_SEC": "5"}, "t", 1, 77),
    ({"TIMER_DELAY_SEC": "5", "TIMER_DEL_UNIQKEY": "t+K", "UNIQ_KEY": "K"}, TIMER_TOPIC, 0, NOW - 400 + 5_000),
    ({"REAL_TOPIC": "forged", "UNIQ_KEY": "K", "TIMER_DELAY_SEC": "5"}, TIMER_TOPIC, 0, NOW - 400 + 5_000),
]
REFUSED = [
    ({"TIMER_DELAY_SEC": "soon"}, ILLEGAL),
    ({"TIMER_DELAY_SEC": ""}, ILLEGAL),
    ({"TIMER_DELAY_MS": "1.5"}, ILLEGAL),
    ({"TIMER_DELAY_MS": "2147483648"}, ILLEGAL),
    ({"TIMER_DELIVER_MS": "0x10"}, ILLEGAL),
    ({"TIMER_DELIVER_MS": "9223372036854775808"}, ILLEGAL),
    ({"TIMER_DELIVER_MS": str(NOW + 3 * DAY + 1)}, ILLEGAL),
    ({"TIMER_DELAY_SEC": "259201"}, ILLEGAL),
    ({"TIMER_DELIVER_MS": str(NOW), "TIMER_DEL_UNIQKEY": "t+K"}, ILLEGAL),
    ({"DELAY": "often"}, PutMessageStatus.MESSAGE_ILLEGAL),
]


def batch(properties: dict[str, str]) -> pa.RecordBatch:
    kinds = pa.map_(pa.string(), pa.string())
    return pa.record_batch(
        {
            "body": pa.array([b"b", b"b"], pa.binary()),
            "queueId": pa.array([1, 0], pa.int32()),
            "properties": pa.array([list(properties.items()), None], kinds),
        }
    )


@pytest.mark.parametrize(("properties", "topic", "queue_id", "out_ms"), ACCEPTED)
def test_request_in_the_properties_is_accepted_as_by_rocketmq(
    tmp_path: Path, properties: dict[str, str], topic: str, queue_id: int, out_ms: int | None
) -> None:
    with MessageStore.open(tmp_path, CONFIG) as store:
        store.create_topic("t", 2)
        alone = store.put_message(Message("t", b"b", properties=properties, queue_id=1))
        assert (alone.status, alone.topic, alone.queue_id) == (PutMessageStatus.PUT_OK, topic, queue_id)
        together = store.append_batch(batch(properties), "t")
        one, other = (store.look_message_by_offset(at) for at in (alone.physical_offset, together.first_phy_offset))
        assert one is not None
        assert other is not None
        properties_of = dict(one.properties)
        if "UNIQ_KEY" not in properties:  # new for each
            assert list(properties_of)[-2:] == ["UNIQ_KEY", "__CRC32#"]
        same = [(k, v) for k, v in one.properties.items() if k != "__CRC32#" and (k != "UNIQ_KEY" or k in properties)]
        assert [(k, v) for k, v in other.properties.items() if (k, v) in same] == same
        assert list(one.properties) == list(other.properties)
        assert (other.topic, other.queue_id, other.store_size) == (topic, queue_id, one.store_size)
        assert store.max_offset(topic, queue_id) == 2
        codes = store.read_units(topic, queue_id, 0, 2)["tags_code"].tolist()
        delays = {2: 10_000, 17: 7_200_000}
        assert codes == ([NOW + delays[queue_id]] * 2 if topic == SCHEDULE_TOPIC else [0, 0])
    if topic != "t":
        assert (properties_of["REAL_TOPIC"], properties_of["REAL_QID"]) == ("t", "1")
    assert properties_of.get("TIMER_OUT_MS") == (None if out_ms is None else str(out_ms))
    if topic == SCHEDULE_TOPIC:
        assert not [name for name in properties_of if name.startswith("TIMER_")]


@pytest.mark.parametrize(("properties", "status"), REFUSED)
def test_invalid_timer_request_is_refused(tmp_path: Path, properties: dict[str, str], status: PutMessageStatus) -> None:
    with MessageStore.open(tmp_path, CONFIG) as store:
        store.create_topic("t", 2)
        assert store.put_message(Message("t", b"b", properties=properties, queue_id=1)).status is status
        with pytest.raises(MessageRejectedError) as caught:
            store.append_batch(batch(properties), "t")
        assert (caught.value.status, caught.value.row) == (status, 0)
        assert store.topics() == []


def test_timer_request_without_a_wheel_is_refused(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path, replace(CONFIG, timer_wheel_enable=False)) as store:
        for one in (
            Message("t", b"b", deliver_timestamp=NOW - 1),
            Message("t", b"b", properties={"TIMER_DELAY_MS": "9"}),
        ):
            assert store.put_message(one).status is DISABLED
        assert store.put_message(Message("t", b"b", delay_time_level=1)).stored
        times = pa.record_batch(
            {"body": pa.array([b"a", b"b"], pa.binary()), "deliverTimestamp": pa.array([None, NOW + 9], pa.int64())}
        )
        with pytest.raises(MessageRejectedError) as caught:
            store.append_batch(times, "t")
        assert (caught.value.status, caught.value.row) == (DISABLED, 1)


def test_message_fields_win_over_properties(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path, CONFIG) as store:
        sent = Message("t", b"b", properties={"TIMER_DELAY_SEC": "9"}, deliver_timestamp=NOW + 60_000)
        found = store.look_message_by_offset(store.put_message(sent).physical_offset)
        assert found is not None
        assert found.properties["TIMER_OUT_MS"] == str(NOW - 400 + 60_000)
        delayed = store.put_message(replace(sent, delay_time_level=2))
        assert (delayed.topic, delayed.queue_id) == (SCHEDULE_TOPIC, 1)


def test_half_of_a_transaction_is_timed_when_it_is_committed(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path, CONFIG) as store:
        half = store.put_message(Message("t", b"b", properties={"TIMER_DELAY_SEC": "9"}, sys_flag=4))
        assert half.status is PutMessageStatus.MESSAGE_ILLEGAL  # no reader would see it: the broker has a topic for it
        whole = store.put_message(Message("t", b"b", properties={"TIMER_DELAY_SEC": "9"}, sys_flag=8))
        assert whole.topic == TIMER_TOPIC


def test_put_to_the_timer_topic_is_refused(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path, CONFIG) as store:
        sent = store.put_message(Message(TIMER_TOPIC, b"b", properties={"TIMER_OUT_MS": "5"}))
        assert sent.status is PutMessageStatus.MESSAGE_ILLEGAL


def test_wrong_timer_precision_is_refused() -> None:
    with pytest.raises(StoreConfigError, match="timerPrecisionMs"):
        StoreConfig(timer_precision_ms=300)


def test_append_command_accepts_timer_properties(tmp_path: Path) -> None:
    requests = [{"TIMER_DELAY_SEC": "60"}, {"DELAY": "2"}, {"TIMER_DELAY_SEC": "never"}, {"TIMER_DELIVER_MS": "5"}]
    ended = subprocess.run(
        [sys.executable, "-c", COMMAND_LINE, "store", "append", str(tmp_path / "s"), "--topic", "t", "--create"],
        input="".join(json.dumps({"body": "b", "properties": one}) + "\n" for one in requests),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1, ended.stderr
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [one["status"] for one in lines] == ["PUT_OK", "PUT_OK", "WHEEL_TIMER_MSG_ILLEGAL", "PUT_OK"]
    assert [one.get("topic") for one in lines] == [TIMER_TOPIC, SCHEDULE_TOPIC, None, "t"]
    with StoreReader(tmp_path / "s") as reader:
        assert reader.bounds(TIMER_TOPIC, 0) == (0, 1)
