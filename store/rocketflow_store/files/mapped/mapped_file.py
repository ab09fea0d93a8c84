"""One fixed-size file of a store: written with pwrite, read through a read-only map of the same pages.

The name is the offset of the first byte, decimal, 20 digits. The size of the file does not show how much was written:
files are preallocated, write positions come from scanning.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Final

from rocketflow_store.files import os_files
from rocketflow_store.files.mapped.file_map import Descriptor, FileMap
from rocketflow_store.model.errors import StoreAccessError, StoreMovedError, UnreadableError

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa


PAGE_BYTES: Final = 4096
"""The unit of reading: the system reads a page completely or not at all."""
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
    """

    __slots__ = (
        "_descriptor",
        "_direct",
        "_directory",
        "_file_map",
        "_holds",
        "_lock",
        "_retired_ms",
        "_seen",
        "_write",
        "file_from_offset",
        "file_size",
        "path",
    )

    def __init__(self, path: Path, file_from_offset: int, *, write: bool) -> None:
        self.path = path
        self.file_from_offset = file_from_offset
        self._write = write
        self._descriptor: Descriptor | None = Descriptor(os_files.open_file(path, write=write))
        self.file_size = os_files.file_size(self._fd)
        self._direct: Descriptor | None = None
        self._file_map: FileMap | None = None
        self._holds: weakref.WeakSet[FileHold] | None = None
        self._retired_ms = -1
        self._directory = ""
        self._seen: tuple[int, int, int] | None = None
        self._lock = threading.Lock()

    @classmethod
    def create(cls, path: Path, file_from_offset: int, file_size: int) -> MappedFile:
        """Create a file of zeros without blocks."""
        fd = os_files.open_file(path, write=True, create=True)
        try:
            os_files.make_sparse(fd, path, file_size)
        finally:
            os_files.close_file(fd)
        return cls(path, file_from_offset, write=True)

    @property
    def _fd(self) -> int:
        """The descriptor, for the owner only: for other threads it may be closed at any time."""
        return -1 if self._descriptor is None else self._descriptor.fd

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
        known = self._file_map
        if known is None:
            descriptor = self._descriptor
            if descriptor is None:
                raise StoreAccessError(self.path, "was removed, or another file took its place, while it was read")
            try:
                known = self._file_map = FileMap(descriptor, self.path, self.file_size)
            except (OSError, ValueError) as error:
                raise StoreAccessError(self.path, f"cannot be mapped: {error}") from error
        return known

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
        os_files.write_at(self._fd, self.path, position, data)

    def write_direct(self, position: int, data: memoryview) -> None:
        """Write `data` (octets); whole blocks bypass the page cache if `data` is aligned in memory as in the file."""
        head = -position % os_files.BLOCK_BYTES
        blocks = data[head:]
        done = 0
        if len(blocks) >= os_files.BLOCK_BYTES:
            if self._direct is None:
                self._direct = Descriptor(os_files.open_direct(self.path))
            assert position + len(data) <= self.file_size
            if self._direct.fd >= 0:
                done = os_files.write_direct(self._direct.fd, self.path, position + head, blocks)
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
        return b"" if descriptor is None else os_files.read_at(descriptor.fd, position, size, self.path)

    def read_into(self, position: int, buffer: bytearray, *, nowait: bool = False) -> int:
        """Fill `buffer` from `position`; return the number of bytes: see `os_files.read_into`."""
        descriptor = self._descriptor
        if descriptor is None:
            return 0
        return os_files.read_into(descriptor.fd, position, buffer, self.path, nowait=nowait)

    def is_replaced(self, entry_inode: int | None = None) -> bool:
        """Return True if the name belongs to another file or to none, or if the file was truncated.

        A truncated file must not be accessed. `entry_inode` is the inode that the directory names, if it was just read.
        """
        descriptor = self._descriptor
        if descriptor is None:
            return True
        status = os_files.status(descriptor.fd)
        if status.st_size < self.file_size:
            return True
        if entry_inode == status.st_ino:
            return False
        try:  # check again, since some file systems have other inode numbers in directory entries
            named = self.path.stat()
        except OSError:
            return True
        return (named.st_dev, named.st_ino) != (status.st_dev, status.st_ino)

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
        """Make everything written so far durable."""
        descriptor = self._descriptor
        if descriptor is not None:  # a file that retention deleted needs no sync
            os_files.sync_file(descriptor.fd, self.path)

    def rewrite(self, start: int, stop: int) -> None:
        """Rewrite the bytes of [start, stop), and zeros after them, so that the next sync includes them all."""
        os_files.rewrite(self._fd, self.path, start, stop)
        os_files.zero_again(self._fd, self.path, stop, self.file_size)

    def zero_from(self, position: int) -> None:
        """Zero the file's rest and make that durable; do nothing if it is zero already."""
        if os_files.zero_from(self._fd, self.path, position, self.file_size):
            self.sync()

    def written_end(self, begin: int = 0, *, keep_cached: bool = False) -> int:
        """Return the position after the last byte that is not zero, at or after `begin`; 0 if there is none."""
        return os_files.last_nonzero(self._fd, self.path, self.file_size, begin, keep_cached=keep_cached)

    def hold(self) -> FileHold | None:
        """Keep the file readable; return None if it is closed or retired.

        Raises StoreAccessError if it cannot be mapped.
        """
        with self._lock:
            descriptor = self._descriptor
            if descriptor is None or self._retired_ms >= 0:
                return None
            held = FileHold(self, self._map())
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
        with self._lock:
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
        return os_files.modified_ms(self._fd)

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
