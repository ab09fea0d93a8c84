"""Distinguishing a topic that does not exist from one without messages, and from a wrong path."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from rocketflow.errors import UsageError
from rocketflow.spark.source.queue_choice import QueueChooser
from rocketflow.spark.source.stores import open_stores
from rocketflow.spark.source.stream_offset import QueueKey
from rocketflow_store import StoreError, StoreReader
from rocketflow_store.spi.names import is_system_topic
from rocketflow_store.spi.setting_rows import nearest_name

if TYPE_CHECKING:
    from rocketflow.spark.source.source_options import SourceOptions
    from rocketflow.spark.source.stores import Stores


class MissingTopicError(StoreError):
    """A read names topics or queues that no store holds."""


def check_source(source: SourceOptions, *, ends_by_itself: bool) -> None:
    """Check, before a job starts, that the paths to read are stores, or that a NameServer answers.

    Raises:
        UsageError: a run that ends by itself names a topic that does not exist in any store.
    """
    if source.network is not None:
        stores = open_stores(source)
        stores.check()
        existing = stores.topics() if ends_by_itself else set()
        known = existing | {f"{name}/{topic}" for name in stores.names() for topic in existing}
    else:
        known, existing = set(), set()
        for location in source.stores:
            with StoreReader(location.path, location.store_config()) as reader:
                topics = {*reader.topics(), *reader.listed_topics()} if ends_by_itself else set()
                existing |= {QueueKey(location.name, topic, 0).qualified_topic for topic in topics}
                known |= topics
        known |= existing
    missing = sorted(set(source.topics.named) - known) if ends_by_itself else []
    if missing:
        raise UsageError(describe_missing(missing, existing))


def missing_names(chooser: QueueChooser, stores: Stores, queues: Collection[QueueKey]) -> list[str]:
    """Return the topics (or queues of an assignment) that a read names and that do not exist.

    `queues` are those with messages. A topic that is configured exists with its queues, also without messages.
    """
    if not chooser.missing(queues):
        return []
    return chooser.missing([*queues, *stores.configured(chooser)])


def missing_error(missing: Sequence[str], stores: Stores) -> MissingTopicError:
    """Return the error for names that do not exist; it names the nearest topic of the stores, or their topics."""
    return MissingTopicError(describe_missing(missing, stores.topics() | stores.listed_topics()))


def describe_missing(missing: Sequence[str], existing: Iterable[str]) -> str:
    """Return a text that names the missing topics, and the nearest topic or those that exist, without the system's."""
    known = set(existing)
    topics = sorted(name for name in known if not is_system_topic(_plain(name)))
    text = f"no topic {', '.join(missing)} in the store"
    topic, _, queue = missing[0].partition(" queue ")
    if topic in known | {_plain(name) for name in known}:
        return f"topic {topic} has no queue " + (queue or "that may be read: set its perm and readQueueNums")
    nearest = nearest_name(topic, topics) or nearest_name(topic, map(_plain, topics))
    if nearest:
        return f"{text} (did you mean {nearest}?)"
    if not topics:
        return f"{text}: it has no topics"
    listed = ", ".join(topics[:20]) + (", ..." if len(topics) > 20 else "")
    return f"{text}; it has {listed}"


def _plain(name: str) -> str:
    """Return a topic's name without the store's."""
    return name.rpartition("/")[2]
