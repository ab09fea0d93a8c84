"""A block that runs as somebody who is not root, so that permissions mean something."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NOBODY = 65_534


@contextmanager
def open_directory() -> Iterator[Path]:
    """A temporary directory that everybody may enter; pytest's own are for their owner alone."""
    directory = Path(tempfile.mkdtemp(prefix="rocketflow-test-"))
    try:
        directory.chmod(0o755)
        yield directory
    finally:
        shutil.rmtree(directory)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root becomes nobody for the block; everybody else stays who they are."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
