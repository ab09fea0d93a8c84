"""A received message for output, with the field names of `store cat`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rocketflow.cli.shared.message_rows import BodyForm, body_as

if TYPE_CHECKING:
    from rocketflow.client.received import ReceivedMessage

_ADDED: Final = ("MIN_OFFSET", "MAX_OFFSET")
"""Properties that a consumer adds to what is stored: the offsets of the queue at the pull."""


def received_fields(message: ReceivedMessage, body_form: BodyForm) -> dict[str, Any]:
    """Return all fields of a message; times in ms; `sha256` is that of the decompressed body.

    If the body cannot be decoded, `body` is as it is stored, and `bodyError` is the reason.
    """
    fields: dict[str, Any] = {
        "topic": message.topic,
        "brokerName": message.broker_name or None,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "physicalOffset": message.physical_offset,
        "storeSize": message.store_size,
        "msgId": message.offset_message_id,
        "uniqKey": message.properties.get("UNIQ_KEY"),
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
        "bodySize": message.stored_body_size,
        "properties": {name: value for name, value in message.properties.items() if name not in _ADDED},
    }
    if body_form is not BodyForm.NONE:
        fields["body"] = body_as(message.body, body_form)
        if message.body_error:
            fields["bodyError"] = message.body_error
    return fields
