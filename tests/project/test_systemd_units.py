"""systemd accepts the units in `conf/systemd`, and they run commands that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from rocketflow.cli.app import command_tree

UNITS: Final = Path(__file__).parents[2] / "conf" / "systemd"
COMMAND: Final = "/opt/rocketflow/bin/rocketflow"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    there = shutil.which("true")
    assert there is not None
    for unit in UNITS.iterdir():
        (tmp_path / unit.name).write_text(unit.read_text("utf-8").replace(COMMAND, there), "utf-8")
    units = [str(tmp_path / unit.name.replace("@.", "@data-store.")) for unit in UNITS.iterdir()]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_units_run_commands_that_exist() -> None:
    lines = [line for unit in UNITS.glob("*.service") for line in unit.read_text("utf-8").splitlines()]
    started = [line.removeprefix(f"ExecStart={COMMAND} ").split() for line in lines if line.startswith("ExecStart=")]
    assert len(started) == len(list(UNITS.glob("*.service")))
    for words in started:
        command = command_tree()
        for word in words:
            if not re.fullmatch(r"[a-z]+", word):
                break
            command = getattr(command, "commands", {})[word]
