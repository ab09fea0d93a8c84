"""Histograms as plain integers: what is measured often is counted here, and converted for a scrape."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """Counts of values by upper bounds (inclusive, ascending), one more for larger values, and the sum of all."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value that was seen so many times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    def add(self, counts: Sequence[int], total: float) -> None:
        """Add the counts of values by the same bounds, and their sum."""
        self.counts = [one + more for one, more in zip(self.counts, counts, strict=True)]
        self.total += total

    def copy(self) -> Histogram:
        """Return a copy that later values do not change."""
        found = Histogram(self.bounds)
        found.counts, found.total = self.counts.copy(), self.total
        return found
