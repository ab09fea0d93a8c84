"""The end of the written part of a preallocated file, found repeatedly at the same cost."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store.files import disk, os_files

SIZE, WRITTEN = 96 << 20, (2 << 20) + 123
MIB = 1 << 20


@pytest.fixture
def file(tmp_path: Path) -> Callable[[], int]:
    """Create a file with all its blocks, of which only the first part is written."""
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(fd, 0, SIZE)
    os.pwrite(fd, b"\1" * WRITTEN, 0)
    os.fsync(fd)
    return lambda: fd


@pytest.mark.parametrize("begin", [0, WRITTEN - 1, WRITTEN - (1 << 20) - 7])
def test_the_last_nonzero_byte_is_found(file: Callable[[], int], begin: int) -> None:
    assert os_files.last_nonzero(file(), "file", SIZE, begin) == WRITTEN
    os.pwrite(file(), b"\2", SIZE - 5)
    assert os_files.last_nonzero(file(), "file", SIZE, begin) == SIZE - 4
    assert os_files.zero_from(file(), "file", WRITTEN, SIZE)
    assert os_files.last_nonzero(file(), "file", SIZE, begin) == WRITTEN


def test_pages_that_were_only_read_ahead_are_not_read(file: Callable[[], int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The system reads megabytes ahead; a search that read those would cause more readahead."""
    read: list[int] = []

    def pread(fd: int, size: int, position: int) -> bytes:
        read.append(size)
        return os.pread(fd, size, position)

    monkeypatch.setattr(disk, "pread", pread)
    for _ in range(4):
        os.pread(file(), 40 << 20, WRITTEN)
        read.clear()
        assert os_files.last_nonzero(file(), "file", SIZE, WRITTEN) == 0
        assert sum(read) < 1 << 20


@pytest.mark.parametrize("size", [1, 4096, MIB, MIB + 1, 40 * MIB])
def test_the_last_nonzero_byte_of_random_files_is_found(tmp_path: Path, size: int) -> None:
    rng = random.Random(size)
    for case in range(30):
        path = tmp_path / str(case)
        with path.open("xb+") as file:
            os.truncate(path, size)
            last = 0
            for _ in range(rng.randrange(4)):
                at = rng.randrange(size)
                os.pwrite(file.fileno(), b"x", at)
                last = max(last, at + 1)
            if rng.random() < 0.5:
                os.pread(file.fileno(), size, 0)  # its zeros count as data from here on
            begin = rng.choice([0, rng.randrange(size)])
            for keep in (True, False):
                found = os_files.last_nonzero(file.fileno(), path, size, begin, keep_cached=keep)
                assert found == (last if last > begin else 0), (case, last, begin, keep)
        path.unlink()


def test_zeros_at_the_end_do_not_stay_in_memory(tmp_path: Path) -> None:
    path, size = tmp_path / "file", 64 * MIB
    with path.open("xb+") as file:
        os.posix_fallocate(file.fileno(), 0, size)
        os.pwrite(file.fileno(), b"x" * MIB, 0)
        os.fsync(file.fileno())
        os.pread(file.fileno(), size, 0)
        if sum(stop - start for start, stop in os_files.data_ranges(file.fileno(), path, 0, size)) < size:
            pytest.skip("this file system distinguishes preallocated from written blocks")
        assert os_files.last_nonzero(file.fileno(), path, size, keep_cached=True) == MIB
        there = sum(stop - start for start, stop in os_files.data_ranges(file.fileno(), path, 0, size))
    assert there < 4 * MIB
