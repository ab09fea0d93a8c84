"""The handle of a Spark driver process: starts it, sends it queries, detects that it was killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.support.faults import Faults
from tests.support.trials import environment


@dataclass(frozen=True)
class Outcome:
    """The result of a query; `died` if the whole driver was killed."""

    ok: bool
    error: str = ""
    died: bool = False

    def must_be_ok(self, context: object) -> None:
        """Raise an AssertionError with the error and the driver's log if the query failed."""
        assert self.ok, f"{context}: {'the driver died' if self.died else 'the query failed'}\n{self.error}"


class Driver:
    """A driver process with one Spark session; `master` has two threads by default."""

    def __init__(self, directory: Path, master: str = "local[2,4]") -> None:
        directory.mkdir()
        (directory / "faults").mkdir()
        self.faults = Faults(directory / "faults")
        self._log = directory / "driver.log"
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.reliability.spark_driver"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=directory,
                env=environment(RF_FAULTS=str(self.faults.directory), RF_MASTER=master),
                start_new_session=True,
            )
        self._ready = self._closed = False

    def run(self, **request: Any) -> Outcome:
        """Run one query to its end."""
        if not self._ready:
            assert self._answer() is not None, self.log_tail()
            self._ready = True
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        if answer is None:
            self._process.wait()
            return Outcome(False, self.log_tail(), died=True)
        return Outcome(answer["ok"], answer["error"])

    def _answer(self) -> dict[str, Any] | None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("RF "):
                answer: dict[str, Any] = json.loads(line[3:])
                return answer
        return None

    def log_tail(self) -> str:
        """Return the end of the driver's standard error."""
        return self._log.read_text("utf-8", "replace")[-3000:]

    def close(self) -> None:
        """End the process and all that it started (its process group); do nothing if that was done before."""
        if self._closed:
            return
        self._closed = True
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
