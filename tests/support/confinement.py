"""A guard for decoders: no input may make them run or load code, start a process, connect, or leave their directory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FORBIDDEN = ("exec", "compile", "import", "pickle.find_class", "marshal.loads", "os.system", "os.exec", "os.fork")
FORBIDDEN_FAMILIES = ("subprocess.", "os.posix_spawn", "os.spawn", "ctypes.", "socket.", "ftplib.", "urllib.")
BY_PATH = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "os.link", "os.symlink", "os.chmod")

OF_THE_SYSTEM = ("/proc/locks", "/proc/sys/kernel/random/boot_id")
"""Files of the kernel that an open reads to name who holds a lock, and the boot; no input names them."""


class ForbiddenError(AssertionError):
    """A decoder did what it must not do."""


class _Guard:
    """An audit hook. Python cannot remove one, so it stays installed and checks only while `root` is set."""

    def __init__(self) -> None:
        self.root: str | None = None
        self.installed = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        root = self.root
        if root is None:
            return
        if event in FORBIDDEN or event.startswith(FORBIDDEN_FAMILIES):
            raise ForbiddenError(f"{event} {arguments!r:.200}")
        if event in BY_PATH and not isinstance(arguments[0], int):
            for path in arguments[: 2 if event in ("os.rename", "os.link", "os.symlink") else 1]:
                place = os.path.abspath(os.fsdecode(path))
                if place != root and not place.startswith(root + os.sep) and place not in OF_THE_SYSTEM:
                    raise ForbiddenError(f"{event} {place}")


_GUARD = _Guard()


@contextmanager
def unconfined() -> Iterator[None]:
    """Lift the confinement for the test's own work inside a `confined_to` block."""
    before, _GUARD.root = _GUARD.root, None
    try:
        yield
    finally:
        _GUARD.root = before


@contextmanager
def confined_to(root: Path) -> Iterator[None]:
    """Raise ForbiddenError if the block loads code, or touches a path outside `root`."""
    if not _GUARD.installed:
        sys.addaudithook(_GUARD)
        _GUARD.installed = True
    before, _GUARD.root = _GUARD.root, os.path.abspath(root)
    try:
        yield
    finally:
        _GUARD.root = before
