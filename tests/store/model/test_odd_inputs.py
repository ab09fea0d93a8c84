"""The store's codecs on odd inputs, compared with the answers of RocketMQ's code, and columns with scalars."""

from __future__ import annotations

import ipaddress
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from rocketflow_store import StoreConfig
from rocketflow_store.format.batch_body import decode_batch_body, entry_positions
from rocketflow_store.format.properties import MAX_PROPERTIES_SIZE, decode_properties, encode_properties
from rocketflow_store.format.record import decode_record
from rocketflow_store.model.errors import (
    CorruptRecordError,
    InvalidMessageIdError,
    MessageRejectedError,
    StoreConfigError,
    StoreError,
    UnsupportedRecordError,
)
from rocketflow_store.model.java_compat import java_bytes, java_text, string_hash
from rocketflow_store.model.message import Message, MessageExt
from rocketflow_store.model.message_id import decode_host, decode_offset_msg_id, offset_msg_id
from rocketflow_store.model.topic_names import check_send_topic, is_system_topic, validate_group, validate_topic
from rocketflow_store.records.arrow.columns import SOURCE_SCHEMA
from rocketflow_store.records.arrow.hashing import string_hashes
from rocketflow_store.records.decoding.batch_entries import entry_positions_of
from rocketflow_store.records.decoding.decode import ColumnBuilder, QueueIdentity, RecordColumns, decompressed_runs
from rocketflow_store.records.decoding.properties import split_properties
from rocketflow_store.records.encoding.encode import BatchEncoder
from rocketflow_store.records.encoding.message_encoder import MessageEncoder
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

CONFIG: Final = StoreConfig()
_CUT: Final = "ZstdCompressor returns a part of the body; the rest of a second frame may be missing"
_LOST: Final = "MessageDecoder.decode drops the message and all after it; the store reads it"
_SUM: Final = "MessageDecoder.decode ignores the size of a record, reads its parts, and goes on at a wrong byte"
_ENTRY_SUM: Final = "MessageDecoder.decodeMessage ignores the size of an entry; MessageExtEncoder never writes another"
_NOT_READ_BACK: Final = "MessageDecoder.string2messageProperties returns other properties than were written"
_NO_DIGITS: Final = "UtilAll.string2bytes takes any other character for 15"
_OWN: Final = "messages in it are the store's own: a sender's would be lost"
KNOWN: Final = {
    ("body", "zstd and a part of a second"): _CUT,
    ("body", "zstd and two other bytes"): _CUT,
    ("body", "128 MiB and one byte"): "RocketMQ has no limit: one message could fill the memory of a reader",
    ("written properties", "an empty name"): f"{_NOT_READ_BACK}; Message.putUserProperty refuses it too",
    ("written properties", "a separator in a name"): _NOT_READ_BACK,
    ("written properties", "a separator in a value"): _NOT_READ_BACK,
    ("name", "%LMQ%a"): "an LMQ has messages of other topics: its own CommitLog records would be read by no queue",
    ("name", "%LMQ%aaaaa... of 127 characters"): "as %LMQ%a",
    ("name", "rmq_sys_wheel_timer"): _OWN,
    ("name", "rmq_sys_ROCKETFLOW_a"): _OWN,
    (
        "id",
        "IPv4 mapped to IPv6",
    ): "InetAddress.getByAddress makes it IPv4; the id could not be written again from that",
    ("id", "port 65,536"): "InetSocketAddress throws; the id of such a record finds it in the store",
    ("id", "port -1"): "as 65,536",
    ("id", "port of the least int32"): "as 65,536",
    ("id", "60 digits"): "MessageDecoder.decodeMessageId ignores what follows the offset",
    ("id", "a blank at the end"): _NO_DIGITS,
    ("id", "other letters"): _NO_DIGITS,
    ("id", "digits of another script"): _NO_DIGITS,
    (
        "records",
        "IPv4 mapped to IPv6",
    ): "MessageDecoder.createMessageId returns an id of 56 digits, the last 24 of them zeros",
    ("records", "port 65,536"): _LOST,
    ("records", "port -1"): _LOST,
    (
        "records",
        "a body of -1 bytes",
    ): "MessageDecoder.decode takes it for an empty one; no encoder writes it, the bytes are damaged",
    ("records", "a topic that is not UTF-8"): "two topics would have one name; TopicValidator allows no such topic",
    ("records", "properties of 32,768 bytes"): _SUM,
    ("records", "properties shorter than the record"): _SUM,
    ("records", "bytes after the properties"): _SUM,
    ("records", "bytes after the properties, then another"): _SUM,
    ("records", "a size one too small"): _SUM,
    ("records", "a size one too large, then another"): _SUM,
    ("records", "size 0"): _SUM,
    ("records", "a negative size"): _SUM,
    ("records", "a body that does not decompress, then another"): _LOST,
    ("batch", "a size one too small"): _ENTRY_SUM,
    ("batch", "a size one too large"): _ENTRY_SUM,
    ("batch", "size 0"): _ENTRY_SUM,
    ("batch", "a negative size"): _ENTRY_SUM,
    ("batch", "zeros after the last entry"): _ENTRY_SUM,
}
"""Rows to which the store gives another answer than RocketMQ, each with the reason and RocketMQ's function."""


def store_answer(row: Row) -> Any:
    """Return what the store makes of a row."""
    match row.kind:
        case "body":
            body, sys_flag = row.data
            message = decode_record(record(body, sys_flag=sys_flag), check_crc=False)
            return answer(lambda: shown(message.body), CorruptRecordError)
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


def _column_records(data: bytes) -> list[dict[str, Any] | None]:
    """Return what the columnar decoder makes of one record; None if it is damaged."""
    records = RecordColumns(pa.py_buffer(data), np.zeros(1, np.int64), np.array([len(data)]))
    if records.faults:
        return [None]
    queue_offsets, phy_offsets = records.field(">i8", 20), records.field(">i8", 28)
    identity = QueueIdentity(records.topics()[0].as_py(), int(records.field(">i4", 12)[0]), "b")
    records.check_place(phy_offsets, queue_offsets, identity)
    if records.faults:
        return [None]
    [(_, bodies)] = decompressed_runs(records, 1, lambda _, __: True)
    built = ColumnBuilder(records, identity, queue_offsets, phy_offsets, bodies)
    return [_fields_of(built.batch(SOURCE_SCHEMA.names).to_pylist()[0])]


def _fields_of(row: dict[str, Any]) -> dict[str, Any]:
    born, stored = (int(row[name].timestamp() * 1000) for name in ("bornTimestamp", "storeTimestamp"))
    return {
        "topic": row["topic"],
        "body": shown(row["body"]),
        "properties": shown_properties(dict(row["properties"])),
        "bornHost": host_of(row["bornHost"]),
        "storeHost": host_of(row["storeHost"]),
        "msgId": row["msgId"],
        "numbers": [
            *(row["queueId"], row["flag"], row["queueOffset"], row["physicalOffset"], row["sysFlag"], born, stored),
            *(row["reconsumeTimes"], row["preparedTransactionOffset"], row["bodyCRC"], row["storeSize"]),
        ],
    }


def _of(*kinds: str) -> Any:
    chosen = [row for row in rows() if row.kind in kinds]
    return pytest.mark.parametrize("row", chosen, ids=lambda row: f"{row.kind}: {row.name}")


@_of(*{row.kind for row in rows()})
def test_the_store_answers_as_rocketmq_except_where_a_reason_is_given(row: Row) -> None:
    found, newest = store_answer(row), rocketmq_answer(row, NEWEST)
    assert (found == newest) == ((row.kind, row.name) not in KNOWN), (found, newest)


@_of("properties")
def test_columns_have_the_properties_of_the_scalar_decoder(row: Row) -> None:
    raw = row.data[0]
    wanted = decode_properties(raw)
    segments = split_properties(pa.array([raw, b"n\x01\xff\x02", raw], pa.binary()))
    assert [dict(one) for one in segments.maps().to_pylist()] == [wanted, {"n": "\ufffd"}, wanted]
    for name in ("a", "b", "n"):
        assert segments.column(name).to_pylist() == [one.get(name) for one in (wanted, {"n": "\ufffd"}, wanted)]


@_of("written properties")
def test_columns_encode_properties_as_single_messages_do(row: Row) -> None:
    texts = [one.encode("utf-8", "replace").decode() for one in row.data]  # Arrow's strings have no halves of pairs
    properties = dict(zip(texts[::2], texts[1::2], strict=True))
    batch = pa.record_batch(
        [pa.array([b"x"]), pa.array([list(properties.items())], pa.map_(pa.string(), pa.string()))],
        ["body", "properties"],
    )
    encoder = BatchEncoder(CONFIG, lambda _: 1, "t")
    one = answer(lambda: MessageEncoder(CONFIG).encode(Message("t", b"x", properties=properties), 0, 0), StoreError)
    many = answer(lambda: encoder.validate(batch), StoreError)
    assert isinstance(many, Refused) == isinstance(one, Refused)


def test_half_of_a_surrogate_pair_is_dispatched_as_it_is_stored() -> None:
    message = Message("t", b"x", tags="a\ud800", keys=["k\udc00?"], properties={"\ud83d": "\ude80"})
    fields, properties = MessageEncoder(CONFIG).encode(message, 0, 0)
    assert properties == decode_properties(fields.properties)
    assert (properties["TAGS"], properties["KEYS"], properties["?"]) == ("a?", "k??", "?")


@_of("records")
def test_columns_have_the_records_of_the_scalar_decoder(row: Row) -> None:
    scalar = _records(row.data[0])
    if len(scalar) == 1:  # others are of several records, each of which is in another row
        assert _column_records(row.data[0]) == scalar


@_of("body")
def test_columns_have_the_bodies_of_the_scalar_decoder(row: Row) -> None:
    body, sys_flag = row.data
    data = record(body, sys_flag=sys_flag)
    records = RecordColumns(pa.py_buffer(data), np.zeros(1, np.int64), np.array([len(data)]))
    [(_, bodies)] = decompressed_runs(records, 1, lambda _, __: True)
    wanted = store_answer(row)
    assert shown(bodies.values[0].as_py()) == (shown(body) if isinstance(wanted, Refused) else wanted)
    assert bodies.errors[0].is_valid == isinstance(wanted, Refused)


@_of("batch")
def test_columns_find_the_entries_of_the_scalar_decoder(row: Row) -> None:
    scalar = store_answer(row)
    many = entry_positions_of([row.data[0]])  # None: each batch is decoded by itself, an empty one too
    assert (many is None) == (isinstance(scalar, Refused) or not scalar)
    assert many is None or many[0].tolist() == entry_positions(row.data[0])


@_of("hash", "properties")
def test_columns_have_the_hashes_of_single_texts(row: Row) -> None:
    raw = java_bytes(row.data[0]) if row.kind == "hash" else row.data[0]
    hashes, _ = string_hashes(pa.array([raw, b"a", raw], pa.binary()))
    wanted = string_hash(java_text(raw)) & 0xFFFFFFFF
    assert hashes.tolist() == [wanted, 97, wanted]


def test_every_version_has_answered_this_table() -> None:
    wanted = {(row.kind, row.name): row.crc for row in rows()}
    assert len(wanted) == len(rows())
    for version in VERSIONS:
        assert input_crcs(version) == wanted, "run python -m tests.apache.remoting_golden"
