"""Telling apart a topic that is not there yet from a path or a name that is wrong."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from rocketflow.spark.option_values import nearest_name
from rocketflow.spark.store_access import SourceStores
from rocketflow.spark.stream_offset import QueueKey
from rocketflow_store.errors import NotAStoreError, StoreError


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


def describe_missing(missing: Sequence[str], there: Iterable[QueueKey]) -> str:
    """Which topics are missing, what was probably meant, what is there."""
    topics = sorted({key.qualified_topic for key in there})
    text = f"no topic {', '.join(missing)} in the store"
    nearest = nearest_name(missing[0], topics)
    if nearest:
        return f"{text} (did you mean {nearest}?)"
    if not topics:
        return f"{text}: it has no topics"
    listed = ", ".join(topics[:20]) + (", ..." if len(topics) > 20 else "")
    return f"{text}; it has {listed}"
