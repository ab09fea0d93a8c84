"""The Kafka consumer of a bridge into a store: how it polls, waits for a broker that is away, and is paused.

Only the thread that polls calls it.
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
    """What one poll gave by partition; `out_of_range` are partitions whose next offset Kafka does not have."""

    batches: dict[Any, list[Any]] = field(default_factory=dict)
    out_of_range: dict[Any, int] = field(default_factory=dict)


class ConsumerSession:
    """The consumer of one run."""

    def __init__(self, options: BridgeOptions, stop: StopRequest) -> None:
        self._options, self._stop = options, stop
        with stop.may_end():
            self.consumer, _ = clients.consumer(
                options, group_id=options.group_id, metadata_max_age_ms=options.discover_ms
            )
        self._paused = False
        self._warned = float("-inf")

    def close(self) -> None:
        """Leave the group; what was copied is in the store, so that a failure changes nothing."""
        with contextlib.suppress(Exception):
            self.consumer.close(autocommit=False, timeout_ms=_CLOSE_MS)

    def poll(self, *, is_waiting: bool) -> Polled:
        """Take what came; not for long if something else waits. A broker that is away gives nothing."""
        from kafka.errors import KafkaError, LogTruncationError, OffsetOutOfRangeError, RetriableError

        try:
            # a group is not joined within such short polls
            short = not self._options.shared and is_waiting
            return Polled(self.consumer.poll(_SHORT_POLL_MS if short else _POLL_MS))
        except OffsetOutOfRangeError as error:
            return Polled(out_of_range=error.args[0] if error.args else {})
        except LogTruncationError as error:
            return Polled(out_of_range={tp: self.consumer.position(tp, timeout_ms=0) for tp in error.divergent_offsets})
        except RetriableError as error:  # a broker that is away; what was handed out before is not touched by it
            if time.monotonic() - self._warned > _WARN_S:
                self._warned = time.monotonic()
                warn(str(clients.as_bridge_error(self._options, error)))
        except KafkaError as error:
            raise clients.as_bridge_error(self._options, error) from None
        except (RuntimeError, ValueError) as error:
            raise KafkaRefusedError(self._options.client.hide(f"kafka-python failed: {error!r}")) from None
        return Polled()

    def begin(self, tp: Any, base: int | None, *, latest: bool) -> None:
        """Read a partition from `base` on, or from an end of its log."""
        begin(self.consumer, tp, base, latest=latest)

    def join(self, tp: Any, base: int | None, *, latest: bool) -> None:
        """As `begin`, of a partition that came; it is paused if all are. Nothing, if it has gone again."""
        if tp in self.consumer.assignment():
            self.begin(tp, base, latest=latest)
            if self._paused:
                self.consumer.pause(tp)

    def pause(self, is_full: bool) -> None:
        """Pause all partitions, or resume them."""
        if is_full == self._paused:
            return
        self._paused = is_full
        assigned = self.consumer.assignment()
        if assigned:
            (self.consumer.pause if is_full else self.consumer.resume)(*assigned)

    def position(self, tp: Any) -> int | None:
        """Return the offset after all that was polled, marks of transactions too; None if it is not known yet."""
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

    def refresh_topics(self) -> None:
        """Ask for the topics and their ids, as Kafka has them now."""
        self._ask(self.consumer.topics)

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        """Return Kafka's answer; ask again for a minute while it is away, as it may be while a bridge runs."""
        deadline = time.monotonic() + clients.GIVE_UP_S
        while True:
            try:
                with self._stop.may_end(), clients.kafka_errors(self._options):
                    return question()
            except KafkaUnreachableError as error:
                if time.monotonic() > deadline:
                    raise
                warn(f"{error}; asking again")

    def inform(self, committed: Mapping[Partition, int], read: Iterable[Any]) -> None:
        """Report offsets of partitions that are read to the group, for lag tools; a failure changes nothing."""
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
    """Take an answer that changes nothing."""
