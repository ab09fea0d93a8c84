"""Escape text that may come from a message, for output on a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return the text with control characters escaped, except line ends and tabs."""
    return "".join(one if one.isprintable() or one in "\n\t" else repr(one)[1:-1] for one in text)
