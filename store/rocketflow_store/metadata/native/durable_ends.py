"""`rocketflow/ends`: what the queues and the index had come to at the durable frontier of the writer at work.

Recovery after an unclean stop begins at that frontier (`confirm`): units in front of it are not made again. A queue
whose files went meanwhile would begin anew, and give its messages' offsets to others. What is told here was synced
before it was written, and is believed of the writer alone that left the present `abort`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, TypeAlias

from rocketflow_store.metadata.native.checked_json import read_checked_json, write_checked_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocketflow_store.metadata.native.root_paths import RootPaths

Queue: TypeAlias = tuple[str, int]


@dataclass(slots=True)
class DurableEnds:
    """By queue the queue offset behind its last message; by index file the physical offset of its newest entry."""

    queues: dict[Queue, int] = field(default_factory=dict)
    index: dict[str, int] = field(default_factory=dict)
    moved: bool = False
    """Whether queues moved since this was written."""

    @classmethod
    def load(cls, paths: RootPaths) -> Self | None:
        """What the writer told that stopped without order; None where there is none, or it told nothing."""
        told = read_checked_json(paths.durable_ends)
        try:
            if told is None or told["writer"] != paths.writer_mark():
                return None
            return cls({(topic, queue_id): end for topic, queue_id, end in told["queues"]}, dict(told["index"]))
        except (KeyError, TypeError, ValueError):
            return None

    def note(self, ends: Iterable[tuple[str, int, int]]) -> None:
        """Take over (topic, queue id, end) of queues."""
        known = self.queues
        moved = {(topic, queue_id): end for topic, queue_id, end in ends if known.get((topic, queue_id), 0) != end}
        if moved:
            self.queues = known | moved
            self.moved = True

    def without_topic(self, topic: str) -> None:
        """It is about to be deleted."""
        self.queues = {key: end for key, end in self.queues.items() if key[0] != topic}

    def write(self, paths: RootPaths) -> None:
        """Make it durable, as told by the writer whose `abort` is there."""
        self.moved = False  # what moves meanwhile is written next time
        try:
            queues = [[*key, end] for key, end in self.queues.items()]
            told = {"writer": paths.writer_mark(), "queues": queues, "index": self.index}
            write_checked_json(paths.durable_ends, told)
        except BaseException:
            self.moved = True
            raise
