"""The settings of RocketFlow's sessions on unusual machines."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest

from rocketflow.spark import register
from rocketflow.spark.session import stream_settings
from rocketflow.spark.shared.worker_python import WorkerPythonError
from rocketflow_store import Message, MessageStore
from tests.support.trials import LEVEL, environment

COUNT = """
import json
from rocketflow.spark.session import build_session
spark = build_session("test", "local[1]", fast_start=True)
print(json.dumps({"rows": spark.read.format("rocketflow").options(path=PATH, subscribe="t").load().count()}))
"""


def test_unix_sockets_are_off_if_the_temporary_directory_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    for length in range(40, 90):
        directory = Path("/tmp") / ("x" * (length - 5))
        monkeypatch.setattr("tempfile.tempdir", str(directory))
        directory.mkdir()
        try:
            with socket.socket(socket.AF_UNIX) as one:
                one.bind(str(directory / f".{uuid.uuid4()}.sock"))
            fits = True
        except OSError:
            fits = False
        finally:
            for left in directory.iterdir():
                left.unlink()
            directory.rmdir()
        assert ("spark.python.unix.domain.socket.enabled" in stream_settings()) == fits, length


@pytest.mark.skipif(LEVEL == "sample", reason="a Spark of its own: RF_FULL=1 runs it")
def test_a_session_with_a_long_temporary_directory(tmp_path: Path) -> None:
    """With Spark's default setting the first Python worker would raise OSError."""
    directory = tmp_path / ("long" * 20)
    directory.mkdir()
    with MessageStore.open(tmp_path / "s") as store:
        store.put_messages(Message("t", b"x") for _ in range(7))
    code = COUNT.replace("PATH", repr(str(tmp_path / "s")))
    env = environment(TMPDIR=str(directory), JAVA_TOOL_OPTIONS=f"-Djava.io.tmpdir={directory}")
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"rows": 7}
    logged = re.compile(r"\S+ \S+ (INFO|WARN) |Setting default log level|.*log4j")
    assert [line for line in done.stderr.splitlines() if logged.match(line)] == [], "Spark logs errors only"


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """Return an interpreter that has only the standard library."""
    script = tmp_path / "bare-python"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    script.chmod(0o755)
    return script


def test_register_refuses_workers_that_lack_rocketflow(bare_python: Path) -> None:
    for command, found in ((str(bare_python), bare_python), ("no-such-python", "not found")):
        session = SimpleNamespace(sparkContext=SimpleNamespace(pythonExec=command), dataSource=None)
        with pytest.raises(WorkerPythonError, match="cannot import rocketflow") as raised:
            register(session)  # type: ignore[arg-type]
        assert f"({found})" in str(raised.value)
        assert f"PYSPARK_PYTHON={sys.executable}" in str(raised.value)


@pytest.mark.skipif(LEVEL != "full", reason="a Spark of its own: RF_FULL=1 runs it")
def test_a_plain_session_whose_workers_lack_rocketflow(bare_python: Path) -> None:
    code = """
from pyspark.sql import SparkSession
from rocketflow.spark import register
register(SparkSession.builder.master("local[1]").getOrCreate())
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(PYSPARK_PYTHON=str(bare_python)),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode != 0
    assert "WorkerPythonError: Spark's Python workers run" in done.stderr.splitlines()[-1]
