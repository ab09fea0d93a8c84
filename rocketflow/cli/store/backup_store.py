"""`store backup`: a copy of a store that opens at once, taken beside the broker that serves it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketflow_store import StoreConfig

    Progress = Callable[[int, int], None] | None


FIELDS: Final[dict[str, dict[str, str]]] = {
    "store backup": {
        "path": "the store",
        "target": "the backup",
        "broker": "address of the broker that serves the store; null if RocketFlow's does not",
        "minOffset": "begin of the backup's log",
        "maxOffset": "end of its log",
        "commitLogFiles": "number of its CommitLog files",
        "records": "records of its log",
        "damaged": "damaged ranges of the log: file, offset, length, why",
        "seconds": "time it took",
    },
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


def back_up(
    path: str, target: str, config: StoreConfig, workers: int | None, progress: Callable[[], Progress]
) -> dict[str, Any]:
    """Return the range of the log that the backup has; `progress` starts a progress bar after processes have started.

    A broker of RocketFlow that serves the store first makes durable what it has acknowledged.
    """
    from rocketflow.store_writes import find_broker
    from rocketflow_store.spi.maintenance import backup_store
    from rocketflow_store.spi.rebuild import LocalEngine

    with LocalEngine(workers) as engine:
        broker = find_broker(path, config)
        if broker is not None:
            broker.make_durable()
        else:
            _warn_of_a_writer(path, config)
        result = backup_store(path, target, config, engine=engine, progress=progress())
    return {
        "path": path,
        "target": str(result.target),
        "broker": None if broker is None else broker.address,
        "minOffset": result.min_phy_offset,
        "maxOffset": result.max_phy_offset,
        "commitLogFiles": result.log_files,
        "records": result.records,
        "damaged": result.damaged,
        "seconds": round(result.seconds, 3),
    }


def _warn_of_a_writer(path: str, config: StoreConfig) -> None:
    """Print a note on stderr if a process that was not asked for a flush has locked the store."""
    from rocketflow_store import StoreLockedError
    from rocketflow_store.spi.places import check_unlocked

    try:
        check_unlocked(path, config)
    except StoreLockedError as error:
        print(f"note: {path} is held by {error.holder}; what it has only in memory is not copied", file=sys.stderr)


def backup_lines(fields: dict[str, Any]) -> list[str]:
    """Return the fields as lines for people."""
    begin, end, count = fields["minOffset"], fields["maxOffset"], fields["commitLogFiles"]
    lines = [
        f"{fields['records']} records in {fields['target']}, {fields['seconds']:.2f} s",
        f"log [{begin}, {end}): {end - begin} bytes in {count} files",
    ]
    if fields["broker"] is not None:
        lines.append(f"the broker at {fields['broker']} made durable what it had acknowledged")
    lines += [
        f"damaged  {one['file']} offset {one['offset']}: {one['length']} bytes, {one['why']}"
        for one in fields["damaged"]
    ]
    return lines
