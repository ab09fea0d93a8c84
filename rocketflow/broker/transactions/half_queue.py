"""Reads of the half queue and of the op queue. They may wait for the disk: call them in a thread.

RocketMQ's source: broker/transaction/queue/TransactionalMessageBridge.java (getHalfMessage, getOpMessage).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow.broker.transactions.messages import (
    OP_TOPIC,
    Half,
    copied_message,
    expired_message,
    marked_commits,
    marked_offsets,
    read_half,
)
from rocketflow.broker.transactions.op_marks import OpMark
from rocketflow.broker.transactions.walk import Decision, Rules, decide
from rocketflow_store.spi.broker import RawMessage, StoredMessage, stored_messages
from rocketflow_store.spi.names import HALF_TOPIC

if TYPE_CHECKING:
    from rocketflow_store.spi.broker import WritingStore

LOG: Final = logging.getLogger("rocketflow.broker")

SPAN: Final = 10_000
"""Half offsets that one scan looks at."""
MAX_ACTED: Final = 500
MAX_ACTED_BYTES: Final = 2 * 1024 * 1024
"""Half messages that one scan finds to be copied or expired, and the bytes of their bodies."""
MARKS_AT_ONCE: Final = 5_000
_READ_COUNT: Final = 32
_READ_BYTES: Final = 1024 * 1024
"""Messages and bytes of one read: the store's limit (maxTransferCountOnMessageInMemory) gives no more messages."""


class Acted(NamedTuple):
    """A half message to be replaced by another message; its producer is asked if `is_check`."""

    half: Half
    message: RawMessage
    is_check: bool


class Scan(NamedTuple):
    """Result of a scan: what to do, what waits, the half offset after the last that was read, and if the round ends."""

    acted: list[Acted]
    waiting: list[Half]
    next_offset: int
    stops: bool


class Place(NamedTuple):
    """A half message without its content: its offset, that which it had before it was copied, chain and real topic."""

    offset: int
    first_offset: int | None
    chain: int | str
    real_topic: str


class HalfQueue:
    """The half queue and the op queue of a store, each the queue 0 of its topic."""

    def __init__(self, store: WritingStore) -> None:
        self._store = store

    def half_bounds(self) -> tuple[int, int]:
        """Return the first half offset and the one after the last; does not wait."""
        return self._store.bounds(HALF_TOPIC, 0)

    def op_bounds(self) -> tuple[int, int]:
        """Return the first op offset and the one after the last; does not wait."""
        return self._store.bounds(OP_TOPIC, 0)

    def read_marks(self, start: int, end: int) -> list[OpMark]:
        """Return the op marks of [start, end)."""
        return [
            OpMark(one.queue_offset, marked_offsets(one.message), marked_commits(one.message))
            for one in self._read(OP_TOPIC, start, end)
        ]

    def places(self, offsets: range) -> list[Place]:
        """Return the half messages at offsets; those that name no real topic are skipped."""
        halves = (read_half(one) for one in self._read(HALF_TOPIC, offsets.start, offsets.stop))
        return [
            Place(half.stored.queue_offset, half.first_offset, half.chain, half.real_topic)
            for half in halves
            if half is not None
        ]

    def scan(
        self,
        offsets: Sequence[int],
        is_marked: Callable[[int], bool],
        rules: Rules,
        now_ms: int,
        round_ms: int,
    ) -> Scan:
        """Read and decide half messages in the order of `offsets`, until there are enough to act on."""
        acted: list[Acted] = []
        waiting: list[Half] = []
        size = 0
        for stored in self._halves(one for one in offsets if not is_marked(one)):
            half = read_half(stored)
            if half is None:
                LOG.warning("half message %d names no real topic: it is passed", stored.queue_offset)
                continue
            if half.first_offset is not None and is_marked(half.first_offset):
                continue
            decision = decide(half, rules, now_ms, round_ms)
            if decision is Decision.STOP:
                return Scan(acted, waiting, stored.queue_offset, stops=True)
            if decision is Decision.WAIT:
                waiting.append(half)
                continue
            is_check = decision is Decision.CHECK
            message = copied_message(half, half.checks + 1) if is_check else expired_message(half)
            acted.append(Acted(half, message, is_check))
            size += len(message.body)
            if len(acted) >= MAX_ACTED or size >= MAX_ACTED_BYTES:
                return Scan(acted, waiting, stored.queue_offset + 1, stops=False)
        return Scan(acted, waiting, offsets[-1] + 1 if offsets else 0, stops=False)

    def _halves(self, offsets: Iterable[int]) -> Iterator[StoredMessage]:
        """Yield half messages; those next to each other are read together."""
        start = end = -1
        for one in offsets:
            if one == end and end - start < MAX_ACTED:
                end += 1
                continue
            if start >= 0:
                yield from self._read(HALF_TOPIC, start, end)
            start, end = one, one + 1
        if start >= 0:
            yield from self._read(HALF_TOPIC, start, end)

    def _read(self, topic: str, start: int, end: int) -> Iterator[StoredMessage]:
        """Yield the messages of [start, end); damaged ones are omitted, and reported by the store."""
        at = start
        while at < end:
            found = self._store.read_messages(topic, 0, at, min(end - at, _READ_COUNT), _READ_BYTES)
            yield from stored_messages(found.data)
            if found.next_offset <= at:
                return
            at = found.next_offset
