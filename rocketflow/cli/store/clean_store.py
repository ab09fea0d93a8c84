"""`store clean`: delete the files that retention expires, or print them only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rocketflow_store import StoreConfig


FIELDS: Final[dict[str, dict[str, str]]] = {
    "store clean": {
        "path": "the store",
        "dryRun": "whether nothing was deleted",
        "reservedHours": "age at which files expire",
        "diskUsedPercent": "used share of the disk",
        "commitLogFiles": "deleted CommitLog files",
        "consumeQueueFiles": "deleted queue files",
        "indexFiles": "deleted index files",
        "bytes": "their bytes",
        "minOffset": "begin of the log",
        "minOffset.before": "before the run",
        "minOffset.after": "after it",
    },
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


def clean_store(path: str, config: StoreConfig | None, reserved_hours: int | None, *, dry_run: bool) -> dict[str, Any]:
    """Return the files that were deleted (or would be), oldest first, and the store's first offset after that."""
    from rocketflow_store import MessageStore, NotAStoreError, StoreConfig, StoreReader
    from rocketflow_store.spi.maintenance import preview_clean
    from rocketflow_store.spi.places import check_directory, holds_log

    check_directory(Path(path), must_exist=True)
    config = config or StoreConfig()
    if not holds_log(path, config):
        raise NotAStoreError(path, "holds no commitlog/: there is nothing to delete")
    if reserved_hours is not None:
        config = replace(config, file_reserved_time=reserved_hours)
    with StoreReader(path, config) as reader:
        before = reader.min_phy_offset
        if dry_run:
            result = preview_clean(reader, reader.config)
    if not dry_run:
        with MessageStore.open(path, config) as store:
            result = store.clean()
    return {
        "path": path,
        "dryRun": dry_run,
        "reservedHours": config.file_reserved_time,
        "diskUsedPercent": result.disk_used_percent,
        "minOffset": {"before": before, "after": result.min_phy_offset},
        "commitLogFiles": [str(one) for one in result.log_files],
        "consumeQueueFiles": [str(one) for one in result.queue_files],
        "indexFiles": [str(one) for one in result.index_files],
        "bytes": result.bytes,
    }
