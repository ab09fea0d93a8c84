"""The half messages that were stored last: most are ended within milliseconds, and need not be read from the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow.broker.transactions.messages import read_half
from rocketflow_store.spi.broker import StoredMessage, decode_stored

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocketflow.broker.transactions.messages import Half
    from rocketflow_store import PutMessageResult
    from rocketflow_store.spi.broker import RawMessage

MAX_BYTES: Final = 16 * 1024 * 1024
"""Bytes of bodies and properties that are kept; the oldest half messages go first."""

_ENTRY_BYTES: Final = 1_024
"""Memory of a half message besides its bytes."""


class RecentHalves:
    """Stored half messages by their half offset. `host` is the broker's address in a record."""

    def __init__(self, host: bytes, max_bytes: int = MAX_BYTES) -> None:
        self._host = host
        self._max_bytes = max_bytes
        self._stored: dict[int, StoredMessage | bytes] = {}
        self._bytes = 0

    def note(self, message: RawMessage, result: PutMessageResult) -> None:
        """Keep a half message that has just been stored."""
        stored = StoredMessage(message, result.queue_offset, result.physical_offset, result.store_timestamp, self._host)
        self._stored[result.queue_offset] = stored
        self._bytes += _size(stored)
        self._make_room()

    def note_records(self, records: Mapping[int, bytes]) -> None:
        """Keep half messages that have just been stored, as the records that they are."""
        self._stored.update(records)
        self._bytes += sum(map(_size, records.values()))
        self._make_room()

    def _make_room(self) -> None:
        while self._bytes > self._max_bytes:
            oldest = next(iter(self._stored))
            self._bytes -= _size(self._stored.pop(oldest))

    def take_records(self, half_offsets: Sequence[int]) -> list[bytes | None]:
        """Return the half messages that were kept as records, each once, and None for the others."""
        found: list[bytes | None] = []
        for offset in half_offsets:
            kept = self._stored.get(offset)
            record = kept if isinstance(kept, bytes) else None
            found.append(record)
            if record is not None:
                del self._stored[offset]
                self._bytes -= _size(record)
        return found

    def take(self, half_offset: int) -> Half | None:
        """Return the half message at an offset, once; None if it is not kept."""
        stored = self._stored.pop(half_offset, None)
        if stored is None:
            return None
        self._bytes -= _size(stored)
        return read_half(decode_stored(stored) if isinstance(stored, bytes) else stored)


def _size(stored: StoredMessage | bytes) -> int:
    if isinstance(stored, bytes):
        return len(stored) + _ENTRY_BYTES
    return len(stored.message.body) + len(stored.message.properties) + _ENTRY_BYTES
