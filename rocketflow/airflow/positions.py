"""Where a topic's queues end and how far a consumer group is, from what `store info` and `store dump` say. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class TopicPosition:
    """Queue offsets by queue: where each begins, ends (exclusive), and what a group wants next."""

    topic: str
    begins: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    read_to: Mapping[int, int] = field(default_factory=dict)

    def end(self, queue: int | None = None) -> int:
        """The queue's end, or the sum of all; 0 where there is none."""
        return sum(self.ends.values()) if queue is None else self.ends.get(queue, 0)

    def lag(self, queue: int | None = None) -> int:
        """Messages that the group has not read, of one queue or of all.

        A queue that it never read counts from its begin; what retention took counts no more.
        """
        queues = self.ends if queue is None else [queue]
        return sum(
            max(self.ends.get(one, 0) - max(self.read_to.get(one, 0), self.begins.get(one, 0)), 0) for one in queues
        )

    def as_dict(self) -> dict[str, Any]:
        """For XCom."""
        return {"topic": self.topic, "end": self.end(), "queues": len(self.ends)}


@dataclass(frozen=True, slots=True)
class Goal:
    """What is waited for: an end of at least `offset`, or a lag of `group` below `lag_below`."""

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
        """Whether it is."""
        if self.offset is not None:
            return position.end(self.queue) >= self.offset
        assert self.lag_below is not None
        return bool(position.ends) and position.lag(self.queue) < self.lag_below

    def progress(self, position: TopicPosition) -> dict[str, Any]:
        """What is so now, for logs and XCom."""
        told: dict[str, Any] = {"topic": self.topic, "queue": self.queue, "end": position.end(self.queue)}
        if self.group is not None:
            told |= {"group": self.group, "lag": position.lag(self.queue)}
        return told

    def __str__(self) -> str:
        where = self.topic if self.queue is None else f"{self.topic} queue {self.queue}"
        if self.offset is not None:
            return f"{where} to reach offset {self.offset}"
        return f"the lag of {self.group} in {where} to be below {self.lag_below}"


def position_of(
    info: Mapping[str, Any], topic: str, group: str | None = None, tables: Iterable[Mapping[str, Any]] = ()
) -> TopicPosition:
    """From the result of `store info` and the contents of the files with positions (the furthest of them counts)."""
    queues = [one for entry in info["topics"] if entry["topic"] == topic for one in entry["queues"]]
    read_to: dict[int, int] = {}
    for table in tables:
        light = (table.get("lmqOffsetTable") or {}).get(f"{topic}@{group}")
        offsets = {} if light is None else {0: light}
        for queue, offset in (offsets | (table.get("offsetTable") or {}).get(f"{topic}@{group}", {})).items():
            read_to[int(queue)] = max(int(offset), read_to.get(int(queue), 0))
    return TopicPosition(
        topic,
        {one["queueId"]: one["minOffset"] for one in queues},
        {one["queueId"]: one["maxOffset"] for one in queues},
        read_to,
    )
