"""Layers between the engine and the disk, which see every system call of `rocketflow_store.files.disk`.

`Layer` is the base: it intercepts the calls of all threads of this process while its `with` block runs. Layers stack.
`Recording` keeps the calls, `Failing` makes calls fail, `simulated_disk.SimulatedDisk` knows the files that would
survive a power loss.
"""

from __future__ import annotations

import errno
import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rocketflow_store.files import disk

SYNCS = ("fdatasync", "fsync", "msync")
WRITES = ("write", "pwrite")
GROWS = ("posix_fallocate", "ftruncate", "write", "pwrite", "copy_file_range", "open_file", "rename", "link", "mkdir")
"""Calls that can find the disk full."""
NAMES = ("open_file", "rename", "link", "unlink", "mkdir", "rmdir")
READS = ("pread", "map_file", "populate", "populate_write")
CHANGES = (*SYNCS, *WRITES, "copy_file_range", "posix_fallocate", "ftruncate", *NAMES)
KINDS = tuple(sorted({*CHANGES, *READS, "close", "fstat", "statvfs", "lseek", "utime"}))


_MAPS: weakref.WeakKeyDictionary[Any, Path] = weakref.WeakKeyDictionary()
"""Files of the maps that were created under a layer."""


@dataclass(frozen=True)
class Call:
    """One system call: its kind, its file (None if it has none), its arguments."""

    kind: str
    path: Path | None
    args: tuple[Any, ...]

    def creates(self) -> bool:
        """Return True if the call opens a file that may be new."""
        return self.kind == "open_file" and bool(self.args[1] & os.O_CREAT)


class Layer:
    """Passes every call on; subclasses override `around`."""

    def __init__(self) -> None:
        self._below: dict[str, Any] = {}

    def around(self, call: Call, do: Callable[[], Any]) -> Any:
        """Make the call by `do()`, or do something else instead."""
        return do()

    def __enter__(self) -> Self:
        for kind in KINDS:
            self._below[kind] = getattr(disk, kind)
            setattr(disk, kind, self._wrapped(kind, self._below[kind]))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, below in self._below.items():
            setattr(disk, name, below)

    def _wrapped(self, kind: str, below: Any) -> Any:
        def wrapped(*args: Any, **more: Any) -> Any:
            call = Call(kind, self._path_of(kind, args), args)
            result = self.around(call, lambda: below(*args, **more))
            if kind == "map_file" and call.path is not None:
                _MAPS[result] = call.path
            return result

        return wrapped

    def _path_of(self, kind: str, args: tuple[Any, ...]) -> Path | None:
        first = args[1] if kind == "copy_file_range" else args[0]
        if kind in ("msync", "populate", "populate_write"):
            return _MAPS.get(first)
        if isinstance(first, int):
            try:
                return Path(os.readlink(f"/proc/self/fd/{first}").removesuffix(" (deleted)"))
            except OSError:
                return None
        return Path(os.fspath(first))


class Recording(Layer):
    """Keeps the calls of some kinds for which `where` returns True, in order."""

    def __init__(self, kinds: tuple[str, ...] = CHANGES, *, where: Callable[[Call], bool] = lambda _: True) -> None:
        super().__init__()
        self._kinds, self._where = kinds, where
        self.calls: list[Call] = []

    def around(self, call: Call, do: Callable[[], Any]) -> Any:
        if call.kind in self._kinds and self._where(call):
            self.calls.append(call)
        return do()


class Failing(Layer):
    """Makes the `nth` call (from 1) of some kinds fail with an error number; with `on` also every later one.

    Only calls for which `where` returns True count. A `short` write first writes half of its bytes and fails when it is
    asked for the rest. `error` may be an exception (a MemoryError, say) instead of an error number.
    """

    def __init__(
        self,
        kinds: tuple[str, ...],
        nth: int,
        error: int | BaseException = errno.EIO,
        *,
        on: bool = False,
        short: bool = False,
        where: Callable[[Call], bool] = lambda _: True,
    ) -> None:
        super().__init__()
        self._kinds, self._nth, self._error = kinds, nth, error
        self._on, self._short, self._where = on, short, where
        self._lock = threading.Lock()
        self.seen = 0
        """Calls that counted."""
        self.hits: list[Call] = []
        """Calls that failed."""
        self._lifted = False

    def lift(self) -> None:
        """Let all further calls succeed."""
        self._lifted = True

    def around(self, call: Call, do: Callable[[], Any]) -> Any:
        if call.kind in self._kinds and not self._lifted and self._where(call):
            with self._lock:
                self.seen += 1
                fails = self.seen >= self._nth if self._on else self.seen == self._nth
                if fails:
                    self.hits.append(call)
            if fails:
                if self._short and call.kind in WRITES and len(call.args[1]) > 1:
                    fd, data, *rest = call.args
                    self._nth = self.seen + 1
                    return self._below[call.kind](fd, memoryview(data)[: len(data) // 2], *rest)
                raise self._error if isinstance(self._error, BaseException) else _os_error(self._error, call.path)
        return do()


def _os_error(number: int, path: Path | None) -> OSError:
    return OSError(number, os.strerror(number), None if path is None else str(path))


class Interrupting(Layer):
    """Raises KeyboardInterrupt after the `nth` changing call (from 1) of the creating thread, as a signal does."""

    def __init__(self, nth: int) -> None:
        super().__init__()
        self._nth, self._thread = nth, threading.get_ident()
        self.seen = 0

    @property
    def hit(self) -> bool:
        return self.seen >= self._nth

    def around(self, call: Call, do: Callable[[], Any]) -> Any:
        result = do()
        if call.kind in CHANGES and call.kind != "open_file" and threading.get_ident() == self._thread:
            self.seen += 1
            if self.seen == self._nth:
                raise KeyboardInterrupt
        return result
