"""The process that listens at a port, as Linux's /proc shows it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rocketflow.process.printable import printable

_PROC: Final = Path("/proc")
_LISTENS: Final = "0A"
"""State of a listening socket in /proc/net/tcp."""

_SHOWN: Final = 100


def port_holder(port: int) -> str:
    """Return who listens at a port as a text, "" if no process does or the system has no /proc.

    Processes of other users have their open files hidden: they cannot be named.
    """
    inodes = set(_listeners(port))
    if not inodes:
        return ""
    pid = next(_processes_with({f"socket:[{one}]" for one in inodes}), None)
    if pid is None:
        return f"a process of another user listens at port {port}"
    return f"process {pid} ({_command(pid)}) listens at port {port}"


def _listeners(port: int) -> Iterator[str]:
    """Yield the inodes of the sockets that listen at a port."""
    for name in ("tcp", "tcp6"):
        for line in _read(_PROC / "net" / name).splitlines()[1:]:
            words = line.split()
            if len(words) > 9 and words[3] == _LISTENS and int(words[1].rpartition(":")[2], 16) == port:
                yield words[9]


def _processes_with(links: set[str]) -> Iterator[int]:
    """Yield the other processes that have one of these files open."""
    for directory in _PROC.glob("[0-9]*/fd"):
        pid = int(directory.parent.name)
        if pid == os.getpid():
            continue
        try:
            if any(os.readlink(one) in links for one in directory.iterdir()):
                yield pid
        except OSError:  # it has ended, or another user runs it
            continue


def _command(pid: int) -> str:
    text = " ".join(_read(_PROC / str(pid) / "cmdline").rstrip("\0").split("\0"))
    text = printable(" ".join(text.split()))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
