"""The container file: known instructions, files that exist and are enough for the wheel, a command that exists."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any, Final

from rocketflow.cli.app import command_tree
from tests.project.python_versions import required

ROOT: Final = Path(__file__).parents[2]
FILE: Final = ROOT / "conf" / "container" / "Containerfile"
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def instructions() -> list[tuple[str, str]]:
    """Return the instructions as (name, arguments); continued lines are joined."""
    text = re.sub(r"^#.*\n", "", FILE.read_text("utf-8"), flags=re.M).replace("\\\n", " ")
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in text.splitlines() if line.strip()]


def copied() -> list[str]:
    """Return the files and folders of the repository that are copied into the image that builds the wheel."""
    words = [arguments.split() for name, arguments in instructions() if name == "COPY"]
    return [source for one in words if not one[0].startswith("--from=") for source in one[:-1]]


def test_instructions_are_known_and_shell_lines_parse() -> None:
    found = instructions()
    assert {name for name, _ in found} <= {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT", "CMD"}
    assert [name for name, _ in found[:2]] == ["ARG", "FROM"]
    for name, arguments in found:
        if name == "RUN":
            subprocess.run(["sh", "-n", "-c", arguments], check=True)
        elif name in ("ENTRYPOINT", "CMD"):
            assert isinstance(json.loads(arguments), list)


def test_debian_of_the_base_has_a_python_that_the_project_supports() -> None:
    (base,) = (arguments for name, arguments in instructions() if name == "ARG")
    assert base.removeprefix("BASE=") == "docker.io/library/debian:bookworm-slim", "name the new release's Python here"
    assert {arguments.split()[0] for name, arguments in instructions() if name == "FROM"} == {"${BASE}"}
    assert 11 in required()  # the python3 of bookworm


def test_stages_extras_and_commands_exist() -> None:
    found = dict(reversed(instructions()))
    (stage,) = re.findall(r"FROM \S+ AS (\w+)", FILE.read_text("utf-8"))
    assert re.findall(r"--from=(\w+)", FILE.read_text("utf-8")) == [stage]
    (extras,) = re.findall(r"whl\)\[([\w,]+)\]", FILE.read_text("utf-8"))
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    assert json.loads(found["ENTRYPOINT"])[0] in PROJECT["scripts"]
    for line in re.findall(r"^#   podman run .* rocketflow (.*)$", FILE.read_text("utf-8"), re.M):
        command: Any = command_tree()
        for word in itertools.takewhile(lambda _: hasattr(command, "commands"), shlex.split(line)):  # noqa: B023
            command = command.commands[word]


def test_copied_files_are_enough_for_the_wheel(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    ignored = shutil.ignore_patterns("__pycache__")
    for name in copied():
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=ignored)
        else:
            shutil.copyfile(ROOT / name, source / name)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(source)]
    subprocess.run(command, env={**os.environ, "CFLAGS": "-O0"}, capture_output=True, check=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "rocketflow/_jobs/stream.py",
        "rocketflow/starter/project/Makefile",
        "pyspark_rocketflow/__init__.py",
    } <= names


def test_pins_are_read_from_the_lock() -> None:
    (pattern,) = re.findall(r"grep -oE '(.*)' requirements.lock", FILE.read_text("utf-8"))
    done = subprocess.run(
        ["grep", "-oE", pattern, "requirements.lock"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    pins = done.stdout.splitlines()
    assert [one.partition("==")[0] for one in pins].count("pyspark") == 1
    assert [one for one in pins if "--hash" in one or one.endswith("\\")] == []
