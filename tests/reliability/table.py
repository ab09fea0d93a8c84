"""The table of the README from `tests/reliability.json`: python -m tests.reliability.table

Of each row the line with the highest counts is taken (full, fast, sample). 3/N is the 95 % bound of the rate of
failures when none was seen in N trials.
"""

from __future__ import annotations

import sys
from typing import Any

from tests.reliability.results import LEVELS, PATH, load
from tests.reliability.rows import ROWS

COUNTS = ("trials", "hits", "lost", "phantom", "doubled", "wrong")


def rows() -> list[dict[str, Any]]:
    """One line a row: its variants added up, of the best level that there is."""
    known = load()
    found = []
    for row in [*ROWS, *sorted({one["row"] for lines in known.values() for one in lines.values()} - ROWS.keys())]:
        for level in LEVELS:
            lines = [one for one in known.get(level, {}).values() if one["row"] == row]
            if lines:
                total = {name: sum(one.get(name, 0) for one in lines) for name in COUNTS}
                passed = all(one["passed"] for one in lines)
                found.append({"row": row, "level": level, "passed": passed, **total})
                break
    return found


def bound(trials: int) -> str:
    """3/N as a percentage, where that says anything."""
    return f"{300 / trials:.2g} %" if trials > 3 else ""


def main() -> None:
    found = rows()
    if not found:
        sys.exit(f"{PATH} holds nothing: run make test, make test-faults or make test-full first")
    print("| row | what happens | counts | trials | fault hit | lost | phantom | doubled | wrong body | rate below |")
    print("|---|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for one in found:
        told = [one["row"], ROWS.get(one["row"], ""), one["level"] + ("" if one["passed"] else ", FAILED")]
        print("| " + " | ".join([*told, *(f"{one[name]:,}" for name in COUNTS), bound(one["trials"])]) + " |")
    total = {name: sum(one[name] for one in found) for name in COUNTS}
    cells = [f"**{total[name]:,}**" for name in COUNTS]
    print("| | **all** | | " + " | ".join([*cells, bound(total["trials"])]) + " |")


if __name__ == "__main__":
    main()
