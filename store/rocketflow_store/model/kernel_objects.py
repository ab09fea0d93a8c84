"""The classes of the kernel that modules pass on, for Python's types: they do not import the module itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class SentRecords(Protocol):
    """Records of the sends of one read, in their order."""

    @property
    def code(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def body_size(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def queues(self) -> list[tuple[str, int, int, int]]: ...
    def frames(self) -> list[bytes]: ...
    def size_of(self, number: int) -> int: ...
    def begin(self, firsts: list[int], now_ms: int) -> None: ...
    def place(self, number: int, phy_offset: int, room_to: int) -> tuple[int, bytes]: ...
    def rows(self) -> tuple[list[list[bytes]], list[int], list[int]]: ...
    def stored(self, number: int) -> tuple[str, int, int, int, str, str]: ...
    def answers(self) -> bytes: ...
    def kinds(self, bounds: Sequence[int]) -> list[tuple[str, bool, int, list[int]]]: ...


class SendsOfHost(Protocol):
    """Takes usual sends of one client."""

    def take(self, data: bytes, position: int) -> SentRecords | None: ...


class SendFrames(Protocol):
    """Takes usual sends to the queues that it was taught."""

    def forget(self) -> None: ...
    def teach(self, topic: str, queue_id: int) -> bool: ...
    def of(self, born_host: bytes) -> SendsOfHost: ...


class Records(Protocol):
    """Records of a message or of a client's batch without their places, one after the other in `data`."""

    data: bytearray
    count: int
    size: int

    def place(self, queue_offset: int, phy_offset: int, /) -> tuple[list[bytes], list[int], list[int]]:
        """Write offsets and CRCs; return what dispatch needs."""

    def ids(self, prefix: str, phy_offset: int, /) -> str:
        """Return the offset ids, with commas between them."""
