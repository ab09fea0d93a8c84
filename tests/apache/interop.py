"""`make test-interop`: run the tests with real clients, and write the table of what they showed.

python -m tests.apache.interop [PYTEST OPTIONS]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.apache.clients import RESULTS_VARIABLE
from tests.support.trials import ROOT, environment

TESTS: Final = (
    "tests/apache/test_quick_start.py",
    "tests/apache/test_go_client.py",
    "tests/apache/test_mixed_clusters.py",
    "tests/apache/test_mqadmin.py",
    "tests/apache/test_tls_clients.py",
    "tests/apache/test_transactions.py",
)
TABLE: Final = ROOT / "tests/apache/COMPATIBILITY.md"

_HEAD: Final = """# Clients that run unchanged

`make test-interop` writes this page: it runs each client's program against RocketFlow's NameServer and broker. "ok":
the program's checks passed. An empty field: the client has no such family, or its program does not have it.

`request` of the Java client 5.3.3 cannot be tested: it counts down its latch once the
question is stored (`RequestResponseFuture.acquireCountDownLatch`), so it fails at every broker; 4.9.7's waits.

"""


def results(folder: Path) -> dict[str, dict[str, str]]:
    """Return the line of each family, by client."""
    found: dict[str, dict[str, str]] = {}
    for file in sorted(folder.glob("*.json")):
        entry = json.loads(file.read_text())
        found.setdefault(entry["client"], {}).update(entry["families"])
    return found


def table(found: Mapping[str, Mapping[str, str]]) -> str:
    """Return the page: a table of the messaging clients, and a list of mqadmin's commands."""
    tools = {name: lines for name, lines in found.items() if name.startswith("mqadmin")}
    clients = [name for name in found if name not in tools]
    families = list(dict.fromkeys(family for name in clients for family in found[name]))
    rows = [["family", *clients], ["---"] * (1 + len(clients))]
    rows += [[one, *(_word(found[name].get(one)) for name in clients)] for one in families]
    page = _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)
    for name, lines in sorted(tools.items()):
        passed = [one for one, line in lines.items() if line.startswith("ok")]
        page += f"\n{name}: {', '.join(passed)}.\n"
        failed = sorted(lines.keys() - set(passed))
        page += f"Not: {', '.join(failed)}.\n" if failed else ""
    return page


def _word(line: str | None) -> str:
    return "" if line is None else "ok" if line.startswith("ok") else "no"


def main() -> int:
    """Run the tests and write the page; return pytest's exit code."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                *TESTS,
                "--timeout",
                "3600",
                "-o",
                "faulthandler_timeout=0",
                *sys.argv[1:],
            ],
            cwd=ROOT,
            env=environment(RF_FULL="1", **{RESULTS_VARIABLE: folder}),
            check=False,
        )
        TABLE.write_text(table(results(Path(folder))))
    print(f"{os.path.relpath(TABLE)} is written")
    return done.returncode


if __name__ == "__main__":
    raise SystemExit(main())
