"""The types of the kernel's objects, for modules that pass them on: import rules see no extension module."""

from __future__ import annotations

from typing import Protocol


class Records(Protocol):
    """Records of a message or of a client's batch without their places, one after the other in `data`."""

    data: bytearray
    count: int
    size: int

    def place(self, queue_offset: int, phy_offset: int, /) -> tuple[list[bytes], list[int], list[int]]:
        """Write offsets and CRCs; return what dispatch needs."""

    def ids(self, prefix: str, phy_offset: int, /) -> str:
        """Return the offset ids, with commas between them."""
