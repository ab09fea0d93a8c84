"""A Spark standalone cluster of two workers on this machine, started by the commands of rocketflow/spark/README.md."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import rocketflow.spark
from rocketflow.spark.session import prepare_environment
from tests.support.ports import free_port
from tests.support.processes import end

_README: Final = Path(rocketflow.spark.__file__).with_name("README.md")
_START_SECONDS: Final = 60
FAST_START: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
"""Options for short-lived JVMs: quick compilation, simple garbage collection."""


def _documented() -> tuple[str, list[str]]:
    """Return the README's lines that set variables, and its commands that start the cluster, the master's first."""
    chapter = _README.read_text("utf-8").split("## A cluster of one machine", 1)[1]
    lines = chapter.split("```sh\n", 1)[1].split("```", 1)[0].splitlines()
    commands = [line.removesuffix(" &") for line in lines if line.endswith(" &")]
    return "\n".join(line for line in lines if not line.endswith(" &")), commands


def _started(log: Path, text: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while text not in log.read_text(errors="replace"):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{log} does not contain {text!r}: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)


@contextmanager
def standalone_cluster(directory: Path) -> Iterator[str]:
    """Start a cluster by the README's commands, on a free port and in `directory`; yield the master's URL."""
    prepare_environment()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_GATEWAY")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    environment |= {"PATH": path, "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_DIRS": str(directory / "local")}
    environment |= {"SPARK_DAEMON_JAVA_OPTS": FAST_START}
    running: list[subprocess.Popen[bytes]] = []
    variables, (master, *workers) = _documented()
    port = str(free_port())
    variables = variables.replace("7077", port).replace("/tmp/spark-work", str(directory / "work"))

    def start(name: str, command: str) -> tuple[subprocess.Popen[bytes], Path]:
        log = directory / f"{name}.log"
        script = f"{variables}\nexec env {command} --webui-port 0"
        with log.open("wb") as out:
            process = subprocess.Popen(["bash", "-c", script], stdout=out, stderr=subprocess.STDOUT, env=environment)
        running.append(process)
        return process, log

    try:
        process, log = start("master", master)
        _started(log, "I have been elected leader", process)
        begun = [start(f"worker-{number}", command) for number, command in enumerate(workers)]
        for process, log in begun:
            _started(log, "Successfully registered with master", process)
        yield f"spark://127.0.0.1:{port}"
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            end(process, 15)
