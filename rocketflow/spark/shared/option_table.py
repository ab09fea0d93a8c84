"""Options of the source and the sink as rows that parsers, errors and the reference share."""

from __future__ import annotations

from typing import NamedTuple


class Option(NamedTuple):
    """One option: its values, its default ("" if there is none) and its description."""

    name: str
    values: str
    default: str
    about: str
