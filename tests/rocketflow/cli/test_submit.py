"""`rocketflow submit` for users: its help, its output, and the state after a stop or a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rocketflow.cli.app import run
from rocketflow.spark.session import local_settings
from rocketflow_store import Message, MessageStore, StoreReader
from tests.support.output_fields import check_fields
from tests.support.trials import COMMAND_LINE, LEVEL, environment, processes_marked

JOBS = ["kafka_bridge", "quality", "rebuild_index", "requeue", "stream"]


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_submit_help_lists_the_jobs(capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert run(["submit", option]) == 0
    assert f"Jobs: {', '.join(JOBS)}" in capsys.readouterr().out


@pytest.mark.parametrize("job", JOBS)
def test_help_of_a_job_names_a_command_that_exists(capsys: pytest.CaptureFixture[str], job: str) -> None:
    assert run(["submit", job, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: rocketflow submit {job} ")
    assert f"rocketflow submit {job} --" in out.partition("example")[2]


class Submitted:
    """A submitted stream job with all of its processes."""

    def __init__(self, home: Path, *more: str) -> None:
        self.log, self._mark = home / "log", f"RF_SUBMIT={home}"
        arguments = ["--source", str(home / "s"), "--subscribe", "t", "--sink", str(home / "s"), "--topic", "u"]
        arguments += ["--checkpoint", str(home / "checkpoint")]
        with self.log.open("a") as log:
            log.write("first line\n")
            log.flush()
            self.process = subprocess.Popen(
                [sys.executable, "-c", COMMAND_LINE, "submit", "stream", *arguments, *more],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment(RF_SUBMIT=str(home)),
            )

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + 180
        while text not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)

    def members(self) -> list[str]:
        """Return the command lines of its running processes."""
        return [one for one in processes_marked(self._mark) if one]

    def wait_until_ended(self) -> None:
        deadline = time.monotonic() + 30
        while self.members():
            assert time.monotonic() < deadline, self.members()
            time.sleep(0.1)


def _store(home: Path) -> None:
    with MessageStore.open(home / "s") as store:
        store.create_topic("t", 2)
        store.put_messages([Message("t", b"%d" % number) for number in range(20)])


def _bodies(home: Path) -> list[Any]:
    with StoreReader(home / "s") as reader:
        return sorted(
            body
            for queue in reader.queues("u")
            for batch in reader.read("u", queue, *reader.bounds("u", queue), columns=["body"])
            for body in batch.column("body").to_pylist()
        )


@pytest.mark.skipif(LEVEL == "sample", reason="two minutes of Spark: RF_FAULTS=1 runs it")
@pytest.mark.spark
@pytest.mark.slow
def test_killed_submit_ends_its_processes_and_the_next_run_continues(tmp_path: Path) -> None:
    _store(tmp_path)
    killed = Submitted(tmp_path, "--trigger", "30 seconds")
    killed.wait_for("batch 0: 20 rows")
    killed.process.send_signal(signal.SIGKILL)
    assert killed.process.wait(30) == -signal.SIGKILL
    killed.wait_until_ended()
    with MessageStore.open(tmp_path / "s") as store:  # no process holds the lock
        store.put_message(Message("t", b"new"))
    stopped = Submitted(tmp_path, "--trigger", "30 seconds")
    stopped.wait_for(": 1 rows")
    stopped.process.send_signal(signal.SIGINT)
    assert stopped.process.wait(30) == 130
    assert stopped.members() == []
    assert _bodies(tmp_path) == sorted([*(b"%d" % number for number in range(20)), b"new"])
    begun = ["first line", "starting Spark", "stream of t: waiting for the first batch"]
    lines = stopped.log.read_text().splitlines()
    assert lines[:4] == [*begun, "batch 0: 20 rows, 20 in all"]
    assert lines[-5:] == [  # (Spark's daemon may still print a line about the killed run)
        *begun,
        "batch 1: 1 rows, 1 in all",
        "error: stopped by SIGINT; nothing was left half done",
    ]


@pytest.mark.skipif(LEVEL == "sample", reason="test_starter.py submits a job too: RF_FAULTS=1 runs it")
@pytest.mark.spark
@pytest.mark.slow
def test_completed_run_prints_only_its_progress_and_result(tmp_path: Path) -> None:
    _store(tmp_path)
    flags = local_settings(fast_start=LEVEL == "sample")["spark.driver.extraJavaOptions"]
    done = Submitted(tmp_path, "--", "--conf", f"spark.driver.extraJavaOptions={flags}")
    assert done.process.wait(180) == 0
    *lines, result = done.log.read_text().splitlines()
    assert lines == [
        *("first line", "starting Spark", "stream of t: waiting for the first batch"),
        "batch 0: 20 rows, 20 in all",
    ]
    assert json.loads(result)["rows"] == 20
    check_fields("submit stream", json.loads(result))
    assert os.path.exists(tmp_path / "checkpoint")
