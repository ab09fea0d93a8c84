"""How many trials a row gets, from which seeds, and with which environment child processes run."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
FULL = os.environ.get("RF_FULL") == "1"
"""Full counts (`make test-full`) instead of samples."""
SEED = int(os.environ.get("RF_SEED", "20261121"))


def seeds(fast: int, full: int) -> range:
    """One seed a trial. `RF_SEED=n RF_TRIALS=1` replays the trial that named n."""
    return range(SEED, SEED + int(os.environ.get("RF_TRIALS", full if FULL else fast)))


def environment(**more: str) -> dict[str, str]:
    """The environment of a child process that runs a module of this folder."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "store")]), **more}
