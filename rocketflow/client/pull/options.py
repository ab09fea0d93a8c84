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
from rocketflow_store.spi.setting_rows import LONG_MAX, NAME, described, option


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
    """Options of a pull consumer; times are seconds.

    Committed are messages that earlier calls of `poll` returned.
    """

    group: str = field(metadata=described("Consumer group.", key=NAME, shown_default="required"))
    start: ConsumeFrom = option(
        "Where queues without a committed offset begin.", ConsumeFrom.LAST, shown_default="ConsumeFrom.LAST"
    )
    start_ms: int | None = option("Time of ConsumeFrom.TIMESTAMP, ms since 1970.", None)
    strategy: AllocationStrategy = field(
        default_factory=Averagely,
        metadata=described(
            "How queues are divided among the clients of a group.", key=NAME, shown_default="Averagely()"
        ),
    )
    listener: PullListener = field(
        default_factory=PullListener,
        metadata=described("Receiver of the consumer's events.", key=NAME, shown_default="PullListener()"),
    )
    auto_commit: bool = option("Whether offsets are committed by themselves; else by `commit`.", True)
    commit_interval_s: float = option("Time between two such commits.", PERSIST_SECONDS, "s", (0, LONG_MAX))
    prefetch_messages: int = option(
        "Messages that wait to be polled, all queues together; each has an equal share, and holds at least one answer.",
        10_000,
        "",
        (1, LONG_MAX),
    )
    prefetch_bytes: int = option("Their bytes.", 64 * 1024 * 1024, "bytes", (1, LONG_MAX))
    pull_batch: int = option("Messages that a pull asks for.", 32, "", (1, LONG_MAX))
    suspend_s: float = option("Time that a pull waits at the broker for messages.", 20.0, "s", (0, LONG_MAX))
    trace_topic: str = option(
        "Topic that gets rows about the messages that `poll` returns (`pull_arrow` writes none); RocketMQ's tools read "
        "RMQ_SYS_TRACE_TOPIC.",
        "",
    )
    restart_recreated: bool = option(
        "Whether a topic that was deleted and created again is read from its beginning.", False
    )

    def __post_init__(self) -> None:
        """Raise ClientError for a value that makes no sense, naming its option."""
        if not self.group:
            raise ClientError("no consumer group is given: set group")
        ClientOptions.__post_init__(self)
