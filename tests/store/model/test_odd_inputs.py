"""The store's codecs on odd inputs, compared with the answers of RocketMQ's code, and columns with scalars."""

from __future__ import annotations

import ipaddress
from typing import Any, Final

import pytest

from rocketflow_store.format.batch_body import decode_batch_body
from rocketflow_store.format.properties import MAX_PROPERTIES_SIZE, decode_properties, encode_properties
from rocketflow_store.format.record import decode_record
from rocketflow_store.model.errors import (
    BadBodyError,
    CorruptRecordError,
    InvalidMessageIdError,
    MessageRejectedError,
    StoreConfigError,
    UnsupportedRecordError,
)
from rocketflow_store.model.java_compat import string_hash
from rocketflow_store.model.message import MessageExt
from rocketflow_store.model.message_id import decode_host, decode_offset_msg_id, offset_msg_id
from rocketflow_store.model.topic_names import check_send_topic, is_system_topic, validate_group, validate_topic
from tests.support.odd_inputs import (
    NEWEST,
    VERSIONS,
    Refused,
    Row,
    answer,
    answers,
    input_crcs,
    record,
    rows,
    shown,
    shown_properties,
)

KNOWN: Final[dict[tuple[str, str], str]] = {
    ("body", "zstd and a part of a second"): "to be decided",
    ("body", "zstd and two other bytes"): "to be decided",
    ("body", "64 MiB and one byte"): "to be decided",
    ("body", "128 MiB"): "to be decided",
    ("body", "128 MiB and one byte"): "to be decided",
    ("properties", "half of a surrogate pair"): "to be decided",
    ("properties", "both halves of a surrogate pair"): "to be decided",
    ("written properties", "a separator in a name"): "to be decided",
    ("written properties", "a separator in a value"): "to be decided",
    ("written properties", "half of a surrogate pair"): "to be decided",
    ("name", "%LMQ%a"): "to be decided",
    ("name", "%LMQ%aaaaa... of 127 characters"): "to be decided",
    ("name", "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"): "to be decided",
    ("name", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"): "to be decided",
    ("name", "rmq_sys_wheel_timer"): "to be decided",
    ("name", "rmq_sys_ROCKETFLOW_a"): "to be decided",
    ("id", "IPv4 mapped to IPv6"): "to be decided",
    ("id", "port 65,536"): "to be decided",
    ("id", "port -1"): "to be decided",
    ("id", "port of the least int32"): "to be decided",
    ("id", "60 digits"): "to be decided",
    ("id", "a blank at the end"): "to be decided",
    ("id", "other letters"): "to be decided",
    ("id", "digits of another script"): "to be decided",
    ("records", "IPv4 mapped to IPv6"): "to be decided",
    ("records", "port 65,536"): "to be decided",
    ("records", "port -1"): "to be decided",
    ("records", "a body of -1 bytes"): "to be decided",
    ("records", "a topic that is not UTF-8"): "to be decided",
    ("records", "properties of 32,768 bytes"): "to be decided",
    ("records", "properties shorter than the record"): "to be decided",
    ("records", "bytes after the properties"): "to be decided",
    ("records", "bytes after the properties, then another"): "to be decided",
    ("records", "a size one too small"): "to be decided",
    ("records", "a size one too large, then another"): "to be decided",
    ("records", "size 0"): "to be decided",
    ("records", "a negative size"): "to be decided",
    ("records", "a body that does not decompress, then another"): "to be decided",
    ("batch", "a size one too small"): "to be decided",
    ("batch", "a size one too large"): "to be decided",
    ("batch", "size 0"): "to be decided",
    ("batch", "a negative size"): "to be decided",
    ("batch", "zeros after the last entry"): "to be decided",
}
"""Rows to which the store gives another answer than RocketMQ, each with the reason."""


def store_answer(row: Row) -> Any:
    """Return what the store makes of a row."""
    match row.kind:
        case "body":
            body, sys_flag = row.data
            message = decode_record(record(body, sys_flag=sys_flag), check_crc=False)
            return answer(lambda: shown(message.body), BadBodyError)
        case "properties":
            return shown_properties(decode_properties(row.data[0]))
        case "written properties":
            return answer(lambda: shown(_written(row.data)), ValueError)
        case "name":
            return _name(row.data[0])
        case "id":
            return answer(lambda: place_of(*decode_offset_msg_id(row.data[0])), InvalidMessageIdError)
        case "written id":
            packed, port, offset = row.data
            return offset_msg_id(decode_host(packed + port.to_bytes(4, "big")), offset)
        case "hash":
            return string_hash(row.data[0])
        case "records":
            return _records(row.data[0])
        case "batch":
            return answer(
                lambda: [
                    [one.flag, shown(one.body), shown_properties(decode_properties(one.properties))]
                    for one in decode_batch_body(row.data[0])
                ],
                ValueError,
            )
    raise AssertionError(row.kind)


def rocketmq_answer(row: Row, version: str) -> Any:
    """Return RocketMQ's answer; of written properties it is that of its encoder, if a store takes the message."""
    found = answers(version)[row.kind, row.name]
    if row.kind != "written properties":
        return found
    return found["bytes"] if found["stored"] == "PUT_OK" else Refused(found["stored"])


def _written(texts: tuple[str, ...]) -> bytes:
    raw = encode_properties(dict(zip(texts[::2], texts[1::2], strict=True)))
    if len(raw) > MAX_PROPERTIES_SIZE:
        raise ValueError("PROPERTIES_SIZE_EXCEEDED")
    return raw


def _name(name: str) -> dict[str, bool]:
    checks = {"topic": validate_topic, "sent": check_send_topic, "group": validate_group}
    found = {
        kind: not isinstance(answer(lambda check=check: check(name), StoreConfigError, MessageRejectedError), Refused)
        for kind, check in checks.items()
    }
    return {**found, "system": is_system_topic(name)}


def place_of(host: str, offset: int) -> list[Any]:
    return [*host_of(host), offset]


def host_of(text: str) -> list[Any]:
    address, _, port = text.rpartition(":")
    return [ipaddress.ip_address(address.strip("[]")).packed.hex(), int(port)]


def _records(data: bytes) -> list[dict[str, Any] | None]:
    """Return the records of an answer; None ends the list at one that is damaged."""
    found: list[dict[str, Any] | None] = []
    at = 0
    while at < len(data):
        try:
            message = decode_record(data, at, check_crc=False)
        except (CorruptRecordError, UnsupportedRecordError):
            return [*found, None]
        found.append(_fields(message))
        at += message.store_size
    return found


def _fields(message: MessageExt) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "body": shown(message.stored_body if message.body_error else message.body),
        "properties": shown_properties(message.properties),
        "bornHost": host_of(message.born_host),
        "storeHost": host_of(message.store_host),
        "msgId": message.msg_id,
        "numbers": [
            *(message.queue_id, message.flag, message.queue_offset, message.phy_offset, message.sys_flag),
            *(message.born_timestamp, message.store_timestamp, message.reconsume_times),
            *(message.prepared_transaction_offset, message.body_crc, message.store_size),
        ],
    }


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.kind}: {row.name}")
def test_the_store_answers_as_rocketmq_except_where_a_reason_is_given(row: Row) -> None:
    found, newest = store_answer(row), rocketmq_answer(row, NEWEST)
    assert (found == newest) == ((row.kind, row.name) not in KNOWN), (found, newest)


def test_every_version_has_answered_this_table() -> None:
    wanted = {(row.kind, row.name): row.crc for row in rows()}
    assert len(wanted) == len(rows())
    for version in VERSIONS:
        assert input_crcs(version) == wanted, "run python -m tests.apache.remoting_golden"
