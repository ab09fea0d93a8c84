"""Store times of messages by topic, queue and offset, kept because many groups have the same position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rocketflow_store import WouldBlockError

if TYPE_CHECKING:
    from rocketflow.broker.topics.topics import Topics
    from rocketflow_store.spi.broker import WritingStore

MAX_KEPT: Final = 100_000


class StoredTimes:
    """Store times that were read. All are forgotten when a topic changes: a topic of the same name begins at 0 again.

    Its methods may be called from any thread.
    """

    def __init__(self, store: WritingStore, topics: Topics) -> None:
        self._store = store
        self._topics = topics
        self._kept: dict[tuple[str, int, int], int] = {}
        self._changes = topics.changes

    def of(self, topic: str, offsets: Mapping[int, int], *, nowait: bool = False) -> dict[int, int]:
        """Return the store time (ms) of one message of each queue; `offsets` are queue offsets by queue id.

        Queues whose message cannot be read are omitted. Waits for the disk, with `nowait` raises WouldBlockError if
        it had to.
        """
        changes = self._topics.changes
        if changes != self._changes or len(self._kept) > MAX_KEPT:
            self._kept, self._changes = {}, changes
        kept = self._kept
        found = {one: time for one, offset in offsets.items() if (time := kept.get((topic, one, offset))) is not None}
        if len(found) < len(offsets):
            if nowait:
                raise WouldBlockError(topic)
            read = self._store.stored_times(topic, {one: at for one, at in offsets.items() if one not in found})
            kept.update(((topic, one, offsets[one]), time) for one, time in read.items())
            found.update(read)
        return found
