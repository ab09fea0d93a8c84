"""How many trials a row gets, from which seeds, and with which environment child processes run."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
FULL = os.environ.get("RF_FULL") == "1"
"""Full counts (`make test-full`)."""
LEVEL = "full" if FULL else "fast" if os.environ.get("RF_FAULTS") == "1" else "sample"
"""How much is tried: `make test` takes a sample of what `make test-faults` does."""
COMMAND_LINE = """
import signal
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a test run under nohup, or in the background, hands on
signal.signal(signal.SIGINT, signal.default_int_handler)  # that these are ignored
from rocketflow.cli import main
main()
"""
"""`python -c` of this is `rocketflow`, as a terminal starts it."""
SEED = int(os.environ.get("RF_SEED", "20261121"))


MOST_OF_A_SAMPLE = 18
"""So many trials of a row are made in a sample at most: it goes through each of its ways, the other levels count."""


def seeds(fast: int, full: int, least: int = 1) -> range:
    """One seed a trial, `least` in a sample. `RF_SEED=n RF_TRIALS=1` replays the trial that named n."""
    sample = max(least, min(fast // 6, MOST_OF_A_SAMPLE))
    count = full if FULL else fast if LEVEL == "fast" else sample
    return range(SEED, SEED + int(os.environ.get("RF_TRIALS", count)))


def some(fast: int) -> int:
    """How many points of a sweep: `fast` of them, of a sample a third."""
    return fast if LEVEL != "sample" else max(2, fast // 3)


def sweep(last: int, sample: int) -> range:
    """The points 1 to `last`; in a sample every `sample`-th, begun at one that the seed says."""
    return range(1, last + 1) if LEVEL != "sample" else range(1 + SEED % sample, last + 1, sample)


def processes_marked(mark: str) -> list[str]:
    """The command lines of living processes that have `mark` ("NAME=value") in their environment."""
    found = []
    for one in Path("/proc").iterdir():
        try:
            if one.name.isdigit() and mark.encode() in (one / "environ").read_bytes().split(b"\0"):
                found.append((one / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue  # it ended meanwhile, or belongs to somebody else
    return found


def environment(**more: str) -> dict[str, str]:
    """The environment of a child process that runs a module of this folder."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "store")]), **more}
