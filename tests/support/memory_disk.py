"""Temporary directories in memory, for all tests of a sample: a sync costs nothing there.

A killed process loses nothing that it wrote, there as on a disk; a power loss is simulated (`simulated_disk`). With
RF_FAULTS=1 and RF_FULL=1, and on a machine without room in memory, the directories are on the disk.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from rocketflow_store.files import disk
from tests.support.counts import PASSED
from tests.support.trials import LEVEL

_MEMORY: Final = Path("/dev/shm")
_ROOM: Final = 4 << 30
_LARGE: Final = 16 << 20
_PREFIX: Final = f"rocketflow-tests-{os.getuid()}-"


def _has_room() -> bool:
    try:
        found = os.statvfs(_MEMORY)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize >= _ROOM


IN_MEMORY: Final = LEVEL == "sample" and _has_room()


class MemoryPaths:
    """Makes directories as `pytest.TempPathFactory` does; no two have the same name."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._numbers = itertools.count()

    def getbasetemp(self) -> Path:
        return self._root

    def mktemp(self, basename: str, numbered: bool = True) -> Path:
        path = self._root / (f"{basename}{next(self._numbers)}" if numbered else basename)
        path.mkdir(mode=0o700)
        return path


def _sparse_if_large(device: int) -> Callable[[int, int, int], None]:
    """Return a `posix_fallocate` for which, on this device, a large file takes memory only where it is written."""
    real = disk.posix_fallocate

    def allocate(fd: int, offset: int, size: int) -> None:
        status = os.fstat(fd)
        if size >= _LARGE and status.st_dev == device:
            os.ftruncate(fd, max(offset + size, status.st_size))
        else:
            real(fd, offset, size)

    return allocate


@pytest.fixture(scope="session")
def memory_paths(request: pytest.FixtureRequest) -> Iterator[MemoryPaths]:
    """Provide the directories of this process; what a failed test wrote remains until the next run."""
    for left in _MEMORY.glob(f"{_PREFIX}*"):
        if not Path("/proc", left.name.removeprefix(_PREFIX)).exists():
            shutil.rmtree(left, ignore_errors=True)
    root = _MEMORY / f"{_PREFIX}{os.getpid()}"
    root.mkdir(mode=0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "posix_fallocate", _sparse_if_large(os.stat(root).st_dev))
        yield MemoryPaths(root)
    if not request.session.testsfailed:
        shutil.rmtree(root, ignore_errors=True)


if IN_MEMORY:  # in the place of pytest's own fixtures

    @pytest.fixture(scope="session")
    def tmp_path_factory(memory_paths: MemoryPaths) -> MemoryPaths:
        return memory_paths

    @pytest.fixture
    def tmp_path(request: pytest.FixtureRequest, memory_paths: MemoryPaths) -> Iterator[Path]:
        """Provide a test's directory, which remains if the test failed."""
        path = memory_paths.mktemp(re.sub(r"\W", "_", request.node.name)[:30])
        yield path
        if request.node.stash.get(PASSED, True):
            shutil.rmtree(path, ignore_errors=True)
