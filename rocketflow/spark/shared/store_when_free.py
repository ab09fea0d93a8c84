"""Writing to a store for a short time, beside others that do so."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Final, TypeVar

from rocketflow_store import MessageStore, StoreLockedError
from rocketflow_store.spi import writing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocketflow_store import StoreConfig

COMMITS_TAKE_S: Final = 5.0
"""Who holds the lock for longer than this does not hold it for a commit."""
Result = TypeVar("Result")


def open_when_free(path: str | Path, config: StoreConfig | None, *, wait: bool) -> MessageStore:
    """The store, open for writing, once nobody else holds it: as `when_free`."""
    return when_free(lambda: MessageStore.open(path, config), wait=wait)


def when_free(action: Callable[[], Result], *, wait: bool) -> Result:
    """What `action` gives, tried again as long as another writer holds the store that it opens.

    Without `wait` StoreLockedError is raised once that took COMMITS_TAKE_S; with it somebody is told then.
    """
    try:
        return writing.when_free(action, COMMITS_TAKE_S)
    except StoreLockedError as error:
        if not wait:
            raise
        print(f"waiting: {error.path} is held by {error.holder}", file=sys.stderr, flush=True)
    return writing.when_free(action, math.inf)
