"""Types of the kernel's objects, for the modules that pass them on."""

from __future__ import annotations

from typing import Protocol


class SentRecords(Protocol):
    """The records of usual sends that one read of a connection brought, in the order of their frames."""

    @property
    def count(self) -> int:
        """The number of messages."""

    @property
    def body_size(self) -> int:
        """The size of their bodies together."""

    @property
    def end(self) -> int:
        """The position in the data after their frames."""

    @property
    def queues(self) -> list[tuple[str, int, int, int]]:
        """Topic, queue, number of messages and size of the records of each queue."""

    def frames(self) -> list[bytes]:
        """Return their frames."""

    def size_of(self, number: int, /) -> int:
        """Return the size of a record."""

    def begin(self, firsts: list[int], now_ms: int, /) -> None:
        """Give the records their queue offsets, from `firsts` on in each queue, and their store time."""

    def place(self, number: int, phy_offset: int, room_to: int, /) -> tuple[int, bytes]:
        """Place records from `number` on in a log file; return the number after the last, and their bytes."""

    def rows(self) -> tuple[list[list[bytes]], list[str], list[int]]:
        """Return the units of each queue, and the index keys with their physical offsets."""

    def stored(self, number: int, /) -> tuple[str, int, int, int, str, str]:
        """Return topic, queue, queue offset, physical offset and ids of a record."""

    def answers(self) -> bytes:
        """Return the frames of the answers."""


class SendFrames(Protocol):
    """Takes usual sends from the bytes of a connection; only of queues that it was taught."""

    def forget(self) -> None:
        """Forget all queues."""

    def teach(self, topic: str, queue_id: int, /) -> bool:
        """Learn that a queue takes messages; False if there is no room for it."""

    def take(self, data: bytes, position: int, most: int, most_bytes: int, born_host: bytes, /) -> SentRecords | None:
        """Return the records of the usual sends from `position` on, None if the first frame is another one."""
