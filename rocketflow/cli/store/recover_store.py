"""`store recover`: open the store as a broker would and close it again, or print the effects of that."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rocketflow_store import StoreConfig


FIELDS: Final[dict[str, dict[str, str]]] = {
    "store recover": {
        "abortFound": "whether the last writer was killed",
        "truncatedFrom": "end of the log before the recovery",
        "truncatedTo": "end of the log after it",
        "quarantined": "damaged ranges that stay in the log, and those that are cut",
        "dispatched": "records that got units and index entries",
        "seconds": "time it took",
    },
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


def recover_store(path: str, config: StoreConfig | None, *, dry_run: bool) -> dict[str, Any]:
    """Return the damage, the cut and the dispatched records of a recovery, or of its dry run."""
    from rocketflow_store import MessageStore
    from rocketflow_store.spi.maintenance import preview_recovery
    from rocketflow_store.spi.places import check_directory

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
        "quarantined": _ranges(result.quarantined),
        "dispatched": result.dispatched,
        "seconds": round(result.seconds, 3),
    }


def _ranges(quarantined: Iterable[Any]) -> list[dict[str, Any]]:
    return [{"file": one.file, "offset": one.offset, "length": one.length, "why": one.why} for one in quarantined]


def explain_store(path: str, config: StoreConfig | None) -> dict[str, Any]:
    """Return the steps that an open for writing would take, and their causes; change nothing."""
    from rocketflow_store.spi.maintenance import explain_recovery

    plan = explain_recovery(path, config)
    result, confirmed = plan.result, plan.found.stop.confirmed
    return {
        "stop": plan.found.how_stopped.value,
        "syncedTo": None if confirmed is None else confirmed.synced_offset,
        "pageCacheKept": None if confirmed is None else confirmed.cache_kept,
        "scannedFrom": None if result is None else result.scanned_from,
        "logEnd": None if result is None else result.truncated_to,
        "quarantined": [] if result is None else _ranges(result.quarantined),
        "rebuilt": list(plan.found.lost.names),
        "steps": [{"step": one.label, "what": one.value} for one in plan.steps],
    }


def lines_of_plan(plan: dict[str, Any]) -> Iterator[str]:
    """Yield the result of `explain_store` as lines for people."""
    yield f"last stop      {plan['stop']}"
    if plan["syncedTo"] is not None:
        after = (
            "the page cache kept what was written" if plan["pageCacheKept"] else "a bad record after it is a torn tail"
        )
        yield f"synced         up to {plan['syncedTo']}; {after}"
    if plan["logEnd"] is not None:
        yield f"log            walked from {plan['scannedFrom']}, ends at {plan['logEnd']}"
    for one in plan["quarantined"]:
        yield f"quarantined    {one['file']} from offset {one['offset']}, {one['length']} bytes: {one['why']}"
    if plan["rebuilt"]:
        yield f"rebuilt        {', '.join(plan['rebuilt'])}"
    for number, one in enumerate(plan["steps"], 1):
        yield f"{number:>2}. {one['step']:<28} {one['what']}"
