"""A message for output: one JSON object with RocketMQ's field names, or a line of a table."""

from __future__ import annotations

import base64
import enum
import hashlib
import sys
from typing import TYPE_CHECKING, Any, Final

from rocketflow.process.printable import printable
from rocketflow.process.times import iso_time
from rocketflow_store import DamagedBodyError, OnBadBody

if TYPE_CHECKING:
    from rocketflow_store import ReceivedMessage


MESSAGE_FIELDS: Final = {
    "topic": "topic",
    "queueId": "queue",
    "queueOffset": "queue offset",
    "physicalOffset": "offset in the CommitLog, bytes",
    "storeSize": "bytes of the record",
    "msgId": "RocketMQ's offset message id",
    "uniqKey": "id that the producer gave (UNIQ_KEY); null if it gave none",
    "tags": "tags; null if there are none",
    "keys": "keys, separated by spaces; null if there are none",
    "flag": "the producer's flag",
    "sysFlag": "bits of RocketMQ: compression, transaction, IPv6 addresses",
    "bornTimestamp": "time at the producer, ms",
    "storeTimestamp": "time at which it was stored, ms",
    "bornHost": "address of the producer",
    "storeHost": "address of the broker",
    "reconsumeTimes": "how often a consumer sent it back",
    "preparedTransactionOffset": "offset of the half message, for transactions",
    "bodyCRC": "CRC-32 of the body as stored",
    "bodySize": "bytes of the body as stored",
    "properties": "properties, an object of strings",
    "body": "body, decompressed, as --body asks for; null, or as --on-bad-body says, if it cannot be decoded",
    "bodyError": "why the body cannot be decoded; else missing",
}
RECEIVED_FIELDS: Final = {
    **MESSAGE_FIELDS,
    "body": "body, decompressed, as --body asks for; as stored if it cannot be decoded",
    "brokerName": "broker of the queue; null if the answer does not name it",
}
"""Those of a message that a broker sent."""
_ADDED: Final = ("MIN_OFFSET", "MAX_OFFSET")
"""Properties that a consumer adds to what is stored: the offsets of the queue at the pull."""


class BodyForm(enum.Enum):
    """The output form of a body."""

    TEXT = "text"
    BASE64 = "base64"
    SHA256 = "sha256"
    NONE = "none"


def message_fields(message: ReceivedMessage, body_form: BodyForm, *, raw: bool = False) -> dict[str, Any]:
    """Return all fields of a message; times in ms; `sha256` is that of the decompressed body.

    If the body cannot be decoded, `bodyError` is the reason, and `body` is None, or with `raw` as it is stored.
    """
    fields: dict[str, Any] = {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "physicalOffset": message.physical_offset,
        "storeSize": message.store_size,
        "msgId": message.offset_message_id,
        "uniqKey": message.uniq_key,
        "tags": message.tags,
        "keys": message.properties.get("KEYS"),
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "bornTimestamp": message.born_timestamp,
        "storeTimestamp": message.store_timestamp,
        "bornHost": message.born_host,
        "storeHost": message.store_host,
        "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_transaction_offset,
        "bodyCRC": message.body_crc,
        "bodySize": len(message.stored_body),
        "properties": dict(message.properties),
    }
    if body_form is not BodyForm.NONE:
        try:
            fields["body"] = body_as(message.body, body_form)
        except DamagedBodyError as error:
            fields |= {"body": body_as(message.stored_body, body_form) if raw else None, "bodyError": error.reason}
    return fields


def received_fields(message: ReceivedMessage, body_form: BodyForm) -> dict[str, Any]:
    """Return all fields of a message that a broker sent, and its broker; a body that cannot be decoded is as stored."""
    fields = message_fields(message, body_form, raw=True)
    for added in _ADDED:
        fields["properties"].pop(added, None)
    return {"topic": fields.pop("topic"), "brokerName": message.broker_name or None, **fields}


def print_bad_body(message: tuple[str, int, int], why: str, on_bad_body: OnBadBody) -> None:
    """Print on stderr what happened to a message (topic, queue, offset) whose body cannot be decoded."""
    topic, queue_id, offset = message
    where = f"queue {queue_id}, offset {offset}: body: {why} (topic {printable(topic)}"
    if on_bad_body is OnBadBody.RAW:
        print(f"note: {where}); it is shown as it is stored", file=sys.stderr)
        return
    also = "; the message is skipped" if on_bad_body is OnBadBody.QUARANTINE else ""
    print(f"error: {where}; --on-bad-body raw shows it as it is stored){also}", file=sys.stderr)


def body_as(body: bytes, form: BodyForm) -> str:
    """Return a body as text (undecodable bytes are replaced), base64 or a digest."""
    if form is BodyForm.BASE64:
        return base64.b64encode(body).decode()
    if form is BodyForm.SHA256:
        return hashlib.sha256(body).hexdigest()
    return body.decode("utf-8", "replace")


def table_row(fields: dict[str, Any]) -> list[object]:
    """Return the cells of `TABLE_COLUMNS` that `fields` has; times are readable."""
    readable = {**fields, "storeTimestamp": iso_time(fields["storeTimestamp"])}
    return [readable[name] for name in TABLE_COLUMNS if name in fields]


TABLE_COLUMNS = ("topic", "queueId", "queueOffset", "storeTimestamp", "tags", "keys", "bodySize", "body")
