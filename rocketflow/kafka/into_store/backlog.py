"""What was polled of every partition and waits to be committed."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rocketflow.kafka.client.batch_consumer import count_of, cut, size_of
from rocketflow.kafka.into_store.store_commit import PartitionPart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rocketflow.kafka.options.bridge_options import BridgeOptions


@dataclass(slots=True)
class Reading:
    """A partition that is read: `base` is what the last commit says, `polled` what came since."""

    store_topic: str
    partitions: int
    topic_id: str | None
    base: int | None
    polled: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class NextPart:
    """What a commit takes of one partition."""

    tp: Any
    reading: Reading
    part: PartitionPart
    batches: list[Any]


class Backlog:
    """The partitions that are read, by Kafka's TopicPartition."""

    def __init__(self, options: BridgeOptions) -> None:
        self._options = options
        self.reading: dict[Any, Reading] = {}
        self._bytes = self._rows = self._turn = 0
        self._since: float | None = None

    def begin(self, tp: Any, reading: Reading) -> None:
        """Read a partition; what was polled of it before is dropped."""
        self.drop(tp)
        self.reading[tp] = reading

    def drop(self, tp: Any) -> None:
        """Forget a partition and what was polled of it: whoever has it reads it again."""
        gone = self.reading.pop(tp, None)
        if gone is not None:
            self._bytes -= size_of({tp: gone.polled})
            self._rows -= count_of(gone.polled)

    def take(self, polled: Mapping[Any, list[Any]]) -> None:
        """Keep what came of partitions that are read."""
        for tp, batches in polled.items():
            reading = self.reading.get(tp)
            if reading is not None and batches:
                reading.polled += batches
                self._bytes += size_of({tp: batches})
                self._rows += count_of(batches)
                self._since = self._since or time.monotonic()

    def __bool__(self) -> bool:
        """Return whether anything waits."""
        return self._bytes > 0

    @property
    def is_enough(self) -> bool:
        """Whether a whole commit waits."""
        return self._bytes >= self._options.max_batch_bytes or self._rows >= self._options.max_batch_rows

    @property
    def is_due(self) -> bool:
        """Whether there is enough to commit, or it waited for long enough, or a partition has no base yet."""
        if any(one.base is None for one in self.reading.values()):
            return True  # where a partition was begun has to be known, or `latest` would move
        if self._since is None:
            return False
        waited = time.monotonic() - self._since
        return self.is_enough or waited * 1000 >= self._options.commit_interval_ms

    def next_parts(self, position: Callable[[Any], int | None], *, progress_alone: bool) -> list[NextPart]:
        """Take out as much as one commit may have; `position` says how far a partition without messages came.

        Such a partition is part of it if it has no base yet, or with `progress_alone`.
        """
        parts: list[NextPart] = []
        rows, room = self._options.max_batch_rows, self._options.max_batch_bytes
        for tp, reading in self._in_turn():
            batches, reading.polled = cut(reading.polled, rows, room)
            if reading.polled and not batches:
                continue
            if batches:
                following: int | None = batches[-1].offset + 1
            else:
                following = position(tp) if reading.base is None or progress_alone else None
            if following is None or following == reading.base:
                continue
            rows -= count_of(batches)
            room -= size_of({tp: batches})
            part = PartitionPart(
                tp.topic,
                tp.partition,
                reading.store_topic,
                reading.partitions,
                reading.base,
                following,
                (),
                reading.topic_id,
            )
            parts.append(NextPart(tp, reading, part, batches))
        self._bytes = sum(size_of({tp: one.polled}) for tp, one in self.reading.items())
        self._rows = sum(count_of(one.polled) for one in self.reading.values())
        self._since = time.monotonic() if self._bytes else None
        return parts

    def _in_turn(self) -> Iterable[tuple[Any, Reading]]:
        """Return all partitions, another one first each time: the first may take all the room that there is."""
        every = list(self.reading.items())
        self._turn += 1
        first = self._turn % max(len(every), 1)
        return every[first:] + every[:first]

    def behind(self, end_of: Callable[[Any], int | None]) -> int:
        """Return how many messages Kafka has after what was committed."""
        ends = [(end_of(tp), one.base) for tp, one in self.reading.items()]
        return sum(max(end - base, 0) for end, base in ends if end is not None and base is not None)
