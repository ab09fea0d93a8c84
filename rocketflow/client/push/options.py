"""Options of push consumers.

RocketMQ's source: client/consumer/DefaultMQPushConsumer.java, client/Validators.java.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rocketflow.client.consume.allocation import AllocationStrategy, Averagely
from rocketflow.client.consume.corrections import OffsetCorrection
from rocketflow.client.consume.start_positions import ConsumeFrom
from rocketflow.client.errors import ClientError
from rocketflow.client.options import ClientOptions
from rocketflow.client.push.process_queue import DEFAULT_LIMITS, QueueLimits
from rocketflow_store.spi.setting_rows import LONG_MAX, NAME, described, option

_GROUP: Final = re.compile(r"[%|a-zA-Z0-9_-]{1,120}")
_BATCHES: Final = 1024
_INT_MAX: Final = 2**31 - 1
_TRIALS: Final = 16


@dataclass(frozen=True, kw_only=True)
class PushOptions(ClientOptions):
    """Options of a push consumer, with RocketMQ's defaults; times are seconds, sizes bytes."""

    group: str = field(metadata=described("Consumer group.", key=NAME, shown_default="required"))
    orderly: bool = option(
        "Whether each queue's messages are consumed one after the other, by one client at a time.", False
    )
    broadcasting: bool = option(
        "Whether every client of the group consumes all queues, and keeps its offsets in a file.", False
    )
    consume_from: ConsumeFrom = option(
        "Where a group without an offset starts.", ConsumeFrom.LAST, shown_default="ConsumeFrom.LAST"
    )
    start_ms: int | None = option(
        "Time of ConsumeFrom.TIMESTAMP, ms since 1970.", None, shown_default="half an hour ago"
    )
    concurrency: int = option("Calls of the listener at a time.", 20, "", (1, _BATCHES))
    batch: int = option("Messages of a call.", 1, "", (1, _BATCHES))
    pull_batch: int = option("Messages of a pull.", 32, "", (1, _BATCHES))
    pull_bytes: int = option("Bytes of a pull.", 262_144, "bytes", (1, LONG_MAX))
    pull_interval_s: float = option("Pause between two pulls.", 0.0, "s")
    limits: QueueLimits = option(
        "Unfinished messages of a queue, above which it is read no further.",
        DEFAULT_LIMITS,
        shown_default="1,000 messages, 100 MiB, 2,000 offsets from the first to the last",
    )
    max_reconsume: int = option(
        "Retries before a message becomes a dead letter.",
        -1,
        "",
        (-1, LONG_MAX),
        shown_default="-1: 16, for orderly listeners no limit",
    )
    consume_timeout_s: float = option(
        "Time of a call, after which a concurrent listener's messages are sent back.", 900.0, "s", (0, LONG_MAX)
    )
    suspend_s: float = option("Pause of an orderly queue after RECONSUME_LATER; RocketMQ allows 0.01 to 30.", 1.0, "s")
    drain_s: float = option("Time that calls of the listener have to end when the consumer closes.", 30.0, "s")
    strategy: AllocationStrategy = field(
        default_factory=Averagely,
        metadata=described(
            "How queues are divided among the clients of a group.", key=NAME, shown_default="Averagely()"
        ),
    )
    offset_dir: Path | None = option(
        "Directory of a broadcasting consumer's offsets. Consumers of one host and group need an `instance_name` each "
        "to continue after their own.",
        None,
        shown_default="where Java's client has it",
    )
    restart_recreated: bool = option(
        "Whether a topic that was deleted and created again is read from its beginning, not at the old offset.", False
    )
    offset_corrected: Callable[[OffsetCorrection], None] | None = option(
        "Function that is called with every correction of an offset.", None
    )
    trace_topic: str = option(
        "Topic that gets a row before and after each message is consumed; RocketMQ's tools read RMQ_SYS_TRACE_TOPIC.",
        "",
    )

    def __post_init__(self) -> None:
        """Check the options. Raises ClientError that names the wrong one."""
        if not _GROUP.fullmatch(self.group) or self.group == "DEFAULT_CONSUMER":
            raise ClientError(
                f"group {self.group!r}: 1 to 120 letters, digits and the characters %|-_ are expected, other than "
                "DEFAULT_CONSUMER"
            )
        ClientOptions.__post_init__(self)
        if min(self.limits.messages, self.limits.size, self.limits.span or 1) <= 0:
            raise ClientError(f"limits={self.limits}: numbers above 0 are expected")

    @property
    def queue_limits(self) -> QueueLimits:
        """Return the limits; an orderly queue may have any span."""
        return self.limits._replace(span=None) if self.orderly else self.limits

    @property
    def locks_queues(self) -> bool:
        """Return whether a queue is read and consumed only while its broker locks it for this client."""
        return self.orderly and not self.broadcasting

    @property
    def trials(self) -> int:
        """Return the number of retries before a message becomes a dead letter."""
        if self.max_reconsume >= 0:
            return self.max_reconsume
        return _INT_MAX if self.orderly else _TRIALS
