"""Producers with plain methods, for any number of threads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from rocketflow.client import produce
from rocketflow.client.sync.bridge import LOOP, SyncClient

if TYPE_CHECKING:
    from rocketflow.client.messages import Message
    from rocketflow.client.produce import ProducerOptions, SendResult
    from rocketflow.client.produce.selectors import Selector
    from rocketflow.remoting.bodies import MessageQueue


class Producer(SyncClient[produce.Producer]):
    """Sends messages as `rocketflow.client.Producer` does, which describes options, errors and `to`."""

    def __init__(self, options: ProducerOptions) -> None:
        super().__init__(lambda: produce.Producer(options))

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


async def _result(task: asyncio.Task[SendResult]) -> SendResult:
    return await task
