"""The duration and rate of a job in its final JSON line."""

from __future__ import annotations

from typing import Any, Final

TIMING_FIELDS: Final = {
    "seconds": "time it took",
    "rowsPerSecond": "rows a second",
}
"""The fields of `timing`."""


def timing(rows: int, seconds: float) -> dict[str, Any]:
    """Return `seconds` and `rowsPerSecond` (0 if no time passed)."""
    return {"seconds": round(seconds, 3), "rowsPerSecond": round(rows / seconds, 1) if seconds else 0.0}
