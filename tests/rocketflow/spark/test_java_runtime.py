"""The launcher that Spark starts as `java`: which of its arguments and variables reach the JVM."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyspark
import pytest

from rocketflow.spark.java_runtime import ensure_java

SUBMIT = ("-cp", "jars/*", "org.apache.spark.deploy.SparkSubmit")
JVM = """#!/bin/sh
case $1 in -version) echo 'openjdk version "21.0.1"' >&2 ;; *) echo "${SPARK_HOME-hidden}" "$@" ;; esac
"""


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the launcher of a `java` that prints SPARK_HOME and its arguments."""
    jvm = tmp_path / "jdk" / "bin" / "java"
    jvm.parent.mkdir(parents=True)
    jvm.write_text(JVM)
    jvm.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return ensure_java()


def printed(java: str, home: Path | str, *arguments: str) -> str:
    environment = {**os.environ, "SPARK_HOME": str(home)}
    return subprocess.run([java, *arguments], env=environment, capture_output=True, text=True, check=True).stdout


def test_module_that_not_every_java_has_is_dropped(java: str) -> None:
    assert printed(java, "/spark", "--add-modules=jdk.incubator.vector", "-Xmx1g", "a b") == "/spark -Xmx1g a b\n"
    assert ensure_java() == java


@pytest.mark.parametrize(
    ("arguments", "is_hidden"),
    [
        ((*SUBMIT, "--master", "local[2]", "job.py"), True),
        ((*SUBMIT, "--conf", "spark.app.name=a b", "--conf", "spark.master=local[*]", "pyspark-shell"), True),
        ((*SUBMIT, "--master", "local-cluster[2,1,1024]", "job.py"), False),
        ((*SUBMIT, "--master", "spark://127.0.0.1:7077", "job.py", "local[2]"), False),
        (("org.apache.spark.launcher.Main", *SUBMIT[2:], "--master", "local[2]", "job.py"), False),
        (("org.apache.spark.deploy.master.Master",), False),
    ],
)
def test_workers_of_one_machine_import_the_installed_pyspark(
    java: str, arguments: tuple[str, ...], is_hidden: bool, tmp_path: Path
) -> None:
    """A JVM that knows an installed PySpark as SPARK_HOME gives its Python workers a zip file without bytecode."""
    installed = Path(pyspark.__file__).parent
    assert printed(java, installed, *arguments).startswith("hidden " if is_hidden else f"{installed} ")
    assert printed(java, tmp_path, *arguments).startswith(f"{tmp_path} "), "a Spark that was not installed by pip"
