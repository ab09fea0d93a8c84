"""The Kafka consumer of a bridge into a store: polls, waits for unreachable brokers, pauses partitions.

Only the polling thread may call it.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rocketflow.kafka.client import clients
from rocketflow.kafka.errors import KafkaRefusedError, KafkaUnreachableError
from rocketflow.kafka.into_store.assignment import begin
from rocketflow.kafka.shared.run_state import warn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rocketflow.kafka.into_store.store_commit import Partition
    from rocketflow.kafka.options.bridge_options import BridgeOptions
    from rocketflow.kafka.shared.run_state import StopRequest

Answer = TypeVar("Answer")
_POLL_MS: Final = 100
_SHORT_POLL_MS: Final = 10
_ASK_MS: Final = 2_000
_CLOSE_MS: Final = 2_000
_WARN_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Polled:
    """The result of one poll by partition; `out_of_range` are the next offsets that Kafka does not have."""

    batches: dict[Any, list[Any]] = field(default_factory=dict)
    out_of_range: dict[Any, int] = field(default_factory=dict)


class ConsumerSession:
    """The consumer of one run."""

    def __init__(self, options: BridgeOptions, stop: StopRequest) -> None:
        self._options, self._stop = options, stop
        with stop.interruptible():
            self.consumer, _ = clients.consumer(
                options, group_id=options.group_id, metadata_max_age_ms=options.discover_ms
            )
        self._paused = False
        self._warned = float("-inf")

    def close(self) -> None:
        """Leave the group. Errors are ignored: all progress is in the store."""
        with contextlib.suppress(Exception):
            self.consumer.close(autocommit=False, timeout_ms=_CLOSE_MS)

    def poll(self, *, is_waiting: bool) -> Polled:
        """Poll once, shortly if other work is waiting (`is_waiting`). An unreachable broker yields an empty result."""
        from kafka.errors import KafkaError, LogTruncationError, OffsetOutOfRangeError, RetriableError

        clients.continue_join(self.consumer)
        try:
            # joining a group takes longer than such a short poll
            short = not self._options.shared and is_waiting
            return Polled(self.consumer.poll(_SHORT_POLL_MS if short else _POLL_MS))
        except OffsetOutOfRangeError as error:
            return Polled(out_of_range=error.args[0] if error.args else {})
        except LogTruncationError as error:
            return Polled(out_of_range={tp: self.consumer.position(tp, timeout_ms=0) for tp in error.divergent_offsets})
        except RetriableError as error:  # an unreachable broker does not affect batches polled before
            if time.monotonic() - self._warned > _WARN_S:
                self._warned = time.monotonic()
                warn(str(clients.as_bridge_error(self._options, error)))
        except KafkaError as error:
            raise clients.as_bridge_error(self._options, error) from None
        except (RuntimeError, ValueError) as error:
            raise KafkaRefusedError(self._options.client.hide(f"kafka-python failed: {error!r}")) from None
        return Polled()

    def begin(self, tp: Any, base: int | None, *, latest: bool) -> None:
        """Seek a partition to `base`, or without one to the end of its log (`latest`) or its begin."""
        begin(self.consumer, tp, base, latest=latest)

    def join(self, tp: Any, base: int | None, *, latest: bool) -> None:
        """Seek a newly assigned partition like `begin`, and pause it if the others are paused.

        Does nothing if the partition has been revoked in the meantime.
        """
        if tp in self.consumer.assignment():
            self.begin(tp, base, latest=latest)
            if self._paused:
                self.consumer.pause(tp)

    def pause(self, is_full: bool) -> None:
        """Pause all partitions if `is_full`, else resume them."""
        if is_full == self._paused:
            return
        self._paused = is_full
        assigned = self.consumer.assignment()
        if assigned:
            (self.consumer.pause if is_full else self.consumer.resume)(*assigned)

    def position(self, tp: Any) -> int | None:
        """Return the offset after everything polled, including transaction markers; None if it is not known yet."""
        from kafka.errors import KafkaError

        try:
            position: int | None = self.consumer.position(tp, timeout_ms=0)
            return position
        except KafkaError:
            return None

    def ends(self, partitions: Iterable[Any]) -> dict[Any, int]:
        """Return the end offsets of partitions."""
        return self._ask(lambda: self.consumer.end_offsets(list(partitions), timeout_ms=_ASK_MS))

    def begins(self, partitions: Iterable[Any]) -> dict[Any, int]:
        """Return the first offsets of partitions."""
        return self._ask(lambda: self.consumer.beginning_offsets(list(partitions), timeout_ms=_ASK_MS))

    def remaining(self, bases: Mapping[Any, int | None]) -> int | None:
        """Return how many offsets Kafka has after those of partitions, None if it does not answer soon.

        A partition without one is counted from its log's begin.
        """
        from kafka.errors import KafkaError

        if not bases:
            return 0
        unknown = [tp for tp, base in bases.items() if base is None]
        try:
            with self._stop.interruptible():
                ends: dict[Any, int] = self.consumer.end_offsets(list(bases), timeout_ms=_ASK_MS)
                begins: dict[Any, int] = self.consumer.beginning_offsets(unknown, timeout_ms=_ASK_MS) if unknown else {}
        except KafkaError:
            return None
        return sum(max(ends[tp] - (begins[tp] if base is None else base), 0) for tp, base in bases.items())

    def refresh_topics(self) -> None:
        """Refresh the client's topics and topic ids from Kafka."""
        self._ask(self.consumer.topics)

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        """Return Kafka's answer; retry for a minute while Kafka is unreachable."""
        deadline = time.monotonic() + clients.GIVE_UP_S
        while True:
            try:
                with self._stop.interruptible(), clients.kafka_errors(self._options):
                    return question()
            except KafkaUnreachableError as error:
                if time.monotonic() > deadline:
                    raise
                warn(f"{error}; retrying")

    def inform(self, committed: Mapping[Partition, int], read: Iterable[Any]) -> None:
        """Commit the offsets of assigned partitions to the group, for lag tools only. Errors are ignored."""
        from kafka import TopicPartition
        from kafka.errors import KafkaError
        from kafka.structs import OffsetAndMetadata

        offsets = {
            TopicPartition(*key): OffsetAndMetadata(offset, "", -1)
            for key, offset in committed.items()
            if TopicPartition(*key) in read
        }
        if offsets:
            with contextlib.suppress(KafkaError):
                self.consumer.commit_async(offsets, callback=_ignore)


def _ignore(offsets: Any, response: Any) -> None:
    """Ignore the answer to a group commit."""
