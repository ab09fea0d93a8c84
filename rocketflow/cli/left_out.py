"""Messages that `store cat` passes over since they cannot be read: told one by one, and counted."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow_store import MessageExt, StoreReader


class LeftOut:
    """Of one topic, as far as `tags` match."""

    def __init__(self, reader: StoreReader, topic: str, tags: str | None) -> None:
        from rocketflow_store.tags import TagFilter

        self._reader, self._topic, self.tags = reader, topic, tags
        self._filter = TagFilter.parse(tags)
        self.count = 0

    def removed(self, queue_id: int, start: int, stop: int) -> None:
        """Offsets [start, stop) were asked for, and are in front of the queue's first."""
        if start < stop:
            self.count += stop - start
            print(f"error: queue {queue_id}, offsets {start} to {stop - 1}: were removed", file=sys.stderr)

    def look(self, queue_id: int, start: int, end: int, messages: Sequence[MessageExt]) -> None:
        """Of the offsets [start, end) `messages` are those that came."""
        if len(messages) == end - start or self._reader.find_batch(self._topic, queue_id) is not None:
            return
        from rocketflow_store.queues.consume_queue import pre_blank, written
        from rocketflow_store.reading.store_queries import NO_UNIT
        from rocketflow_store.topic_names import LMQ_PREFIX

        if self._topic.startswith(LMQ_PREFIX):  # its messages are another topic's, and have that one's offsets
            self._light(queue_id, start, end, len(messages))
            return
        there = {one.queue_offset for one in messages}
        low = max(start, self._reader.min_offset(self._topic, queue_id))
        units = self._reader.read_units(self._topic, queue_id, low, end, on_missing="skip")
        absent = ~written(units)
        if absent.any():
            gone = low + absent.nonzero()[0]
            self.count += len(gone)
            print(f"error: queue {queue_id}, offsets {gone[0]} to {gone[-1]}: {NO_UNIT}", file=sys.stderr)
        wanted = ~absent & ~pre_blank(units) & self._filter.mask_codes(units["tags_code"].astype("i8"))
        for row in wanted.nonzero()[0].tolist():
            at, place = low + row, int(units["phy_offset"][row])
            if at in there:
                continue
            found = self._reader.look_message_by_offset(place)
            if found is None or (found.topic, found.queue_id, found.queue_offset) != (self._topic, queue_id, at):
                self.count += 1
                print(
                    f"error: queue {queue_id}, offset {at}: cannot be read (physical offset {place})", file=sys.stderr
                )

    def _light(self, queue_id: int, start: int, end: int, count: int) -> None:
        missing = end - max(start, self._reader.min_offset(self._topic, queue_id)) - count
        if self._filter.matches_all and missing > 0:
            self.count += missing
            print(f"error: queue {queue_id}, offsets {start} to {end - 1}: {missing} cannot be read", file=sys.stderr)
