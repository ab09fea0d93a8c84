"""Tables of text for people: aligned columns, numbers at the right."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final

from rocketflow.process.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_GAP: Final = "  "
_LOOKED_AT: Final = 200
"""Number of rows that set the column widths; a later wider cell shifts the rest of its row."""


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a header and the rows; a cell that is None prints as a dash."""
    table = Table(columns)
    for row in rows:
        table.add(row)
    table.flush()


class Table:
    """A table that prints its rows as they come; `flush` prints the rows that wait for the widths."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._waiting: list[Sequence[object]] = []
        self._widths: list[int] = []
        self._numeric: list[bool] = []

    @property
    def is_empty(self) -> bool:
        """True if no row was added."""
        return not self._waiting and not self._widths

    def add(self, row: Sequence[object]) -> None:
        """Print a row, or keep it until the widths are known."""
        self._waiting.append(row)
        if self._widths or len(self._waiting) >= _LOOKED_AT:
            self.flush()

    def flush(self) -> None:
        """Print the rows that wait, and the header before the first."""
        if not self._waiting:
            return
        rows = [[_text(cell) for cell in row] for row in self._waiting]
        if not self._widths:
            self._numeric = [_is_numeric([row[at] for row in self._waiting]) for at in range(len(self._columns))]
            cells = [list(self._columns), *rows]
            self._widths = [max(_width(row[at]) for row in cells) for at in range(len(self._columns))]
            self._print(self._columns)
        for row in rows:
            self._print(row)
        self._waiting.clear()

    def _print(self, cells: Sequence[str]) -> None:
        padded = []
        for cell, width, numeric in zip(cells, self._widths, self._numeric, strict=True):
            blanks = " " * (width - _width(cell))
            padded.append(blanks + cell if numeric else cell + blanks)
        print(_GAP.join(padded).rstrip())


def _is_numeric(cells: list[object]) -> bool:
    known = [one for one in cells if one is not None]
    return bool(known) and all(type(one) in (int, float) for one in known)


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    return printable(str(cell)).replace("\t", " ").replace("\n", " ")


def _width(text: str) -> int:
    """Return the width of `text` on a terminal, in cells."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(one) else 1 + (unicodedata.east_asian_width(one) in "WF") for one in text)
