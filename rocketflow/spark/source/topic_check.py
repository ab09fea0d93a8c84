"""Distinguishing a topic that does not exist yet from a wrong path or name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rocketflow.process.nearest import nearest_name
from rocketflow.spark.source.stores import open_stores
from rocketflow.spark.source.stream_offset import QueueKey
from rocketflow_store import StoreError, StoreReader

if TYPE_CHECKING:
    from rocketflow.spark.source.source_options import SourceOptions


class MissingTopicError(StoreError):
    """A read names topics or queues that no store holds."""

    exit_code = 2


def check_source(source: SourceOptions, *, ends_by_itself: bool) -> None:
    """Check, before a job starts, that the paths to read are stores, or that a NameServer answers.

    A topic exists if it has a queue, or if `config/topics.json` lists it: it may not have received a message yet.

    Raises:
        MissingTopicError: a run that ends by itself names a topic that does not exist in any store.
    """
    if source.network is not None:
        stores = open_stores(source)
        stores.check()
        missing = sorted(set(source.topics.named) - stores.topics()) if ends_by_itself else []
        if missing:
            raise MissingTopicError(describe_missing(missing, stores.topics()))
        return
    existing: set[QueueKey] = set()
    for location in source.stores:
        with StoreReader(location.path, location.store_config()) as reader:
            if ends_by_itself:
                topics = {*reader.topics(), *reader.listed_topics()}
                existing |= {QueueKey(location.name, topic, 0) for topic in topics}
    if not ends_by_itself:
        return
    known = {name for key in existing for name in (key.topic, key.qualified_topic)}
    missing = sorted(name for name in source.topics.named if name not in known)
    if missing:
        raise MissingTopicError(describe_missing(missing, (key.qualified_topic for key in existing)))


def describe_missing(missing: Sequence[str], existing: Iterable[str]) -> str:
    """Return a text that names the missing topics, and the nearest topic or those that exist."""
    topics = sorted(set(existing))
    text = f"no topic {', '.join(missing)} in the store"
    nearest = nearest_name(missing[0], topics)
    if nearest:
        return f"{text} (did you mean {nearest}?)"
    if not topics:
        return f"{text}: it has no topics"
    listed = ", ".join(topics[:20]) + (", ..." if len(topics) > 20 else "")
    return f"{text}; it has {listed}"
