"""The end of a transaction: its producer commits the message or rolls it back.

A half message is decided once. An end that names an older copy of it ends the newest; one that says again how it ended
is answered as the first, another one is refused.

RocketMQ's source: broker/processor/EndTransactionProcessor.java.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from rocketflow.access.permissions import PUBLISH, Action, client_row, topic_of
from rocketflow.access.served import serves
from rocketflow.aio.server import RefusedError, Request
from rocketflow.broker.transactions.end_puts import End
from rocketflow.broker.transactions.messages import COMMIT, ROLLBACK, Half, committed_message, read_half
from rocketflow.broker.transactions.walk import Rules, ends_too_late
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers.transaction import EndTransactionRequestHeader
from rocketflow_store import PutMessageStatus, WouldBlockError
from rocketflow_store.spi.broker import decode_stored
from rocketflow_store.spi.names import HALF_TOPIC

if TYPE_CHECKING:
    from rocketflow.broker.figures import MessageCounts
    from rocketflow.broker.operators import Access
    from rocketflow.broker.transactions.check import TransactionChecks
    from rocketflow.broker.transactions.end_puts import EndPuts
    from rocketflow.broker.transactions.recent_halves import RecentHalves
    from rocketflow_store import PutMessageResult
    from rocketflow_store.spi.broker import WritingStore

_CODES: Final = {
    PutMessageStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutMessageStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
    PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutMessageStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
}


class TransactionEnds:
    """Request 37."""

    def __init__(
        self,
        store: WritingStore,
        puts: EndPuts,
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
        """Put the end of a half message, unless it is decided; answer then."""
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
            self._put(request, half, newest, is_commit=is_commit)

    def _put(self, request: Request, half: Half, newest: int, *, is_commit: bool) -> None:
        """Put an end with the others of this iteration, and answer once it is stored."""
        chain = half.chain
        # the mark names the newest copy, and the first if the copy says which it is
        marked = [newest, chain] if isinstance(chain, int) and chain != newest else [newest]

        def done(result: PutMessageResult) -> None:
            if result.stored:
                request.reply()
                self._ended(half, is_commit=is_commit)
            else:
                request.reply(refusal_code(result), remark=f"{result.status.name}: {result.why}")
            self._decisions.release(newest)

        def refuse(error: RefusedError) -> None:
            request.refuse(error)
            self._decisions.release(newest)

        self._puts.add(End(marked, committed_message(half) if is_commit else None, done, refuse))

    def _ended(self, half: Half, *, is_commit: bool) -> None:
        """Take note of an end that is stored."""
        self._decisions.closed(half)
        self._decisions.end(half.chain, is_commit=is_commit)
        self._counts.ended(half.real_topic, [half.stored.message.born_ms], time.time() * 1000, is_commit=is_commit)


def refusal_code(result: PutMessageResult) -> int:
    """Return the code of the answer to an end that the store refused."""
    return _CODES.get(result.status, ResponseCode.SYSTEM_ERROR)


def _refused(remark: str) -> RefusedError:
    return RefusedError(ResponseCode.SYSTEM_ERROR, remark)
