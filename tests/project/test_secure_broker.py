"""The example of OPERATIONS.md, "Secure a broker", runs as printed; only the two ports are free ones."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from tests.support.ports import free_port
from tests.support.processes import end
from tests.support.trials import environment

PAGE: Final = (Path(__file__).parents[2] / "OPERATIONS.md").read_text("utf-8")
START_SECONDS: Final = 60.0
PROGRAM: Final = f'#!/bin/sh\nexec {sys.executable} -c "from rocketflow.cli import main; main()" "$@"\n'

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate"),
]


def block(language: str) -> str:
    """Return the block of a language in the section."""
    section = PAGE.partition("### Secure a broker\n")[2].partition("\n### ")[0]
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", section, re.M | re.S)
    return str(found)


def test_the_example_runs_and_prints_what_the_page_says(tmp_path: Path) -> None:
    ports = {"9876": free_port(), "10911": free_port((-2, 1))}
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "rocketflow").write_text(PROGRAM)
    (programs / "rocketflow").chmod(0o755)
    shell, client = block("sh"), block("python")
    assert "9876" in shell
    shell = shell.replace("namesrv -c", f"namesrv --set listenPort={ports['9876']} -c")
    shell = shell.replace("broker -c", f"broker --set listenPort={ports['10911']} -c")
    for printed, free in ports.items():
        shell, client = shell.replace(f":{printed}", f":{free}"), client.replace(f":{printed}", f":{free}")
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    log = tmp_path / "log"
    with log.open("wb") as output:
        servers = subprocess.Popen(
            ["bash", "-euc", f"{shell}\nwait"],
            cwd=tmp_path,
            env=environment(PATH=path),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        latest = time.monotonic() + START_SECONDS
        while log.read_text().count("listens at") < len(ports):
            assert servers.poll() is None, log.read_text()
            assert time.monotonic() < latest, log.read_text()
            time.sleep(0.05)
        done = subprocess.run(
            [sys.executable, "-c", client],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout == block("text"), (done.stderr[-3000:], log.read_text())
        printed = log.read_text()
        assert "did not take the registration" not in printed
        assert "Traceback" not in printed
        assert not [one for one in re.findall(r"secretKey: ([\w-]+)", block("sh")) if one in printed]
    finally:
        for pid in map(int, children(servers.pid)):
            os.kill(pid, 15)
        end(servers, START_SECONDS)


def children(pid: int) -> list[str]:
    """Return the processes that a process started and that are alive."""
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
