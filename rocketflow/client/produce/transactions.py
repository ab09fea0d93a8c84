"""Producers of transactions: a message that consumers see if a local transaction commits.

RocketMQ's source: client/producer/TransactionMQProducer.java, client/impl/producer/DefaultMQProducerImpl.java
(sendMessageInTransaction, endTransaction, checkTransactionState).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

from rocketflow.client.errors import ClientError
from rocketflow.client.produce.errors import BadMessageError
from rocketflow.client.produce.producer import Producer
from rocketflow.client.produce.results import SendResult, SendStatus
from rocketflow.client.produce.trace import Traced, ended_row
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.headers.transaction import CheckTransactionStateRequestHeader, EndTransactionRequestHeader
from rocketflow_store.spi.ids import decode_offset_msg_id
from rocketflow_store.spi.messages import Message, ReceivedMessage, decode_records

if TYPE_CHECKING:
    from rocketflow.client.produce.options import ProducerOptions
    from rocketflow.remoting.command import Command

LOG: Final = logging.getLogger("rocketflow.client")

M = TypeVar("M")

_GROUP: Final = "PGROUP"


class TransactionState(IntEnum):
    """The states of a local transaction; a broker asks again for one that is unknown."""

    UNKNOWN = 0
    COMMIT = 8
    ROLLBACK = 12


_STATE_NAMES: Final = {
    TransactionState.UNKNOWN: "UNKNOW",
    TransactionState.COMMIT: "COMMIT_MESSAGE",
    TransactionState.ROLLBACK: "ROLLBACK_MESSAGE",
}


class TransactionResult(NamedTuple):
    """A stored half message, the state that its broker was sent, and what the local transaction raised."""

    send: SendResult
    state: TransactionState
    error: Exception | None = None


Execute = Callable[[Message], Awaitable[TransactionState]]
"""Runs the local transaction of a message that a broker has stored; `unique_key` identifies it."""

Check = Callable[[ReceivedMessage], Awaitable[TransactionState]]
"""Returns the state of the local transaction of a message, `message_id` is its unique key."""


class TransactionProducer(Producer):
    """Sends messages that consumers see once their local transactions commit, and those that `Producer` sends.

    A broker that has not been sent the state of a transaction asks for it by `check`, any producer of the group: the
    state must be found where the local transaction has stored it.
    """

    def __init__(self, options: ProducerOptions, check: Check) -> None:
        super().__init__(options, {RequestCode.CHECK_TRANSACTION_STATE: self._check_back})
        self._check = check
        self._checking: set[asyncio.Task[object]] = set()

    async def close(self) -> None:
        """Close as `Producer.close` does, once the checks that run have ended or `send_timeout_s` is over."""
        if self._checking:
            await asyncio.wait(self._checking, timeout=self.options.send_timeout_s)
        await super().close()

    async def send_in_transaction(
        self, message: Message, execute: Execute, *, timeout_s: float = 0.0
    ) -> TransactionResult:
        """Store a message as a half message, run `execute`, and send its state to the broker.

        What `execute` raises is logged and returned: the state is unknown then, and the broker will ask. A message
        whose store is not as safe as the broker's settings ask is rolled back without a local transaction. Raises as
        `send` does.
        """
        if message.is_delayed:
            raise BadMessageError(f"topic {message.topic!r}: a message in a transaction cannot be delayed")
        half = replace(message, properties={**message.properties, "TRAN_MSG": "true", _GROUP: self.options.group})
        result = await self.send(half, timeout_s=timeout_s)
        message.uniq_key = half.uniq_key
        state, error = TransactionState.ROLLBACK, None
        if result.status is SendStatus.SEND_OK:
            state, error = await _state(execute, message, result.message_id)
        header = EndTransactionRequestHeader(
            topic=message.topic,
            producer_group=self.options.group,
            tran_state_table_offset=result.queue_offset,
            commit_log_offset=decode_offset_msg_id(result.offset_message_id)[1],
            commit_or_rollback=state,
            from_transaction_check=False,
            msg_id=result.message_id,
            transaction_id=result.transaction_id,
            bname=result.queue.broker_name,
        )
        try:
            await self._end(
                self.cluster.broker_address(result.queue.broker_name), header, Traced.of(message, result.message_id)
            )
        except ClientError as failure:
            LOG.warning("the state of transaction %s was not sent; the broker will ask: %s", result.message_id, failure)
        return TransactionResult(result, state, error)

    async def _check_back(self, command: Command, address: str) -> None:
        """Answer a broker that asks for the state of a transaction. Raises HeaderError and ClientError."""
        asked = command.header(CheckTransactionStateRequestHeader)
        message = next(decode_records(command.body))
        group = message.properties.get(_GROUP)
        if group != self.options.group:
            LOG.warning("%s: asks group %s for a transaction of group %s", address, self.options.group, group)
            return
        task = cast("asyncio.Task[object]", asyncio.current_task())
        self._checking.add(task)
        task.add_done_callback(self._checking.discard)
        state, _ = await _state(self._check, message, message.message_id)
        header = EndTransactionRequestHeader(
            topic=message.topic,
            producer_group=self.options.group,
            tran_state_table_offset=asked.tran_state_table_offset,
            commit_log_offset=asked.commit_log_offset,
            commit_or_rollback=state,
            from_transaction_check=True,
            msg_id=message.message_id,
            transaction_id=asked.transaction_id,
            bname=asked.bname,
        )
        traced = Traced(message.topic, message.message_id, message.tags or "", " ".join(message.keys))
        await self._end(address, header, traced)

    async def _end(self, address: str, header: EndTransactionRequestHeader, traced: Traced) -> None:
        await self.cluster.notify(address, RequestCode.END_TRANSACTION, header)
        if self.options.trace_topic:
            state = _STATE_NAMES[TransactionState(header.commit_or_rollback)]
            now_ms, is_check = int(time.time() * 1000), bool(header.from_transaction_check)
            group, transaction_id = self.options.group, header.transaction_id or "null"
            self.trace(ended_row(traced, group, now_ms, address, transaction_id, state, is_check=is_check))


async def _state(
    function: Callable[[M], Awaitable[TransactionState]], message: M, message_id: str
) -> tuple[TransactionState, Exception | None]:
    """Return the state that the user's function returns, unknown where it raises or returns something else."""
    try:
        return TransactionState(await function(message)), None
    except Exception as error:
        LOG.exception("the state of transaction %s is unknown: %s failed", message_id, function)
        return TransactionState.UNKNOWN, error
