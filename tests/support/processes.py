"""Ends of the server processes that tests start."""

from __future__ import annotations

import subprocess
from typing import Any


def end(process: subprocess.Popen[Any], timeout_s: float) -> None:
    """Stop a process by SIGTERM, or by SIGKILL if that takes longer than `timeout_s` seconds."""
    process.terminate()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
