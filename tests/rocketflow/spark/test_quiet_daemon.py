"""Python workers print nothing if the JVM closes their socket, and print other errors."""

from __future__ import annotations

import subprocess
import sys

import pytest

_WORKER = """
import socket, sys, types

class WorkerModule(types.ModuleType):
    @staticmethod
    def main(infile, outfile):
        {body}

sys.argv = ["daemon", "pyspark_worker_of_a_test"]
sys.modules[sys.argv[1]] = WorkerModule(sys.argv[1])
{start}
end, jvm = socket.socketpair()
try:
    daemon.worker(end, True)
except BaseException:
    daemon.traceback.print_exc()
"""


_QUIET = "from rocketflow.spark.shared import quiet_daemon; from pyspark import daemon"
_SPARKS = """
import importlib.util
spec = importlib.util.find_spec("pyspark.daemon")
daemon = importlib.util.module_from_spec(spec)
spec.loader.exec_module(daemon)
sys.modules["__main__"] = daemon  # as `python -m pyspark.daemon` has it
import rocketflow.spark.data_source
"""


def errors_of(body: str, start: str = _QUIET) -> str:
    """Return what a worker with this `main` writes to stderr, in the quiet daemon or in the one that Spark starts."""
    script = _WORKER.format(body=body, start=start)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stderr


@pytest.mark.parametrize("start", [_QUIET, _SPARKS], ids=["quiet daemon", "Spark's daemon"])
@pytest.mark.parametrize(
    "body",
    [
        "outfile.write(b'x'); jvm.close()",
        "jvm.close(); outfile.write(b'x'); outfile.flush()",
        "jvm.close(); raise ConnectionResetError",
    ],
)
def test_worker_whose_jvm_closed_the_socket_prints_nothing(body: str, start: str) -> None:
    assert errors_of(body, start) == ""


def test_worker_with_another_error_prints_it() -> None:
    assert "ValueError: a defect" in errors_of("raise ValueError('a defect')")
