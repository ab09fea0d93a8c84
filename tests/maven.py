"""Jars from Maven Central for tests and benchmarks: fetched once into a cache outside the work tree."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketflow.runtime import cache_directory

if TYPE_CHECKING:
    from collections.abc import Sequence

_TIMEOUT_S: Final = 280

_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>rocketflow.tests</groupId>
  <artifactId>jars</artifactId>
  <version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""


class JarsNotFetchedError(Exception):
    """The jars cannot be had here; the text says why."""


def fetch_jars(name: str, coordinates: Sequence[str], *, transitive: bool = True) -> Path:
    """Directory with the jars of `group:artifact:version` coordinates, and with what they need if `transitive`.

    `name` is the cache's folder. Raises JarsNotFetchedError.
    """
    home = cache_directory() / name
    done = home / "fetched"
    wanted = "\n".join([*coordinates, f"transitive={transitive}"])
    lib = home / "lib"
    if done.exists() and done.read_text() == wanted:
        return lib
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsNotFetchedError("mvn is not installed: jars cannot be fetched")
    shutil.rmtree(lib, ignore_errors=True)
    home.mkdir(parents=True, exist_ok=True)
    dependencies = "\n".join(_dependency(one, transitive) for one in coordinates)
    (home / "pom.xml").write_text(_POM.format(dependencies=dependencies))
    command = [maven, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib", "-DincludeScope=runtime"]
    try:
        got = subprocess.run(
            command, cwd=home, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise JarsNotFetchedError(f"{name}: mvn took longer than {_TIMEOUT_S} s") from error
    if got.returncode != 0:
        raise JarsNotFetchedError(f"{name} cannot be fetched: {(got.stdout + got.stderr)[-300:]}")
    done.write_text(wanted)
    return lib


def _dependency(coordinate: str, transitive: bool) -> str:
    group, artifact, version = coordinate.split(":")
    everything = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    exclusions = "" if transitive else f"<exclusions>{everything}</exclusions>"
    return (
        f"    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{exclusions}</dependency>"
    )
