"""Plant every bug (or those named) and print which ones the tests caught: `python -m tests.planted [NAME ...]`."""

from __future__ import annotations

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.planted.bugs import BUGS
from tests.planted.planting import Bug, DoesNotApplyError, Outcome, Tree, assert_unchanged_tree_passes, hunt
from tests.support import results

AT_ONCE = 2


def main(names: list[str]) -> int:
    """Return exit code 0 if every bug was caught, 1 if not, 2 for an unknown name."""
    bugs = [bug for bug in BUGS if not names or bug.name in names]
    unknown = set(names) - {bug.name for bug in bugs}
    if unknown or not bugs:
        print(f"no such bug: {', '.join(sorted(unknown))}; known bugs: {', '.join(bug.name for bug in BUGS)}")
        return 2
    with tempfile.TemporaryDirectory(prefix="rocketflow-planted-") as room, ThreadPoolExecutor(AT_ONCE) as pool:
        base = Tree(Path(room) / "base")

        def one(bug: Bug) -> tuple[Bug, Outcome, float]:
            began = time.monotonic()
            try:
                outcome = hunt(Tree(Path(room) / bug.name, base.path), bug, Path(room) / f"{bug.name}.tmp")
            except DoesNotApplyError as error:
                outcome = Outcome(False, -1, str(error).replace("\n", " "))
            return bug, outcome, time.monotonic() - began

        unchanged = pool.submit(assert_unchanged_tree_passes, base, bugs, Path(room) / "unchanged.tmp")
        caught = 0
        for bug, outcome, seconds in pool.map(one, bugs):
            caught += outcome.caught
            seed = f"seed {outcome.seed}" if outcome.caught and bug.seeds > 1 else ""
            state = "caught" if outcome.caught else "MISSED"
            print(f"{state}  {bug.name:<36}{seconds:>5.0f} s  {seed} {outcome.why[:140]}", flush=True)
        unchanged.result()
    print(f"planted bugs caught: {caught} of {len(bugs)}")
    if not names:
        results.measured("planted", planted=len(bugs), caught=caught)
        results.write([])
    return 0 if caught == len(bugs) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
