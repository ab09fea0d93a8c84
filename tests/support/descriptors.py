"""The files that this process has open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def open_paths(below: Path | None = None) -> list[str]:
    """Return the path of each descriptor, or of those below a directory; other threads may close theirs meanwhile."""
    return [one for one in _paths() if below is None or one.startswith(f"{below}/")]


def _paths() -> Iterator[str]:
    for name in os.listdir("/proc/self/fd"):
        try:
            yield os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue
