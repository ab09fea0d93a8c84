"""Pass rate over time by expectation, as an SVG picture: plain text that any browser shows, without a library.

One row an expectation; in it a cell a batch (or several batches, if there are many), from red for none of its rows to
green for all of them. The line above is the share of good rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow.quality.results.results import BatchResult

_MOST_CELLS: Final = 120
_LABEL: Final = 430
_WIDTH: Final = 720
_ROW: Final = 22
_LINE: Final = 90
_TOP: Final = 34


@dataclass(frozen=True, slots=True)
class Cell:
    """Adjacent batches: their store times, number of rows, and the share that met the expectation."""

    begin_ms: int
    end_ms: int
    rows: int
    rate: float | None

    @property
    def title(self) -> str:
        rate = "nothing to judge" if self.rate is None else percent(self.rate, 2)
        return f"{_when(self.begin_ms)} to {_when(self.end_ms)}: {rate} of {self.rows} rows"


@dataclass(frozen=True, slots=True)
class Trend:
    """Cells of the share of good rows, and of every expectation, oldest first."""

    good: tuple[Cell, ...]
    expectations: dict[str, tuple[Cell, ...]]


def percent(rate: float, digits: int = 1) -> str:
    """Return a share as text; it is 100 % only for a share of exactly 1."""
    shown = f"{rate:.{digits}%}"
    return f"{1 - 10.0 ** (-digits - 2):.{digits}%}" if rate < 1 <= float(shown[:-1]) / 100 else shown


def trend_of(results: Sequence[BatchResult]) -> Trend:
    """Return the trend of results in their stored order; adjacent results are joined if there are too many."""
    size = max(1, -(-len(results) // _MOST_CELLS))
    groups = [results[at : at + size] for at in range(0, len(results), size)]
    labels = list(dict.fromkeys(one["label"] for result in results for one in result.fields["expectations"]))
    good = tuple(_cell(group, [(one.fields["rows"], one.fields["good"]) for one in group]) for group in groups)
    rows = {label: tuple(_cell(group, [_share(one, label) for one in group]) for group in groups) for label in labels}
    return Trend(good, rows)


def _share(result: BatchResult, label: str) -> tuple[int, int]:
    """Return (rows judged, rows that met it) of one batch; of a table-level expectation all rows or none."""
    for one, judged in zip(result.fields["expectations"], result.fields["result"]["results"], strict=True):
        if one["label"] != label:
            continue
        rows = result.fields["rows"] - result.fields["malformed"]
        if one["unexpected"] is None:
            return max(rows, 1), max(rows, 1) if one["success"] else 0
        rows = judged["result"].get("element_count", rows)
        return rows, rows - one["unexpected"]
    return 0, 0


def _cell(group: Sequence[BatchResult], shares: Sequence[tuple[int, int]]) -> Cell:
    rows, met = sum(one for one, _ in shares), sum(one for _, one in shares)
    return Cell(group[0].stored_ms, group[-1].stored_ms, rows, met / rows if rows else None)


def svg(trend: Trend, title: str) -> str:
    """Draw the trend as SVG."""
    height = _TOP + _LINE + _ROW * (len(trend.expectations) + 2)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LABEL + _WIDTH + 90} {height}" role="img" '
        f'font-family="sans-serif" font-size="12"><title>{escape(title)}</title>',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="8" y="20" font-size="15" font-weight="bold">{escape(title)}</text>',
        *_line(trend.good),
    ]
    for number, (label, cells) in enumerate(trend.expectations.items()):
        y = _TOP + _LINE + _ROW * (number + 1)
        last = next((one.rate for one in reversed(cells) if one.rate is not None), None)
        parts.append(f'<text x="8" y="{y + 14}">{escape(_shortened(label))}</text>')
        parts += [_box(at, len(cells), y, cell, label) for at, cell in enumerate(cells)]
        if last is not None:
            parts.append(f'<text x="{_LABEL + _WIDTH + 8}" y="{y + 14}">{percent(last)}</text>')
    if trend.good:
        y = height - 6
        parts.append(f'<text x="{_LABEL}" y="{y}" fill="#555">{_when(trend.good[0].begin_ms)}</text>')
        parts.append(
            f'<text x="{_LABEL + _WIDTH}" y="{y}" fill="#555" text-anchor="end">{_when(trend.good[-1].end_ms)}</text>'
        )
    return "\n".join([*parts, "</svg>"])


def _line(cells: Sequence[Cell]) -> list[str]:
    rates = [one.rate for one in cells if one.rate is not None]
    low = min([0.9, *rates])
    points = [
        (_LABEL + _WIDTH * (at + 0.5) / len(cells), _TOP + _LINE * (1 - (one.rate - low) / (1 - low or 1)))
        for at, one in enumerate(cells)
        if one.rate is not None
    ]
    parts = [
        f'<text x="8" y="{_TOP + 12}">rows that went on</text>',
        f'<text x="{_LABEL - 8}" y="{_TOP + 6}" text-anchor="end">100%</text>',
        f'<text x="{_LABEL - 8}" y="{_TOP + _LINE}" text-anchor="end">{low:.0%}</text>',
        f'<rect x="{_LABEL}" y="{_TOP}" width="{_WIDTH}" height="{_LINE}" fill="#f4f6f8"/>',
    ]
    if points:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline class="good" points="{path}" fill="none" stroke="#1f6fb2" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="#1f6fb2"/>' for x, y in points]
        parts.append(f'<text x="{_LABEL + _WIDTH + 8}" y="{points[-1][1] + 4:.0f}">{percent(rates[-1])}</text>')
    return parts


def _box(at: int, count: int, y: int, cell: Cell, label: str) -> str:
    width = _WIDTH / count
    gap = 1 if width > 4 else 0
    rate = "" if cell.rate is None else round(cell.rate, 6)
    return (
        f'<rect class="cell" data-expectation="{escape(label)}" data-rate="{rate}" '
        f'x="{_LABEL + at * width:.1f}" y="{y}" width="{max(width - gap, 0.5):.1f}" height="{_ROW - 4}" '
        f'fill="{_colour(cell.rate)}"><title>{escape(f"{label} {cell.title}")}</title></rect>'
    )


def _colour(rate: float | None) -> str:
    """Return green for all rows, yellow at 99 of 100, red from 90 down; grey without rows."""
    if rate is None:
        return "#dddddd"
    if rate >= 1:
        return "#3a9d5d"
    bad = min(1.0, (1 - rate) / 0.1)
    return f"hsl({round(70 * (1 - bad))},70%,50%)"


def _shortened(label: str) -> str:
    text = label.removeprefix("expect_")
    return text if len(text) <= 62 else text[:59] + "..."


def _when(stamp_ms: int) -> str:
    return datetime.fromtimestamp(stamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def table_rows(results: Sequence[BatchResult]) -> list[dict[str, Any]]:
    """Return the rows of the pages' tables, newest batch first; `page` is the name of its result."""
    return [
        {
            "page": one.name,
            "when": _when(one.stored_ms),
            "batch": one.fields["batchId"],
            "where": ", ".join(
                f"{part['topic']}/{part['queueId']} [{part['from']}, {part['to']})" for part in one.fields["ranges"]
            ),
            **{key: one.fields[key] for key in ("rows", "good", "quarantined", "malformed", "outcome", "success")},
            "suite": f"{one.fields['suite']['name']} {one.fields['suite']['version']}",
        }
        for one in reversed(results)
    ]
