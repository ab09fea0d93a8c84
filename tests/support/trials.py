"""The number of trials of a row, their seeds, and the environment of child processes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

_T = TypeVar("_T")
ROOT = Path(__file__).parents[2]
FULL = os.environ.get("RF_FULL") == "1"
"""True for all trials (`make test-full`)."""
LEVEL = "full" if FULL else "fast" if os.environ.get("RF_FAULTS") == "1" else "sample"
"""The number of trials: `make test` runs a sample of the trials of `make test-faults`."""
COMMAND_LINE = "from rocketflow.cli import main; main()"
"""A program for `python -c` that runs `rocketflow`."""
SEED = int(os.environ.get("RF_SEED", "20261121"))


SAMPLE_LIMIT = 4
"""The largest number of trials of a row in a sample."""


def seeds(fast: int, full: int, least: int = 1) -> range:
    """Return one seed for each trial, at least `least` in a sample. `RF_SEED=n RF_TRIALS=1` replays trial n."""
    sample = max(least, min(fast // 6, SAMPLE_LIMIT))
    count = full if FULL else fast if LEVEL == "fast" else sample
    return range(SEED, SEED + int(os.environ.get("RF_TRIALS", count)))


def places() -> list[tuple[str, str]]:
    """Return where a row's trials have their store, and its variant; a sample is by path."""
    return [("path", ""), ("network", "network")] if LEVEL != "sample" else [("path", "")]


def some(fast: int) -> int:
    """Return the number of points of a sweep: `fast`, or a sixth of it in a sample."""
    return fast if LEVEL != "sample" else max(2, fast // 6)


def sweep(last: int, sample: int) -> range:
    """Return the points 1 to `last`; in a sample every `sample`-th, from a start that the seed selects."""
    return range(1, last + 1) if LEVEL != "sample" else range(1 + SEED % sample, last + 1, sample)


def sampled(cases: Sequence[_T], step: int) -> list[_T]:
    """Return all cases; in a sample every `step`-th, from one that the seed selects."""
    return list(cases) if LEVEL != "sample" else list(cases[SEED % step :: step])


def processes_marked(mark: str) -> list[str]:
    """Return the command lines of living processes that have `mark` ("NAME=value") in their environment."""
    found = []
    for one in Path("/proc").iterdir():
        try:
            if one.name.isdigit() and mark.encode() in (one / "environ").read_bytes().split(b"\0"):
                found.append((one / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue  # it ended meanwhile, or belongs to another user
    return found


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a child process that runs a module of the tests."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "store")]), **more}
