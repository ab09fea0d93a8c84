"""The private memory of this process."""

from __future__ import annotations

import re
from pathlib import Path


def rss_anon_mib() -> float:
    """Return the resident anonymous memory in MiB: memory that no file backs and the page cache cannot reclaim."""
    found = re.search(r"^RssAnon:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found.group(1)) / 1024
