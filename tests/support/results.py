"""The counts and figures of a run in `tests/reliability.json`, and a table of the counts at the end of the test run."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.support.checker import Verdict
from tests.support.trials import LEVEL, SEED, seeds

PATH: Final = Path(__file__).parents[1] / "reliability.json"
LEVELS: Final = ("full", "fast", "sample")
FIGURES: Final = "figures"
"""The key, beside the levels, of the measured figures in the file: {level: {name: values}}."""
_measured: dict[str, dict[str, Any]] = {}


@dataclass
class Tally:
    """The counts of the trials of one row."""

    row: str
    variant: str = ""
    trials: int = 0
    hits: int = 0
    """Trials in which the fault was triggered."""
    lost: int = 0
    doubled: int = 0
    phantom: int = 0
    wrong: int = 0
    """Messages with a wrong body or at a wrong place."""
    seed: int = SEED
    seconds: float = 0.0
    passed: bool = False
    began: float = field(default_factory=time.monotonic, repr=False)

    def trial(self, verdict: Verdict | None, context: str, *, hit: bool = True) -> None:
        """Count one trial and assert that its verdict is clean; `context` says how to replay it."""
        self.trials += 1
        self.hits += hit
        if verdict is not None:
            self.lost += len(verdict.lost)
            self.doubled += len(verdict.doubled)
            self.phantom += len(verdict.phantom)
            self.wrong += len(verdict.moved)
            assert verdict.clean, f"{self.row} {self.variant}, {context}: {verdict}"

    def assert_happened(self, trials: int | None = None, share: float = 0.75) -> None:
        """Assert that the fault was triggered in more than `share` of the trials: else the row proves nothing."""
        trials = self.trials if trials is None else trials
        assert self.hits > int(trials * share), f"{self.row} {self.variant}: {self.hits} faults in {trials} trials"

    def as_dict(self) -> dict[str, Any]:
        """Return the arguments that create an equal tally: `Tally(**this)`."""
        facts = asdict(self)
        del facts["began"]
        return facts

    def line(self) -> dict[str, Any]:
        """Return the tally as it is written to JSON."""
        return {**self.as_dict(), "seconds": round(self.seconds, 1)}


def until_one_happened(counts: Tally, fast: int, full: int) -> Iterator[int]:
    """Yield the seeds of the trials; if no trial of a sample triggered the fault, continue up to `fast` seeds."""
    first = seeds(fast, full)
    yield from first
    more = range(first.stop, SEED + fast) if LEVEL == "sample" and "RF_TRIALS" not in os.environ else ()
    for seed in more:
        if counts.hits:
            return
        yield seed


def merged(tallies: list[Tally]) -> list[Tally]:
    """Merge the tallies of each row and variant into one."""
    found: dict[tuple[str, str], Tally] = {}
    for one in tallies:
        into = found.setdefault((one.row, one.variant), Tally(one.row, one.variant, passed=True))
        for name in ("trials", "hits", "lost", "doubled", "phantom", "wrong", "seconds"):
            setattr(into, name, getattr(into, name) + getattr(one, name))
        into.passed &= one.passed
    return [found[key] for key in sorted(found)]


def measured(name: str, **values: Any) -> None:
    """Report a figure of `rows.FIGURES` (no test asserts it); a later call for the same name extends its lists."""
    known = _measured.setdefault(name, {})
    for key, value in values.items():
        known[key] = known[key] + value if isinstance(value, list) and key in known else value


def all_measured() -> dict[str, dict[str, Any]]:
    """Return the figures of this process, by name."""
    return _measured


def join_measured(figures: dict[str, dict[str, Any]]) -> None:
    """Add the figures of another process."""
    for name, values in figures.items():
        measured(name, **values)


def load() -> dict[str, dict[str, dict[str, Any]]]:
    """Read the results of earlier runs: {level: {row and variant: line}}, and FIGURES."""
    try:
        known: dict[str, dict[str, dict[str, Any]]] = json.loads(PATH.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    return known


def write(tallies: list[Tally]) -> Path:
    """Write the counts under their level; rows that did not run keep the line of their last run."""
    known = load()
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    lines = known.setdefault(LEVEL, {})
    lines |= {f"{one.row} {one.variant}".strip(): {**one.line(), "at": at} for one in tallies}
    figures = known.setdefault(FIGURES, {}).setdefault(LEVEL, {})
    figures |= {name: {**values, "at": at} for name, values in _measured.items()}
    PATH.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    return PATH


def table(tallies: list[Tally]) -> list[str]:
    """Return the counts as lines for the terminal."""
    lines = [f"{'row':<26}{'trials':>7}{'hit':>6}{'lost':>6}{'doubled':>9}{'phantom':>9}{'s':>7}  seed"]
    for one in tallies:
        name = f"{one.row} {one.variant}".strip()
        state = "" if one.passed else "  FAILED"
        lines.append(
            f"{name:<26}{one.trials:>7}{one.hits:>6}{one.lost:>6}{one.doubled:>9}{one.phantom:>9}"
            f"{one.seconds:>7.0f}  {one.seed}{state}"
        )
    return lines
