"""Reports of store audits: one JSON file per logical date, a history of all kept reports, and pruning.

DIRECTORY/STORE/20260102T040000Z.json   the complete result of `store verify`
DIRECTORY/STORE/history.json            one entry per kept report, oldest first
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

HISTORY: Final = "history.json"
_REPORT: Final = re.compile(r"\d{8}T\d{6}Z\.json")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_IN_HISTORY: Final = ("logicalDate", "runId", "store", "exitCode", "summary")


@dataclass(frozen=True, slots=True)
class AuditReports:
    """The reports of one store. `name`, that of its connection, is escaped for use as a directory name."""

    directory: Path
    name: str

    @property
    def home(self) -> Path:
        return self.directory / _UNSAFE.sub("_", self.name)

    def path_of(self, when: datetime) -> Path:
        """Return the file of the report for `when` (UTC)."""
        return self.home / f"{when:%Y%m%dT%H%M%SZ}.json"

    def kept(self) -> list[Path]:
        """Return the files of the existing reports, oldest first."""
        if not self.home.is_dir():
            return []
        return sorted(one for one in self.home.iterdir() if _REPORT.fullmatch(one.name))

    def keep(self, when: datetime, report: Mapping[str, Any], most: int) -> Path:
        """Write a report (a repeated run overwrites its own), remove the oldest beyond `most`, update the history."""
        self.home.mkdir(parents=True, exist_ok=True)
        path = self.path_of(when)
        _write(path, report)
        for one in self.kept()[:-most]:
            if one != path:
                one.unlink(missing_ok=True)
        _write(self.home / HISTORY, {"reports": [_entry(one) for one in self.kept()]})
        return path


def _entry(path: Path) -> dict[str, Any]:
    try:
        report = json.loads(path.read_text("utf-8"))
        if not isinstance(report, dict):
            raise ValueError("not a JSON object")
    except (OSError, ValueError, RecursionError) as error:
        return {"file": path.name, **dict.fromkeys(_IN_HISTORY), "unreadable": str(error) or type(error).__name__}
    return {"file": path.name, **{name: report.get(name) for name in _IN_HISTORY}}


def _write(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as out:
        json.dump(content, out, indent=1, sort_keys=True)
        out.write("\n")
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(path)
