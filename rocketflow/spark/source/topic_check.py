"""Telling apart a topic that is not there yet from a path or a name that is wrong."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rocketflow.process.nearest import nearest_name
from rocketflow.spark.source.store_access import SourceStores
from rocketflow.spark.source.stream_offset import QueueKey
from rocketflow_store import NotAStoreError, StoreError, StoreReader

if TYPE_CHECKING:
    from rocketflow.spark.source.source_options import SourceOptions


class MissingTopicError(StoreError):
    """A read names topics or queues that no store holds."""

    exit_code = 2


def check_stores(stores: SourceStores) -> None:
    """Open every store; NotAStoreError where the path is none, or an empty directory."""
    for name in stores.names():
        stores.reader(name)
        path = stores.path(name)
        if not os.listdir(path):
            raise NotAStoreError(path, "no topics: the directory is empty; give the directory that holds commitlog/")


def check_source(source: SourceOptions, *, ends_by_itself: bool) -> None:
    """Before a job starts: what it is to read are stores.

    MissingTopicError where a run that ends by itself names a topic that no store knows. A topic is known that has a
    queue, or that `config/topics.json` lists: nobody may have sent to it yet.
    """
    there: set[QueueKey] = set()
    for location in source.stores:
        with StoreReader(location.path, location.store_config()) as reader:
            if ends_by_itself:
                topics = {*reader.topics(), *reader.listed_topics()}
                there |= {QueueKey(location.name, topic, 0) for topic in topics}
    if not ends_by_itself:
        return
    known = {name for key in there for name in (key.topic, key.qualified_topic)}
    missing = sorted(name for name in source.topics.named if name not in known)
    if missing:
        raise MissingTopicError(describe_missing(missing, (key.qualified_topic for key in there)))


def describe_missing(missing: Sequence[str], there: Iterable[str]) -> str:
    """Which topics are missing, what was probably meant, what is there."""
    topics = sorted(set(there))
    text = f"no topic {', '.join(missing)} in the store"
    nearest = nearest_name(missing[0], topics)
    if nearest:
        return f"{text} (did you mean {nearest}?)"
    if not topics:
        return f"{text}: it has no topics"
    listed = ", ".join(topics[:20]) + (", ..." if len(topics) > 20 else "")
    return f"{text}; it has {listed}"
