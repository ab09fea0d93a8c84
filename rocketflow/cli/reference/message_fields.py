"""The fields of a message in the JSON that commands print."""

from __future__ import annotations

from typing import Final

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
