"""One server as a process; it ends with the process that started it, however that ends."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Final

from rocketflow.testing.errors import ServerStartError

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 0.01
_SHOWN: Final = 3000
_PROGRAM: Final = """
import sys
sys.path[:] = {path!r}
from rocketflow.process.parent_pipe import stop_with_parent
stop_with_parent()
from {entry} import main
main()
"""


def set_options(settings: Iterable[str]) -> list[str]:
    """Return the options that give a server settings, `KEY=VALUE` each."""
    return [word for one in settings for word in ("--set", one)]


class ServerProcess:
    """A server of `rocketflow COMMAND` at a port of 127.0.0.1. `log` has what it prints, of all starts."""

    entry: ClassVar[str] = "rocketflow.testing.server_main"
    """The module whose `main` runs the command line."""

    def __init__(
        self, command: str, log: Path, port: int, arguments: Sequence[str] = (), *, prefix: Sequence[str] = ()
    ) -> None:
        """Start nothing yet. `prefix` are words before the command, for example of a shell that ends with `exec`."""
        self.command = command
        self.log = log
        self.port = port
        python = (sys.executable, "-c", _PROGRAM.format(path=sys.path, entry=self.entry))
        self._words = [*prefix, *python, command, *set_options([f"listenPort={port}"]), *arguments]
        self._process: subprocess.Popen[bytes] | None = None
        self._begin = 0

    @property
    def address(self) -> str:
        """Return `host:port`."""
        return f"127.0.0.1:{self.port}"

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """Return the process of the last start. Raises ServerStartError before the first."""
        if self._process is None:
            raise ServerStartError(f"rocketflow {self.command} is not started")
        return self._process

    @property
    def was_started(self) -> bool:
        """Return whether `process` exists."""
        return self._process is not None

    def start(self) -> None:
        """Start the process, and do not wait until it serves."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self._begin = output.tell()
            self._process = subprocess.Popen(
                self._words, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )

    def wait_until_ready(self) -> None:
        """Wait until the server serves. Raises ServerStartError if it ends, or after START_SECONDS."""
        latest = time.monotonic() + START_SECONDS
        while b"listens at" not in self._printed():
            code = self.process.poll()
            if code is not None:
                raise ServerStartError(f"rocketflow {self.command} ended with {code}: {self._end_of_log()}", code)
            if time.monotonic() > latest:
                raise ServerStartError(
                    f"rocketflow {self.command} does not serve after {START_SECONDS:g} s: {self._end_of_log()}"
                )
            time.sleep(_POLL_SECONDS)

    def stop(self) -> int:
        """Stop the server by SIGTERM, by SIGKILL after STOP_SECONDS; return its exit code, of an earlier end too."""
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
        return self._ended()

    def kill(self) -> None:
        """Stop the server by SIGKILL."""
        self.process.kill()
        self._ended()

    def _ended(self) -> int:
        code = self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()
        return code

    def _printed(self) -> bytes:
        with self.log.open("rb") as log:
            log.seek(self._begin)
            return log.read()

    def _end_of_log(self) -> str:
        return self._printed().decode("utf-8", "replace")[-_SHOWN:].strip()
