"""The used part of a disk, as RocketMQ counts it. The name is bound before the tests replace the function."""

from __future__ import annotations

import shutil
from pathlib import Path

from rocketflow_store.files.os_files import disk_used_percent


def test_used_percent_of_a_directory_is_that_of_its_disk(tmp_path: Path) -> None:
    usage = shutil.disk_usage(tmp_path)
    exact = 100 * usage.used / (usage.used + usage.free)
    assert abs(disk_used_percent(tmp_path) - exact) <= 1.5


def test_used_percent_of_a_missing_directory_is_unknown(tmp_path: Path) -> None:
    assert disk_used_percent(tmp_path / "missing") == -1
