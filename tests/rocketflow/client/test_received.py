"""Records as a client decodes them: stores that RocketMQ wrote, as RocketMQ itself reads them, and damaged bytes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store.format.inner_batch import inner_messages
from rocketflow_store.spi.messages import (
    CorruptRecordError,
    Message,
    ReceivedMessage,
    batch_body,
    decode_properties,
    decode_records,
)
from tests.support.golden import CLOSED, GOLDEN
from tests.support.trials import SEED


def records_of(store: Path, places: dict[int, int]) -> dict[int, bytes]:
    """Return the records of a store by physical offset; `places` are their offsets and sizes."""
    found = {}
    for file in sorted((store / "commitlog").iterdir()):
        data, begin = file.read_bytes(), int(file.name)
        for offset, size in places.items():
            if begin <= offset < begin + len(data):
                found[offset] = data[offset - begin : offset - begin + size]
    return found


@pytest.mark.parametrize("name", CLOSED)
def test_a_client_decodes_records_as_rocketmq_does(golden_store: Callable[..., Path], name: str) -> None:
    lines = (GOLDEN / name / "messages.jsonl").read_text(encoding="utf-8").splitlines()
    expected = [one for one in map(json.loads, lines) if not one["sysFlag"] & 0x80]
    records = records_of(golden_store(name), {one["physicalOffset"]: one["storeSize"] for one in expected})
    assert len(records) == len(expected) > 0
    for one in expected:
        (message,) = decode_records(records[one["physicalOffset"]], "b")
        found = {
            "topic": message.topic,
            "queueId": message.queue_id,
            "queueOffset": message.queue_offset,
            "physicalOffset": message.physical_offset,
            "msgId": message.offset_message_id,
            "tags": message.tags,
            "flag": message.flag,
            "sysFlag": message.sys_flag,
            "bornTimestamp": message.born_timestamp,
            "bornHost": message.born_host,
            "storeTimestamp": message.store_timestamp,
            "storeHost": message.store_host,
            "reconsumeTimes": message.reconsume_times,
            "preparedTransactionOffset": message.prepared_transaction_offset,
            "bodyCRC": message.body_crc,
            "storeSize": message.store_size,
            "bodyLength": len(message.body),
            "bodySha256": hashlib.sha256(message.body).hexdigest(),
            "properties": message.properties,
        }
        assert found == {field: one.get(field) for field in found}
        assert message.broker_name == "b"


def test_any_change_of_a_record_is_a_message_or_a_typed_error(golden_store: Callable[..., Path]) -> None:
    lines = (GOLDEN / "features-53" / "messages.jsonl").read_text(encoding="utf-8").splitlines()
    places = {one["physicalOffset"]: one["storeSize"] for one in map(json.loads, lines)}
    records = list(records_of(golden_store("features-53"), places).values())
    generator = random.Random(SEED)
    refused = 0
    for _ in range(3000):
        data = bytearray(generator.choice(records))
        for _ in range(generator.randrange(1, 4)):
            data[generator.randrange(min(len(data), 120))] = generator.randrange(256)
        try:
            list(decode_records(bytes(data[: generator.randrange(len(data) + 1)])))
        except CorruptRecordError:
            refused += 1
    assert refused > 300


def test_an_incomplete_record_is_refused(golden_store: Callable[..., Path]) -> None:
    with pytest.raises(CorruptRecordError, match="answer at 0"):
        list(decode_records(b"\x00\x00\x00\x64" + bytes(40)))


def test_properties_without_name_or_value_are_skipped() -> None:
    assert decode_properties(b"a\x01b\x02\x01c\x02d\x01\x02e\x02KEYS\x01k l") == {"a": "b", "KEYS": "k l"}


def wrapped(body: bytes, sys_flag: int = 0x40 | 0x80) -> ReceivedMessage:
    return ReceivedMessage("t", 1, 100, body, {"TAGS": "outer"}, sys_flag=sys_flag, physical_offset=7, broker_name="b")


def test_messages_of_an_inner_batch_have_their_own_offsets_and_properties() -> None:
    body = batch_body([Message("t", b"%d" % number, tags=f"t{number}", flag=number) for number in range(3)])
    found = inner_messages(wrapped(body))
    assert [(one.queue_offset, one.body, one.tags, one.flag) for one in found] == [
        (100 + number, b"%d" % number, f"t{number}", number) for number in range(3)
    ]
    assert {(one.topic, one.queue_id, one.physical_offset, one.broker_name) for one in found} == {("t", 1, 7, "b")}
    for flag in (0, 0x40, 0x80):  # one of the bits alone marks no batch, as in RocketMQ
        assert inner_messages(wrapped(body, flag)) == [wrapped(body, flag)]


def test_damaged_inner_batches_are_refused() -> None:
    print(f"seed {SEED}")
    generator = random.Random(SEED)
    body = batch_body([Message("t", b"x" * 9, tags="t") for _ in range(4)])
    for end in range(1, len(body)):
        if end % (len(body) // 4):
            with pytest.raises(CorruptRecordError, match="queue 1, queue offset 100"):
                inner_messages(wrapped(body[:end]))
    for _ in range(2000):
        data = bytearray(body)
        data[generator.randrange(len(data))] = generator.randrange(256)
        with contextlib.suppress(CorruptRecordError):
            assert len(inner_messages(wrapped(bytes(data)))) <= len(body)
