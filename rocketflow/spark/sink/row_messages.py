"""Rows as messages of RocketMQ's protocol, and the unique keys by which a replay finds them: pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.spi.ids import string_hash
from rocketflow_store.spi.messages import Message

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

GROUP_ROWS: Final = 32
GROUP_BYTES: Final = 256 << 10
"""A group of rows is one request: it ends with this many rows or bytes."""

_COUNTER_MASK: Final = 0xFFFF


@dataclass(slots=True)
class RowMessage:
    """A row's message; `queue_id` is that of its column, `row` its number in the partition."""

    message: Message
    row: int
    queue_id: int | None = None


@dataclass(slots=True)
class Group:
    """Messages that are sent to one queue in one request: all are stored, or none."""

    messages: list[Message]
    queue: int
    """Number of the queue among those of the topic."""
    is_free: bool
    """True if another queue may take the messages: neither a column nor a sharding key chose this one."""

    @property
    def topic(self) -> str:
        """The topic of all messages."""
        return self.messages[0].topic


class RowKeys:
    """UNIQ_KEYs of one partition's rows: the same for each replay of the batch with the same partitions.

    They have the form of RocketMQ's keys, 32 hexadecimal digits: ten bytes of a hash in place of address, process and
    class loader, a time of 0 (the beginning of the month, which no message is older than), and the row's number.
    `mqadmin queryMsgByUniqueKey` finds a message within the calendar month in which it was stored.

    RocketMQ's source: common/message/MessageClientIDSetter.java (getNearlyTimeFromID).
    """

    def __init__(self, sink_id: str, batch_id: int, partition: int) -> None:
        self._name = f"{sink_id}\0{batch_id}\0{partition}"

    def key(self, row: int) -> str:
        """Return the key of a row of the partition."""
        high, low = divmod(row, _COUNTER_MASK + 1)
        digest = hashlib.sha256(f"{self._name}\0{high}".encode()).digest()[:10]
        return (digest + bytes(4) + low.to_bytes(2, "big")).hex().upper()


def row_messages(batch: pa.RecordBatch, first_row: int, topic: str | None, keys: RowKeys) -> Iterator[RowMessage]:
    """Yield the messages of a checked batch; `topic` wins over the column of that name."""
    for at, row in enumerate(batch.to_pylist(), first_row):
        body = row["body"]
        message = Message(
            topic=topic if topic is not None else row["topic"],
            body=body.encode() if isinstance(body, str) else body,
            tags=row.get("tags") or "",
            keys=_without_nulls(row.get("keys")),
            sharding_key=row.get("shardingKey") or "",
            properties={name: value for name, value in row.get("properties") or () if value is not None},
            flag=row.get("flag") or 0,
            delay_level=row.get("delayTimeLevel") or 0,
            deliver_at_ms=_ms(row.get("deliverTimestamp")),
            uniq_key=keys.key(at),
        )
        yield RowMessage(message, at, row.get("queueId"))


def groups(rows: Sequence[RowMessage], queue_count: Callable[[str], int], turn: int) -> tuple[list[Group], int]:
    """Divide rows into groups, in their order within each queue; return them, and the turn of the next ones.

    Rows with a queue id or a sharding key go to that queue; the others take turns, a group at a time.
    """
    found: list[Group] = []
    open_groups: dict[tuple[str, int | None], tuple[Group, int]] = {}
    for one in rows:
        message = one.message
        chosen = _queue_of(one, queue_count(message.topic))
        size = len(message.body) + 200
        key = message.topic, chosen
        known = open_groups.get(key)
        if known is not None and not message.is_delayed and len(known[0].messages) < GROUP_ROWS:
            group, filled = known
            if filled + size <= GROUP_BYTES:
                group.messages.append(message)
                open_groups[key] = group, filled + size
                continue
        if chosen is None:
            queue, turn = turn % queue_count(message.topic), turn + 1
        else:
            queue = chosen
        group = Group([message], queue, is_free=chosen is None)
        found.append(group)
        if not message.is_delayed:  # RocketMQ's batches have no delays
            open_groups[key] = group, size
    return found, turn


def _queue_of(one: RowMessage, count: int) -> int | None:
    if one.queue_id is not None:
        return one.queue_id % count
    if one.message.sharding_key:
        value = string_hash(one.message.sharding_key)
        return abs(value) % count if value != -(1 << 31) else 0
    return None


def _without_nulls(keys: str | list[str | None] | None) -> str | list[str]:
    if isinstance(keys, str):
        return keys
    return [key for key in keys or () if key is not None]


def _ms(time: datetime | Any) -> int:
    return 0 if time is None else int(time.timestamp() * 1000)
