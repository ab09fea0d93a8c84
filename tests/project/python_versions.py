"""The versions of Python that RocketFlow runs on: `requires-python` of pyproject.toml.

Before pip is asked, `make` runs this file with the Python that it would use, maybe an old one: it prints one line
if that is none of the versions. `make check` runs it with `--dependencies`: it compares the versions with those that
the installed packages of requirements.lock allow, and with what else pyproject.toml and README.md say.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "pyproject.toml"
BEYOND = 30
"""A minor version that no package knows."""


def required() -> range:
    """Return the minor versions of Python 3 that pyproject.toml requires."""
    found = re.search(r'^requires-python = ">=3\.(\d+),<3\.(\d+)"$', PROJECT.read_text("utf-8"), re.M)
    assert found is not None, "requires-python is not of the form >=3.A,<3.B"
    return range(int(found.group(1)), int(found.group(2)))


def remedy(venv: str) -> str:
    """Return what to type for a Python of a required version; `venv` is in its way, if it is not empty."""
    for minor in reversed(required()):
        python = f"python3.{minor}"
        found = shutil.which(python)
        if found and subprocess.run([found, "-c", ""], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            break
    else:
        python = f"PATH of a Python 3.{required()[-1]}"
    return (f"rm -r {venv} && " if venv else "") + f"make setup PYTHON={python}"


def refusal(version: "tuple[int, ...]", venv: str) -> str:
    """Return the line that refuses a version of Python and names the remedy, or "" for one that is required."""
    minors = required()
    if version[0] == 3 and version[1] in minors:
        return ""
    what = f"{venv} has" if venv else "this is"
    return (
        f"{what} Python {'.'.join(map(str, version[:3]))}, RocketFlow runs on 3.{minors[0]} to 3.{minors[-1]}: "
        + remedy(venv)
    )


def allowed() -> "dict[int, list[str]]":
    """Return the packages that forbid a minor version, by version from 0 on."""
    from importlib.metadata import PackageNotFoundError, metadata

    from packaging.specifiers import SpecifierSet

    listed = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text("utf-8"), re.M)
    forbidding: dict[int, list[str]] = {minor: [] for minor in range(BEYOND)}
    for name in (one for one in listed if listed.count(one) == 1):  # others have a release for each version
        try:
            specifier = SpecifierSet(metadata(name).get("Requires-Python") or "")
        except PackageNotFoundError:
            continue  # for other platforms
        for minor, packages in forbidding.items():
            if not specifier.contains(f"3.{minor}.99"):
                packages.append(name)
    return forbidding


def differences() -> "list[str]":
    """Return where pyproject.toml and README.md differ from what the installed packages allow."""
    minors, text = required(), PROJECT.read_text("utf-8")
    found = []
    for minor, packages in allowed().items():
        if packages and minor in minors:
            found.append(f"requires-python has 3.{minor}, which {', '.join(packages)} forbid")
        elif not packages and minor not in minors:
            found.append(f"requires-python has no 3.{minor}, which all packages allow")
    listed = re.findall(r"Programming Language :: Python :: 3\.(\d+)", text)
    for what, has, wanted in (
        ("classifiers", listed, [str(minor) for minor in minors]),
        ("ruff's target-version", re.findall(r'^target-version = "py3(\d+)"', text, re.M), [str(minors[0])]),
        ("mypy's python_version", re.findall(r'^python_version = "3\.(\d+)"', text, re.M), [str(minors[0])]),
    ):
        if has != wanted:
            found.append(f"pyproject.toml: {what} of 3.{', 3.'.join(has)}, not 3.{', 3.'.join(wanted)}")
    if f"Python 3.{minors[0]} to 3.{minors[-1]}" not in (ROOT / "README.md").read_text("utf-8"):
        found.append(f"README.md does not say Python 3.{minors[0]} to 3.{minors[-1]}")
    return found


def main(arguments: "list[str]") -> int:
    """Print what is wrong; return 1 if the dependencies were asked for and something is."""
    if arguments != ["--dependencies"]:
        line = refusal(sys.version_info[:3], arguments[0] if arguments else "")
        sys.stdout.write(line + "\n" if line else "")
        return 0
    found = differences()
    sys.stdout.write("".join(f"{one}\n" for one in found) or "python versions ok\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
