"""A checkpoint beside its store: where the query goes on, how much waits for it, and a reset of its positions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rocketflow.errors import UsageError
from rocketflow.process.nearest import did_you_mean
from rocketflow.spark.source.batch_log import BatchLog
from rocketflow.spark.source.queue_choice import QueueChooser
from rocketflow.spark.source.source_options import EARLIEST, LATEST, PositionChoice, PositionKind, SourceOptions
from rocketflow.spark.source.starting_positions import resolve_positions
from rocketflow.spark.source.store_access import QueueBounds
from rocketflow.spark.source.stores import Stores, open_stores
from rocketflow.spark.source.stream_offset import CheckpointError, QueueKey, QueuePosition, StreamOffset

_QUEUE: Final = re.compile(r"(?P<topic>.+):(?P<queue>\d{1,9})=(?P<offset>-?\d{1,19})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Move:
    """One queue of a checkpoint: the next offset before and after a reset, None if it is not stored or dropped."""

    key: QueueKey
    before: int | None
    after: int | None


def parse_offsets(given: Iterable[str]) -> dict[tuple[str, int], int]:
    """Parse texts TOPIC:QUEUE=N into {(topic, queue): N}. Raises UsageError."""
    found: dict[tuple[str, int], int] = {}
    for text in given:
        match = _QUEUE.fullmatch(text)
        if match is None:
            raise UsageError(
                f"--to-offset {text!r}: TOPIC:QUEUE=N is expected, N an offset, -2 (earliest) or -1 (latest)"
            )
        queue = match["topic"], int(match["queue"])
        if queue in found:
            raise UsageError(f"--to-offset names topic {queue[0]} queue {queue[1]} twice")
        found[queue] = int(match["offset"])
    return found


class CheckpointQueues:
    """The queues of a checkpoint, in the store or at the brokers that its query reads."""

    def __init__(self, log: BatchLog, place: Mapping[str, str]) -> None:
        """Open what `place`, options of the source, names. Raises CheckpointError for a store of another name."""
        starts = log.starts()
        topics = ",".join(sorted({key.topic for key in starts}))
        options = SourceOptions.parse({**place, "subscribe": topics}, streaming=True)
        self.stores: Stores = open_stores(options)
        self.stores.check()
        names = self.stores.adopted(StreamOffset(dict.fromkeys(starts, QueuePosition(0))))
        self.starts = dict(zip(names, starts.values(), strict=True))
        others = sorted({key.store for key in self.starts if not self.stores.knows(key.store)})
        if others:
            known = ", ".join(name for name in self.stores.names() if name) or "one store without a name"
            shown = ", ".join(name or "a store without a name" for name in others)
            raise CheckpointError(
                f"the checkpoint is of {shown}, --source is {known}: give NAME=DIRECTORY, as the query"
            )
        self.stores.expect(self.starts)
        found = self.stores.snapshot(QueueChooser(options.topics, options.include_system_topics))
        self.bounds: dict[QueueKey, QueueBounds] = {key: one for key, one in found.items() if key in self.starts}
        self.unknown = sorted(found.keys() - self.starts.keys())
        """Queues with messages of the same topics that the query has not read yet."""

    def moves(
        self, choice: PositionChoice, topics: Sequence[str], offsets: Mapping[tuple[str, int], int]
    ) -> list[Move]:
        """Return what a reset changes, for each queue of the checkpoint.

        `offsets` names queues, `topics` topics (none: all of them). Raises UsageError and OptionError.
        """
        chosen = self._named(offsets) if offsets else self._of_topics(topics)
        present = {key: self.bounds[key] for key in chosen if key in self.bounds}
        for key, bounds in present.items():
            number = offsets.get((key.qualified_topic, key.queue_id), offsets.get((key.topic, key.queue_id), EARLIEST))
            if number not in (EARLIEST, LATEST) and not bounds.low <= number <= bounds.high:
                held = f"{bounds.low} to {bounds.high}"
                raise UsageError(f"--to-offset {key.qualified_topic}:{key.queue_id}={number}: the queue holds {held}")
        after = resolve_positions(choice, present, self.stores.start_by_time, clamp=False)
        moves = []
        for key, position in sorted(self.starts.items()):
            before = None if position is None else position.next_offset
            moves.append(Move(key, before, after.get(key) if key in chosen else before))
        unknown = [one for one in moves if one.before is None and one.key not in chosen]
        if unknown:
            raise UsageError(
                f"{unknown[0].key}: the begin of the query's first batch is not stored, and the reset does not set "
                "it; reset all queues"
            )
        return moves

    def offset_of(self, moves: Iterable[Move]) -> StreamOffset:
        """Return the offset of a reset; a queue that does not exist any more is dropped."""
        found: dict[QueueKey, QueuePosition] = {}
        for one in moves:
            position = self.starts[one.key]
            if position is not None and position.next_offset == one.after:
                found[one.key] = position
            elif one.after is not None:
                found[one.key] = self.stores.position(one.key, one.after, self.bounds[one.key].low)
        return StreamOffset(found, resets=True)

    def _of_topics(self, topics: Sequence[str]) -> set[QueueKey]:
        for topic in topics:
            self._check_topic(topic, "--topic")
        return {key for key in self.starts if not topics or {key.topic, key.qualified_topic} & set(topics)}

    def _named(self, offsets: Iterable[tuple[str, int]]) -> set[QueueKey]:
        chosen: set[QueueKey] = set()
        for topic, queue in offsets:
            self._check_topic(topic, "--to-offset")
            found = {key for key in self.starts if key.queue_id == queue and topic in (key.topic, key.qualified_topic)}
            if not found & self.bounds.keys():
                raise UsageError(f"--to-offset: topic {topic} has no queue {queue} with messages in this checkpoint")
            chosen |= found & self.bounds.keys()
        return chosen

    def _check_topic(self, topic: str, option: str) -> None:
        known = {name for key in self.starts for name in (key.topic, key.qualified_topic)}
        if topic not in known:
            raise UsageError(f"{option}: topic {topic} is not in this checkpoint: {did_you_mean(topic, known)}")


def reset_choice(
    *, earliest: bool, latest: bool, time_ms: int | None, offsets: Mapping[tuple[str, int], int]
) -> PositionChoice:
    """Return the position that exactly one of the arguments names. Raises UsageError."""
    if [earliest, latest, time_ms is not None, bool(offsets)].count(True) != 1:
        raise UsageError("give one of --to-earliest, --to-latest, --to-time and --to-offset")
    if earliest:
        return PositionChoice(PositionKind.EARLIEST, "--to-earliest")
    if latest:
        return PositionChoice(PositionKind.LATEST, "--to-latest")
    if time_ms is not None:
        return PositionChoice(PositionKind.TIMESTAMP, "--to-time", timestamp_ms=time_ms, latest_if_unmatched=True)
    by_topic: dict[str, list[tuple[int, int]]] = {}
    for (topic, queue), number in offsets.items():
        by_topic.setdefault(topic, []).append((queue, number))
    numbers = tuple((topic, tuple(queues)) for topic, queues in by_topic.items())
    return PositionChoice(PositionKind.OFFSETS, "--to-offset", numbers)


def check_resettable(log: BatchLog) -> None:
    """Raise CheckpointError if a query with state has a batch that has not ended: its state has no version after it."""
    if log.planned is not None and log.has_state:
        what = "a reset that waits" if log.waits else "a planned batch that has not ended"
        raise CheckpointError(
            f"checkpoint {log.home} has state and {what} (batch {log.newest}): run the query until it has ended, "
            "then reset"
        )
