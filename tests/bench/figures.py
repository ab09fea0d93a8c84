"""Measured figures: several runs, of which the median is quoted."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """A measured case; `runs` are values in `unit`, in the order of the runs."""

    case: str
    unit: str
    runs: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.runs)

    def line(self) -> str:
        return f"{self.case:<58} {self.median:>12,.4g} {self.unit}  ({min(self.runs):,.4g} - {max(self.runs):,.4g})"

    def as_dict(self) -> dict[str, Any]:
        return {"case": self.case, "unit": self.unit, "median": self.median, "runs": list(self.runs)}


def ratio(figure: Figure, peer: Figure) -> Figure:
    """Divide the medians of two figures of the same run."""
    return Figure(f"  {figure.case} / {peer.case}", "x", (figure.median / peer.median,))
