"""What a driver that was killed while it wrote the first entry of its checkpoint left there.

Spark 4.3 does not begin a query whose `offsets` is not empty though it has no entry, and a temporary file counts. No
batch was planned then, so the file tells nothing.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_LOGS: Final = ("offsets", "commits")
_TEMPORARY: Final = re.compile(r"\.{1,2}0\.[0-9a-f-]{36}\.tmp(\.crc)?\Z")


def drop_unfinished_first_entry(checkpoint: str) -> list[Path]:
    """Delete it from a checkpoint on this machine that has no entry yet; which files were deleted.

    A checkpoint with an entry, with files of any other name, or elsewhere is left as it is.
    """
    if re.match(r"[a-z][a-z0-9+.-]*:", checkpoint) and not checkpoint.startswith("file:"):
        return []
    home = Path(re.sub(r"\Afile:(//)?", "", checkpoint))
    found: list[Path] = []
    for name in _LOGS:
        try:
            found += (home / name).iterdir()
        except OSError:  # not there, or for Spark to tell
            continue
    if not all(_TEMPORARY.fullmatch(path.name) for path in found):
        return []
    for path in found:
        path.unlink(missing_ok=True)
    return found
