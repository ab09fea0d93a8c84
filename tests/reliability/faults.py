"""Faults for a Spark driver that lives on: a directory with one file per planned fault.

`plan(POINT, BATCH, ...)` puts a file there, the process that reaches the point claims it by renaming it: each fault
happens once, in one process, however often the point is reached.
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
        """Forget what was planned and what happened."""
        for one in self.directory.iterdir():
            one.unlink()

    def plan(self, point: str, batch_id: int, **details: Any) -> None:
        """Let `point` of batch `batch_id` go wrong once."""
        path = self.directory / f"{point}@{batch_id}"
        path.with_suffix(".new").write_text(json.dumps(details))
        path.with_suffix(".new").replace(path)

    def claim(self, point: str, batch_id: int) -> dict[str, Any] | None:
        """The details of the fault planned for this point, for the first who asks."""
        path = self.directory / f"{point}@{batch_id}"
        try:
            path.rename(path.with_suffix(".happened"))
        except FileNotFoundError:
            return None
        details: dict[str, Any] = json.loads(path.with_suffix(".happened").read_text())
        return details

    def happened(self, point: str, batch_id: int) -> bool:
        """Whether somebody claimed that fault."""
        return (self.directory / f"{point}@{batch_id}.happened").exists()

    def note(self, kind: str, **facts: Any) -> None:
        """Leave a line for the test to read."""
        with open(self.directory / "notes", "a", encoding="utf-8") as notes:
            notes.write(json.dumps({"kind": kind, **facts}) + "\n")

    def notes(self, kind: str) -> list[dict[str, Any]]:
        """The lines of one kind, in order."""
        try:
            lines = (self.directory / "notes").read_text("utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [one for one in map(json.loads, lines) if one["kind"] == kind]
