"""Go programs for tests, built once into a cache outside the work tree."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from rocketflow.spark.java_runtime import cache_directory

BUILD_SECONDS: Final = 1_500.0
_USUAL_PLACE: Final = "/usr/local/go/bin/go"


class GoNotAvailableError(Exception):
    """The program cannot be built on this machine; the message says why."""


def built(source: Path) -> Path:
    """Build the module in `source` and return the program; the Go proxy is asked only when the sources have changed.

    Raises GoNotAvailableError.
    """
    go = shutil.which("go") or (_USUAL_PLACE if Path(_USUAL_PLACE).exists() else None)
    if go is None:
        raise GoNotAvailableError("go is not installed")
    home = cache_directory() / "go" / source.name
    home.mkdir(parents=True, exist_ok=True)
    with (home / "busy").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return _built(go, source, home)


def is_built(source: Path) -> bool:
    """Return whether the program of the sources as they are is in the cache."""
    home = cache_directory() / "go" / source.name
    return (home / "program").exists() and _kept(home) == _texts(source)


def _built(go: str, source: Path, home: Path) -> Path:
    program, copy = home / "program", home / "src"
    if program.exists() and _kept(home) == _texts(source):
        return program
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    for name, text in _texts(source).items():
        (copy / name).write_text(text)
    try:
        done = subprocess.run(
            [go, "build", "-o", str(home / "new"), "."],
            cwd=copy,
            env={**os.environ, "GOFLAGS": "-buildvcs=false -modcacherw", "GOMODCACHE": str(home.parent / "modules")},
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        shutil.rmtree(copy)
        raise GoNotAvailableError(f"go build took longer than {BUILD_SECONDS:g} s") from error
    if done.returncode != 0:
        shutil.rmtree(copy)
        raise GoNotAvailableError(f"{source.name} cannot be built: {done.stderr[-300:]}")
    (home / "new").replace(program)
    return program


def _kept(home: Path) -> dict[str, str]:
    copy = home / "src"
    return _texts(copy) if copy.exists() else {}


def _texts(folder: Path) -> dict[str, str]:
    names = [one for one in folder.iterdir() if one.suffix in (".go", ".mod", ".sum")]
    return {one.name: one.read_text() for one in sorted(names)}
