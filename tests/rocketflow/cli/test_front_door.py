"""The start of the command: its version, its help, completion in a shell."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

import rocketflow
import rocketflow_store
from rocketflow.cli.app import run
from rocketflow.cli.shared import failures

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def start(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rocketflow", *arguments],
        env={**ENVIRONMENT, **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_module_starts_the_command_line_and_keeps_its_exit_codes(tmp_path: Path) -> None:
    done = start("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"rocketflow {rocketflow.__version__}\n", "")
    assert start("store", "info", str(tmp_path / "missing")).returncode == 2


def test_both_packages_and_the_changelog_have_one_version() -> None:
    """The distribution has the version of `rocketflow`."""
    latest = re.search(r"^## (\d\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert latest is not None
    assert rocketflow.__version__ == rocketflow_store.__version__ == latest[1]


def test_version_lists_every_package_that_users_install(capsys: pytest.CaptureFixture[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    names = ("store", "spark", "java", "demo", "kafka", "quality")
    wanted = [*project["dependencies"], *(one for name in names for one in extras[name] if "rocketflow" not in one)]
    assert run(["version", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    listed = {**found, **found["packages"]}
    assert [one for one in wanted if re.split(r"[=<>]", one)[0] not in listed] == []
    assert found["packages"]["great-expectations"]
    assert found["packages"]["apache-airflow"] is None
    assert run(["version"]) == 0
    assert re.search(r"^apache-airflow +not installed$", capsys.readouterr().out, re.M)


@pytest.mark.parametrize(
    ("package", "extra", "command"),
    [
        ("numpy", "store", ["store", "info", "x"]),
        ("pyspark", "spark", ["submit", "stream"]),
        ("msgspec", "client", ["send", "-n", "127.0.0.1:1", "--topic", "t", "body"]),
        ("aiohttp", "broker", ["broker", "--set", "metricsExporterType=PROM"]),
        ("numpy", "broker", ["broker", "--set", "storePathRootDir=x"]),
        ("pyspark", "demo", ["demo", "--dir", "/dev/null/x"]),
    ],
)
def test_missing_package_is_named_with_the_extra_that_installs_it(package: str, extra: str, command: list[str]) -> None:
    program = f"import sys; sys.modules[{package!r}] = None; from rocketflow.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *command], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: this command needs the package {package}: pip install 'rocketflow[{extra}]' "
        f"(in a checkout: '.[{extra}]')\n"
    )


def test_extras_install_what_the_messages_say() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]

    def installed(extra: str) -> set[str]:
        found = set()
        for one in extras[extra]:
            more = re.fullmatch(r"rocketflow\[([\w,]+)\]", one)
            found |= set().union(*map(installed, more[1].split(","))) if more else {re.split(r"[=<>]", one)[0]}
        return found

    distributions = importlib.metadata.packages_distributions()
    for package, extra in failures.EXTRAS.items():
        found = {canonicalize_name(name) for name in distributions[package]}
        assert found & {canonicalize_name(name) for name in installed(extra)}, package
    assert not {"pyspark", "pyarrow", "numpy"} & installed("client")
    for wider, *others in failures.COMMANDS.values():
        assert all(installed(other) <= installed(wider) for other in others), wider


@pytest.mark.parametrize("command", [[], ["store"], ["store", "cat"], ["quality"], ["bridge"], ["doctor"]])
def test_short_help_prints_what_long_help_prints(capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    assert run([*command, "--help"]) == 0
    long = capsys.readouterr().out
    assert run([*command, "-h"]) == 0
    assert capsys.readouterr().out == long != ""


@pytest.mark.parametrize("command", [[], ["store"], ["admin"], ["quality"], ["bridge"], ["profile"]])
def test_list_of_commands_has_whole_sentences(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    assert run([*command, "--help"]) == 0
    listed = capsys.readouterr().out.partition("Commands:\n")[2]
    about = re.split(r"\n  (?=\S)", f"\n{listed.rstrip()}")[1:]
    assert len(about) > 2
    assert [one for one in about if not one.endswith(".") or "..." in one or "Example" in one] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_answers_the_script_of_each_shell(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    assert run(["completion", shell]) == 0
    assert f"complete_{shell}" in capsys.readouterr().out
    asked = "rocketflow store re"
    answer = start(
        _ROCKETFLOW_COMPLETE=f"complete_{shell}",
        COMP_WORDS=asked,
        COMP_CWORD="2",
        _TYPER_COMPLETE_ARGS=asked,
        _TYPER_COMPLETE_FISH_ACTION="get-args",
    ).stdout
    assert "recover" in answer
    assert "rebuild" in answer
    assert "verify" not in answer


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_completion_script_works_in_bash(tmp_path: Path) -> None:
    command = tmp_path / "rocketflow"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rocketflow "$@"\n')
    command.chmod(0o755)
    script = (
        'eval "$(rocketflow completion bash)"; COMP_WORDS=(rocketflow store re); COMP_CWORD=2; '
        '_rocketflow_completion rocketflow; echo "${COMPREPLY[@]}"'
    )
    environment = {**ENVIRONMENT, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    assert sorted(done.stdout.split()) == ["rebuild", "recover", "restore"]


def test_completion_of_an_unknown_shell_names_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "csh"]) == 2
    assert "bash" in capsys.readouterr().err
