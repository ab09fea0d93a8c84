"""A position in the queues of one or many stores, and its JSON form in Spark's offset log.

For each queue it holds the next queue offset and the identity (physical offset and checksum) of the last record read,
which detects a log that was changed after the checkpoint was written. The JSON form has string keys in sorted order,
because Spark compares offsets as text.

An offset that `rocketflow checkpoint reset` wrote has a version of its own: the batch that ends there has no rows, and
an older release refuses it instead of reading the messages in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from rocketflow_store import StoreError

VERSION: Final = 1
RESET_VERSION: Final = 2
NO_RECORD: Final = -1


class CheckpointError(StoreError):
    """An offset in Spark's checkpoint is not one of this source or of this query's topics."""

    exit_code = 2


class QueueKey(NamedTuple):
    """One queue; `store` is "" if the only store has no name."""

    store: str
    topic: str
    queue_id: int

    @property
    def qualified_topic(self) -> str:
        """`store/topic`, or `topic` in an unnamed store, as in options and JSON offsets."""
        return f"{self.store}/{self.topic}" if self.store else self.topic

    def __str__(self) -> str:
        store = f"store {self.store} " if self.store else ""
        return f"{store}topic {self.topic} queue {self.queue_id}"


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """The next offset to read in a queue.

    `phy_offset` and `checksum` are those of the record at `next_offset - 1`; NO_RECORD and 0 if it was not read (the
    queue's start). `first_offset` is the start of a queue that is new in this offset, else None.
    """

    next_offset: int
    phy_offset: int = NO_RECORD
    checksum: int = 0
    first_offset: int | None = None

    def without_first(self) -> QueuePosition:
        """Return this position as the start of the next batch."""
        if self.first_offset is None:
            return self
        return QueuePosition(self.next_offset, self.phy_offset, self.checksum)


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Positions of all known queues; `resets` is True for a reset, which no message leads to."""

    positions: Mapping[QueueKey, QueuePosition]
    resets: bool = False

    def __iter__(self) -> Iterator[QueueKey]:
        return iter(self.positions)

    def renamed(self, store: str) -> StreamOffset:
        """Return the same positions in a store of another name."""
        return replace(self, positions={key._replace(store=store): one for key, one in self.positions.items()})

    def to_json(self) -> dict[str, Any]:
        """Return `{"version": 1, "queues": {"topic": {"0": [next, phy, checksum(, first)]}}}` with sorted keys."""
        queues: dict[str, dict[str, list[int]]] = {}
        for key in sorted(self.positions, key=_json_order):
            position = self.positions[key]
            entry = [position.next_offset, position.phy_offset, position.checksum]
            if position.first_offset is not None:
                entry.append(position.first_offset)
            queues.setdefault(key.qualified_topic, {})[str(key.queue_id)] = entry
        return {"queues": queues, "version": RESET_VERSION if self.resets else VERSION}

    @classmethod
    def from_json(cls, value: object) -> StreamOffset:
        """Parse the offset in a JSON object; raise CheckpointError for anything else."""
        if not isinstance(value, dict) or "version" not in value or not isinstance(value.get("queues"), dict):
            raise CheckpointError(f"the checkpoint's offset is not one of format rocketflow: {_short(value)}")
        if value["version"] not in (VERSION, RESET_VERSION):
            raise CheckpointError(
                f"the checkpoint's offset has version {value['version']!r}, this release reads {VERSION} and "
                f"{RESET_VERSION}; "
                "run the query with the release that wrote the checkpoint"
            )
        positions: dict[QueueKey, QueuePosition] = {}
        for name, queues in value["queues"].items():
            if not isinstance(queues, dict):
                raise CheckpointError(f"the checkpoint's offset of topic {name!r} is no object: {_short(queues)}")
            store, _, topic = name.rpartition("/")
            for queue_id, entry in queues.items():
                positions[_queue_key(store, topic, queue_id)] = _position(name, queue_id, entry)
        return cls(positions, resets=value["version"] == RESET_VERSION)


def _queue_key(store: str, topic: str, queue_id: str) -> QueueKey:
    if not queue_id.isascii() or not queue_id.isdigit():
        raise CheckpointError(f"the checkpoint's offset of topic {topic!r} has {queue_id!r} as a queue id")
    return QueueKey(store, topic, int(queue_id))


def _position(topic: str, queue_id: str, entry: object) -> QueuePosition:
    if (
        not isinstance(entry, list)
        or len(entry) not in (3, 4)
        or not all(type(number) is int for number in entry)
        or entry[0] < 0
    ):
        raise CheckpointError(f"the checkpoint's offset of topic {topic!r} queue {queue_id} is {_short(entry)}")
    return QueuePosition(*entry)


def _json_order(key: QueueKey) -> tuple[str, str]:
    return key.qualified_topic, str(key.queue_id)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
