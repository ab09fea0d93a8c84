"""One fixed-size file of a store: written with pwrite, or by the compiled kernel through a window on a part of it.

It is read through a read-only map of the same pages.

The name is the offset of the first byte, decimal, 20 digits. The size of the file does not show how much was written:
files are preallocated, write positions come from scanning.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.files import os_files
from rocketflow_store.files.mapped.file_map import FileMap
from rocketflow_store.files.open_files import OPEN_FILES, Descriptor
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.errors import StoreAccessError, StoreFencedError, StoreMovedError, UnreadableError

if TYPE_CHECKING:
    import pyarrow as pa


PAGE_BYTES: Final = 4096
"""The unit of reading: the system reads a page completely or not at all."""
_INODE_BITS: Final = 64
_AHEAD: Final = 1 << 16
"""A hold populates at least this many bytes at a time: as many as the system maps around an accessed page."""


def file_name(file_from_offset: int) -> str:
    """Return the name of the file whose first byte has this offset."""
    return f"{file_from_offset:020d}"


class MappedFile:
    """A file of `file_size` bytes that begins at `file_from_offset`.

    A user of its bytes beyond a call takes a `hold`. A file to be deleted is retired first: it gets no new holds, and
    is deleted once it has none, or after a while anyway. Running readers can still read its bytes: map and descriptor
    are closed when the last of them ends, even if the file was deleted or closed meanwhile.

    `OPEN_FILES` may close the descriptor at any time, unless writes are not synced; the next access opens the same file
    again. If its name belongs to another file by then, or to none, it is treated as closed.
    """

    __slots__ = (
        "__weakref__",
        "_descriptor",
        "_direct",
        "_directory",
        "_failure",
        "_file_map",
        "_holds",
        "_identity",
        "_is_closed",
        "_lock",
        "_path",
        "_retired_ms",
        "_seen",
        "_synced",
        "_window",
        "_write",
        "_written",
        "file_from_offset",
        "file_size",
        "name",
    )

    def __init__(self, path: str | Path, file_from_offset: int, *, write: bool) -> None:
        self.name = os.fspath(path)
        self._path: Path | None = None
        self.file_from_offset = file_from_offset
        self._write, self._is_closed = write, False
        self._written, self._synced = 0, -1
        """Number of writes of this process, and how many of them are synced; -1 before the first sync."""
        self._failure: StoreFencedError | None = None
        """The error of a sync: the success of a second one would prove nothing."""
        self._descriptor: Descriptor | None = None
        self._direct: Descriptor | None = None
        self._file_map: FileMap | None = None
        self._holds: weakref.WeakSet[FileHold] | None = None
        self._window: Any = None
        self._retired_ms = -1
        self._directory = ""
        self._seen: tuple[int, int, int] | None = None
        self._lock = threading.Lock()
        try:
            fd = OPEN_FILES.open(self.name, self, write=write, if_room=True)
        except OSError as error:
            raise os_files.access_error(self.name, error) from error
        if fd >= 0:
            self._descriptor = Descriptor(fd)
        status = os_files.status_of(self.name) if fd < 0 else os_files.status(fd)
        self.file_size = status.st_size
        self._identity = _identity_of(status)

    @classmethod
    def create(cls, path: Path, file_from_offset: int, file_size: int) -> MappedFile:
        """Create a file of zeros without blocks."""
        fd = os_files.open_file(path, write=True, create=True)
        try:
            os_files.make_sparse(fd, path, file_size)
        finally:
            os_files.close_file(fd)
        return cls(path, file_from_offset, write=True)

    def _opened(self) -> Descriptor:
        """Return the descriptor, of which the caller keeps a reference while it uses it; reopen the file if need be.

        Raises StoreAccessError if the file is closed, or no longer has its name.
        """
        found = self._descriptor
        if found is not None:
            found.used = True
            return found
        found = self._reopened()
        if found is None:
            raise StoreAccessError(self.name, "was removed, or another file took its place, while it was used")
        return found

    def _reopened(self) -> Descriptor | None:
        """Open the file again; return None if it is closed, or no longer has its name."""
        with self._lock:
            if self._descriptor is None and not self._is_closed:
                try:
                    descriptor = Descriptor(OPEN_FILES.open(self.name, self, write=self._write))
                except (FileNotFoundError, NotADirectoryError):
                    return None
                except OSError as error:
                    raise os_files.access_error(self.name, error) from error
                if _identity_of(os_files.status(descriptor.fd)) == self._identity:
                    self._descriptor = descriptor
            return self._descriptor

    @property
    def path(self) -> Path:
        """The file's name with its directory."""
        found = self._path
        if found is None:
            found = self._path = Path(self.name)
        return found

    @property
    def end_offset(self) -> int:
        """Offset after the last byte of the file."""
        return self.file_from_offset + self.file_size

    @property
    def buffer(self) -> pa.Buffer:
        """The file as a read-only map; it shows later writes, and lives as long as something views it.

        Only populated parts may be accessed: a page that the disk cannot read ends the process.
        """
        return self._map().buffer

    def _map(self) -> FileMap:
        return self._file_map or self._mapped_by(self._opened())

    def opened_map(self) -> FileMap | None:
        """Return the file's map, valid while the caller keeps it; None if the file is closed or lost its name.

        Raises StoreAccessError if it cannot be mapped.
        """
        known = self._file_map
        if known is not None:
            return known
        descriptor = self._descriptor or self._reopened()
        return None if descriptor is None else self._mapped_by(descriptor)

    def _mapped_by(self, descriptor: Descriptor) -> FileMap:
        OPEN_FILES.keep_free()  # a map has a descriptor of its own
        try:
            made = self._file_map = FileMap(descriptor, self.name, self.file_size)
        except (OSError, ValueError) as error:
            raise StoreAccessError(self.name, f"cannot be mapped: {error}") from error
        return made

    def populate(self, start: int, stop: int) -> pa.Buffer:
        """Return `buffer` with the part of [start, stop) that is in the file readable; else raise UnreadableError."""
        known = self._map()
        known.populate(start, stop)
        return known.buffer

    def bytes_of(self, start: int, stop: int) -> pa.Buffer:
        """Return [start, stop) of `buffer`, readable; else raise UnreadableError."""
        return self.populate(start, stop).slice(start, stop - start)

    def write(self, position: int, data: bytes | bytearray | memoryview | pa.Buffer) -> None:
        """Write `data` (octets) at `position` of the file."""
        assert self._write
        assert 0 <= position <= self.file_size - len(data)
        descriptor = self._opened()
        os_files.write_at(descriptor.fd, self.name, position, data)
        self._written += 1  # after the write: a sync that begins meanwhile includes it, or leaves it to the next

    def open_window(self, position: int, size: int) -> Any:
        """Let the kernel store to `size` bytes from `position` on (fewer at the end), instead of the window before.

        Return the window, None if the file cannot have one: `write` takes all bytes. The caller orders its stores as
        those of `write`, and a sync includes them. The window is closed before the descriptor is.
        """
        self.close_window()
        start = position - position % PAGE_BYTES
        OPEN_FILES.keep_free()  # a map has a descriptor of its own
        descriptor = self._opened()
        with self._lock:  # else `yield_descriptor` may take it
            if self._descriptor is not descriptor or COMPILED is None:
                return None
            memory = os_files.map_window(descriptor.fd, start, min(position + size, self.file_size) - start)
            if memory is not None:
                self._window = COMPILED.Window(memory, self.file_from_offset + start)
            return self._window

    def close_window(self) -> None:
        """Take the window from the kernel."""
        window, self._window = self._window, None
        if window is not None:
            window.close()
            self._written += 1  # perhaps since the last sync

    def write_direct(self, position: int, data: memoryview) -> None:
        """Write `data` (octets); whole blocks bypass the page cache if `data` is aligned in memory as in the file."""
        head = -position % os_files.BLOCK_BYTES
        blocks = data[head:]
        done = 0
        if len(blocks) >= os_files.BLOCK_BYTES:
            if self._direct is None:
                self._direct = Descriptor(os_files.open_direct(self.name))
            assert position + len(data) <= self.file_size
            direct = self._direct
            if direct.fd >= 0:
                done = os_files.write_direct(direct.fd, self.name, position + head, blocks)
                self._written += 1
        if done == 0:
            self.write(position, data)
            return
        if head:
            self.write(position, data[:head])
        if done < len(blocks):
            self.write(position + head + done, blocks[done:])

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position`, copied; fewer at the file's end."""
        descriptor = self._descriptor
        if descriptor is not None:
            descriptor.used = True
        else:
            descriptor = self._reopened()
            if descriptor is None:
                return b""
        return os_files.read_at(descriptor.fd, position, size, self.name)

    def read_into(self, position: int, buffer: bytearray, *, nowait: bool = False) -> int:
        """Fill `buffer` from `position`; return the number of bytes: see `os_files.read_into`."""
        descriptor = self._descriptor
        if descriptor is not None:
            descriptor.used = True
        else:
            descriptor = self._reopened()
            if descriptor is None:
                return 0
        return os_files.read_into(descriptor.fd, position, buffer, self.name, nowait=nowait)

    def is_replaced(self, entry_inode: int | None = None) -> bool:
        """Return True if the name belongs to another file or to none, or if the file was truncated.

        A truncated file must not be accessed. `entry_inode` is the inode that the directory names, if it was just read.
        """
        if self._is_closed:
            return True
        descriptor = self._descriptor
        if descriptor is not None:
            if os_files.file_size(descriptor.fd) < self.file_size:
                return True
            if entry_inode == self._identity & ((1 << _INODE_BITS) - 1):
                return False
        try:  # check again, since some file systems have other inode numbers in directory entries
            named = os_files.status_of(self.name)
        except StoreAccessError:
            return True
        return named.st_size < self.file_size or _identity_of(named) != self._identity

    @property
    def why_replaced(self) -> str:
        """The reason to give if the file `is_replaced`."""
        return f"{self.path} was renamed, replaced, cut or deleted: put it back"

    def sync_in_place(self) -> None:
        """Make everything written so far durable; raise StoreMovedError instead if the file has no longer its name.

        For a file that no other thread may delete. The file itself is looked at only if its directory is another one,
        or was changed: after each look at its times Linux 6.13 writes finer ones, which makes the next sync slower.
        """
        if not self._directory:
            self._directory = str(self.path.parent)
        seen = os_files.directory_state(self._directory)
        if seen != self._seen:
            if self.is_replaced():
                raise StoreMovedError(self.path, self.why_replaced)
            self._seen = seen
        self.sync()

    def sync(self) -> None:
        """Make everything written so far durable. After an error every later call raises it again."""
        if self._failure is not None:
            raise self._failure
        if self._descriptor is None:
            with self._lock:  # else `yield_descriptor` may have taken it for a moment
                if self._synced == self._written and self._descriptor is None:
                    return  # it was synced before its descriptor was closed
        descriptor = self._descriptor or self._reopened()
        if descriptor is not None:  # a file that retention deleted needs no sync
            self._sync(descriptor)

    def _sync(self, descriptor: Descriptor) -> None:
        written = self._written
        try:
            os_files.sync_file(descriptor.fd, self.name)
        except StoreFencedError as error:
            self._failure = error
            raise
        self._synced = max(self._synced, written)

    def rewrite(self, start: int, stop: int) -> None:
        """Rewrite the bytes of [start, stop), and zeros after them, so that the next sync includes them all."""
        self.close_window()
        descriptor = self._opened()
        os_files.rewrite(descriptor.fd, self.name, start, stop)
        os_files.zero_again(descriptor.fd, self.name, stop, self.file_size)
        self._written += 1

    def zero_from(self, position: int) -> None:
        """Zero the file's rest and make that durable; do nothing if it is zero already."""
        self.close_window()  # its blocks may go
        descriptor = self._opened()
        if os_files.zero_from(descriptor.fd, self.name, position, self.file_size):
            self._written += 1
            self.sync()

    def written_end(self, begin: int = 0, *, keep_cached: bool = False) -> int:
        """Return the position after the last byte that is not zero, at or after `begin`; 0 if there is none."""
        descriptor = self._opened()
        return os_files.last_nonzero(descriptor.fd, self.name, self.file_size, begin, keep_cached=keep_cached)

    # -- what `OPEN_FILES` asks

    def was_used(self) -> bool:
        """Return True if the file was accessed since the last call."""
        descriptor = self._descriptor
        if descriptor is None:
            return False
        used, descriptor.used = descriptor.used, False
        return used

    def yield_descriptor(self) -> bool:
        """Close the descriptor until the next access; return False if there is none, or if the file needs it.

        It needs the descriptor if writes are not synced, if their sync failed, or if a reader holds the file.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            descriptor, self._descriptor = self._descriptor, None  # from here on a writer waits in `_reopened`
            self.close_window()
            if self._written > max(self._synced, 0) or self._failure is not None or self._holds:
                self._descriptor = descriptor
                return False
            is_open = descriptor is not None or self._file_map is not None
            self._direct = self._file_map = None
            return is_open
        finally:
            self._lock.release()

    def sync_written(self) -> None:
        """Make writes durable; the next `sync` raises the error."""
        descriptor = self._descriptor
        if descriptor is not None and self._written > max(self._synced, 0) and self._failure is None:
            with contextlib.suppress(StoreFencedError):
                self._sync(descriptor)

    def hold(self) -> FileHold | None:
        """Keep the file readable; return None if it is closed or retired.

        Raises StoreAccessError if it cannot be mapped.
        """
        file_map = self.opened_map()
        if file_map is None:
            return None
        with self._lock:
            if self._is_closed or self._retired_ms >= 0:
                return None
            held = FileHold(self, file_map)
            if self._holds is None:
                self._holds = weakref.WeakSet()
            self._holds.add(held)
            return held

    def let_go(self, held: FileHold) -> None:
        """Release `held`. A hold that is no longer referenced is released without a lock."""
        if self._holds is not None:
            self._holds.discard(held)

    def close(self) -> None:
        """Close the file for new users; those with a hold can continue."""
        self.close_window()
        with self._lock:
            self._is_closed = True
            self._descriptor = self._direct = self._file_map = None

    @property
    def retired(self) -> bool:
        """True if the file is about to be deleted."""
        return self._retired_ms >= 0

    def retire(self, now_ms: int, forcibly_after_ms: int) -> bool:
        """Refuse new holds; return True if the file may be deleted: it has no holds, or they had enough time."""
        with self._lock:
            if self._retired_ms < 0:
                self._retired_ms = now_ms
            return not self._holds or now_ms - self._retired_ms >= forcibly_after_ms

    def modified_ms(self) -> int:
        """Return the time of the last write (ms), by the file system's clock."""
        descriptor = self._opened()
        return os_files.modified_ms(descriptor.fd)

    def destroy(self) -> None:
        """Delete the file; readers that hold it can continue."""
        os_files.remove_file(self.path)
        self.close()


class FileHold:
    """A file in use: its map and its descriptor stay valid until this is released or dropped."""

    __slots__ = ("__weakref__", "_map", "_mapped", "_ready", "view")

    def __init__(self, mapped: MappedFile, file_map: FileMap) -> None:
        self._mapped, self._map = mapped, file_map
        self.view = memoryview(file_map.buffer).cast("B").toreadonly()
        self._ready = 0, 0

    @property
    def file_from_offset(self) -> int:
        return self._mapped.file_from_offset

    @property
    def path(self) -> Path:
        return self._mapped.path

    @property
    def fd(self) -> int:
        """The descriptor to read from, valid while this is held."""
        return self._map.descriptor.fd

    def populate(self, start: int, stop: int) -> None:
        """Make [start, stop) of `view` readable, and some more for the next call; else raise UnreadableError."""
        first, last = self._ready
        if first <= start and stop <= last:
            return
        ahead = min(max(stop, start + _AHEAD), len(self.view))
        try:
            self._map.populate(start, ahead)
        except UnreadableError:
            ahead = stop
            self._map.populate(start, stop)
        self._ready = start, ahead

    def populate_again(self, start: int, stop: int) -> None:
        """Make [start, stop) readable again, a while after the call that took this hold."""
        self._map.populate(start, stop)

    def release(self) -> None:
        """Release the file for retention; may be called again."""
        self._mapped.let_go(self)


def _identity_of(status: os.stat_result) -> int:
    """Return device and inode of a file as one number, which takes less memory than two."""
    return status.st_dev << _INODE_BITS | status.st_ino
