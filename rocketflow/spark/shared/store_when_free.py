"""Opening a store for a short time to write, beside other processes that do so."""

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
"""Longest time that a commit holds the lock; a process that holds it for longer does other work."""
Result = TypeVar("Result")


def open_when_free(path: str | Path, config: StoreConfig | None, *, wait: bool) -> MessageStore:
    """Open the store for writing as soon as no other process has locked it; see `when_free`."""
    return when_free(lambda: MessageStore.open(path, config), wait=wait)


def when_free(action: Callable[[], Result], *, wait: bool) -> Result:
    """Return the result of `action`, repeated while another process has locked the store that it opens.

    After COMMITS_TAKE_S, raise StoreLockedError, or with `wait` print a line that names the holder and go on waiting.
    """
    try:
        return writing.when_free(action, COMMITS_TAKE_S)
    except StoreLockedError as error:
        if not wait:
            raise
        print(f"waiting: {error.path} is held by {error.holder}", file=sys.stderr, flush=True)
    return writing.when_free(action, math.inf)
