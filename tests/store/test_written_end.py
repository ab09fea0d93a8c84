"""Where the written part of a preallocated file ends, found again and again at the same cost."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store.files import disk, os_files

SIZE, WRITTEN = 96 << 20, (2 << 20) + 123


@pytest.fixture
def file(tmp_path: Path) -> Callable[[], int]:
    """A file with all its blocks, of which only the first part is written."""
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(fd, 0, SIZE)
    os.pwrite(fd, b"\1" * WRITTEN, 0)
    os.fsync(fd)
    return lambda: fd


@pytest.mark.parametrize("begin", [0, WRITTEN - 1, WRITTEN - (1 << 20) - 7])
def test_the_last_byte_is_found(file: Callable[[], int], begin: int) -> None:
    assert os_files.last_nonzero(file(), "file", SIZE, begin) == WRITTEN
    os.pwrite(file(), b"\2", SIZE - 5)
    assert os_files.last_nonzero(file(), "file", SIZE, begin) == SIZE - 4
    assert os_files.zero_from(file(), "file", WRITTEN, SIZE)
    assert os_files.last_nonzero(file(), "file", SIZE, begin) == WRITTEN


def test_what_was_only_read_ahead_is_not_looked_at(file: Callable[[], int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The system reads megabytes ahead; a look that read those would have more read ahead for the next one."""
    looked_at: list[int] = []

    def pread(fd: int, size: int, position: int) -> bytes:
        looked_at.append(size)
        return os.pread(fd, size, position)

    monkeypatch.setattr(disk, "pread", pread)
    for _ in range(4):
        os.pread(file(), 40 << 20, WRITTEN)
        looked_at.clear()
        assert os_files.last_nonzero(file(), "file", SIZE, WRITTEN) == 0
        assert sum(looked_at) < 1 << 20
