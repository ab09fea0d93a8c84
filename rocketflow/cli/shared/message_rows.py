"""A message for output: one JSON object with RocketMQ's field names, or a line of a table."""

from __future__ import annotations

import base64
import enum
import hashlib
from typing import TYPE_CHECKING, Any

from rocketflow.process.times import iso_time
from rocketflow_store import CorruptRecordError, UnsupportedRecordError

if TYPE_CHECKING:
    from rocketflow_store import MessageExt


class BodyForm(enum.Enum):
    """The output form of a body."""

    TEXT = "text"
    BASE64 = "base64"
    SHA256 = "sha256"
    NONE = "none"


def message_fields(message: MessageExt, body_form: BodyForm) -> dict[str, Any]:
    """Return all fields of a message; times in ms; `sha256` is that of the decompressed body.

    If the body cannot be decompressed, `body` is None and `bodyError` is the reason.
    """
    fields: dict[str, Any] = {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "physicalOffset": message.phy_offset,
        "storeSize": message.store_size,
        "msgId": message.msg_id,
        "uniqKey": message.uniq_key,
        "tags": message.tags,
        "keys": message.keys,
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
        except (CorruptRecordError, UnsupportedRecordError) as error:
            fields |= {"body": None, "bodyError": error.why}
    return fields


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
