"""The private memory of a process."""

from __future__ import annotations

import re
from pathlib import Path


def rss_anon_mib(pid: int | str = "self") -> float:
    """Return the resident anonymous memory in MiB: memory that no file backs and the page cache cannot reclaim."""
    found = re.search(r"^RssAnon:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found.group(1)) / 1024
