"""The end of a transaction: its producer commits the message or rolls it back.

A half message is decided once. An end that names an older copy of it ends the newest; one that says again how it ended
is answered as the first, another one is refused.

RocketMQ's source: broker/processor/EndTransactionProcessor.java.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rocketflow.access.permissions import PUBLISH, Action, client_row, topic_of
from rocketflow.access.served import serves
from rocketflow.aio.server import RefusedError, Request
from rocketflow.broker.transactions.messages import COMMIT, ROLLBACK, Half, committed_message, read_half
from rocketflow.broker.transactions.walk import Rules, ends_too_late
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers.transaction import EndTransactionRequestHeader
from rocketflow_store import PutMessageStatus, WouldBlockError
from rocketflow_store.spi.broker import RawMessage, decode_stored
from rocketflow_store.spi.names import HALF_TOPIC

if TYPE_CHECKING:
    from rocketflow.broker.figures import MessageCounts
    from rocketflow.broker.operators import Access
    from rocketflow.broker.transactions.check import TransactionChecks
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
    PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutMessageStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
}


class _End(NamedTuple):
    """A transaction that ends: its request and half message, the newest copy's offset, and what a commit stores."""

    request: Request
    half: Half
    newest: int
    message: RawMessage | None

    @property
    def marked(self) -> list[int]:
        """Return the half offsets that its op mark names: of the newest copy, and of the first if it says that."""
        chain = self.half.chain
        return [self.newest, chain] if isinstance(chain, int) and chain != self.newest else [self.newest]


class TransactionEnds:
    """Request 37. The ends of one iteration of the loop share op marks of at most `rules.max_mark_bytes` bytes."""

    def __init__(
        self,
        store: WritingStore,
        puts: MarkedPuts,
        recent: RecentHalves,
        rules: Rules,
        counts: MessageCounts,
        checks: TransactionChecks,
        access: Access,
    ) -> None:
        self._access = access
        self._recent = recent
        self._counts = counts
        self._store = store
        self._puts = puts
        self._rules = rules
        self._checks = checks
        self._decisions = checks.decisions
        self._ends: list[_End] = []

    @serves(RequestCode.END_TRANSACTION, client_row(topic_of(Action.PUB, optional=True), record=PUBLISH))
    def end(self, request: Request) -> Coroutine[Any, Any, None] | None:
        """Commit or roll back a half message, and answer once its op mark is stored; else give no answer."""
        header = request.command.header(EndTransactionRequestHeader)
        if header.commit_or_rollback not in (COMMIT, ROLLBACK):
            return None
        if not self._checks.knows(header.tran_state_table_offset):
            return self._end_later(request, header)
        try:
            half = self._recent.take(header.tran_state_table_offset) or self._half(header, nowait=True)
        except WouldBlockError:
            return self._end_later(request, header)
        self._end(request, header, half)
        return None

    async def _end_later(self, request: Request, header: EndTransactionRequestHeader) -> None:
        await self._checks.learn()
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
        self._access.check_stored(request, half.stored)
        if not header.from_transaction_check and ends_too_late(half, self._rules, int(time.time() * 1000)):
            raise RefusedError(ResponseCode.ILLEGAL_OPERATION, "the check immunity time has passed: wait for the check")
        if half.group != header.producer_group:
            raise _refused("The producer group wrong")
        if half.stored.phy_offset != header.commit_log_offset:
            raise _refused("The commit log offset wrong")
        self._decide(request, half, is_commit=header.commit_or_rollback == COMMIT)

    def _decide(self, request: Request, half: Half, *, is_commit: bool) -> None:
        """Put the end of a half message with those of this iteration, unless it is decided; answer then."""
        newest = self._checks.undecided(half)
        if newest is None:
            ended = self._decisions.ended(half)
            if ended is is_commit:
                request.reply()
            else:
                how = {True: "committed", False: "rolled back", None: "decided or abandoned"}[ended]
                request.refuse(_refused(f"The transaction was {how} before"))
        elif self._decisions.is_held(newest):
            self._decisions.when_released(newest, lambda: self._decide(request, half, is_commit=is_commit))
        else:
            self._decisions.hold(newest)
            if not self._ends:
                asyncio.get_running_loop().call_soon(self._put_all)
            self._ends.append(_End(request, half, newest, committed_message(half) if is_commit else None))

    def _put_all(self) -> None:
        """Put the ends of this iteration, as few op marks as their limits allow."""
        ends, self._ends = self._ends, []
        group: list[_End] = []
        mark_bytes = commit_bytes = 0
        for one in ends:
            own_mark = sum(len(str(offset)) + 1 for offset in one.marked)
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
                    self._ended(one, now_ms)
                else:
                    code = _CODES.get(result.status, ResponseCode.SYSTEM_ERROR)
                    one.request.reply(code, remark=f"{result.status.name}: {result.why}")
                self._decisions.release(one.newest)

        def refuse(error: RefusedError) -> None:
            for one in ordered:
                one.request.refuse(error)
                self._decisions.release(one.newest)

        self._puts.put(messages, [one.marked for one in ordered], done, refuse, len(messages))

    def _ended(self, one: _End, now_ms: float) -> None:
        """Take note of an end that is stored."""
        half, is_commit = one.half, one.message is not None
        self._decisions.closed(half)
        self._decisions.end(half.chain, is_commit=is_commit)
        age_s = (now_ms - half.stored.message.born_ms) / 1000
        self._counts.ended(half.real_topic, age_s, is_commit=is_commit)
        self._counts.half(half.real_topic, -1)


def _refused(remark: str) -> RefusedError:
    return RefusedError(ResponseCode.SYSTEM_ERROR, remark)
