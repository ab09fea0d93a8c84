"""`store topics`: list, describe, create and delete topics, and set their queues."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow.cli.shared.parameters import QUEUE_BOUNDS
from rocketflow.errors import UsageError
from rocketflow.process.nearest import did_you_mean
from rocketflow_store import MessageRejectedError
from rocketflow_store.spi.names import MAX_QUEUE_NUMS, PERM_READ, PERM_WRITE, check_send_topic, is_system_topic
from rocketflow_store.spi.reads import queue_size
from rocketflow_store.spi.table_rows import BATCH_CQ, SIMPLE_CQ
from rocketflow_store.spi.tables import group_offsets, topics_of

if TYPE_CHECKING:
    from rocketflow_store import MessageStore, StoreConfig, StoreReader

TOPIC_COLUMNS = ("topic", "writeQueueNums", "readQueueNums", "perm", "queueType", "queues", "messages")
QUEUE_COLUMNS = ("queueId", "minOffset", "maxOffset", "messages", "bytes", "beginTimestamp", "endTimestamp")


_TOPIC: Final = {
    "topic": "name",
    "system": "whether it is a topic of the store itself",
    "readQueueNums": "queues that consumers read",
    "writeQueueNums": "queues that producers write",
    "perm": "permissions: RW, R- (read), -W (write) or --",
    "order": "whether the topic is marked as ordered",
    "queueType": "SimpleCQ or BatchCQ",
    "attributes": "RocketMQ's attributes",
    "queues": "number of queues that exist",
    "messages": "messages that can be read",
}
FIELDS: Final[dict[str, dict[str, str]]] = {
    "store topics": _TOPIC,
    "store topics describe": {
        **_TOPIC,
        "queues": "the queues that exist; `create` and `queues` print the same fields",
        "queues.queueId": "queue",
        **{f"queues.{name}": about for name, about in QUEUE_BOUNDS.items()},
        "queues.messages": "messages that can be read",
        "queues.bytes": "bytes of their records",
        "queues.beginTimestamp": "store time of the first, ms",
        "queues.endTimestamp": "store time of the last, ms",
        "groups": "consumer groups with an offset of the topic",
    },
    "store topics delete": {
        "topic": "topic",
        "deleted": "true",
    },
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


def list_topics(reader: StoreReader) -> list[dict[str, Any]]:
    """Return every topic that is listed or has a queue; numbers of queues are None for one that is not listed."""
    listed = topics_of(reader.path).topics()
    queues: dict[str, list[tuple[int, int]]] = {}
    for (topic, _), bounds in reader.snapshot().queues.items():
        queues.setdefault(topic, []).append(bounds)
    found = []
    for topic in sorted({*listed, *queues}):
        config, bounds_of = listed.get(topic), queues.get(topic, [])
        found.append(
            {
                "topic": topic,
                "writeQueueNums": config.write_queue_nums if config else None,
                "readQueueNums": config.read_queue_nums if config else None,
                "perm": _permissions(config.perm) if config else None,
                "order": config.order if config else None,
                "queueType": (BATCH_CQ if config.is_batch_cq else SIMPLE_CQ) if config else None,
                "attributes": dict(config.attributes) if config else {},
                "system": is_system_topic(topic),
                "queues": len(bounds_of),
                "messages": sum(high - low for low, high in bounds_of),
            }
        )
    return found


def describe_topic(reader: StoreReader, topic: str) -> dict[str, Any]:
    """Return a topic's entry, the bounds of its queues, and the groups that read it."""
    found = {one["topic"]: one for one in list_topics(reader)}
    if topic not in found:
        raise UsageError(f"no topic {topic!r} in this store: {did_you_mean(topic, found)}")
    rows = []
    for (name, queue_id), (low, high) in sorted(reader.snapshot().queues.items()):
        if name == topic:
            size = queue_size(reader, topic, queue_id, low, high)
            rows.append(
                {
                    "queueId": queue_id,
                    "minOffset": low,
                    "maxOffset": high,
                    "messages": high - low,
                    "bytes": size.bytes,
                    "beginTimestamp": size.begin_timestamp,
                    "endTimestamp": size.end_timestamp,
                }
            )
    groups = {group for name, group in group_offsets(reader.path) if name == topic}
    return {**found[topic], "queues": rows, "groups": sorted(groups)}


def create_topic(path: str, config: StoreConfig, topic: str, queues: int, queue_type: str | None) -> None:
    """Create a topic that does not exist yet."""
    _check_name(topic)
    _check_count(queues)
    with _opened(path, config) as store:
        if topic in _names(store):
            raise UsageError(f"topic {topic} exists: `rocketflow store topics {path} queues {topic} N` sets its queues")
        store.create_topic(topic, queues, queue_type=queue_type)


def set_queues(path: str, config: StoreConfig, topic: str, queues: int) -> None:
    """Set a topic's write queues to `queues`, and its read queues to the largest number it ever had."""
    _check_count(queues)
    _refuse_system_topic(topic)
    with _opened(path, config) as store:
        _check_exists(store, topic)
        store.set_topic_queues(topic, queues)


def delete_topic(path: str, config: StoreConfig, topic: str, *, confirmed: bool) -> None:
    """Delete a topic as a broker does: its entry, its queues, its consumers' offsets; the log keeps the records."""
    if not confirmed:
        raise UsageError(f"deleting topic {topic} cannot be undone: confirm it with --yes")
    with _opened(path, config) as store:
        _check_exists(store, topic)
        store.delete_topic(topic)


def _refuse_system_topic(topic: str) -> None:
    if is_system_topic(topic):
        raise UsageError(f"topic {topic} is one of the store's own, which only the store changes")


def _check_name(topic: str) -> None:
    _refuse_system_topic(topic)
    try:
        check_send_topic(topic)
    except MessageRejectedError as error:
        raise UsageError(f"topic {topic}: {error.why}") from error


def _check_count(queues: int) -> None:
    if not 1 <= queues <= MAX_QUEUE_NUMS:
        raise UsageError(f"{queues} queues: a topic has 1 to {MAX_QUEUE_NUMS}")


def _opened(path: str, config: StoreConfig) -> MessageStore:
    from rocketflow_store import MessageStore, NotAStoreError
    from rocketflow_store.spi.places import check_directory, is_store

    root = Path(path).absolute()
    check_directory(root, must_exist=True)
    if not is_store(root, config):
        raise NotAStoreError(path, "holds no commitlog/; give the directory that storePathRootDir names")
    return MessageStore.open(root, config)


def _names(store: MessageStore) -> set[str]:
    return {*store.listed_topics(), *store.topics()}


def _check_exists(store: MessageStore, topic: str) -> None:
    known = _names(store)
    if topic not in known:
        raise UsageError(f"no topic {topic!r} in this store: {did_you_mean(topic, known)}")


def _permissions(perm: int) -> str:
    return ("R" if perm & PERM_READ else "-") + ("W" if perm & PERM_WRITE else "-")
