"""The bound on descriptors: files that are opened on demand share a part of the process's limit (RLIMIT_NOFILE).

A store may have more queue files than a process may have descriptors. A file whose descriptor was closed is opened
again by the next access. The files that were not accessed lately are closed first, many at a time. Written files are
synced before: an error of the disk is certain to be reported only to a descriptor that was open at the write.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import resource
import threading
import weakref
from typing import TYPE_CHECKING, Final, Protocol

from rocketflow_store.files import disk
from rocketflow_store.files.sync_together import sync_together
from rocketflow_store.model.errors import DescriptorLimitError

if TYPE_CHECKING:
    from collections.abc import Callable

_SHARE: Final = 2
"""The part of the limit that these files may have is one in this number; the rest is for connections and others."""
_FREE_SHARE: Final = 8
_MOST_FREE: Final = 64
_AT_ONCE: Final = 8
"""One of this number of open files is closed at a time."""
_INFINITE: Final = 1 << 31
"""Stands for RLIM_INFINITY, which is -1."""

LIMIT: Final = functools.partial(resource.getrlimit, resource.RLIMIT_NOFILE)
"""Return the limit of this process, which can change, and the highest that it may set."""

NONE_FREE: Final = (errno.EMFILE, errno.ENFILE)


class OnDemand(Protocol):
    """A file that can be opened again."""

    def yield_descriptor(self) -> bool:
        """Close the descriptor; return False if there is none, or if writes are not synced."""
        ...

    def was_used(self) -> bool:
        """Return True if the file was accessed since the last call."""
        ...

    def sync_written(self) -> None:
        """Make writes durable; an error is kept for the writer, which gets it from its next sync."""
        ...


class OpenFiles:
    """The open files of this process, in the order in which they are closed."""

    def __init__(self) -> None:
        self._files: dict[int, weakref.ref[OnDemand]] = {}
        self._lock = threading.RLock()
        os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._files)

    def open(self, path: str, file: OnDemand, *, write: bool, if_room: bool = False) -> int:
        """Open a file and return the number for its `Descriptor`; others are closed if there are too many.

        With `if_room` no other is closed: the file stays closed then, and -1 is returned. Raises OSError as the system
        does.
        """
        limit = LIMIT()[0] % _INFINITE
        if len(self._files) >= limit // _SHARE:
            if if_room:
                return -1
            self._close_some()
        flags = (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC
        try:
            fd = disk.open_file(path, flags)
        except OSError as error:
            if error.errno not in NONE_FREE:
                raise
            fd = self.open_other(path, flags)
        self._files[fd] = weakref.ref(file)
        if fd >= limit - min(limit // _FREE_SHARE, _MOST_FREE):
            self._close_some()
        return fd

    def open_other(self, path: object, flags: int, mode: int = 0o777) -> int:
        """Open what is not opened on demand, and close files for it if no descriptor is free."""
        while True:
            try:
                return disk.open_file(path, flags, mode)  # type: ignore[arg-type]
            except OSError as error:
                if error.errno not in NONE_FREE or not self._close_some():
                    raise

    def check_new(self, name: str) -> None:
        """Raise DescriptorLimitError if `name`, which needs new files, is not to be created.

        If others have taken almost all descriptors, the last are for the files that exist.
        """
        first = _first_kept()
        if next_descriptor() < first:
            return
        others = self._others()
        if others is None and self._close_some():
            others = self._others()
        if others is None or others > first:
            raise DescriptorLimitError(name, LIMIT()[0] % _INFINITE)
        self._close_some()

    def _others(self) -> int | None:
        """Return the number of descriptors that do not belong to these files, None if none is free for the count."""
        try:
            return disk.open_descriptors() - len(self._files)
        except OSError as error:
            if error.errno not in NONE_FREE:
                raise
            return None

    def keep_free(self) -> None:
        """Close files if few descriptors are free."""
        if next_descriptor() >= _first_kept():
            self._close_some()

    def closed(self, fd: int) -> None:
        """Forget a descriptor, which is about to be closed. Any thread, at any time."""
        self._files.pop(fd, None)

    def _close_some(self) -> int:
        """Close a part of the files, those that were not used lately first; return their number."""
        with self._lock:
            before = len(self._files)
            wanted = before // _AT_ONCE + 1
            self._close(wanted, lambda file: not file.was_used())
            if before - len(self._files) < wanted:
                self._close(wanted, lambda _: True)
            if before - len(self._files) < wanted:
                self._sync_oldest(2 * wanted)
                self._close(wanted, lambda _: True)
            return max(before - len(self._files), 0)

    def _close(self, wanted: int, may_go: Callable[[OnDemand], bool]) -> None:
        for fd, reference in list(self._files.items()):
            file = reference()
            if file is None:
                continue
            if not may_go(file):
                with contextlib.suppress(KeyError):  # closed meanwhile
                    self._files[fd] = self._files.pop(fd)
            elif file.yield_descriptor():
                wanted -= 1
                if wanted == 0:
                    return

    def _sync_oldest(self, count: int) -> None:
        oldest = (reference() for reference in list(self._files.values())[:count])
        sync_together([file.sync_written for file in oldest if file is not None])


class Descriptor:
    """A file descriptor that is closed when nothing refers to it any more.

    A reader keeps a reference for the time of its call: a number that was closed meanwhile may already belong to
    another file.
    """

    __slots__ = ("fd", "used")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.used = False
        """True if the file was accessed since its turn to be closed, or since it was opened for an access."""

    def __del__(self) -> None:
        if self.fd >= 0:
            OPEN_FILES.closed(self.fd)
            disk.close(self.fd)


OPEN_FILES: Final = OpenFiles()


def _first_kept() -> int:
    """Return the first of the highest descriptors, which files on demand leave free for others."""
    limit = LIMIT()[0] % _INFINITE
    return limit - min(limit // _FREE_SHARE, _MOST_FREE)


def next_descriptor() -> int:
    """Return the number that the next descriptor gets, the lowest that is free; the limit if none is."""
    try:
        fd = disk.eventfd(0, os.EFD_CLOEXEC)
    except OSError:
        return LIMIT()[0] % _INFINITE
    disk.close(fd)
    return fd
