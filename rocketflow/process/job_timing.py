"""How long a job took, as the line of JSON that ends it says."""

from __future__ import annotations

from typing import Any


def timing(rows: int, seconds: float) -> dict[str, Any]:
    """`seconds` and `rowsPerSecond` (0 where no time passed)."""
    return {"seconds": round(seconds, 3), "rowsPerSecond": round(rows / seconds, 1) if seconds else 0.0}
