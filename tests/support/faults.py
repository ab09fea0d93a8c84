"""Faults for a running Spark driver: a directory with one file per planned fault.

`plan(POINT, BATCH, ...)` writes a file there, and the process that reaches the point claims it by renaming it: each
fault happens once, in one process, however often the point is reached.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Faults:
    """The faults of one driver."""

    directory: Path

    @classmethod
    def of_this_process(cls) -> Faults:
        return cls(Path(os.environ["RF_FAULTS"]))

    def clear(self) -> None:
        """Remove all planned and claimed faults, and the notes."""
        for one in self.directory.iterdir():
            one.unlink()

    def name_store(self, store: Path) -> None:
        """Write down the store that the next query writes to."""
        (self.directory / "store").write_text(str(store))

    def store(self) -> Path:
        """Return the store that the query writes to; a test that looks at no parts need not name it."""
        named = self.directory / "store"
        return Path(named.read_text() if named.exists() else "unnamed")

    def plan(self, point: str, batch_id: int, **details: Any) -> None:
        """Plan a fault at `point` of batch `batch_id`."""
        path = self.directory / f"{point}@{batch_id}"
        path.with_suffix(".new").write_text(json.dumps(details))
        path.with_suffix(".new").replace(path)

    def claim(self, point: str, batch_id: int) -> dict[str, Any] | None:
        """Return the details of the fault planned for this point to the first caller, None to all others."""
        path = self.directory / f"{point}@{batch_id}"
        try:
            path.rename(path.with_suffix(".happened"))
        except FileNotFoundError:
            return None
        details: dict[str, Any] = json.loads(path.with_suffix(".happened").read_text())
        return details

    def happened(self, point: str, batch_id: int) -> bool:
        """Return whether a process claimed that fault."""
        return (self.directory / f"{point}@{batch_id}.happened").exists()

    def note(self, kind: str, **facts: Any) -> None:
        """Append a line for the test to the notes."""
        with open(self.directory / "notes", "a", encoding="utf-8") as notes:
            notes.write(json.dumps({"kind": kind, **facts}) + "\n")

    def notes(self, kind: str) -> list[dict[str, Any]]:
        """Return the notes of one kind, in order."""
        try:
            lines = (self.directory / "notes").read_text("utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [one for one in map(json.loads, lines) if one["kind"] == kind]
