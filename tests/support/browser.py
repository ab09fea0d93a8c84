"""A headless browser that sees files of this machine and no network."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")


class Browser:
    """Chromium with a profile in the directory `profile`; skips the test if no Chromium is installed."""

    def __init__(self, profile: Path) -> None:
        program = next(filter(None, map(shutil.which, _NAMES)), None)
        if program is None:
            pytest.skip("no chromium: apt-get install chromium")
        self._command = [
            program,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={profile}",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--virtual-time-budget=3000",
        ]

    def document(self, page: Path, query: str = "") -> str:
        """Return the HTML of `page` after its scripts ran; `query` is appended to its address."""
        return self._run("--dump-dom", page.as_uri() + query)

    def text(self, page: Path, query: str = "") -> str:
        """Return the text of `page`, each tag and run of white space as one space."""
        return re.sub(r"<[^>]+>|\s+", " ", self.document(page, query))

    def screenshot(self, page: Path, picture: Path, width: int = 1300, height: int = 700) -> bytes:
        """Write what a window of `width` x `height` pixels shows of `page` to `picture`; return the PNG."""
        self._run(f"--screenshot={picture}", f"--window-size={width},{height}", page.as_uri())
        return picture.read_bytes()

    def _run(self, *arguments: str) -> str:
        command = [*self._command, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
