"""`rocketflow init`: copy the files of `project` to a directory."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from rocketflow.errors import UsageError
from rocketflow.process.stop_signals import stop_waits

PROJECT: Final = Path(__file__).with_name("project")


def write_project(directory: Path) -> list[str]:
    """Write the project's files to `directory`, which may not exist or is empty; return their names.

    Raises:
        UsageError: `directory` is a file, is not empty, or cannot be written.
    """
    try:
        if directory.exists() and any(directory.iterdir()):
            raise UsageError(f"{directory} is not empty: name a new or an empty directory")
        with stop_waits():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(PROJECT, directory, ignore=ignored, copy_function=shutil.copyfile, dirs_exist_ok=True)
    except OSError as error:
        raise UsageError(f"{directory}: {error.strerror or error}; name another directory") from error
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())
