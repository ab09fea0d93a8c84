"""`store recover`: open the store as a broker would and close it again, or only say what that would do."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocketflow_store import StoreConfig


def recover_store(path: str, config: StoreConfig | None, *, dry_run: bool) -> dict[str, Any]:
    """What was (or would be) found, cut and dispatched."""
    from rocketflow_store import MessageStore
    from rocketflow_store.metadata.layout.store_paths import check_directory
    from rocketflow_store.recovery.preview import preview_recovery

    check_directory(Path(path), must_exist=True)
    if dry_run:
        began = time.monotonic()
        result = preview_recovery(Path(path), config)
        result.seconds = time.monotonic() - began
    else:
        with MessageStore.open(path, config) as store:
            result = store.recovery
    return {
        "abortFound": result.abort_found,
        "truncatedFrom": result.truncated_from,
        "truncatedTo": result.truncated_to,
        "quarantined": [
            {"file": one.file, "offset": one.offset, "length": one.length, "why": one.why} for one in result.quarantined
        ],
        "dispatched": result.dispatched,
        "seconds": round(result.seconds, 3),
    }
