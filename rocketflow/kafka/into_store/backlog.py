"""The polled batches of every partition that wait to be committed."""

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
    """The state of a partition: `base` is its next offset in the last commit, `polled` the batches polled since."""

    store_topic: str
    partitions: int
    topic_id: str | None
    base: int | None
    polled: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class NextPart:
    """One partition's part of a commit."""

    tp: Any
    reading: Reading
    part: PartitionPart
    batches: list[Any]


class Backlog:
    """The states of the partitions that are read, by Kafka's TopicPartition."""

    def __init__(self, options: BridgeOptions) -> None:
        self._options = options
        self.reading: dict[Any, Reading] = {}
        self._bytes = self._rows = self._turn = 0
        self._since: float | None = None

    def begin(self, tp: Any, reading: Reading) -> None:
        """Start to read a partition; drops what was polled of it before."""
        self.drop(tp)
        self.reading[tp] = reading

    def drop(self, tp: Any) -> None:
        """Drop a partition and what was polled of it: its next owner reads it again."""
        dropped = self.reading.pop(tp, None)
        if dropped is not None:
            self._bytes -= size_of({tp: dropped.polled})
            self._rows -= count_of(dropped.polled)

    def take(self, polled: Mapping[Any, list[Any]]) -> None:
        """Add the polled batches of the partitions that are read."""
        for tp, batches in polled.items():
            reading = self.reading.get(tp)
            if reading is not None and batches:
                reading.polled += batches
                self._bytes += size_of({tp: batches})
                self._rows += count_of(batches)
                self._since = self._since or time.monotonic()

    def __bool__(self) -> bool:
        """Return True if any batch waits."""
        return self._bytes > 0

    @property
    def is_enough(self) -> bool:
        """True if a full commit waits."""
        return self._bytes >= self._options.max_batch_bytes or self._rows >= self._options.max_batch_rows

    @property
    def is_due(self) -> bool:
        """True if a commit is full, if the commit interval has passed, or if a partition has no base yet."""
        if any(one.base is None for one in self.reading.values()):
            return True  # its start must be committed, or `latest` would move with a restart
        if self._since is None:
            return False
        waited = time.monotonic() - self._since
        return self.is_enough or waited * 1000 >= self._options.commit_interval_ms

    def next_parts(self, position: Callable[[Any], int | None], *, progress_alone: bool) -> list[NextPart]:
        """Remove and return the parts of the next commit, as much as one commit may have.

        `position` returns the next offset of a partition. A partition without messages is included, to commit its
        position, if it has no base yet or with `progress_alone`.
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
        """Return all partitions, rotated by one each time: the first one may fill the commit."""
        every = list(self.reading.items())
        self._turn += 1
        first = self._turn % max(len(every), 1)
        return every[first:] + every[:first]

    def lag(self, end_of: Callable[[Any], int | None]) -> int:
        """Return how many offsets Kafka has after the committed ones; `end_of` returns a partition's end offset."""
        ends = [(end_of(tp), one.base) for tp, one in self.reading.items()]
        return sum(max(end - base, 0) for end, base in ends if end is not None and base is not None)
