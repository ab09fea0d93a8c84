"""The project of `rocketflow init` runs as its README says; a directory in use is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rocketflow.cli.app import run
from rocketflow.starter.starter import PROJECT
from tests.support.trials import LEVEL

PAID = 14
OF_A_SHELL = dict.fromkeys(("STORE", "CHECKPOINT", "ORDERS_STORE", "TOPIC", "DATA", "ROCKETFLOW"), "/nowhere")
"""Variables that a shell may have exported, as RocketFlow's README does: none is the project's."""


def make(directory: Path, *targets: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **OF_A_SHELL}
    if LEVEL == "sample":  # a short job ends before its compiled code pays
        environment["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1"
    done = subprocess.run(
        ["make", f"ROCKETFLOW={sys.executable} -m rocketflow", *targets],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_project_runs_as_its_readme_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "orders"
    assert run(["init", str(directory)]) == 0
    assert "make data run check show" in capsys.readouterr().out
    assert make(directory, "data").count('"status": "PUT_OK"') == 24
    assert '"rows": 24' in make(directory, "run")
    if LEVEL != "sample":  # each target starts a Spark
        assert '"rows": 0' in make(directory, "run")
        assert "24 rows, 0 bad rows, 0 unreadable bodies" in make(directory, "check")
        assert make(directory, "show").count('"cents"') == PAID


def test_init_lists_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "new"
    directory.mkdir()
    assert run(["init", str(directory), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    wanted = {
        ".gitignore",
        "Makefile",
        "README.md",
        "broker.conf",
        "dags/orders_pipeline.py",
        "expectations/orders.json",
    }
    assert wanted < set(printed["files"])
    for name in printed["files"]:
        assert (directory / name).read_bytes() == (PROJECT / name).read_bytes()


def test_init_refuses_a_directory_in_use_and_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").touch()
    for directory in (tmp_path, tmp_path / "mine", tmp_path / "mine" / "below"):
        assert run(["init", str(directory)]) == 2
        assert capsys.readouterr().err.startswith(f"error: {directory}")
    assert [one.name for one in tmp_path.iterdir()] == ["mine"]
