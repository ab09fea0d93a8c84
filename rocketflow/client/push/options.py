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

_GROUP: Final = re.compile(r"[%|a-zA-Z0-9_-]{1,120}")
_BATCHES: Final = 1024
_INT_MAX: Final = 2**31 - 1
_TRIALS: Final = 16


@dataclass(frozen=True, kw_only=True)
class PushOptions(ClientOptions):
    """Options of a push consumer, with RocketMQ's defaults. Times are seconds, sizes bytes.

    * `orderly`: each queue's messages one after the other, by one client at a time; `broadcasting`: every client of the
      group consumes all queues, and keeps its offsets in a file below `offset_dir`, by default where Java's client has
      it. Consumers of one host and group need an `instance_name` each to continue after their own offsets.
    * `consume_from`: where a group without an offset starts; `start_ms` is the time of ConsumeFrom.TIMESTAMP, in
      milliseconds since 1970, half an hour ago if None.
    * `concurrency`: calls of the listener at a time; `batch`: messages of a call.
    * `pull_batch`, `pull_bytes`, `pull_interval_s`: the most of one pull, and the pause between two.
    * `limits`: unfinished messages of a queue, above which it is read no further.
    * `max_reconsume`: retries before a message becomes a dead letter; -1 is 16, for orderly listeners no limit.
    * `consume_timeout_s`: a concurrent listener's messages are sent back when a call takes longer.
    * `suspend_s`: the pause of an orderly queue after RECONSUME_LATER; RocketMQ allows 0.01 to 30.
    * `drain_s`: the time that calls of the listener have to end when the consumer closes.
    * `restart_recreated`: a topic that was deleted and created again is read from its beginning, not at the old
      offset; `offset_corrected` is called with this and every other correction of an offset.
    * `trace_topic`: gets a row before and after each message is consumed; RocketMQ's tools read RMQ_SYS_TRACE_TOPIC.
    """

    group: str
    orderly: bool = False
    broadcasting: bool = False
    consume_from: ConsumeFrom = ConsumeFrom.LAST
    start_ms: int | None = None
    concurrency: int = 20
    batch: int = 1
    pull_batch: int = 32
    pull_bytes: int = 262_144
    pull_interval_s: float = 0.0
    limits: QueueLimits = DEFAULT_LIMITS
    max_reconsume: int = -1
    consume_timeout_s: float = 900.0
    suspend_s: float = 1.0
    drain_s: float = 30.0
    strategy: AllocationStrategy = field(default_factory=Averagely)
    offset_dir: Path | None = None
    restart_recreated: bool = False
    offset_corrected: Callable[[OffsetCorrection], None] | None = None
    trace_topic: str = ""

    def __post_init__(self) -> None:
        """Check the options. Raises ClientError that names the wrong one."""
        if not _GROUP.fullmatch(self.group) or self.group == "DEFAULT_CONSUMER":
            raise ClientError(
                f"group {self.group!r}: 1 to 120 letters, digits and the characters %|-_ are expected, other than "
                "DEFAULT_CONSUMER"
            )
        for name in ("concurrency", "batch", "pull_batch"):
            if not 1 <= getattr(self, name) <= _BATCHES:
                raise ClientError(f"{name}={getattr(self, name)}: a number from 1 to {_BATCHES} is expected")
        for name in ("consume_timeout_s", "pull_bytes"):
            if getattr(self, name) <= 0:
                raise ClientError(f"{name}={getattr(self, name)}: a number above 0 is expected")
        if min(self.limits.messages, self.limits.size, self.limits.span or 1) <= 0:
            raise ClientError(f"limits={self.limits}: numbers above 0 are expected")
        if self.max_reconsume < -1:
            raise ClientError(f"max_reconsume={self.max_reconsume}: -1 or a number of retries is expected")

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
