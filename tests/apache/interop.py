"""`make test-interop`: run the tests with real clients, and write the table of what they showed.

python -m tests.apache.interop [PYTEST OPTIONS]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.apache.clients import RESULTS_VARIABLE
from tests.support.trials import ROOT, environment

TESTS: Final = (
    "tests/apache/test_quick_start.py",
    "tests/apache/test_go_client.py",
    "tests/apache/test_mixed_clusters.py",
    "tests/apache/test_mqadmin.py",
    "tests/apache/test_name_server.py",
    "tests/apache/test_python_client.py",
    "tests/apache/test_signed_clients.py",
    "tests/apache/test_tls_clients.py",
    "tests/apache/test_transactions.py",
    "tests/apache/test_transcripts.py",
)
TABLE: Final = ROOT / "tests/apache/COMPATIBILITY.md"
MQADMIN: Final = ROOT / "tests/apache/MQADMIN.md"

TOOLS: Final = "mqadmin "
"""What the names of mqadmin's versions begin with in the results."""

RECORDED: Final = ", recorded"
"""What the names end with under which transcripts record their programs."""

_HEAD: Final = """# Clients that run unchanged

`make test-interop` writes this page: it runs each client's program against RocketFlow's NameServer and broker. "ok":
the program's checks passed. An empty field: the client has no such family, or its program does not have it.

`request` of the Java client 5.3.3 cannot be tested: it counts down its latch once the
question is stored (`RequestResponseFuture.acquireCountDownLatch`), so it fails at every broker; 4.9.7's waits.

"""


_MQADMIN_HEAD: Final = """# mqadmin's commands

`make test-interop` writes this page. Each command runs by mqadmin's own main class, on the same topics and messages, at
RocketFlow's NameServer and broker and at Apache's of the version; lines are compared without their order, addresses,
times and rates. "same": no line differs. Else: why lines differ ([the patterns](mqadmin_differences.py)); NAMES and
BROKER are addresses.

"""


def results(folder: Path) -> dict[str, dict[str, str]]:
    """Return the line of each family, by client."""
    found: dict[str, dict[str, str]] = {}
    for file in sorted(folder.glob("*.json")):
        entry = json.loads(file.read_text())
        found.setdefault(entry["client"], {}).update(entry["families"])
    return found


def table(found: Mapping[str, Mapping[str, str]]) -> str:
    """Return the page of the messaging clients: a table of families by client."""
    clients = [name for name in found if not name.startswith(TOOLS) and not name.endswith(RECORDED)]
    families = list(dict.fromkeys(family for name in clients for family in found[name]))
    rows = [["family", *clients], ["---"] * (1 + len(clients))]
    rows += [[one, *(_word(found[name].get(one)) for name in clients)] for one in families]
    return _HEAD + _rows(rows) + "\nThe commands of mqadmin: [MQADMIN.md](MQADMIN.md).\n"


def tools_table(found: Mapping[str, Mapping[str, str]]) -> str:
    """Return the page of mqadmin: its commands by version, and how what they print differs."""
    tools = sorted((name for name in found if name.startswith(TOOLS)), reverse=True)
    commands = list(dict.fromkeys(command for name in tools for command in found[name]))
    rows = [["command", *(name.removeprefix(TOOLS) for name in tools)], ["---"] * (1 + len(tools))]
    rows += [[f"`{one}`", *(_difference(found[name].get(one)) for name in tools)] for one in commands]
    return _MQADMIN_HEAD + _rows(rows)


def _rows(rows: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _difference(line: str | None) -> str:
    """Return what a row of the table says of a command."""
    if line is None:
        return ""
    return line.removeprefix("ok").strip() or "same" if line.startswith("ok") else "**differs**"


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
        found = results(Path(folder))
        TABLE.write_text(table(found))
        MQADMIN.write_text(tools_table(found))
    print(f"{os.path.relpath(TABLE)} and {os.path.relpath(MQADMIN)} are written")
    return done.returncode


if __name__ == "__main__":
    raise SystemExit(main())
