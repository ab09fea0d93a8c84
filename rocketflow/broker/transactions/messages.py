"""The messages of a transaction, without I/O.

RocketMQ's source: broker/transaction/queue/TransactionalMessageBridge.java, TransactionalMessageUtil.java,
broker/processor/EndTransactionProcessor.java (endMessageTransaction),
broker/transaction/queue/DefaultTransactionalMessageCheckListener.java.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow_store.spi.broker import (
    RawMessage,
    StoredMessage,
    decode_properties,
    encode_properties,
    encode_stored,
)
from rocketflow_store.spi.names import HALF_TOPIC

if TYPE_CHECKING:
    from rocketflow_store import PutMessageResult

OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
EXPIRED_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
SYSTEM_GROUP: Final = "CID_RMQ_SYS_TRANS"
"""The group whose offsets say how far half messages and op marks are decided."""

PREPARED: Final = 0x4
COMMIT: Final = 0x8
ROLLBACK: Final = 0xC
"""Kinds of a transaction in a message's sysFlag and in a request."""

MARK_TAG: Final = "d"

OF_HALF: Final = (
    "REAL_TOPIC",
    "REAL_QID",
    "__transactionId__",
    "TRANSACTION_CHECK_TIMES",
    "TRAN_PREPARED_QUEUE_OFFSET",
    "TRAN_FIRST_QUEUE_OFFSET",
)
"""Properties that a half message has from the broker alone."""

_HALF: Final = re.compile(b"(?:^|\x02)TRAN_MSG\x01(?i:true)(?:\x02|$)")
_DELAY: Final = re.compile(b"(?:^|\x02)(?:DELAY\x01(?!0?\x02|-)|TIMER_(?:DELIVER_MS|DELAY_SEC|DELAY_MS)\x01)")
_UNIQ_KEY: Final = re.compile(b"(?:^|\x02)UNIQ_KEY\x01([^\x02]+)")
_BROKERS: Final = re.compile(f"(?:^|(?<=\x02))(?:{'|'.join(OF_HALF)})\x01[^\x02]*(?:\x02|$)".encode())
"""Properties that the broker gives a half message: a client cannot."""
_BROKERS_PARTS: Final = (b"REAL_", b"__transactionId__", b"TRANSACTION_", b"TRAN_PREP", b"TRAN_FIRST")
"""Parts of their names: a text without them has none, and is searched in a tenth of the time."""
_REAL_TOPIC: Final = re.compile(b"(?:^|\x02)REAL_TOPIC\x01([^\x02]+)")
_READ: Final = re.compile(
    b"\x02(REAL_TOPIC|REAL_QID|PGROUP|UNIQ_KEY|TRANSACTION_CHECK_TIMES|CHECK_IMMUNITY_TIME_IN_SECONDS"
    b"|TRAN_PREPARED_QUEUE_OFFSET|TRAN_FIRST_QUEUE_OFFSET)\x01([^\x02]+)"
)
_CHECKS: Final = re.compile(b"(?:^|(?<=\x02))TRANSACTION_CHECK_TIMES\x01[^\x02]*(?:\x02|$)")


class Half(NamedTuple):
    """A stored half message and what its properties say.

    `immunity_s` is the time in seconds before which its producer is not asked, None for the broker's;
    `first_offset` the half offset that it had before it was copied, if the copy has the same end. `chain` is the same
    for all copies of a message: the half offset of the first, or the UNIQ_KEY of a copy that does not name it.
    """

    stored: StoredMessage
    real_topic: str
    real_queue_id: int
    group: str
    uniq_key: str
    checks: int
    immunity_s: int | None
    first_offset: int | None
    chain: int | str


def is_half(message: RawMessage) -> bool:
    """Return whether a message that a client sends is a half message: a delayed retry of one is not."""
    if _HALF.search(message.properties) is None:
        return False
    return not (message.reconsume_times > 0 and is_delayed(message))


def whole_message(message: RawMessage) -> RawMessage:
    """Return a message with TRAN_MSG that is not half of a transaction, as readers see it.

    Clients before 4.6.1 send a delayed retry of a transaction's message with both: RocketMQ stores it where no reader
    looks.
    """
    is_retry = message.reconsume_times > 0 and is_delayed(message)
    return message._replace(sys_flag=message.sys_flag & ~ROLLBACK) if is_retry else message


def is_delayed(message: RawMessage) -> bool:
    """Return whether a message asks to be delivered later."""
    properties = message.properties
    return (b"DELAY" in properties or b"TIMER_" in properties) and _DELAY.search(properties) is not None


def half_message(message: RawMessage) -> RawMessage:
    """Return the half message of a client's message."""
    properties = message.properties
    if any(map(properties.__contains__, _BROKERS_PARTS)):
        properties = _BROKERS.sub(b"", properties)
    uniq_key = _UNIQ_KEY.search(properties) if b"UNIQ_KEY" in properties else None
    properties += b"REAL_TOPIC\x01%b\x02REAL_QID\x01%d\x02" % (message.topic.encode(), message.queue_id)
    if uniq_key is not None:
        properties += b"__transactionId__\x01%b\x02" % uniq_key[1]
    return message._replace(
        topic=HALF_TOPIC,
        queue_id=0,
        properties=properties,
        sys_flag=message.sys_flag & ~ROLLBACK,
        is_internal=True,
    )


def real_topic(message: RawMessage) -> str:
    """Return the topic of a half message's transaction, "" if it names none."""
    found = _REAL_TOPIC.search(message.properties)
    return found[1].decode("utf-8", "replace") if found else ""


def read_half(stored: StoredMessage) -> Half | None:
    """Return what a record of the half queue says, None if it names no real topic and queue."""
    properties: dict[bytes, bytes] = dict(_READ.findall(b"\x02" + stored.message.properties))
    topic, queue_id = properties.get(b"REAL_TOPIC"), _number(properties.get(b"REAL_QID"))
    if topic is None or queue_id is None:
        return None
    uniq_key = properties.get(b"UNIQ_KEY", b"").decode("utf-8", "replace")
    checks = _number(properties.get(b"TRANSACTION_CHECK_TIMES")) or 0
    first_offset = _number(properties.get(b"TRAN_PREPARED_QUEUE_OFFSET"))
    chain: int | str | None = _number(properties.get(b"TRAN_FIRST_QUEUE_OFFSET"))
    if chain is None:
        chain = first_offset
    if chain is None:
        is_first = stored.message.topic == HALF_TOPIC and not checks
        chain = stored.queue_offset if is_first else uniq_key
    return Half(
        stored,
        real_topic=topic.decode("utf-8", "replace"),
        real_queue_id=queue_id,
        group=properties.get(b"PGROUP", b"").decode("utf-8", "replace"),
        uniq_key=uniq_key,
        checks=checks,
        immunity_s=_number(properties.get(b"CHECK_IMMUNITY_TIME_IN_SECONDS")),
        first_offset=first_offset,
        chain=chain,
    )


def committed_message(half: Half) -> RawMessage:
    """Return the message that consumers see; its properties stay those of the half message, as RocketMQ's do."""
    message = half.stored.message
    return message._replace(
        topic=half.real_topic,
        queue_id=half.real_queue_id,
        sys_flag=message.sys_flag & ~ROLLBACK | COMMIT,
        prepared_offset=half.stored.phy_offset,
    )


def copied_message(half: Half, checks: int) -> RawMessage:
    """Return the half message that takes the place of another, with another count of checks.

    Unlike RocketMQ's it keeps the flag and the reconsume times of the message.
    """
    message = half.stored.message
    properties = _with_chain(half)
    if b"TRANSACTION_CHECK_TIMES" in properties:
        properties = _CHECKS.sub(b"", properties)
    properties += b"TRANSACTION_CHECK_TIMES\x01%d\x02" % checks
    return message._replace(topic=HALF_TOPIC, queue_id=0, properties=properties, is_internal=True)


def asked_record(half: Half, copy: RawMessage, placed: PutMessageResult, host: bytes) -> bytes:
    """Return the record with which a producer is asked: the copy, with the topic and queue of its transaction."""
    message = copy._replace(topic=half.real_topic, queue_id=half.real_queue_id)
    stored = StoredMessage(message, placed.queue_offset, placed.physical_offset, placed.store_timestamp, host)
    return encode_stored(stored)


def expired_message(half: Half) -> RawMessage:
    """Return the message for the topic of those whose producers were asked too often."""
    return half.stored.message._replace(topic=EXPIRED_TOPIC, queue_id=0, properties=_with_chain(half), is_internal=True)


def _with_chain(half: Half) -> bytes:
    """Return the properties of a half message with the half offset of its chain."""
    properties = half.stored.message.properties
    if not properties.endswith(b"\x02"):
        properties += b"\x02"
    if b"TRAN_FIRST_QUEUE_OFFSET\x01" in properties or not isinstance(half.chain, int):
        return properties
    return properties + b"TRAN_FIRST_QUEUE_OFFSET\x01%d\x02" % half.chain


def op_mark(
    half_offsets: Sequence[int], now_ms: int, host: bytes, *, needs: int, commits: int | None = None
) -> RawMessage:
    """Return the op mark of half messages; it is stored only with the `needs` messages before it.

    With `commits` it says that so many of the offsets were committed, and the others rolled back.
    """
    properties = {"WAIT": "true", "TAGS": MARK_TAG}
    if commits is not None:
        properties["TRAN_COMMITS"] = str(commits)
    return RawMessage(
        topic=OP_TOPIC,
        queue_id=0,
        body=(",".join(map(str, half_offsets)) + ",").encode(),
        properties=encode_properties(properties),
        flag=0,
        sys_flag=0,
        born_ms=now_ms,
        born_host=host,
        is_internal=True,
        needs=needs,
    )


def marked_offsets(message: RawMessage) -> list[int]:
    """Return the half offsets that an op mark names; parts that are no numbers are skipped."""
    if decode_properties(message.properties).get("TAGS") != MARK_TAG:
        return []
    return [int(one) for one in message.body.split(b",") if one.isdigit() and len(one) < 20]


def marked_commits(message: RawMessage) -> int | None:
    """Return how many of the first offsets of an op mark were committed; None if it does not mark ends, or is old."""
    return _number(decode_properties(message.properties).get("TRAN_COMMITS", "").encode())


def _number(text: bytes | None) -> int | None:
    return int(text) if text is not None and text.isdigit() and len(text) < 19 else None
