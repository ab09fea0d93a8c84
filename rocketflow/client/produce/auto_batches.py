"""Messages of a topic that are sent one by one, collected into batches by size and time.

RocketMQ's source: client/producer/ProduceAccumulator.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from rocketflow.client.produce.errors import BadMessageError
from rocketflow_store.spi.names import RETRY_PREFIX

if TYPE_CHECKING:
    from rocketflow.client.produce.options import ProducerOptions
    from rocketflow.client.produce.results import SendResult
    from rocketflow_store.spi.messages import Message

Send = Callable[[Sequence["Message"]], Awaitable["SendResult"]]
"""Sends messages of one topic in one request."""

_MAX_MESSAGES: Final = 1024
_ENTRY_SIZE: Final = 100


class _Batch:
    """The messages of a topic that wait, the futures of their results, and the timer that ends the wait."""

    def __init__(self, timer: asyncio.TimerHandle) -> None:
        self.messages: list[Message] = []
        self.results: list[asyncio.Future[SendResult]] = []
        self.size = 0
        self.timer = timer


class AutoBatches:
    """Sends a topic's messages together once they have `batch_bytes`, or the first has waited `batch_linger_s`."""

    def __init__(self, options: ProducerOptions, send: Send) -> None:
        self._options = options
        self._send = send
        self._open: dict[str, _Batch] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()

    def takes(self, message: Message) -> bool:
        """Return whether a message may be part of a batch: small, not delayed, nothing that a broker treats apart."""
        return (
            len(message.body) < min(self._options.batch_bytes, self._options.compress_above)
            and not message.is_delayed
            and not message.topic.startswith(RETRY_PREFIX)
            and "TRAN_MSG" not in message.properties
            and "MSG_TYPE" not in message.properties
        )

    def send(self, message: Message) -> asyncio.Future[SendResult]:
        """Add a message to its topic's batch and return the future of its own result."""
        batch = self._open.get(message.topic)
        if batch is None:
            timer = self._loop.call_later(self._options.batch_linger_s, self._close, message.topic)
            self._open[message.topic] = batch = _Batch(timer)
        result: asyncio.Future[SendResult] = self._loop.create_future()
        batch.messages.append(message)
        batch.results.append(result)
        batch.size += _size(message)
        if batch.size >= self._options.batch_bytes or len(batch.messages) >= _MAX_MESSAGES:
            self._close(message.topic)
        return result

    def flush(self) -> None:
        """Send all batches now."""
        for topic in list(self._open):
            self._close(topic)

    def _close(self, topic: str) -> None:
        batch = self._open.pop(topic)
        batch.timer.cancel()
        task = self._loop.create_task(self._send_batch(batch))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send_batch(self, batch: _Batch) -> None:
        try:
            results = results_of(await self._send(batch.messages), batch.messages)
        except BadMessageError as error:
            if len(batch.messages) > 1:  # one of them: each is sent by itself
                await asyncio.gather(*(self._send_batch(one) for one in _singles(batch)))
            else:
                _settle(batch, error)
        except BaseException as error:
            _settle(batch, error)
            if not isinstance(error, Exception):
                raise
        else:
            for future, one in zip(batch.results, results):
                if not future.done():
                    future.set_result(one)


def results_of(result: SendResult, messages: Sequence[Message]) -> list[SendResult]:
    """Return the result of each message of a batch: they follow each other in its queue."""
    if len(messages) == 1:
        return [result]
    places = result.offset_message_id.split(",")
    if len(places) != len(messages):  # a broker that stored the batch as one record
        places = [result.offset_message_id] * len(messages)
    return [
        result._replace(message_id=one.uniq_key, offset_message_id=place, queue_offset=result.queue_offset + number)
        for number, (one, place) in enumerate(zip(messages, places))
    ]


def _singles(batch: _Batch) -> list[_Batch]:
    found = []
    for message, result in zip(batch.messages, batch.results):
        one = _Batch(batch.timer)
        one.messages, one.results = [message], [result]
        found.append(one)
    return found


def _settle(batch: _Batch, error: BaseException) -> None:
    for one in batch.results:
        if not one.done():
            if isinstance(error, Exception):
                one.set_exception(error)
            else:
                one.cancel()


def _size(message: Message) -> int:
    properties = sum(len(name) + len(value) for name, value in message.properties.items())
    return len(message.body) + _ENTRY_SIZE + len(message.tags) + sum(len(one) + 1 for one in message.keys) + properties
