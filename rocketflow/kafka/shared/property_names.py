"""The properties that hold a Kafka message's parts in a stored message, and the texts that they may hold.

    KAFKA_TOPIC, KAFKA_PARTITION, KAFKA_OFFSET   the origin; a message with KAFKA_OFFSET came from Kafka
    KAFKA_KEY_ENCODING      base64: __SHARDINGKEY is the key in base64; empty: the key exists and has no bytes
    KAFKA_TOMBSTONE         true: the value was null (the body is empty)
    KAFKA_TIMESTAMP_TYPE    LogAppendTime if the broker set the timestamp
    KAFKA_TIMESTAMP         the timestamp in ms if bornTimestamp cannot hold it (-1: none)
    KAFKA_REFUSED           the reason why a message was quarantined; with KAFKA_VALUE_SIZE, KAFKA_VALUE_SHA256 and, if
                            they were cut, KAFKA_KEY_SIZE, KAFKA_HEADERS_LEFT_OUT (number of omitted headers)
    KAFKA_HEADERS           all headers in order as JSON, if one of them cannot be a property of its own:
                            "name" (its value is the property), ["name", "base64 of the value"], ["name", null]

A message that did not come from Kafka has a header `rocketmq.properties`: a JSON object of the properties that a header
of their name could not restore. Copied into a store they become properties again.

A header becomes a property of its own if its name and value are plain text, it occurs once, and neither RocketMQ nor
this bridge gives its name a meaning.
"""

from __future__ import annotations

import re
from typing import Final

ORIGIN_TOPIC: Final = "KAFKA_TOPIC"
ORIGIN_PARTITION: Final = "KAFKA_PARTITION"
ORIGIN_OFFSET: Final = "KAFKA_OFFSET"
KEY_ENCODING: Final = "KAFKA_KEY_ENCODING"
TOMBSTONE: Final = "KAFKA_TOMBSTONE"
TIMESTAMP_TYPE: Final = "KAFKA_TIMESTAMP_TYPE"
TIMESTAMP: Final = "KAFKA_TIMESTAMP"
HEADERS: Final = "KAFKA_HEADERS"
REFUSED_BECAUSE: Final = "KAFKA_REFUSED"
VALUE_SIZE: Final = "KAFKA_VALUE_SIZE"
VALUE_SHA256: Final = "KAFKA_VALUE_SHA256"
KEY_SIZE: Final = "KAFKA_KEY_SIZE"
HEADERS_LEFT_OUT: Final = "KAFKA_HEADERS_LEFT_OUT"

BASE64: Final = "base64"
EMPTY_KEY: Final = "empty"
LOG_APPEND_TIME: Final = "LogAppendTime"
TRUE: Final = "true"

ROCKETMQ: Final = "rocketmq."
"""The prefix of header names that the bridge gives a meaning to."""
TAGS_HEADER: Final = "rocketmq.TAGS"
KEYS_HEADER: Final = "rocketmq.KEYS"
FLAG_HEADER: Final = "rocketmq.FLAG"
UNIQ_KEY_HEADER: Final = "rocketmq.UNIQ_KEY"
ORIGIN_HEADER: Final = "rocketmq.origin"
BODY_ERROR_HEADER: Final = "rocketmq.bodyError"
"""Why a value is a body as it is stored: it cannot be decoded."""
PROPERTIES_HEADER: Final = "rocketmq.properties"

MAX_KEYS_SIZE: Final = 1024
"""Longer keys become only the sharding key, not KEYS, and are not in the index."""
MAX_BORN_MS: Final = 253_402_300_799_999
"""The end of the year 9999: most tools cannot represent later timestamps as dates."""
_MAX_NAME: Final = 255
_NAME: Final = re.compile(rf"[A-Za-z0-9_.:/@$+-]{{1,{_MAX_NAME}}}")
_MEANINGS: Final = """KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET
    BUYER_ID ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME MSG_REGION TRACE_ON UNIQ_KEY
    EXTEND_UNIQ_INFO MAX_RECONSUME_TIMES CONSUME_START_TIME DUP_INFO CHECK_IMMUNITY_TIME_IN_SECONDS CLUSTER
    TRAN_PREPARED_QUEUE_OFFSET TRANSACTION_CHECK_TIMES TRANSACTION_ID INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL
    ARRIVE_TIME PUSH_REPLY_TIME MSG_TYPE FIRST_POP_TIME POP_CK POP_CK_OFFSET 1ST_POP_TIME TRACE_CONTEXT
    LITE_TOPIC DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID STARTDELIVERTIME"""
_UNSTORABLE: Final = re.compile("[\x01\x02\ud800-\udfff]")
_GIVEN_A_MEANING: Final = frozenset(_MEANINGS.split())
_PREFIXES: Final = ("KAFKA_", "INNER_", "TIMER_", "__", "TRANSACTION_", "DLQ_")
_PLACED: Final = frozenset({"KEYS", "TAGS", "UNIQ_KEY", "__SHARDINGKEY"})
"""Properties that have headers `rocketmq.*` of their own, or become the key."""
_NOT_CARRIED: Final = frozenset(
    {
        *("DELAY", "REAL_TOPIC", "REAL_QID", "__CRC32#", "WAIT", "MSG_REGION", "TRACE_ON", "CLUSTER", "MIN_OFFSET"),
        *("MAX_OFFSET", ORIGIN_TOPIC, ORIGIN_PARTITION, ORIGIN_OFFSET, KEY_ENCODING, TOMBSTONE, TIMESTAMP_TYPE),
        *(TIMESTAMP, HEADERS, REFUSED_BECAUSE, VALUE_SIZE, VALUE_SHA256, KEY_SIZE, HEADERS_LEFT_OUT),
    }
)
"""Properties that a store, broker or client writes for its own use, those of a completed delayed delivery (the copy
would be delayed again), and the bridge's own."""
_NOT_CARRIED_PREFIXES: Final = ("INNER_", "TIMER_", "__RMQ.TRANSIENT.")


def has_a_meaning(name: str) -> bool:
    """Return True if RocketMQ or this bridge gives a property of this name a meaning."""
    return name in _GIVEN_A_MEANING or name.startswith(_PREFIXES)


def may_be_property(name: bytes) -> bool:
    """Return True if a header of this name may become a property of its own."""
    try:
        text = name.decode("ascii")
    except UnicodeDecodeError:
        return False
    return _NAME.fullmatch(text) is not None and not has_a_meaning(text)


def is_carried(name: str) -> bool:
    """Return True if a property was set by its sender, and must be restored when the message reaches another store."""
    return name not in _PLACED and name not in _NOT_CARRIED and not name.startswith(_NOT_CARRIED_PREFIXES)


def is_restorable(name: str) -> bool:
    """Return True if a header of this name with a plain-text value restores the property."""
    return may_be_property(name.encode("utf-8", "surrogatepass")) and not name.startswith(ROCKETMQ)


def may_be_stored(text: str) -> bool:
    """Return True if a text may be a property's name or value: not empty, valid UTF-8, no property separator."""
    return bool(text) and not _UNSTORABLE.search(text)


def is_text(raw: bytes) -> bool:
    """Return True if bytes are plain text: not empty, UTF-8 without control characters."""
    if not raw or any(octet < 0x20 or octet == 0x7F for octet in raw):
        return False
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
