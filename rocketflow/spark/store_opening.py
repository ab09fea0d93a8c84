"""Opening a store for the time of one commit, beside others that do so."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

from rocketflow_store.errors import StoreLockedError
from rocketflow_store.message_store import MessageStore

if TYPE_CHECKING:
    from pathlib import Path

    from rocketflow_store.config import StoreConfig

COMMITS_TAKE_S: Final = 5.0
"""Who holds the lock for longer than this does not hold it for a commit."""
_RETRY_S: Final = 0.02


def open_when_free(path: str | Path, config: StoreConfig | None, *, wait: bool) -> MessageStore:
    """The store, open for writing, once nobody else holds it.

    Without `wait` StoreLockedError is raised once another writer has kept it for COMMITS_TAKE_S.
    """
    deadline, told = time.monotonic() + COMMITS_TAKE_S, False
    while True:
        try:
            return MessageStore.open(path, config)
        except StoreLockedError as error:
            if time.monotonic() > deadline:
                if not wait:
                    raise
                if not told:
                    print(f"waiting: {error.path} is held by {error.holder}", file=sys.stderr, flush=True)
                told = True
            time.sleep(_RETRY_S)
