"""The client's codecs on odd inputs, compared with the store's, which are compared with RocketMQ's code."""

from __future__ import annotations

from typing import Any, Final

import pytest

from rocketflow.client import ReceivedMessage
from rocketflow.client.errors import ClientError
from rocketflow.client.ids import stored_at
from rocketflow.client.java_hash import java_hash
from rocketflow.client.messages import property_text
from rocketflow.client.produce.checks import check_group, check_topic
from rocketflow.client.produce.errors import BadMessageError
from rocketflow.client.received import DamagedRecordError, decode_properties, decode_records, unwrapped
from tests.store.model.test_odd_inputs import host_of, place_of, store_answer
from tests.support.odd_inputs import Refused, Row, answer, record, rows, shown, shown_properties

KNOWN: Final = {
    ("properties", "half of a surrogate pair"),
    ("properties", "both halves of a surrogate pair"),
    ("written properties", "half of a surrogate pair"),
    ("name", "%LMQ%a"),
    ("name", "%LMQ%aaaaa... of 127 characters"),
    ("name", "%LMQ%aaaaa... of 128 characters"),
    ("name", "%retry%aaa... of 128 characters"),
    ("name", "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"),
    ("name", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"),
    ("name", "rmq_sys_wheel_timer"),
    ("name", "rmq_sys_ROCKETFLOW_a"),
    ("name", "DEFAULT_PRODUCER"),
    ("records", "version 1 with a topic of 200 bytes"),
    ("records", "properties of -1 bytes"),
    ("records", "properties of 32,768 bytes"),
    ("records", "properties shorter than the record"),
    ("records", "bytes after the properties"),
    ("records", "bytes after the properties, then another"),
    ("records", "a size one too large, then another"),
}
"""Rows to which the client gives another answer than the store."""


def client_answer(row: Row) -> Any:
    """Return what the client makes of a row."""
    match row.kind:
        case "body":
            body, sys_flag = row.data
            message = next(decode_records(record(body, sys_flag=sys_flag)))
            return Refused(message.body_error) if message.body_error else shown(message.body)
        case "properties":
            return shown_properties(decode_properties(row.data[0]))
        case "written properties":
            properties = dict(zip(row.data[::2], row.data[1::2], strict=True))
            return answer(lambda: shown(property_text(properties).encode()), ValueError)
        case "name":
            return {"sent": _accepts(check_topic, row.data[0]), "group": _accepts(check_group, row.data[0])}
        case "id":
            return answer(lambda: place_of(*stored_at(row.data[0])), ClientError)
        case "written id":
            packed, port, offset = row.data
            data = record(hosts=(packed, packed), ports=(port, port), physical_offset=offset)
            return next(decode_records(data)).offset_message_id
        case "hash":
            return java_hash(row.data[0])
        case "records":
            return _records(row.data[0])
        case "batch":
            message = ReceivedMessage("t", 0, 0, row.data[0], {}, sys_flag=0xC0)
            return answer(
                lambda: [[one.flag, shown(one.body), shown_properties(one.properties)] for one in unwrapped(message)],
                DamagedRecordError,
            )
    raise AssertionError(row.kind)


def _accepts(check: Any, name: str) -> bool:
    return not isinstance(answer(lambda: check(name), BadMessageError), Refused)


def _records(data: bytes) -> list[dict[str, Any] | None]:
    found: list[dict[str, Any] | None] = []
    messages = decode_records(data)
    while True:
        try:
            message = next(messages)
        except StopIteration:
            return found
        except DamagedRecordError:
            return [*found, None]
        found.append(_fields(message))


def _fields(message: ReceivedMessage) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "body": shown(message.body),
        "properties": shown_properties(message.properties),
        "bornHost": host_of(message.born_host),
        "storeHost": host_of(message.store_host),
        "msgId": message.offset_message_id,
        "numbers": [
            *(message.queue_id, message.flag, message.queue_offset, message.physical_offset, message.sys_flag),
            *(message.born_timestamp, message.store_timestamp, message.reconsume_times),
            *(message.prepared_transaction_offset, message.body_crc, message.store_size),
        ],
    }


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.kind}: {row.name}")
def test_the_client_answers_as_the_store(row: Row) -> None:
    found, wanted = client_answer(row), store_answer(row)
    if row.kind == "name":
        wanted = {check: wanted[check] for check in found}
    assert (found == wanted) == ((row.kind, row.name) not in KNOWN), (found, wanted)
