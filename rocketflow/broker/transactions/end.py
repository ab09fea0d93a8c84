"""The end of a transaction: its producer commits the message or rolls it back.

RocketMQ's source: broker/processor/EndTransactionProcessor.java.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rocketflow.aio.server import RefusedError, Request
from rocketflow.broker.access import PUBLISH
from rocketflow.broker.transactions.messages import COMMIT, ROLLBACK, Half, committed_message, read_half
from rocketflow.broker.transactions.walk import Rules, ends_too_late
from rocketflow.remoting.codes import ResponseCode
from rocketflow.remoting.headers.transaction import EndTransactionRequestHeader
from rocketflow_store import PutMessageStatus, WouldBlockError
from rocketflow_store.spi.broker import RawMessage, decode_stored
from rocketflow_store.spi.names import HALF_TOPIC

if TYPE_CHECKING:
    from rocketflow.broker.access import Access
    from rocketflow.broker.counts import MessageCounts
    from rocketflow.broker.transactions.marked_puts import MarkedPuts
    from rocketflow.broker.transactions.recent_halves import RecentHalves
    from rocketflow_store import PutMessageResult
    from rocketflow_store.spi.broker import WritingStore

MAX_COMMITS: Final = 256
MAX_COMMIT_BYTES: Final = 1024 * 1024
"""Messages that one op mark commits, and the bytes of their bodies."""

_CODES: Final = {
    PutMessageStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutMessageStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
    PutMessageStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
}


class _End(NamedTuple):
    """A transaction that ends: its request, the offset of its half message, what a commit stores, its real topic.

    `born_ms` is when its message was made; `was_open` if it was undecided.
    """

    request: Request
    half_offset: int
    message: RawMessage | None
    topic: str
    born_ms: int
    was_open: bool


class TransactionEnds:
    """Request 37. The ends of one iteration of the loop share op marks of at most `rules.max_mark_bytes` bytes.

    `is_open` says whether the half message at an offset is undecided and counted.
    """

    def __init__(
        self,
        store: WritingStore,
        puts: MarkedPuts,
        recent: RecentHalves,
        rules: Rules,
        counts: MessageCounts,
        is_open: Callable[[int], bool],
        access: Access,
    ) -> None:
        self._access = access
        self._recent = recent
        self._counts = counts
        self._store = store
        self._puts = puts
        self._rules = rules
        self._is_open = is_open
        self._ends: list[_End] = []

    def end(self, request: Request) -> Coroutine[Any, Any, None] | None:
        """Commit or roll back a half message, and answer once its op mark is stored; else give no answer."""
        header = request.command.header(EndTransactionRequestHeader)
        if header.commit_or_rollback not in (COMMIT, ROLLBACK):
            return None
        try:
            half = self._recent.take(header.tran_state_table_offset) or self._half(header, nowait=True)
        except WouldBlockError:
            return self._end_later(request, header)
        self._end(request, header, half)
        return None

    async def _end_later(self, request: Request, header: EndTransactionRequestHeader) -> None:
        self._end(request, header, await asyncio.to_thread(self._half, header))

    def _half(self, header: EndTransactionRequestHeader, *, nowait: bool = False) -> Half | None:
        """Return the half message at a request's offset, None if there is none; may wait without `nowait`."""
        found = self._store.read_messages(HALF_TOPIC, 0, header.tran_state_table_offset, 1, 1, nowait=nowait)
        if not found.count or found.offsets[0] != header.tran_state_table_offset:
            return None
        return read_half(decode_stored(found.data))

    def _end(self, request: Request, header: EndTransactionRequestHeader, half: Half | None) -> None:
        if half is None:
            raise _refused("Find prepared transaction message failed")
        self._access.check_stored(request, half.stored, PUBLISH)
        if not header.from_transaction_check and ends_too_late(half, self._rules, int(time.time() * 1000)):
            raise RefusedError(ResponseCode.ILLEGAL_OPERATION, "the check immunity time has passed: wait for the check")
        if half.group != header.producer_group:
            raise _refused("The producer group wrong")
        if half.stored.phy_offset != header.commit_log_offset:
            raise _refused("The commit log offset wrong")
        message = committed_message(half) if header.commit_or_rollback == COMMIT else None
        if not self._ends:
            asyncio.get_running_loop().call_soon(self._put_all)
        offset = header.tran_state_table_offset
        born_ms, was_open = half.stored.message.born_ms, self._counts.are_exported and self._is_open(offset)
        self._ends.append(_End(request, offset, message, half.real_topic, born_ms, was_open))

    def _put_all(self) -> None:
        """Put the ends of this iteration, as few op marks as their limits allow."""
        ends, self._ends = self._ends, []
        group: list[_End] = []
        mark_bytes = commit_bytes = 0
        for one in ends:
            own_mark = len(str(one.half_offset)) + 1
            own_commit = 0 if one.message is None else len(one.message.body)
            is_full = (
                len(group) >= MAX_COMMITS
                or mark_bytes + own_mark > self._rules.max_mark_bytes
                or commit_bytes + own_commit > MAX_COMMIT_BYTES
            )
            if group and is_full:
                self._put(group)
                group, mark_bytes, commit_bytes = [], 0, 0
            group.append(one)
            mark_bytes += own_mark
            commit_bytes += own_commit
        self._put(group)

    def _put(self, ends: list[_End]) -> None:
        """Store committed messages and the mark of all `ends`, and answer."""
        ordered = sorted(ends, key=lambda one: one.message is None)
        messages = [one.message for one in ordered if one.message is not None]

        def done(results: list[PutMessageResult]) -> None:
            now_ms = time.time() * 1000
            for one, result in zip(ordered, results, strict=True):
                if result.stored:
                    one.request.reply()
                    age_s = (now_ms - one.born_ms) / 1000
                    self._counts.ended(one.topic, age_s, is_commit=one.message is not None)
                    if one.was_open:
                        self._counts.half(one.topic, -1)
                else:
                    code = _CODES.get(result.status, ResponseCode.SYSTEM_ERROR)
                    one.request.reply(code, remark=f"{result.status.name}: {result.why}")

        def refuse(error: RefusedError) -> None:
            for one in ordered:
                one.request.refuse(error)

        self._puts.put(messages, [one.half_offset for one in ordered], done, refuse)


def _refused(remark: str) -> RefusedError:
    return RefusedError(ResponseCode.SYSTEM_ERROR, remark)
