"""How much memory this process has to itself."""

from __future__ import annotations

import re
from pathlib import Path


def rss_anon_mib() -> float:
    """Resident memory that no file backs: what a machine must have for the process, whatever its page cache does."""
    found = re.search(r"^RssAnon:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found.group(1)) / 1024
