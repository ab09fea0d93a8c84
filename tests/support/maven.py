"""Jars from Maven Central for tests and benchmarks, fetched once into a cache outside the work tree."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketflow.spark.java_runtime import cache_directory, find_java

if TYPE_CHECKING:
    from collections.abc import Sequence

FETCH_SECONDS: Final = 280.0
JAVAC_SECONDS: Final = 120
SHORT_RUN: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of a Java that ends before optimised code pays: about half the processor time of Maven and the compiler."""

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
    """The jars are not available on this machine; the message says why."""


def fetch_jars(name: str, coordinates: Sequence[str], *, transitive: bool = True) -> Path:
    """Return a directory with the jars of `group:artifact:version` coordinates, and their dependencies if `transitive`.

    `name` is the cache's folder. Raises JarsNotFetchedError.
    """
    home = cache_directory() / name
    home.mkdir(parents=True, exist_ok=True)
    with _locked(home):
        return _fetched(name, home, coordinates, transitive)


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Lock a folder of the cache against other test processes."""
    with (home / "busy").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetched(name: str, home: Path, coordinates: Sequence[str], transitive: bool) -> Path:
    done = home / "fetched"
    wanted = "\n".join([*coordinates, f"transitive={transitive}"])
    lib = home / "lib"
    if done.exists() and done.read_text() == wanted:
        return lib
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsNotFetchedError("mvn is not installed: jars cannot be fetched")
    shutil.rmtree(lib, ignore_errors=True)
    dependencies = "\n".join(_dependency(one, transitive) for one in coordinates)
    (home / "pom.xml").write_text(_POM.format(dependencies=dependencies))
    command = [
        *(maven, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib", "-DincludeScope=runtime"),
        "-Dmaven.artifact.threads=16",
    ]
    options = " ".join((*SHORT_RUN, os.environ.get("MAVEN_OPTS", "")))
    try:
        got = subprocess.run(
            command,
            cwd=home,
            env={**os.environ, "MAVEN_OPTS": options},
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise JarsNotFetchedError(f"{name}: mvn took longer than {FETCH_SECONDS:g} s") from error
    if got.returncode != 0:
        raise JarsNotFetchedError(f"{name} cannot be fetched: {(got.stdout + got.stderr)[-300:]}")
    done.write_text(wanted)
    return lib


def java_and_javac() -> tuple[str, str]:
    """Return the two commands; raise JarsNotFetchedError if one is missing."""
    java, javac = find_java(), shutil.which("javac")
    if java is None or javac is None:
        raise JarsNotFetchedError("no java and javac of version 17 or newer")
    return java, javac


def compile_java(source: Path, text: str, lib: Path) -> Path:
    """Compile `text` (the content of `source`, or generated from it) and return the folder of classes beside `lib`."""
    with _locked(lib.parent):
        return _compiled(source, text, lib)


def _compiled(source: Path, text: str, lib: Path) -> Path:
    home = lib.parent
    copy, classes = home / "src" / source.name, home / "classes"
    compiled = classes / f"{source.stem}.class"
    if compiled.exists() and copy.exists() and copy.read_text() == text:
        return classes
    copy.parent.mkdir(exist_ok=True)
    classes.mkdir(exist_ok=True)
    compiled.unlink(missing_ok=True)
    copy.write_text(text)
    command = [
        java_and_javac()[1],
        *(f"-J{one}" for one in SHORT_RUN),
        "-nowarn",
        "-cp",
        str(lib / "*"),
        "-d",
        str(classes),
        str(copy),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=JAVAC_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return classes


def _dependency(coordinate: str, transitive: bool) -> str:
    group, artifact, version = coordinate.split(":")
    everything = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    exclusions = "" if transitive else f"<exclusions>{everything}</exclusions>"
    return (
        f"    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{exclusions}</dependency>"
    )
