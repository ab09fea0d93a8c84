"""Offsets: how far groups have read, and where their next pulls begin.

RocketMQ's source: broker/offset/ConsumerOffsetManager.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rocketflow_store import StoreError

if TYPE_CHECKING:
    from rocketflow_store.spi.broker import WritingStore
    from rocketflow_store.spi.tables import TopicConfig

LOG: Final = logging.getLogger("rocketflow.broker")


def least_offset(topic: TopicConfig | None, begin: int, end: int) -> int:
    """Return the begin of a queue for clients: -1, as in RocketMQ, for a BatchCQ topic's that never had a message."""
    return -1 if not end and topic is not None and topic.is_batch_cq else begin


class GroupOffsets:
    """Next offsets of groups: the store's table, searched by group and by topic; those of next pulls, in memory."""

    def __init__(self, store: WritingStore) -> None:
        self._table = store.offset_table
        self._pulled: dict[tuple[str, str], dict[int, int]] = {}
        """Where the next pull of a queue begins, by (topic, group) and queue."""

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the next offset of a queue, None if the group has committed none."""
        return self._table.query(group, topic, queue_id)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set the next offset of a queue."""
        self._table.commit(group, topic, queue_id, offset)

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set the next offset of a queue for an operator; members keep to it from their next pull on."""
        self._table.reset(group, topic, {queue_id: offset})

    def is_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Return whether a reset waits for the next pull of a queue."""
        return self._table.has_reset(group, topic, queue_id)

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the offset that an operator has set since the last pull of a queue, once."""
        return self._table.take_reset(group, topic, queue_id)

    def pulled(self, group: str, topic: str, queue_id: int, next_offset: int) -> None:
        """Take note that a pull of a queue was answered: the next one begins at `next_offset`."""
        offsets = self._pulled.get((topic, group))
        if offsets is None:
            offsets = self._pulled[topic, group] = {}
        offsets[queue_id] = next_offset

    def pull_offsets(self, group: str, topic: str) -> Mapping[int, int]:
        """Return where the next pulls of a group begin, by queue; queues not pulled since the start are not in it.

        It may be read from any thread by its keys; iterate over a copy.
        """
        return self._pulled.get((topic, group), {})

    def delete_group(self, group: str) -> None:
        """Remove the offsets of a group."""
        self._table.delete_group(group)
        self._pulled = {key: one for key, one in self._pulled.items() if key[1] != group}

    def topic_deleted(self, topic: str) -> None:
        """Forget where a topic was pulled; the store has removed the other offsets with the topic."""
        self._pulled = {key: one for key, one in self._pulled.items() if key[0] != topic}

    def of(self, group: str, topic: str) -> dict[int, int]:
        """Return the next offsets of a group's queues of a topic."""
        return self._table.of(group, topic)

    def of_group(self, group: str) -> dict[str, dict[int, int]]:
        """Return the next offsets of a group by topic and queue."""
        return self._table.of_group(group)

    def all(self) -> dict[tuple[str, str], dict[int, int]]:
        """Return a copy of all next offsets, by (topic, group) and queue."""
        return self._table.items()

    def as_json(self) -> dict[str, dict[str, int]]:
        """Return all next offsets in RocketMQ's spelling: topic@group -> queue -> offset."""
        return {
            f"{topic}@{group}": {str(queue_id): offset for queue_id, offset in offsets.items()}
            for (topic, group), offsets in self._table.items().items()
        }

    def groups_of_topic(self, topic: str) -> list[str]:
        """Return the groups that have committed an offset of a topic."""
        return self._table.groups_of(topic)

    async def save(self) -> None:
        """Write the changes, in a thread; they stay for the next time if that fails. Raises StoreError."""
        await asyncio.to_thread(self._table.save)

    async def save_every(self, seconds: float) -> None:
        """Save until cancelled; a failure is logged and tried again."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.save()
            except StoreError as error:
                LOG.warning("offsets of groups are not saved: %s", error)
