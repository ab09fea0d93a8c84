"""`rocketflow/rebuild/swap`: which new files take the place of which, noted before the first rename.

Checked JSON (`checked_json`): `moves`, pairs of a new file and its place, and `removed`, files that go, as paths from
the store's root on; `everything` is true if queues and index are then made anew as a whole. A process that is killed
before the journal exists has changed nothing; after it, the next open for writing goes on. A broker does not read it.
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
    """Paths from the store's root on."""

    moves: tuple[tuple[str, str], ...]
    removed: tuple[str, ...]
    everything: bool

    def encode(self) -> bytes:
        """Return the file's bytes."""
        told = {"moves": [list(one) for one in self.moves], "removed": list(self.removed)}
        return encode_checked_json({**told, "everything": self.everything})


def decode_swap_journal(data: bytes) -> SwapJournal:
    """Return what a journal's bytes say; ValueError if they are not whole."""
    told = decode_checked_json(data)
    try:
        moves = tuple((_text(new), _text(place)) for new, place in told["moves"])
        return SwapJournal(moves, tuple(_text(one) for one in told["removed"]), bool(told["everything"]))
    except (KeyError, TypeError) as error:
        raise ValueError(str(error)) from error


def _text(told: Any) -> str:
    if not isinstance(told, str):
        raise ValueError("a place is no text")
    return told


def read_swap_journal(path: Path) -> SwapJournal | None:
    """Return the journal; None without one.

    StoreAccessError if it cannot be read, StoreVersionError if it cannot be understood.
    """
    try:
        return decode_swap_journal(os_files.read_file(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise os_files.access_error(path, error) from error
    except ValueError as error:
        raise StoreVersionError(
            path, f"cannot be understood ({error}); remove it, and run `rocketflow store rebuild` again"
        ) from error


def write_swap_journal(path: Path, journal: SwapJournal) -> None:
    """Write the journal, durably; its directory too."""
    os_files.write_atomically(path, journal.encode())
    os_files.sync_directory(path.parent.parent)
