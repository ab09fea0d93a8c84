"""Options and events of pull consumers.

RocketMQ's source: client/consumer/DefaultLitePullConsumer.java.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rocketflow.client.consume.allocation import AllocationStrategy, Averagely
from rocketflow.client.consume.corrections import OffsetCorrection
from rocketflow.client.consume.offset_stores import PERSIST_SECONDS
from rocketflow.client.consume.start_positions import ConsumeFrom
from rocketflow.client.errors import ClientError
from rocketflow.client.options import ClientOptions
from rocketflow.client.skipped import SkippedMessages
from rocketflow.remoting.bodies import MessageQueue


class PullListener:
    """Receives the events of a pull consumer; every method may be overridden. Calls come from the event loop."""

    def queues_changed(self, added: list[MessageQueue], removed: list[MessageQueue]) -> None:
        """Take note that a rebalance has added and removed queues of this client."""

    def offset_corrected(self, correction: OffsetCorrection) -> None:
        """Take note that the consumer goes on elsewhere, or in a topic that was created again: see its `reason`."""

    def messages_skipped(self, skipped: SkippedMessages) -> None:
        """Take note that the consumer has passed messages that the broker did not return: damaged or missing ones."""


@dataclass(frozen=True, kw_only=True)
class PullOptions(ClientOptions):
    """Options of a pull consumer. Times are seconds.

    `start` is where queues without a committed offset begin, at `start_ms` (ms since 1970) for TIMESTAMP. Committed are
    messages that earlier calls of `poll` returned: with `auto_commit` every `commit_interval_s`, else by `commit`.
    `prefetch_messages` and `prefetch_bytes` limit what waits to be polled, all queues together; each queue has an equal
    share, and holds at least one answer. A pull asks for `pull_batch` messages. `trace_topic` gets rows about the
    messages that `poll` returns (`pull_arrow` writes none); RocketMQ's tools read RMQ_SYS_TRACE_TOPIC.
    `restart_recreated` reads a topic that was deleted and created again from its beginning.
    """

    group: str
    start: ConsumeFrom = ConsumeFrom.LAST
    start_ms: int | None = None
    strategy: AllocationStrategy = field(default_factory=Averagely)
    listener: PullListener = field(default_factory=PullListener)
    auto_commit: bool = True
    commit_interval_s: float = PERSIST_SECONDS
    prefetch_messages: int = 10_000
    prefetch_bytes: int = 64 * 1024 * 1024
    pull_batch: int = 32
    suspend_s: float = 20.0
    trace_topic: str = ""
    restart_recreated: bool = False

    def __post_init__(self) -> None:
        """Raise ClientError for a value that makes no sense, naming its option."""
        if not self.group:
            raise ClientError("no consumer group is given: set group")
        for name in ("commit_interval_s", "prefetch_messages", "prefetch_bytes", "pull_batch", "suspend_s"):
            if getattr(self, name) <= 0:
                raise ClientError(f"option {name} is {getattr(self, name)}; it must be above 0")
