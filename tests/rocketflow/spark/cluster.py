"""A Spark standalone cluster on this machine: a master and two workers on loopback addresses of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark

from rocketflow.spark.session import prepare_environment
from tests.ports import free_port

_SPARK_CLASS: Final = Path(pyspark.__file__).parent / "bin" / "spark-class"
_WORKERS: Final = ("127.0.0.2", "127.0.0.3")
_START_SECONDS: Final = 60


def _started(log: Path, text: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while text not in log.read_text(errors="replace"):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{text!r} did not come: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)


@contextmanager
def standalone_cluster(directory: Path) -> Iterator[str]:
    """The master's URL; everything is stopped at the end."""
    prepare_environment()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_GATEWAY")}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_DAEMON_MEMORY": "256m"}
    running: list[subprocess.Popen[bytes]] = []

    def start(name: str, host: str, arguments: list[str]) -> tuple[subprocess.Popen[bytes], Path]:
        log = directory / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [str(_SPARK_CLASS), *arguments],
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**environment, "SPARK_LOCAL_IP": host, "SPARK_LOCAL_DIRS": str(directory / name)},
            )
        running.append(process)
        return process, log

    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    worker = "org.apache.spark.deploy.worker.Worker"
    try:
        process, log = start("master", "127.0.0.1", master)
        _started(log, "I have been elected leader", process)
        workers = []
        for host in _WORKERS:
            sizes = ["--cores", "1", "--memory", "700m", "--webui-port", "0", "--work-dir", str(directory / "work")]
            workers.append(start(f"worker-{host}", host, [worker, "--host", host, *sizes, url]))
        for process, log in workers:
            _started(log, "Successfully registered with master", process)
        yield url
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
