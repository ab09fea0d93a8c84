"""Text that may come from a message, for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with control characters escaped, but line ends and tabs."""
    return "".join(one if one.isprintable() or one in "\n\t" else repr(one)[1:-1] for one in text)
