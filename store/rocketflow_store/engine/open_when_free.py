"""The open of a store that other writers use too: each holds its lock for a short time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rocketflow_store.engine.message_store import MessageStore
from rocketflow_store.files.lock import when_free

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from rocketflow_store.settings.store_config import StoreConfig


def open_when_free(
    path: str | os.PathLike[str],
    config: StoreConfig | None,
    timeout_s: float,
    pause: Callable[[float], object] = time.sleep,
) -> MessageStore:
    """Open a store for writing once no other writer holds it, within `timeout_s`.

    Raises:
        StoreLockedError: another writer holds it for longer, or `pause` (seconds) returned True: the caller stops.
    """
    return when_free(lambda: MessageStore.open(path, config), timeout_s, pause)
