"""A process that is stopped also stops its children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rocketflow.process.child_process import kill_at_line

SCRIPT = """
import sys
from rocketflow.process import child_process
from rocketflow.process.stop_signals import StoppedError, stop_in_order
child_process._STOP_S = float(sys.argv[2])
stop_in_order()
try:
    child_process.run_child(["sh", "-c", sys.argv[1]])
except StoppedError as stopped:
    sys.exit(128 + stopped.number)
"""
TWO = "trap {} TERM; (trap {} TERM; echo $$; while :; do sleep 0.1; done) & wait; wait"


@pytest.mark.parametrize("one", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("deaf", [False, True], ids=["stops", "ignores-signals"])
def test_stop_ends_all_processes_of_the_group(one: signal.Signals, deaf: bool) -> None:
    shell = TWO.format("''", "''") if deaf else TWO.format("'kill $!; exit 3'", "'exit 3'")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, shell, "0.3" if deaf else "30"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None
        group = int(process.stdout.readline())
        process.send_signal(one)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 128 + one
    assert ("was killed" in error) == deaf
    assert _members(group) == []


def _members(group: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.getpgid(int(entry.name)) == group and (entry / "cmdline").read_bytes():
                found.append(int(entry.name))  # (a zombie has no command line)
        except (ProcessLookupError, FileNotFoundError):
            continue
    return found


def test_command_is_killed_at_a_line_of_its_output() -> None:
    program = (
        "import sys, time\nprint('begun', flush=True)\nprint('batch', file=sys.stderr, flush=True)\ntime.sleep(600)"
    )
    lines: list[str] = []

    def is_enough(line: str) -> bool:
        lines.append(line)
        return line == "batch\n"

    assert kill_at_line([sys.executable, "-c", program], is_enough)
    assert lines == ["begun\n", "batch\n"]
    assert not kill_at_line([sys.executable, "-c", "print('begun')"], is_enough)
