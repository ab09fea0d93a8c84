"""Producers with plain methods, for any number of threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from rocketflow.client import produce
from rocketflow.client.sync.bridge import LOOP, SyncClient, in_thread

if TYPE_CHECKING:
    from rocketflow.client.produce import ProducerOptions, SendResult, TransactionResult, TransactionState
    from rocketflow.client.produce.selectors import Selector
    from rocketflow.remoting.bodies import MessageQueue
    from rocketflow_store.spi.messages import Message, ReceivedMessage


P = TypeVar("P", bound=produce.Producer)


class SyncProducer(SyncClient[P]):
    """Sends messages as `rocketflow.client.Producer` does, which describes options, errors and `to`."""

    def queues(self, topic: str) -> Sequence[MessageQueue]:
        """Return the queues that messages of a topic may be sent to."""
        return self._wait(self._client.queues(topic))

    def send(
        self, message: Message, *, to: MessageQueue | Selector | None = None, timeout_s: float = 0.0
    ) -> SendResult:
        """Send a message and return where it was stored."""
        return self._wait(self._client.send(message, to=to, timeout_s=timeout_s))

    def send_async(
        self, message: Message, *, to: MessageQueue | Selector | None = None, timeout_s: float = 0.0
    ) -> Future[SendResult]:
        """Begin to send a message and return the future of what `send` would return.

        It waits for room where too many messages wait for answers.
        """
        task = self._wait(self._client.send_async(message, to=to, timeout_s=timeout_s))
        return LOOP.submit(_result(task))

    def send_one_way(self, message: Message, *, to: MessageQueue | Selector | None = None) -> None:
        """Write a message to a broker's connection: no answer says whether it was stored."""
        self._wait(self._client.send_one_way(message, to=to))

    def send_batch(
        self, messages: Sequence[Message], *, to: MessageQueue | Selector | None = None, timeout_s: float = 0.0
    ) -> SendResult:
        """Send messages of one topic in one request: all are stored, one after the other in one queue, or none."""
        return self._wait(self._client.send_batch(messages, to=to, timeout_s=timeout_s))

    def request(
        self, message: Message, *, to: MessageQueue | Selector | None = None, timeout_s: float = 0.0
    ) -> ReceivedMessage:
        """Send a message and return the reply of its consumer. Raises NoReplyError."""
        return self._wait(self._client.request(message, to=to, timeout_s=timeout_s))

    def recall(self, topic: str, handle: str) -> str:
        """Cancel a timer message by the `recall_handle` of its result, before it is due; return its unique key."""
        return self._wait(self._client.recall(topic, handle))


class Producer(SyncProducer[produce.Producer]):
    """Sends messages; `rocketflow.client.Producer` describes options, errors and `to`."""

    def __init__(self, options: ProducerOptions) -> None:
        super().__init__(lambda: produce.Producer(options))


class TransactionProducer(SyncProducer[produce.TransactionProducer]):
    """Sends messages in transactions, as `rocketflow.client.TransactionProducer` does; functions run in threads."""

    def __init__(self, options: ProducerOptions, check: Callable[[ReceivedMessage], TransactionState]) -> None:
        super().__init__(lambda: produce.TransactionProducer(options, in_thread(check)))

    def send_in_transaction(
        self, message: Message, execute: Callable[[Message], TransactionState], *, timeout_s: float = 0.0
    ) -> TransactionResult:
        """Store a message as a half message, run `execute` in a thread, and send its state to the broker."""
        return self._wait(self._client.send_in_transaction(message, in_thread(execute), timeout_s=timeout_s))


async def _result(task: asyncio.Task[SendResult]) -> SendResult:
    return await task
