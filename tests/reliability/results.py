"""The counts of a run: a line a row in `results/`, and a table at the end of the test run."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.reliability.checker import Verdict
from tests.reliability.trials import FULL, SEED

DIRECTORY = Path(__file__).parent / "results"


@dataclass
class Tally:
    """What the trials of one row came to."""

    row: str
    variant: str = ""
    trials: int = 0
    hits: int = 0
    """Trials in which the fault really happened."""
    lost: int = 0
    doubled: int = 0
    phantom: int = 0
    seed: int = SEED
    seconds: float = 0.0
    passed: bool = False
    began: float = field(default_factory=time.monotonic, repr=False)

    def trial(self, verdict: Verdict | None, context: str, *, hit: bool = True) -> None:
        """Count one trial and demand that nothing went wrong in it; `context` says how to replay it."""
        self.trials += 1
        self.hits += hit
        if verdict is not None:
            self.lost += len(verdict.lost)
            self.doubled += len(verdict.doubled)
            self.phantom += len(verdict.phantom)
            assert verdict.clean, f"{self.row} {self.variant}, {context}: {verdict}"

    def line(self) -> dict[str, Any]:
        """For JSON."""
        facts = asdict(self)
        del facts["began"]
        return {**facts, "seconds": round(self.seconds, 1), "full": FULL}


def merged(tallies: list[Tally]) -> list[Tally]:
    """One tally for each row and variant."""
    found: dict[tuple[str, str], Tally] = {}
    for one in tallies:
        into = found.setdefault((one.row, one.variant), Tally(one.row, one.variant, passed=True))
        for name in ("trials", "hits", "lost", "doubled", "phantom", "seconds"):
            setattr(into, name, getattr(into, name) + getattr(one, name))
        into.passed &= one.passed
    return [found[key] for key in sorted(found)]


def write(tallies: list[Tally]) -> Path:
    """The counts as JSON lines; rows that did not run now keep the line of the run before."""
    DIRECTORY.mkdir(exist_ok=True)
    path = DIRECTORY / ("crash-full.jsonl" if FULL else "crash-fast.jsonl")
    try:
        known = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    except FileNotFoundError:
        known = []
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    lines = {(one["row"], one["variant"]): one for one in [*known, *({**one.line(), "at": at} for one in tallies)]}
    path.write_text("".join(json.dumps(lines[key]) + "\n" for key in sorted(lines)))
    return path


def table(tallies: list[Tally]) -> list[str]:
    """The counts, for people."""
    lines = [f"{'row':<26}{'trials':>7}{'hit':>6}{'lost':>6}{'doubled':>9}{'phantom':>9}{'s':>7}  seed"]
    for one in tallies:
        name = f"{one.row} {one.variant}".strip()
        state = "" if one.passed else "  FAILED"
        lines.append(
            f"{name:<26}{one.trials:>7}{one.hits:>6}{one.lost:>6}{one.doubled:>9}{one.phantom:>9}"
            f"{one.seconds:>7.0f}  {one.seed}{state}"
        )
    return lines
