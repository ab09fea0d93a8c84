"""`rocketflow/ends`: the ends of the queues and the index at the durable frontier of the present writer.

Recovery after an unclean stop begins at that frontier (`confirm`): units before it are not rebuilt. A queue whose files
were lost would begin at 0 again, and reuse the queue offsets of its messages. The ends were synced before they were
written here, and are valid only for the writer that created the present `abort`.
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
    """By queue the queue offset after its last message; by index file the physical offset of its newest entry."""

    queues: dict[Queue, int] = field(default_factory=dict)
    index: dict[str, int] = field(default_factory=dict)
    moved: bool = False
    """True if queues moved since this was written."""

    @classmethod
    def load(cls, paths: RootPaths) -> Self | None:
        """Return the ends that a writer left when it stopped uncleanly; None if there are none."""
        document = read_checked_json(paths.durable_ends)
        try:
            if document is None or document["writer"] != paths.writer_mark():
                return None
            queues = {(topic, queue_id): end for topic, queue_id, end in document["queues"]}
            return cls(queues, dict(document["index"]))
        except (KeyError, TypeError, ValueError):
            return None

    def note(self, ends: Iterable[tuple[str, int, int]]) -> None:
        """Add (topic, queue id, end) of queues."""
        known = self.queues
        moved = {(topic, queue_id): end for topic, queue_id, end in ends if known.get((topic, queue_id), 0) != end}
        if moved:
            self.queues = known | moved
            self.moved = True

    def without_topic(self, topic: str) -> None:
        """Remove the queues of a topic that is about to be deleted."""
        self.queues = {key: end for key, end in self.queues.items() if key[0] != topic}

    def write(self, paths: RootPaths) -> None:
        """Write the file durably, in the name of the writer of the present `abort`."""
        self.moved = False  # what moves meanwhile is written next time
        try:
            queues = [[*key, end] for key, end in self.queues.items()]
            document = {"writer": paths.writer_mark(), "queues": queues, "index": self.index}
            write_checked_json(paths.durable_ends, document)
        except BaseException:
            self.moved = True
            raise
