"""The lite pull consumer with plain methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from rocketflow.client.consume.subscriptions import ALL, TAG
from rocketflow.client.pull import consumer
from rocketflow.client.pull.consumer import POLL_BYTES, POLL_MESSAGES, POLL_SECONDS
from rocketflow.client.sync.bridge import SyncClient

if TYPE_CHECKING:
    from types import TracebackType

    from rocketflow.client.pull.options import PullOptions
    from rocketflow.client.pull.queue_buffer import Answer
    from rocketflow.remoting.bodies import MessageQueue
    from rocketflow_store.spi.messages import ReceivedMessage

T = TypeVar("T")


class PullConsumer(SyncClient[consumer.PullConsumer]):
    """Reads queues when the caller polls, as `rocketflow.client.pull.consumer.PullConsumer` does; calls raise the same.

    It is for one thread, as a caller that polls from several does not know what it commits. Methods of the options'
    listener are called in the thread of the event loop and must not call the consumer.
    """

    def __init__(self, options: PullOptions) -> None:
        super().__init__(lambda: consumer.PullConsumer(options))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client; after an exception the messages of the last poll are not committed."""
        self._wait(self._client.close() if kind is None else self._client.abort())

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the readable queues of a topic, sorted."""
        return self._wait(self._client.queues(topic))

    def assign(self, queues: Iterable[MessageQueue], expression: str = ALL, expression_type: str = TAG) -> None:
        """Read exactly these queues, without a rebalance."""
        self._wait(self._client.assign(list(queues), expression, expression_type))

    def subscribe(self, topic: str, expression: str = ALL, expression_type: str = TAG) -> None:
        """Read this client's share of a topic's queues."""
        self._wait(self._client.subscribe(topic, expression, expression_type))

    def unsubscribe(self, topic: str) -> None:
        """Read a topic no longer."""
        self._wait(self._client.unsubscribe(topic))

    def assignment(self) -> list[MessageQueue]:
        """Return the queues that the client reads now, sorted."""
        return self._call(self._client.assignment)

    def conflicts(self) -> list[str]:
        """Return how the subscriptions of another client of the group differ."""
        return self._call(self._client.conflicts)

    def poll(self, timeout_s: float = POLL_SECONDS, max_messages: int = POLL_MESSAGES) -> list[ReceivedMessage]:
        """Return messages, at least one unless `timeout_s` passes; earlier ones are consumed with `auto_commit`."""
        return self._wait(self._client.poll(timeout_s, max_messages))

    def poll_answers(
        self,
        decode: Callable[[Answer], T],
        timeout_s: float = POLL_SECONDS,
        max_bytes: int = POLL_BYTES,
        linger_s: float = 0.0,
    ) -> list[T]:
        """Return what `decode` makes of the records of answers; it is called in the thread of the event loop."""
        return self._wait(self._client.poll_answers(decode, timeout_s, max_bytes, linger_s))

    def skipped(self) -> int:
        """Return the number of messages that brokers did not return."""
        return self._call(lambda: self._client.skipped)

    def recreated(self) -> int:
        """Return how often a queue was found to be that of a topic that was created again."""
        return self._call(lambda: self._client.recreated)

    def pause(self, *queues: MessageQueue) -> None:
        """Return no messages of these queues until `resume`."""
        self._call(lambda: self._client.pause(*queues))

    def resume(self, *queues: MessageQueue) -> None:
        """Return messages of these queues again."""
        self._call(lambda: self._client.resume(*queues))

    def position(self, queue: MessageQueue) -> int:
        """Return the offset of the next message that `poll` may return."""
        return self._call(lambda: self._client.position(queue))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at an offset."""
        self._call(lambda: self._client.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the first message that is stored."""
        self._wait(self._client.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on at the next message that will be stored."""
        self._wait(self._client.seek_to_end(queue))

    def seek_to_time(self, queue: MessageQueue, timestamp_ms: int) -> None:
        """Go on at the first message that was stored at a time (ms since 1970) or after it."""
        self._wait(self._client.seek_to_time(queue, timestamp_ms))

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's offset of a queue at its broker, None if there is none."""
        return self._wait(self._client.committed(queue))

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit given offsets, or all messages that were polled; wait until the brokers have stored them."""
        self._wait(self._client.commit(offsets))

    def _call(self, function: Callable[[], T]) -> T:
        async def called() -> T:
            return function()

        return self._wait(called())
