"""Push consumers with plain methods: the listener is a plain function, which runs in a pool of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rocketflow.client import push
from rocketflow.client.consume.subscriptions import ALL, TAG
from rocketflow.client.sync.bridge import SyncClient
from rocketflow.client.sync.listener_threads import ListenerThreads

if TYPE_CHECKING:
    from rocketflow.client.push import ConsumeContext, ConsumeStatus, PushOptions
    from rocketflow.remoting.bodies import MessageQueue
    from rocketflow_store.spi.messages import ReceivedMessage


class PushConsumer(SyncClient[push.PushConsumer]):
    """Consumes messages as `rocketflow.client.PushConsumer` does, which describes options, errors and outcomes.

    At most `concurrency` calls of the listener run at a time, each in a thread. A thread cannot be cancelled: a call
    that takes longer than `consume_timeout_s` goes on, but its messages are retried.
    """

    def __init__(
        self,
        options: PushOptions,
        listener: Callable[[list[ReceivedMessage], ConsumeContext], ConsumeStatus | None],
    ) -> None:
        self._threads = ListenerThreads(listener, options.concurrency, f"consumer-{options.group}")
        super().__init__(lambda: push.PushConsumer(options, self._threads))

    @property
    def client_id(self) -> str:
        """Return the id by which brokers know this client."""
        return self._client.client_id

    def subscribe(self, topic: str, expression: str = ALL, *, expression_type: str = TAG) -> None:
        """Subscribe to a topic, or replace its subscription."""
        self._wait(self._client.subscribe(topic, expression, expression_type=expression_type))

    def unsubscribe(self, topic: str) -> None:
        """Read a topic no more."""
        self._wait(self._client.unsubscribe(topic))

    def queues(self) -> list[MessageQueue]:
        """Return the queues that this client reads now."""

        async def held() -> list[MessageQueue]:
            return self._client.queues()

        return self._wait(held())

    def skipped(self) -> int:
        """Return the number of messages that brokers did not return."""
        return self._client.skipped

    def recreated(self) -> int:
        """Return how often a queue was found to be that of a topic that was created again."""
        return self._client.recreated

    def conflicts(self) -> list[str]:
        """Return how the subscriptions of another client of the group differ."""

        async def found() -> list[str]:
            return self._client.conflicts()

        return self._wait(found())

    def suspend(self) -> None:
        """Read no queue until `resume`; messages that were read already are consumed."""

        async def suspended() -> None:
            self._client.suspend()

        self._wait(suspended())

    def resume(self) -> None:
        """Read all queues again."""

        async def resumed() -> None:
            self._client.resume()

        self._wait(resumed())

    def close(self) -> None:
        """Let calls of the listener end, at most `drain_s`; store the offsets, and leave the group."""
        super().close()
        self._threads.close()
