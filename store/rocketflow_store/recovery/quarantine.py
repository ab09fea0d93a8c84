"""`quarantine/` of a store: copies of cut, replaced and damaged data, and a report with a line for each.

`report.jsonl` has one JSON object a line: `code`, `file` (below the store), `offset`, `length`, `why`, `kept` (the
copy, null if there was nothing to keep). The codes are those of `events`. Repeating an action adds nothing.
"""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.files import os_files
from rocketflow_store.telemetry import events
from rocketflow_store.telemetry.events import CLAMPED, CUT, HEALED, LOST, QUARANTINED, SET_ASIDE

if TYPE_CHECKING:
    import pyarrow as pa

    from rocketflow_store.metadata.layout.store_paths import StorePaths

__all__ = ["CLAMPED", "CUT", "HEALED", "LOST", "QUARANTINED", "SET_ASIDE", "Quarantine"]

_REPORT: Final = "report.jsonl"


class Quarantine:
    """The quarantine of one store; only the holder of the store's lock may write to it."""

    def __init__(self, paths: StorePaths) -> None:
        self._root, self._directory = paths.root, paths.quarantine
        self._names = [
            *((one, "commitlog") for one in paths.commit_logs),
            (paths.consume_queue, "consumequeue"),
            (paths.index, "index"),
            (paths.root, ""),
        ]

    def keep(self, name: str, data: bytes | pa.Buffer) -> Path:
        """Write a durable copy of `data` as `name`, or as `name.1` ... if other content has that; return its path."""
        path = self._free(name, data)
        if not path.exists():
            self._make(path.parent)
            os_files.write_atomically(path, data)
        return path

    def keep_file(self, path: Path) -> Path:
        """Write a durable copy of a file, under its name in the store; return its path."""
        return self.keep(self.name_of(path), os_files.read_file(path))

    def move(self, path: Path) -> Path:
        """Move a file or a directory here, under its name in the store; return its new path."""
        target = self._place(path, len(self.kept(path)))
        self._make(target.parent)
        _move(path, target)
        os_files.sync_directory(target.parent)
        os_files.sync_directory(path.parent)
        return target

    def kept(self, path: Path) -> list[Path]:
        """Return the places to which `move` moved files or directories of this name, oldest first."""
        found: list[Path] = []
        while (one := self._place(path, len(found))).exists():
            found.append(one)
        return found

    def _place(self, path: Path, number: int) -> Path:
        return self._directory / f"{self.name_of(path)}{f'.{number}' if number else ''}"

    def note(self, code: str, file: Path | str, offset: int, length: int, why: str, kept: Path | None = None) -> None:
        """Add a line to the report and report the event, unless the report has the line."""
        fields: dict[str, Any] = {
            "code": code,
            "file": self.name_of(Path(file)),
            "offset": offset,
            "length": length,
            "why": why,
            "kept": None if kept is None else str(kept.relative_to(self._directory)),
        }
        line = json.dumps(fields).encode() + b"\n"
        report = self._directory / _REPORT
        known = os_files.read_file(report) if report.exists() else b""
        if line in known.splitlines(keepends=True):
            return
        self._make(self._directory)
        os_files.write_atomically(report, known + line)
        events.report(code, self._root, file, why, offset=offset, count=length)

    def _free(self, name: str, data: bytes | pa.Buffer) -> Path:
        path, number = self._directory / name, 0
        wanted = memoryview(data).cast("B")
        while path.exists() and (path.stat().st_size != wanted.nbytes or os_files.read_file(path) != wanted):
            number += 1
            path = self._directory / f"{name}.{number}"
        return path

    def name_of(self, path: Path) -> str:
        """Return the name that a file has in a store with all files below its root."""
        for directory, name in self._names:
            if path.is_relative_to(directory):
                return str(Path(name) / path.relative_to(directory))
        return path.name

    def _make(self, directory: Path) -> None:
        if directory.is_dir():
            return
        os_files.make_directory(directory)
        for one in (directory, *directory.parents):
            os_files.sync_directory(one.parent)
            if one == self._directory:
                break


def _move(source: Path, target: Path) -> None:
    """Rename, also to another disk: the copy is durable before the original is removed."""
    try:
        os_files.rename(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        if source.is_dir():
            os_files.make_directory(target)
            for one in sorted(source.iterdir()):
                _move(one, target / one.name)
            os_files.remove_directory(source)
        else:
            os_files.write_atomically(target, os_files.read_file(source))
            os_files.remove_file(source)
