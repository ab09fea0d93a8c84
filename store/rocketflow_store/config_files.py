"""RocketMQ's JSON files in `config/`: topics, consumer offsets, subscription groups, delay offsets.

A broker writes them with fastjson, which leaves integer keys unquoted; such keys are quoted before parsing. A file
that is missing, empty or broken is looked for as NAME.bak, as a broker does; when both are there and neither can be
read that is an error, never an empty table. What is not understood is kept as it was.
"""

from __future__ import annotations

import copy
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.clock import Clock, SystemClock
from rocketflow_store.errors import StoreAccessError
from rocketflow_store.files import os_files

if TYPE_CHECKING:
    from pathlib import Path

_STRING_OR_KEY: Final = re.compile(r'"(?:[^"\\]|\\.)*"|([{,]\s*)(-?\d+)(\s*:)', re.DOTALL)
PERM_READ_WRITE: Final = 6


def parse_fastjson(text: str) -> Any:
    """The value of a JSON text whose integer keys may be unquoted; ValueError where it is none."""

    def quoted(match: re.Match[str]) -> str:
        return match[0] if match[1] is None else f'{match[1]}"{match[2]}"{match[3]}'

    return json.loads(_STRING_OR_KEY.sub(quoted, text))


def load_config_file(path: Path) -> dict[str, Any]:
    """The object in `path`, or in its .bak where it is missing or broken; {} where there is neither."""
    broken: list[str] = []
    for candidate in (path, path.with_name(path.name + ".bak")):
        try:
            text = candidate.read_text("utf-8")
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            broken.append(f"{candidate.name}: {error}")
            continue
        try:
            value = parse_fastjson(text)
            if isinstance(value, dict):
                return value
            broken.append(f"{candidate.name}: not an object")
        except ValueError as error:
            broken.append(f"{candidate.name}: {error if text.strip() else 'empty'}")
    if broken:
        raise StoreAccessError(path, f"cannot be parsed ({'; '.join(broken)}); restore it from a copy or remove it")
    return {}


class ConfigFile:
    """One file with a `dataVersion` that counts its changes."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self.path = path
        self._clock = clock or SystemClock()
        self.body = load_config_file(path)

    def save(self) -> None:
        """Write the file atomically; the previous content stays as NAME.bak."""
        version = self.body.setdefault("dataVersion", {"counter": 0, "stateVersion": 0, "timestamp": 0})
        if isinstance(version, dict):
            version["counter"] = int(version.get("counter", 0)) + 1
            version["timestamp"] = self._clock.now_ms()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.body, indent="\t", sort_keys=True, ensure_ascii=False)
        os_files.write_atomically(self.path, text.encode(), keep_backup=True)

    def _table(self, name: str) -> dict[str, Any]:
        table = self.body.setdefault(name, {})
        if not isinstance(table, dict):
            raise StoreAccessError(self.path, f"{name} is not an object; restore the file from a copy")
        return table


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One topic of topics.json."""

    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = PERM_READ_WRITE
    attributes: dict[str, str] = field(default_factory=dict)


class TopicsFile(ConfigFile):
    """`topics.json`: every topic's queues, permissions and attributes."""

    def __init__(self, config_directory: Path, clock: Clock | None = None) -> None:
        super().__init__(config_directory / "topics.json", clock)

    def get(self, topic: str) -> TopicConfig | None:
        """A topic, None where it is not known."""
        found = self._table("topicConfigTable").get(topic)
        if not isinstance(found, dict):
            return None
        return TopicConfig(
            topic_name=topic,
            read_queue_nums=int(found.get("readQueueNums", 16)),
            write_queue_nums=int(found.get("writeQueueNums", 16)),
            perm=int(found.get("perm", PERM_READ_WRITE)),
            attributes=dict(found.get("attributes") or {}),
        )

    def topics(self) -> list[str]:
        """Names of all topics."""
        return sorted(self._table("topicConfigTable"))

    def set_queue_nums(self, topic: str, queues: int) -> None:
        """Give a topic `queues` read and write queues (a new one with RocketMQ's defaults) and save."""
        table = self._table("topicConfigTable")
        entry = table.setdefault(
            topic,
            {
                "attributes": {},
                "order": False,
                "perm": PERM_READ_WRITE,
                "topicFilterType": "SINGLE_TAG",
                "topicName": topic,
                "topicSysFlag": 0,
            },
        )
        entry["readQueueNums"] = entry["writeQueueNums"] = queues
        self.save()


class ConsumerOffsetsFile(ConfigFile):
    """`consumerOffset.json`: {topic@group: {queue id: next offset}}."""

    def __init__(self, config_directory: Path, clock: Clock | None = None) -> None:
        super().__init__(config_directory / "consumerOffset.json", clock)

    def offsets(self) -> dict[tuple[str, str], dict[int, int]]:
        """{(topic, group): {queue id: next offset}}; a broadcast key's group holds its own "@"."""
        found: dict[tuple[str, str], dict[int, int]] = {}
        for key, queues in self._table("offsetTable").items():
            topic, _, group = key.partition("@")
            if isinstance(queues, dict):
                found[topic, group] = {int(queue): int(offset) for queue, offset in queues.items()}
        return found

    def set_offsets(self, topic: str, group: str, offsets: dict[int, int]) -> None:
        """Set next offsets of a group on a topic; other queues and groups stay. Call `save` after."""
        entry = self._table("offsetTable").setdefault(f"{topic}@{group}", {})
        entry.update({str(queue): offset for queue, offset in offsets.items()})
        topics = self._table("groupTopicMap").setdefault(group, [])
        if isinstance(topics, list) and topic not in topics:
            topics.append(topic)

    def clamp(self, max_offset: Any) -> int:
        """Bring offsets beyond the end of their queue back to it (`max_offset(topic, queue)`); how many there were."""
        before = copy.deepcopy(self._table("offsetTable"))
        changed = 0
        for key, queues in self._table("offsetTable").items():
            topic = key.partition("@")[0]
            for queue, offset in list(queues.items()) if isinstance(queues, dict) else []:
                most = max_offset(topic, int(queue))
                if int(offset) > most:
                    queues[queue] = most
                    changed += 1
        if changed and before != self._table("offsetTable"):
            self.save()
        return changed


class DelayOffsetsFile(ConfigFile):
    """`delayOffset.json`: {delay level: next offset of its queue on the schedule topic}."""

    def __init__(self, config_directory: Path, clock: Clock | None = None) -> None:
        super().__init__(config_directory / "delayOffset.json", clock)

    def offsets(self) -> dict[int, int]:
        """{level: next offset}."""
        return {int(level): int(offset) for level, offset in self._table("offsetTable").items()}

    def set_offset(self, level: int, offset: int) -> None:
        """Set one level's next offset. Call `save` after."""
        self._table("offsetTable")[str(level)] = offset


class SubscriptionGroupsFile(ConfigFile):
    """`subscriptionGroup.json`: consumer groups and their settings."""

    def __init__(self, config_directory: Path, clock: Clock | None = None) -> None:
        super().__init__(config_directory / "subscriptionGroup.json", clock)

    def groups(self) -> dict[str, dict[str, Any]]:
        """{group: settings under RocketMQ's names}."""
        return {name: value for name, value in self._table("subscriptionGroupTable").items() if isinstance(value, dict)}
