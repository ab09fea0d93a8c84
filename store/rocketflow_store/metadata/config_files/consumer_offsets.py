"""`config/consumerOffset.json`: the next offset of each group in each queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from rocketflow_store.files.json_fields import object_field, offset_map
from rocketflow_store.metadata.config_files.json_config_file import JsonConfigFile
from rocketflow_store.model.errors import StoreConfigError
from rocketflow_store.model.topic_names import validate_group, validate_topic

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

SEPARATOR: Final = "@"


def topic_and_group(key: str, table: str) -> tuple[str, str]:
    """Split a key of `table` into topic and group; raise ValueError if it has no separator."""
    topic, separator, group = key.partition(SEPARATOR)
    if not separator:
        raise ValueError(f"{table} holds {key!r}, which is not topic@group")
    return topic, group


class ConsumerOffsetsFile(JsonConfigFile):
    """Next offsets by (topic, group). A group may hold `@` itself: broadcasting consumers are `group@broadcast`."""

    NAME: ClassVar[str] = "consumerOffset.json"
    _offsets: dict[tuple[str, str], dict[int, int]]

    def offsets(self, group: str, topic: str) -> dict[int, int]:
        """Return the next offset by queue id; empty for a group that never read the topic."""
        with self._guard:
            self._refresh()
            return dict(self._offsets.get((topic, group), {}))

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        return self.offsets(group, topic).get(queue_id)

    def table(self) -> dict[tuple[str, str], dict[int, int]]:
        """Return all next offsets by (topic, group) and queue id."""
        with self._guard:
            self._refresh()
            return {key: dict(offsets) for key, offsets in self._offsets.items()}

    def groups(self) -> dict[str, list[str]]:
        """Return the topics of each group; broadcasting consumers are omitted, as in the file's `groupTopicMap`."""
        with self._guard:
            self._refresh()
            return self._group_topics()

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Set the next offsets of the given queues; other queues are unchanged. Durable on return."""
        self.commit_all({(topic, group): offsets})

    def commit_all(self, table: Mapping[tuple[str, str], Mapping[int, int]]) -> None:
        """Commit offsets of several (topic, group) in one write.

        Raises StoreConfigError for a new (topic, group) with an invalid name, and for an offset or queue id out of
        range.
        """
        self.change(table)

    def change(
        self, table: Mapping[tuple[str, str], Mapping[int, int]], removed: Collection[tuple[str, str]] = ()
    ) -> None:
        """Remove the offsets of `removed`, then commit those of `table`, in one write: see `commit_all`."""
        with self._guard:
            self._refresh()
            for (topic, group), offsets in table.items():
                if (topic, group) not in self._offsets:
                    validate_topic(topic)
                    for part in group.split(SEPARATOR):
                        validate_group(part)
                for queue_id, offset in offsets.items():
                    if not (0 <= queue_id < 1 << 31 and 0 <= offset < 1 << 63):
                        raise StoreConfigError(f"{topic}{SEPARATOR}{group}", {queue_id: offset}, "must not be negative")
            merged = {key: offsets for key, offsets in self._offsets.items() if key not in removed}
            for key, offsets in table.items():
                merged[key] = {**merged.get(key, {}), **offsets}
            if merged == self._offsets:
                return
            self._offsets = merged
            self._persist()

    def remove_topic(self, topic: str) -> bool:
        """Remove all groups' offsets of a topic; return False if there were none."""
        with self._guard:
            self._refresh()
            kept = {key: offsets for key, offsets in self._offsets.items() if key[0] != topic}
            if len(kept) == len(self._offsets):
                return False
            self._offsets = kept
            self._persist()
            return True

    def _group_topics(self) -> dict[str, list[str]]:
        groups: dict[str, list[str]] = {}
        for topic, group in self._offsets:
            if SEPARATOR not in group:
                groups.setdefault(group, []).append(topic)
        return groups

    def _adopt(self, document: dict[str, Any]) -> None:
        table = object_field(document, "offsetTable")
        offsets: dict[tuple[str, str], dict[int, int]] = {}
        for key in table:
            offsets[topic_and_group(key, "offsetTable")] = offset_map(object_field(table, key), key)
        self._offsets = offsets

    def members(self) -> dict[str, Any]:
        table = {
            f"{topic}{SEPARATOR}{group}": {str(queue_id): offset for queue_id, offset in sorted(offsets.items())}
            for (topic, group), offsets in self._offsets.items()
        }
        return {"groupTopicMap": self._group_topics(), "offsetTable": table}
