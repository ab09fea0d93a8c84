"""One measured figure: several runs, the median quoted."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """`runs` in `unit`, in the order they were made."""

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


def ratio(ours: Figure, theirs: Figure) -> Figure:
    """How many times ours is theirs: medians of the same run."""
    return Figure(f"  {ours.case} / {theirs.case}", "x", (ours.median / theirs.median,))
