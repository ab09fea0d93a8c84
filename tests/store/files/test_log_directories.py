"""The choice of directories for new log files, by the thread that appends and the one that allocates ahead."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rocketflow_store.files.mapped.log_directories import LogDirectories

SIZE = 1 << 14
FILES = 4000


def test_threads_choose_directories_at_once(tmp_path: Path) -> None:
    directories = LogDirectories([tmp_path / "one", tmp_path / "two"])
    wanted = {number * SIZE: tmp_path / ("one", "two")[number % 2] for number in range(FILES)}
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def choose(step: int) -> dict[int, Path]:
        found = {}
        for number in range(FILES)[::step]:
            found[number * SIZE] = directories.home_of(number * SIZE, SIZE)
            directories.made(number * SIZE)
        return found

    try:
        with ThreadPoolExecutor(4) as threads:
            results = list(threads.map(choose, (1, -1, 1, -1)))
    finally:
        sys.setswitchinterval(before)
    assert results == [wanted] * 4


def test_directory_that_two_threads_reject_is_withdrawn_once(tmp_path: Path) -> None:
    directories = LogDirectories([tmp_path / "one", tmp_path / "two"])
    assert directories.home_of(0, SIZE) == tmp_path / "one"
    assert directories.reject(0)
    assert directories.reject(0)  # another thread has had the same home
    assert directories.home_of(0, SIZE) == tmp_path / "two"
    assert not directories.reject(0)
