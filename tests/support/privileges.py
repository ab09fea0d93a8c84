"""Blocks that run without root privileges, so that file permissions take effect."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_UNPRIVILEGED_UID = 65_534


@contextmanager
def open_directory() -> Iterator[Path]:
    """Create a temporary directory that every user may enter; pytest's are for their owner alone."""
    directory = Path(tempfile.mkdtemp(prefix="rocketflow-test-"))
    try:
        directory.chmod(0o755)
        yield directory
    finally:
        shutil.rmtree(directory)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Run the block with an unprivileged effective user id if the process runs as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(_UNPRIVILEGED_UID)
    try:
        yield
    finally:
        os.seteuid(0)
