"""The chart of the front page shows the figures of the benchmarks' README."""

from __future__ import annotations

from tests.bench.chart import CASES, HERE, LAST, PICTURE, drawn, figures, shown


def test_picture_is_drawn_from_the_last_figures() -> None:
    assert PICTURE.read_text("utf-8") == drawn(LAST), "run python -m tests.bench.chart"
    assert drawn(LAST).count("<rect") == 2 * len(CASES)


def test_figures_are_those_of_the_table() -> None:
    table = (HERE / "README.md").read_text("utf-8")
    numbers = [shown(median, unit).split()[0] for median, unit in figures(LAST).values()]
    assert [one for one in numbers if one not in table] == []
