"""Readiness of servers: reported to the process that started them (sd_notify), and waited for by `--wait`."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from rocketflow.environment import NOTIFY_SOCKET
from rocketflow.errors import RocketFlowError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_READY: Final = "READY=1"
_STATUS: Final = "STATUS="
_LOOK_SECONDS: Final = 0.1
_MOST: Final = 4096


def say_ready(status: str) -> None:
    """Report that this process serves, and where, at the socket that systemd names in NOTIFY_SOCKET, if it does."""
    address = NOTIFY_SOCKET.text()
    if not address:
        return
    text = f"{_READY}\n{_STATUS}{status}\nMAINPID={os.getpid()}"
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
        to.connect(_as_bound(address))
        to.sendall(text.encode())


class NotReadyError(RocketFlowError):
    """A server ended, with `code`, before it was ready."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the server ended with {code}")
        self.code = code


def start_and_wait(words: Sequence[str], log: Path) -> tuple[int, str]:
    """Start a command of rocketflow in the background and wait until it is ready; return its process id and status.

    It has no terminal, and a session of its own; what it prints is appended to `log`. It is stopped if the wait ends
    otherwise. Raises NotReadyError if it ends before, and OSError for the log.
    """
    address = f"@rocketflow-{secrets.token_hex(16)}"  # abstract: no file remains
    log.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, log.open("ab") as output:
        ready.bind(_as_bound(address))
        ready.settimeout(_LOOK_SECONDS)
        process = subprocess.Popen(
            [sys.executable, "-m", "rocketflow", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, NOTIFY_SOCKET.key: address},
        )
        try:
            return process.pid, _wait(process, ready)
        except BaseException:
            process.terminate()
            raise


def _wait(process: subprocess.Popen[bytes], ready: socket.socket) -> str:
    """Return the status of a process that is ready. Raises NotReadyError."""
    while True:
        with contextlib.suppress(TimeoutError):
            lines = ready.recv(_MOST).decode("utf-8", "replace").splitlines()
            if _READY in lines:
                return next((one.removeprefix(_STATUS) for one in lines if one.startswith(_STATUS)), "")
        code = process.poll()
        if code is not None:
            raise NotReadyError(code)


def _as_bound(address: str) -> str:
    """Return the address of a socket as the kernel takes it: one that begins with @ is abstract."""
    return f"\0{address[1:]}" if address.startswith("@") else address
