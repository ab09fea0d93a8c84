"""The classes of the kernel that modules pass on, for Python's types: they do not import the module itself."""

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
