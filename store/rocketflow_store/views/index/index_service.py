"""All index files of a store: entries are appended to the newest file; queries search all files, newest first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.files import os_files
from rocketflow_store.files.os_files import access_error
from rocketflow_store.format.index_layout import HEADER_SIZE, HEADER_STRUCT
from rocketflow_store.model.errors import StoreVersionError
from rocketflow_store.model.java_compat import index_hash
from rocketflow_store.views.index.index_file import IndexFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from rocketflow_store.model.clock import Clock
    from rocketflow_store.model.message import ReceivedMessage

_NAME_DIGITS: Final = 17
_MAX_LOOKS: Final = 20_000
"""A query reads at most this many entries of one hash."""


class IndexService:
    """The index files of one directory."""

    def __init__(self, directory: Path, hash_slot_num: int, index_num: int, clock: Clock, *, write: bool) -> None:
        self._directory, self._clock, self._write = directory, clock, write
        self._hash_slot_num, self._index_num = hash_slot_num, index_num
        self._files: dict[str, IndexFile] = {}
        self.is_complete = True
        """True if the newest put was completed: otherwise slots and entries may disagree until `recover`."""
        try:
            self._look()
        except BaseException:
            self.close()
            raise

    def refresh(self) -> None:
        """Look for new and removed files. A writing service creates and removes them itself."""
        if not self._write:
            self._look()

    def _look(self) -> None:
        try:
            names = sorted(path.name for path in self._directory.iterdir() if is_index_name(path.name))
        except FileNotFoundError:
            names = []
        except OSError as error:
            raise access_error(self._directory, error) from error
        for missing in self._files.keys() - set(names):
            self._files.pop(missing).close()
        for name in names:
            if not self._write and name in self._files and self._files[name].is_replaced():
                self._files.pop(name).close()
            if name not in self._files:
                self._open(name)
        self._files = dict(sorted(self._files.items()))

    def _open(self, name: str) -> None:
        path = self._directory / name
        try:
            if not self._write and path.is_dir():
                return  # the next open for writing quarantines it
            if path.stat().st_size < HEADER_SIZE:
                if self._write:  # a power loss took its content, which recovery rebuilds
                    os_files.remove_file(path)
                return
            found = IndexFile(path, self._hash_slot_num, self._index_num, write=self._write)
        except FileNotFoundError:
            return
        if not found.well_sized:
            if self._write:
                raise StoreVersionError(
                    path, f"is not of {self._hash_slot_num} slots and {self._index_num} entries; pass the broker's conf"
                )
            found.close()
            return
        self._files[name] = found

    @property
    def files(self) -> list[IndexFile]:
        """The files, oldest first."""
        return list(self._files.values())

    @property
    def end_phy_offset(self) -> int:
        """Physical offset of the newest entry (a new file carries that of the one before); -1 without files."""
        newest = self._newest
        return -1 if newest is None else newest.header.end_phy_offset

    @property
    def next_phy_offset(self) -> int:
        """The offset from which on records are not indexed; that of the newest entry if its put failed."""
        return self.end_phy_offset + self.is_complete

    def put(
        self,
        key_hashes: npt.NDArray[np.int32],
        phy_offsets: npt.NDArray[np.int64],
        store_timestamps: npt.NDArray[np.int64],
    ) -> None:
        """Append entries in order; start new files as they fill up."""
        done, self.is_complete = 0, False
        while done < len(key_hashes):
            done += self._writable().put(key_hashes[done:], phy_offsets[done:], store_timestamps[done:])
        self.is_complete = True

    def put_run(self, key_hashes: Sequence[int], phy_offsets: Sequence[int], store_timestamp: int) -> None:
        """Append a few entries with one store time (ms)."""
        self.is_complete, done = False, 0
        while done < len(key_hashes):
            done += self._writable().put_run(key_hashes[done:], phy_offsets[done:], store_timestamp)
        self.is_complete = True

    def open_window(self) -> tuple[Any, Any, int, int] | None:
        """Return what `IndexFile.open_window` does of the newest file, None without one."""
        newest = self._newest
        return None if newest is None else newest.open_window()

    def _writable(self) -> IndexFile:
        """Return the newest file, or a new one if that is full (which is then synced)."""
        current = self._newest
        if current is not None and current.room:
            return current
        if current is not None:
            current.sync()
        return self._create(current)

    @property
    def _newest(self) -> IndexFile | None:
        return next(reversed(self._files.values()), None)

    def _create(self, previous: IndexFile | None) -> IndexFile:
        name = next_name(self._clock.now_ms(), next(reversed(self._files), None))
        created = IndexFile.create(
            self._directory / name, self._hash_slot_num, self._index_num, previous.header if previous else None
        )
        self._files[name] = created
        return created

    @property
    def full_end_timestamp(self) -> int:
        """End time of the last full file, which the checkpoint records for the index."""
        full = [one for one in self.files if one.room == 0]
        return full[-1].header.end_timestamp if full else 0

    def offsets(self, topic: str, key: str, max_count: int, begin: int, end: int) -> list[int]:
        """Return the first `max_count` offsets of `walk`."""
        return list(islice(self.walk(topic, key, begin, end), max_count))

    def walk(
        self, topic: str, key: str, begin: int, end: int, on_damage: Callable[[Path, int, str], None] | None = None
    ) -> Iterator[int]:
        """Yield physical offsets of entries with the hash of `topic#key`, newest first: see `IndexFile.walk`.

        Their records may have another key or another store time, or may be deleted.
        """
        self.refresh()
        wanted = index_hash(topic, key)
        for one in reversed(self.files):
            one.reload()
            if one.overlaps(begin, end):
                yield from one.walk(wanted, begin, end, on_damage)
            if one.ends_before(begin):
                return

    def query(
        self,
        topic: str,
        key: str,
        max_count: int,
        begin: int,
        end: int,
        look: Callable[[int], ReceivedMessage | None],
        on_damage: Callable[[Path, int, str], None] | None = None,
        *,
        late_ms: int = 0,
    ) -> list[ReceivedMessage]:
        """Return the newest messages of `topic` with `key` (or that UNIQ_KEY), by physical offset.

        They were stored within [begin, end] ms; with `late_ms`, also those up to so much later whose entries are of a
        second that begins within it. Every entry is compared with its record, so hash collisions do not count. RocketMQ
        stops after three times `max_count` of them; RocketFlow after `_MAX_LOOKS`. `on_damage` is called as by
        `IndexFile.walk`.
        """
        found: list[ReceivedMessage] = []
        before = -1
        for phy_offset in islice(self.walk(topic, key, begin, end, on_damage), _MAX_LOOKS if max_count > 0 else 0):
            if phy_offset == before:  # the record has the key twice
                continue
            before = phy_offset
            message = look(phy_offset)
            if message is None or message.topic != topic or not has_key(message, key):
                continue
            if begin <= message.store_timestamp <= end + late_ms:
                found.append(message)
                if len(found) >= max_count:
                    break
        return sorted(found, key=lambda message: message.physical_offset)

    def remove_first(self, count: int) -> list[Path]:
        """Delete the `count` oldest files; running queries can still read them."""
        oldest = self.files[:count]
        self._files = {name: one for name, one in self._files.items() if one not in oldest}
        for one in oldest:
            os_files.remove_file(one.path)
            one.close()
        if oldest:
            os_files.sync_directory(self._directory)
        return [one.path for one in oldest]

    def recover(self, phy_offset: int, store_timestamp_at: Callable[[int], int | None]) -> None:
        """Keep only entries of records before `phy_offset`, and drop files that become empty, after an unclean stop.

        `store_timestamp_at` returns the store time (ms) of the record at a physical offset, None if there is no record.
        """
        dropped = False
        for name, one in list(self._files.items()):
            newest = one is self._newest
            if not newest and one.header.end_phy_offset < phy_offset:
                continue  # synced when it was full
            keep = one.written_below(phy_offset)
            if keep:
                one.keep_first(keep, store_timestamp_at)
            else:
                one.close()
                os_files.remove_file(self._directory / name)
                del self._files[name]
                dropped = True
        self.is_complete = True
        if dropped:
            os_files.sync_directory(self._directory)

    def sync(self) -> None:
        """Make the newest file durable (older ones were synced when they were full)."""
        if self._files:
            self.files[-1].sync()

    def close(self) -> None:
        for one in self._files.values():
            one.close()
        self._files.clear()


def has_key(message: ReceivedMessage, key: str) -> bool:
    """Return True if `key` is the message's UNIQ_KEY or one of its KEYS."""
    return message.uniq_key == key or key in message.keys


def next_name(moment_ms: int, last: str | None) -> str:
    """Return the name of a file created at a moment.

    Names always rise after the `last` one, also if the clock was set back.
    """
    name = _name_of(datetime.fromtimestamp(moment_ms // 1000, UTC).astimezone(), moment_ms % 1000)
    if last is None or name > last:
        return name
    try:
        at = datetime.strptime(f"{last[: _NAME_DIGITS - 3]}Z", "%Y%m%d%H%M%S%z")  # any zone without summer time
    except ValueError:
        return str(int(last) + 1)
    seconds, millis = divmod(int(last[_NAME_DIGITS - 3 : _NAME_DIGITS]) + 1, 1000)
    return _name_of(at + timedelta(seconds=seconds), millis)


def _name_of(at: datetime, millis: int) -> str:
    return f"{at:%Y%m%d%H%M%S}{millis:03d}"


def is_index_name(name: str) -> bool:
    """Return True if a file may be an index file."""
    return name.isdigit() and len(name) >= _NAME_DIGITS


def has_index_entries(directory: Path) -> bool:
    """Return True if an index file of `directory` holds an entry, by the headers alone."""
    try:
        paths = [one for one in directory.iterdir() if is_index_name(one.name) and one.is_file()]
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise access_error(directory, error) from error
    return any(_entry_count(one) > 1 for one in paths)


def _entry_count(path: Path) -> int:
    fd = os_files.open_file(path, write=False)
    try:
        raw = os_files.read_at(fd, 0, HEADER_SIZE, path)
    finally:
        os_files.close_file(fd)
    return int(HEADER_STRUCT.unpack(raw)[5]) if len(raw) == HEADER_SIZE else 0
