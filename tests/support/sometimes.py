"""Rare paths that a run of all rows must take: a count of 0 means that its fault was never injected.

Events of the product (`rocketflow_store.telemetry.events`) are counted automatically; `hit` counts the rest. Only
events in the process of the tests are seen.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection
from typing import Final

from rocketflow_store.telemetry import events

ROLL: Final = "roll"
SEVERAL_INDEX_FILES: Final = "several index files"
FAILED_SYNC: Final = "failed sync"

EXPECTED: Final = (
    ROLL,
    SEVERAL_INDEX_FILES,
    FAILED_SYNC,
    events.CLAMPED,
    events.CUT,
    events.FENCED,
    events.HEALED,
    events.HELD_UP,
    events.LOST,
    events.QUARANTINED,
    events.REFUSED,
)
ROWS: Final = frozenset({"S03", "S06", "S07", "S09", "S15", "S17", "S18", "S20"})
"""The rows that together take all these paths."""

counts: Counter[str] = Counter()


def hit(name: str) -> None:
    """Count one occurrence of a rare path."""
    counts[name] += 1


def never(rows: Collection[str]) -> list[str]:
    """Return the expected paths that a run of these rows did not take."""
    return [name for name in EXPECTED if not counts[name]] if set(rows) >= ROWS else []


class _Counting(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        code = getattr(record, "rf_code", None)
        if code is not None:
            hit(code)


logging.getLogger("rocketflow_store").addHandler(_Counting())
