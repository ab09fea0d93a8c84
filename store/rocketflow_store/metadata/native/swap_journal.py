"""`rocketflow/rebuild/swap`: the new files and their destinations, recorded before the first rename.

Checked JSON (`checked_json`): `moves`, pairs of a new file and its destination, and `removed`, files to remove, as
paths from the store's root on; `everything` is true if queues and index are rebuilt completely. A process that is
killed before the journal exists has changed nothing; after that, the next open for writing completes the swap. A broker
does not read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocketflow_store.files import os_files
from rocketflow_store.metadata.native.checked_json import decode_checked_json, encode_checked_json
from rocketflow_store.model.errors import StoreVersionError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class SwapJournal:
    """Paths, relative to the store's root."""

    moves: tuple[tuple[str, str], ...]
    removed: tuple[str, ...]
    everything: bool

    def encode(self) -> bytes:
        """Return the file's bytes."""
        paths = {"moves": [list(one) for one in self.moves], "removed": list(self.removed)}
        return encode_checked_json({**paths, "everything": self.everything})


def decode_swap_journal(data: bytes) -> SwapJournal:
    """Parse a journal; raise ValueError if it is incomplete or invalid."""
    document = decode_checked_json(data)
    try:
        moves = tuple((_text(new), _text(place)) for new, place in document["moves"])
        return SwapJournal(moves, tuple(_text(one) for one in document["removed"]), bool(document["everything"]))
    except (KeyError, TypeError) as error:
        raise ValueError(str(error)) from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a path is not a string")
    return value


def read_swap_journal(path: Path) -> SwapJournal | None:
    """Return the journal; None if it does not exist.

    Raises StoreAccessError if it cannot be read, StoreVersionError if it is invalid.
    """
    try:
        return decode_swap_journal(os_files.read_file(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise os_files.access_error(path, error) from error
    except ValueError as error:
        raise StoreVersionError(
            path, f"cannot be parsed ({error}); remove it, and run `rocketflow store rebuild` again"
        ) from error


def write_swap_journal(path: Path, journal: SwapJournal) -> None:
    """Write the journal durably, with its directory."""
    os_files.write_atomically(path, journal.encode())
    os_files.sync_directory(path.parent.parent)
