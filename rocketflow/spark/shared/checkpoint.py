"""A query's checkpoint: its query id, and files that a killed driver left in it."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Final

from rocketflow_store.spi.json_text import parse_json

_LOGS: Final = ("offsets", "commits")
_TEMPORARY: Final = re.compile(r"\.{1,2}0\.[0-9a-f-]{36}\.tmp(\.crc)?\Z")


def checkpoint_argument(text: str) -> str:
    """Parse `--checkpoint DIR` for argparse; raise ArgumentTypeError if it is empty or a file is in its place."""
    if not text.strip():
        raise argparse.ArgumentTypeError("names no directory")
    home = local_directory(text)
    if home is not None:
        for path in (home, *home.parents):
            if path.is_dir():
                break
            if path.exists():
                raise argparse.ArgumentTypeError(f"{text}: {path} is not a directory")
    return text


def query_id(location: str) -> str | None:
    """Return the query's id from its checkpoint, or None if it cannot be read from this machine."""
    home = local_directory(location)
    try:
        return None if home is None else str(parse_json((home / "metadata").read_bytes())["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def drop_unfinished_first_entry(location: str) -> list[Path]:
    """Delete the temporary files of a driver that was killed while it wrote the first entry; return the deleted files.

    Spark 4.3 does not start a query if `offsets` has files but no entry, and a temporary file counts. No batch was
    planned then, so the file holds nothing. A checkpoint with an entry, with files of any other name, or on another
    file system is not changed.
    """
    home = local_directory(location)
    if home is None:
        return []
    found: list[Path] = []
    for name in _LOGS:
        try:
            found += (home / name).iterdir()
        except OSError:  # missing, or an error that Spark will raise
            continue
    if not all(_TEMPORARY.fullmatch(path.name) for path in found):
        return []
    for path in found:
        path.unlink(missing_ok=True)
    return found


def local_directory(location: str) -> Path | None:
    """Return the checkpoint's directory on this machine, or None for another file system."""
    if re.match(r"[a-z][a-z0-9+.-]*:", location) and not location.startswith("file:"):
        return None
    return Path(re.sub(r"\Afile:(//)?", "", location))
