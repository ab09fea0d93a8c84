"""A set-up with a Python that RocketFlow does not run on ends with one line: see `python_versions`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.python_versions import differences, refusal, required

ROOT = Path(__file__).parents[2]
OLD_PYTHON = f"""#!/bin/sh
exec {sys.executable} -c 'import runpy, sys
sys.version_info, sys.argv = (3, 10, 9), sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")' "$@"
"""


def test_required_versions_are_those_that_all_packages_allow() -> None:
    assert differences() == []


def test_versions_outside_of_the_required_ones_are_refused() -> None:
    minors = required()
    assert [refusal((3, minor, 1), "") for minor in minors] == [""] * len(minors)
    for version in ((3, minors[0] - 1, 9), (3, minors[-1] + 1, 0), (4, 0, 0)):
        assert "make setup PYTHON=" in refusal(version, "")
        assert ": rm -r .venv && make setup PYTHON=" in refusal(version, ".venv")


@pytest.mark.parametrize("place", ["the PATH", ".venv"])
def test_make_with_an_old_python_ends_with_one_line_before_pip(place: str, tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "tests/project/python_versions.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    tools = tmp_path / "tools"
    python = tmp_path / ".venv" / "bin" / "python" if place == ".venv" else tools / "python3"
    for folder in {tools, python.parent}:
        folder.mkdir(parents=True)
    for tool in ("make", "sh"):
        (tools / tool).symlink_to(shutil.which(tool) or pytest.skip(f"needs {tool}"))
    python.write_text(OLD_PYTHON)
    python.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        ["make", "setup"],
        cwd=tmp_path,
        env={**environment, "PATH": str(tools)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    (line,) = (done.stdout + done.stderr).splitlines()
    assert done.returncode == 2
    assert "Python 3.10.9, RocketFlow runs on 3." in line
    assert f"{'rm -r .venv && ' if place == '.venv' else ''}make setup PYTHON=" in line
