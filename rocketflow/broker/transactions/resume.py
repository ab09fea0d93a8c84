"""Abandoned half messages, returned to the half queue by an operator.

RocketMQ's source: broker/processor/AdminBrokerProcessor.java (resumeCheckHalfMessage).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rocketflow.access.permissions import Action, change_row, cluster, topic_of
from rocketflow.access.served import serves
from rocketflow.aio.server import RefusedError, Request
from rocketflow.broker.transactions.messages import EXPIRED_TOPIC, copied_message, read_half
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers.transaction import ResumeCheckHalfMessageRequestHeader
from rocketflow_store import StoreError
from rocketflow_store.spi.broker import decode_stored
from rocketflow_store.spi.ids import decode_offset_msg_id

if TYPE_CHECKING:
    from rocketflow.broker.figures import MessageCounts
    from rocketflow.broker.transactions.check import TransactionChecks
    from rocketflow.broker.transactions.marked_puts import Gatherer
    from rocketflow.broker.transactions.messages import Half
    from rocketflow_store import PutMessageResult
    from rocketflow_store.spi.broker import WritingStore


class TransactionResumes:
    """Request 323."""

    def __init__(
        self, store: WritingStore, gatherer: Gatherer, counts: MessageCounts, checks: TransactionChecks
    ) -> None:
        self._counts = counts
        self._checks = checks
        self._store = store
        self._gatherer = gatherer

    @serves(
        RequestCode.RESUME_CHECK_HALF_MESSAGE,
        change_row(topic_of(Action.UPDATE, optional=True), cluster(Action.UPDATE)),
    )
    async def resume(self, request: Request) -> None:
        """Put a copy of an abandoned half message into the half queue, as one that was never checked."""
        header = request.command.header(ResumeCheckHalfMessageRequestHeader)
        await self._checks.learn()
        half, decisions = await asyncio.to_thread(self._half, header.msg_id or ""), self._checks.decisions
        if decisions.newest(half, by_key=False) is not None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"message {header.msg_id} is checked again already")

        def stored(result: PutMessageResult) -> None:
            if result.stored:
                decisions.copied(half.chain, result.queue_offset)
                self._counts.half(half.real_topic, 1)
                request.reply()
            else:
                request.reply(ResponseCode.SYSTEM_ERROR, remark=f"{result.status.name}: {result.why}")

        self._gatherer.add(copied_message(half, 0), stored, request.refuse)

    def _half(self, msg_id: str) -> Half:
        """Return the half message with an offset message id. Blocks. Raises RefusedError."""
        try:
            record = self._store.read_record(decode_offset_msg_id(msg_id)[1])
            stored = None if record is None else decode_stored(record)
        except StoreError as error:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, str(error)) from None
        half = None if stored is None or stored.message.topic != EXPIRED_TOPIC else read_half(stored)
        if half is None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"message {msg_id} is not in {EXPIRED_TOPIC}")
        return half
