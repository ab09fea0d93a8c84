"""The bounds of a topic's queues and a consumer group's lag, from the output of `store info` and `store dump`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class TopicPosition:
    """Queue offsets by queue: the first one, the end (exclusive), and the next one that a group reads."""

    topic: str
    begins: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    read_to: Mapping[int, int] = field(default_factory=dict)

    def end(self, queue: int | None = None) -> int:
        """Return the end of a queue (0 if it does not exist), or the sum of all ends."""
        return sum(self.ends.values()) if queue is None else self.ends.get(queue, 0)

    def lag(self, queue: int | None = None) -> int:
        """Return the number of messages that the group has not read, of one queue or of all.

        An unread queue counts from its begin; messages that retention deleted do not count.
        """
        queues = self.ends if queue is None else [queue]
        return sum(
            max(self.ends.get(one, 0) - max(self.read_to.get(one, 0), self.begins.get(one, 0)), 0) for one in queues
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the summary for XCom."""
        return {"topic": self.topic, "end": self.end(), "queues": len(self.ends)}


@dataclass(frozen=True, slots=True)
class Goal:
    """The condition of a sensor: an end of at least `offset`, or a lag of `group` below `lag_below`."""

    topic: str
    queue: int | None = None
    offset: int | None = None
    group: str | None = None
    lag_below: int | None = None

    def __post_init__(self) -> None:
        if (self.offset is None) == (self.lag_below is None):
            raise ValueError("give either offset, or group and lag_below")
        if (self.lag_below is None) != (self.group is None):
            raise ValueError("group and lag_below go together")

    def reached(self, position: TopicPosition) -> bool:
        """Return True if the position meets the condition."""
        if self.offset is not None:
            return position.end(self.queue) >= self.offset
        assert self.lag_below is not None
        return bool(position.ends) and position.lag(self.queue) < self.lag_below

    def progress(self, position: TopicPosition) -> dict[str, Any]:
        """Return the current end or lag, for logs and XCom."""
        current: dict[str, Any] = {"topic": self.topic, "queue": self.queue, "end": position.end(self.queue)}
        if self.group is not None:
            current |= {"group": self.group, "lag": position.lag(self.queue)}
        return current

    def __str__(self) -> str:
        where = self.topic if self.queue is None else f"{self.topic} queue {self.queue}"
        if self.offset is not None:
            return f"{where} to reach offset {self.offset}"
        return f"the lag of {self.group} in {where} to be below {self.lag_below}"


def position_of(
    info: Mapping[str, Any], topic: str, group: str | None = None, tables: Iterable[Mapping[str, Any]] = ()
) -> TopicPosition:
    """Build a position from the result of `store info` and the contents of offset files; the highest offset counts."""
    queues = [one for entry in info["topics"] if entry["topic"] == topic for one in entry["queues"]]
    read_to: dict[int, int] = {}
    for table in tables:
        lmq = (table.get("lmqOffsetTable") or {}).get(f"{topic}@{group}")
        offsets = {} if lmq is None else {0: lmq}
        for queue, offset in (offsets | (table.get("offsetTable") or {}).get(f"{topic}@{group}", {})).items():
            read_to[int(queue)] = max(int(offset), read_to.get(int(queue), 0))
    return TopicPosition(
        topic,
        {one["queueId"]: one["minOffset"] for one in queues},
        {one["queueId"]: one["maxOffset"] for one in queues},
        read_to,
    )
