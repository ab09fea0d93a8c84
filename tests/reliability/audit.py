"""Operations that the engine must never do while it parses untrusted bytes, detected by Python's audit hook.

    with audited(store) as seen:
        ... parse anything ...
    assert not seen

The hook reports code that is executed, imported from data or unpickled, connections and processes that are started, and
files outside `root` that are opened for writing, created, renamed or removed.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FORBIDDEN = (
    "pickle.find_class",
    "marshal.loads",
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.fork",
    "ctypes.dlopen",
    "ctypes.dlsym",
    "socket.connect",
    "socket.bind",
    "socket.getaddrinfo",
    "shutil.rmtree",
    "webbrowser.open",
)
_PATHS = {
    "os.mkdir": 1,
    "os.rename": 2,
    "os.remove": 1,
    "os.rmdir": 1,
    "os.link": 2,
    "os.symlink": 2,
    "os.truncate": 1,
    "os.chmod": 1,
    "os.utime": 1,
}
_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_watching: list[_Watch] = []
_installed = False


class _Watch:
    def __init__(self, root: Path, thread: int) -> None:
        self.root, self.thread = os.path.realpath(root), thread
        self.seen: list[str] = []

    def look(self, event: str, args: tuple[Any, ...]) -> None:
        if event in FORBIDDEN:
            self.seen.append(f"{event} {args!r}"[:200])
        elif event in ("exec", "compile"):
            code = args[0] if event == "exec" else args[1]
            name = getattr(code, "co_filename", code)
            if not (isinstance(name, str) and name.startswith(("/", "<frozen"))):
                self.seen.append(f"{event} {name!r}"[:200])
        elif event == "open":
            path, _, flags = args
            if isinstance(flags, int) and flags & _WRITE and not self._is_inside(path):
                self.seen.append(f"open {path!r} to write")
        elif event in _PATHS:
            for path in args[: _PATHS[event]]:
                if not self._is_inside(path):
                    self.seen.append(f"{event} {path!r}")

    def _is_inside(self, path: Any) -> bool:
        if isinstance(path, int):
            return True
        real = os.path.realpath(os.fsdecode(path))
        return real == self.root or real.startswith(self.root + os.sep)


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _watching and (event in FORBIDDEN or event in _PATHS or event in ("open", "exec", "compile")):
        for watch in _watching:
            if watch.thread in (0, threading.get_ident()):
                watch.look(event, args)


@contextmanager
def audited(root: Path, *, all_threads: bool = False) -> Iterator[list[str]]:
    """Collect the forbidden operations of this thread (or of all threads) as texts; none is the correct result."""
    global _installed
    if not _installed:
        sys.addaudithook(_hook)  # for the life of the process: an audit hook cannot be removed
        _installed = True
    watch = _Watch(root, 0 if all_threads else threading.get_ident())
    _watching.append(watch)
    try:
        yield watch.seen
    finally:
        _watching.remove(watch)
