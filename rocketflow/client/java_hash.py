"""Java's hash of a text: it chooses queues and identifies tags."""

from __future__ import annotations


def java_hash(text: str) -> int:
    """Return Java's String.hashCode, in [-2**31, 2**31)."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
