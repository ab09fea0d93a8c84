"""The confirm offset of a live RocketFlow writer: `rocketflow/confirm`, 96 bytes shared through the page cache.

    0   8   magic "RFCONF01"
    8   8   confirm_offset   readers return no record at or after it
    16  8   durable_offset   log, queues and index below it were synced: where recovery after an unclean stop begins
    24  8   pid of the writer
    32  8   mtime (ns) of the `abort` file that the writer created
    40  8   1 if the writer confirms only what was synced (SYNC_FLUSH), else 0
    48  8   one more than the offset from which on every record ends with a CRC of itself (enabledAppendPropCRC), or 0
    56  8   store time (ms) of the last record before durable_offset, 0 if unknown
    64  8   one more than the offset from which on the index names the TAGS of every record, or 0; RocketFlow versions
            that do not index TAGS end the file before this field
    72  8   log_synced_offset  the log below it was synced, also if queues and index were not; older RocketFlow versions
            end the file before this field
    80  8   cache_mark      identifies `abort` on the boot of the system under which the writer runs, 0 if unknown
    88  8   1 after a sync failed, else 0

The writer stores a change of log_synced_offset durably at least each second (`engine.durability`). At or after it a bad
record may be a write that never reached the disk. But if only the process ended, nothing that it wrote is missing: the
system still has it in its page cache. That is certain if the mark is the same, so that the system was not restarted and
`abort` is the very file that the writer created (no copy, no other mount), and if no sync failed, after which the
system drops pages (`Confirmed.cache_kept`).

Integers are little-endian. The file is valid only while `abort` is the file that its writer created, and `lock` is not
newer: a broker that ran afterwards leaves another `abort` (5.x), or has only written to `lock` (4.9 keeps an existing
`abort`); a clean stop leaves no `abort`. `DirectoryLock` sets the time of a `lock` that it creates to 0.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.files import os_files
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.errors import StoreError

if TYPE_CHECKING:
    from rocketflow_store.metadata.native.root_paths import RootPaths

MAGIC: Final = b"RFCONF01"
LAYOUT: Final = struct.Struct("<8sqqqqqqqqqqq")
_OFFSET: Final = struct.Struct("<q")
CONFIRM_SIZE: Final = LAYOUT.size
_SIZES: Final = (CONFIRM_SIZE, 72, 64)
"""The present size, and those of older versions."""
_CONFIRM_AT: Final = 8
_DURABLE_AT: Final = 16
_RECORD_CRC_AT: Final = 48
_DURABLE_TIMESTAMP_AT: Final = 56
_SYNCED_AT: Final = 72
_SYNC_FAILED_AT: Final = 88


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The fields of a confirm file."""

    confirm_offset: int
    durable_offset: int
    pid: int
    abort_mtime_ns: int
    synced: bool = False
    record_crc_from: int = -1
    """Every record at or after it ends with a CRC of itself; -1 if the writer appends none."""
    durable_timestamp: int = 0
    """Store time (ms) of the last record before `durable_offset`."""
    tag_entries_from: int = -1
    """The index names the TAGS of every record at or after it; -1 if the writer does not index TAGS."""
    log_synced_offset: int = 0
    """The log before it was synced, also if queues and index were not."""
    cache_mark: int = 0
    """Identifies the `abort` file on the boot of the system under which the writer ran; 0 if unknown."""
    sync_failed: bool = False
    cache_kept: bool = False
    """True if the system still has every byte that the writer wrote, since only the process ended."""

    @property
    def synced_offset(self) -> int:
        """The end of the part of the log that cannot be torn: a bad record before it is damage."""
        known = self.confirm_offset if self.synced or self.cache_kept else self.durable_offset
        return max(known, self.log_synced_offset)

    @property
    def about_stop(self) -> str:
        """Known facts of the stop, if it may have lost what was not synced; empty if there are none."""
        if self.sync_failed:
            return "a sync had failed"
        if self.cache_mark and not self.cache_kept:
            return "since then the system was restarted, or the store was copied or restored"
        return ""


def decode_confirm(raw: bytes) -> Confirmed | None:
    """Return the fields in a file's bytes; None if they are no confirm file."""
    if len(raw) not in _SIZES or not raw.startswith(MAGIC):
        return None
    fields = LAYOUT.unpack(raw.ljust(CONFIRM_SIZE, b"\0"))
    _, confirm_offset, durable_offset, pid, abort_mtime_ns, synced, crc_from, timestamp, tags_from = fields[:9]
    log_synced, cache_mark, failed = fields[9:]
    return Confirmed(
        *(confirm_offset, durable_offset, pid, abort_mtime_ns, synced == 1, crc_from - 1, timestamp, tags_from - 1),
        *(log_synced, cache_mark, failed != 0),
    )


class ConfirmFile:
    """The writer's side of the file."""

    def __init__(
        self,
        paths: RootPaths,
        confirm_offset: int,
        durable_offset: int,
        *,
        synced: bool,
        record_crc: bool,
        timestamp: int = 0,
        tag_entries_from: int = -1,
    ) -> None:
        self._paths = paths
        self.gives_record_crc = record_crc
        """True if every record of this writer ends with a CRC of itself."""
        self._timestamp = timestamp
        abort = paths.abort.stat()
        flags = int(synced), confirm_offset + 1 if record_crc else 0, timestamp, tag_entries_from + 1
        stop = durable_offset, os_files.cache_mark(abort), 0
        fields = LAYOUT.pack(MAGIC, confirm_offset, durable_offset, os.getpid(), abort.st_mtime_ns, *flags, *stop)
        os_files.write_atomically(paths.confirm, fields)
        self._fd = os_files.open_file(paths.confirm, write=True)
        try:
            self._map = os_files.map_file(self._fd, paths.confirm, CONFIRM_SIZE, write=True)
        except BaseException:
            os_files.close_file(self._fd)
            raise

    def open_window(self) -> Any:
        """Return a window for the kernel on the file; its owner closes it before `close`."""
        assert COMPILED is not None
        return COMPILED.Window(self._map)

    def record_without_crc(self) -> None:
        """Withdraw the promise of CRCs, before a record without one is appended."""
        if self.gives_record_crc:
            self.gives_record_crc = False
            _OFFSET.pack_into(self._map, _RECORD_CRC_AT, 0)
            os_files.sync_map(self._map, self._paths.confirm)

    def confirm(self, offset: int) -> None:
        """Let readers see every record before `offset`."""
        _OFFSET.pack_into(self._map, _CONFIRM_AT, offset)

    def log_synced(self, offset: int) -> None:
        """Store durably that the log before `offset` is synced, and the confirm offset with it."""
        _OFFSET.pack_into(self._map, _SYNCED_AT, offset)
        os_files.sync_map(self._map, self._paths.confirm)

    def durable(self, offset: int, timestamp: int) -> None:
        """Let recovery begin at `offset`: everything before it, stored up to `timestamp` (ms), is synced."""
        _OFFSET.pack_into(self._map, _DURABLE_TIMESTAMP_AT, max(timestamp, self._timestamp))
        _OFFSET.pack_into(self._map, _DURABLE_AT, offset)
        os_files.sync_map(self._map, self._paths.confirm)

    def note_failed_sync(self) -> None:
        """Withdraw that the system keeps what was written: after a failed sync it drops or reverts pages."""
        _OFFSET.pack_into(self._map, _SYNC_FAILED_AT, 1)

    def close(self, *, remove: bool) -> None:
        """Close the file; `remove` it after a clean stop, when no record has to be hidden."""
        self._map.close()
        os_files.close_file(self._fd)
        if remove:
            os_files.remove_file(self._paths.confirm)


def read_confirm(paths: RootPaths) -> Confirmed | None:
    """Return what RocketFlow's last writer confirmed, None if it is missing or no longer valid."""
    try:
        raw = os_files.read_file(paths.confirm)
        abort = paths.abort.stat()
        if paths.lock.exists() and paths.lock.stat().st_mtime_ns > abort.st_mtime_ns:
            return None
    except OSError:
        return None
    confirmed = decode_confirm(raw)
    if confirmed is None or confirmed.abort_mtime_ns != abort.st_mtime_ns:
        return None
    kept = 0 != confirmed.cache_mark == os_files.cache_mark(abort) and not confirmed.sync_failed
    return replace(confirmed, cache_kept=kept)


def withdraw_cache(paths: RootPaths) -> None:
    """Record in the file of a stopped writer that a sync failed since, in a recovery; no error if that fails too."""
    with suppress(StoreError):
        fd = os_files.open_file(paths.confirm, write=True)
        try:
            if os_files.file_size(fd) == CONFIRM_SIZE:
                os_files.write_at(fd, paths.confirm, _SYNC_FAILED_AT, _OFFSET.pack(1))
        finally:
            os_files.close_file(fd)
