"""A broker's tables in RocketMQ's JSON: topics, consumer groups, offsets of groups.

The store's writer alone changes these files, so reads are served from memory. Changes of topics and groups are durable
on return (a temporary file, two syncs, a rename); offsets change in memory, and `save` writes them.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from rocketflow_store.model.errors import StoreConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rocketflow_store.append.put_lock import PutLock
    from rocketflow_store.engine.topic_admin import TopicAdmin
    from rocketflow_store.metadata.config_files import ConsumerOffsetsFile, SubscriptionGroupsFile, TopicsFile
    from rocketflow_store.tables.data_version import DataVersion
    from rocketflow_store.tables.subscription_group_config import SubscriptionGroupConfig
    from rocketflow_store.tables.topic_config import TopicConfig

    Key = tuple[str, str]
    Offsets = dict[int, int]


class BrokerTopics:
    """Topics by name (`topics.json`); `delete_topic` deletes a topic's messages."""

    def __init__(
        self, file: TopicsFile, admin: TopicAdmin, put_lock: Callable[[], PutLock], delete_topic: Callable[[str], None]
    ) -> None:
        self._file, self._admin, self._put_lock, self._delete_topic = file, admin, put_lock, delete_topic
        file.hold()

    @property
    def data_version(self) -> DataVersion:
        """Number and time of the last change."""
        return self._file.data_version

    def get(self, topic: str) -> TopicConfig | None:
        """Return the settings of a topic, or None; does not block."""
        return self._file.get(topic)

    def items(self) -> dict[str, TopicConfig]:
        """Return all topics by name; does not block."""
        return self._file.topics()

    def put(self, *configs: TopicConfig) -> None:
        """Create or replace topics. Blocks for one write; also for the put lock if a `queue.type` changes.

        Raises:
            StoreConfigError: A name or a number is not allowed, or a topic has messages of the other `queue.type`.
            StoreError: The file cannot be written; the table is unchanged.
        """
        if any(map(self._admin.changes_type, configs)):
            with self._put_lock():
                self._admin.put(*configs)
        else:
            self._admin.put(*configs)

    def renew_version(self) -> None:
        """Give the unchanged table the next data version. Blocks for the write. StoreError if it fails."""
        self._file.renew_version()

    def delete(self, topic: str) -> None:
        """Delete a topic, its queues, and the offsets of its groups. Blocks. StoreConfigError for a system topic."""
        self._delete_topic(topic)


class BrokerGroups:
    """Consumer groups by name (`subscriptionGroup.json`), and what is forbidden to them."""

    def __init__(self, file: SubscriptionGroupsFile) -> None:
        self._file = file
        file.hold()

    @property
    def data_version(self) -> DataVersion:
        """Number and time of the last change."""
        return self._file.data_version

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        """Return the settings of a group, or None; does not block."""
        return self._file.get(group)

    def items(self) -> dict[str, SubscriptionGroupConfig]:
        """Return all groups by name; does not block."""
        return self._file.groups()

    def put(self, *configs: SubscriptionGroupConfig) -> None:
        """Create or replace groups. Blocks for one write. StoreConfigError for a name that is not allowed."""
        self._file.put(*configs)

    def delete(self, group: str) -> bool:
        """Delete a group and what is forbidden to it; return False if it does not exist. Blocks for the write."""
        return self._file.remove(group)

    def forbidden(self, group: str, topic: str) -> int:
        """Return the permission bits (4 read, 2 write) that a group does not have on a topic; does not block."""
        return self._file.forbidden(group, topic)

    def all_forbidden(self) -> dict[str, dict[str, int]]:
        """Return the forbidden permission bits of all groups by group and topic; does not block."""
        return self._file.all_forbidden()

    def forbid(self, group: str, topic: str, bits: int) -> None:
        """Set the permission bits that a group does not have on a topic, 0 for none. Blocks for the write."""
        self._file.forbid(group, topic, bits)


class BrokerOffsets:
    """Next offsets of groups by (topic, group) and queue; in memory until `save`.

    Methods do not block, unless they say so.
    """

    def __init__(self, file: ConsumerOffsetsFile, bounds: Callable[[str, int], tuple[int, int]]) -> None:
        """Load the table of `file`; StoreError if it is damaged."""
        self._file, self._bounds = file, bounds
        self._lock = threading.Lock()
        self._saving = threading.Lock()
        self._table: dict[Key, Offsets] = file.table()
        self._by_group: dict[str, dict[str, Offsets]] = {}
        for (topic, group), offsets in self._table.items():
            self._by_group.setdefault(group, {})[topic] = offsets
        self._changed: dict[Key, Offsets] = {}
        self._removed: set[Key] = set()
        self._resets: dict[Key, Offsets] = {}

    @property
    def data_version(self) -> DataVersion:
        """Number and time of the last save that changed the file."""
        return self._file.data_version

    def query(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the next offset of a queue, or None if the group has committed none."""
        return self._table.get((topic, group), {}).get(queue_id)

    def of(self, group: str, topic: str) -> Offsets:
        """Return the next offsets of a group's queues of a topic."""
        with self._lock:
            return dict(self._table.get((topic, group), {}))

    def of_group(self, group: str) -> dict[str, Offsets]:
        """Return the next offsets of a group by topic and queue."""
        with self._lock:
            return {topic: dict(offsets) for topic, offsets in self._by_group.get(group, {}).items()}

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have committed an offset of a topic."""
        with self._lock:
            return [group for name, group in self._table if name == topic]

    def items(self) -> dict[Key, Offsets]:
        """Return a copy of the table."""
        with self._lock:
            return {key: dict(offsets) for key, offsets in self._table.items()}

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set the next offset of a queue. StoreConfigError for a negative queue id or offset."""
        if not (0 <= queue_id < 1 << 31 and 0 <= offset < 1 << 63):
            raise StoreConfigError(f"{topic}@{group}", {queue_id: offset}, "must not be negative")
        with self._lock:
            self._set((topic, group), queue_id, offset)

    def _set(self, key: Key, queue_id: int, offset: int) -> None:
        offsets = self._table.get(key)
        if offsets is None:
            topic, group = key
            self._table[key] = self._by_group.setdefault(group, {})[topic] = offsets = {}
        offsets[queue_id] = offset
        self._changed.setdefault(key, {})[queue_id] = offset

    def reset(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Set next offsets on the server's side: the next pull of each queue is to be answered with its reset."""
        for queue_id, offset in offsets.items():
            self.commit(group, topic, queue_id, offset)
        with self._lock:
            self._resets.setdefault((topic, group), {}).update(offsets)

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Return True if a reset of the queue is pending."""
        return queue_id in self._resets.get((topic, group), {})

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the pending reset of a queue and end it, or None."""
        if (topic, group) not in self._resets:
            return None
        with self._lock:
            pending = self._resets.get((topic, group), {})
            offset = pending.pop(queue_id, None)
            if not pending:
                self._resets.pop((topic, group), None)
            return offset

    def delete_group(self, group: str) -> None:
        """Remove the offsets of a group in all topics; those of its broadcasting consumers too."""
        self._remove(lambda key: key[1].partition("@")[0] == group)

    def delete_topic(self, topic: str) -> None:
        """Remove the offsets of all groups in a topic."""
        self._remove(lambda key: key[0] == topic)

    def _remove(self, is_meant: Callable[[Key], bool]) -> None:
        with self._lock:
            for key in [key for key in self._table if is_meant(key)]:
                del self._table[key]
                del self._by_group[key[1]][key[0]]
                self._removed.add(key)
            for table in (self._changed, self._resets):
                for key in [key for key in table if is_meant(key)]:
                    del table[key]

    def clamp_to_queues(self) -> int:
        """Move offsets beyond the end of their queue back to it; return their number. Blocks for reads of queues."""
        count = 0
        for (topic, group), offsets in self.items().items():
            for queue_id, offset in offsets.items():
                end = self._bounds(topic, queue_id)[1]
                if offset > end:
                    with self._lock:
                        if self._table.get((topic, group), {}).get(queue_id) == offset:
                            self._set((topic, group), queue_id, end)
                            count += 1
        return count

    def save(self) -> None:
        """Write what has changed since the last save; after an error it stays for the next. Blocks.

        Raises:
            StoreError: The file cannot be written.
        """
        with self._saving:
            with self._lock:
                changed, self._changed = self._changed, {}
                removed, self._removed = self._removed, set()
            try:
                self._file.change(changed, removed)
            except BaseException:
                with self._lock:
                    for key, offsets in changed.items():
                        if key not in self._removed:
                            self._changed[key] = {**offsets, **self._changed.get(key, {})}
                    self._removed |= removed
                raise
