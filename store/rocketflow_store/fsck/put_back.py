"""Put back damaged records of the log from a backup or a replica: each only if it proves to be the one that was there.

A record proves itself by its bytes (size, magic code, CRC, physical offset), by the store's bytes around the damage,
which the backup must have too, and by the unit of its queue, which must name it if it can be read. The old bytes are
copied to the quarantine before they are overwritten; a run that is killed is repeated.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rocketflow_store.files import os_files
from rocketflow_store.files.mapped.mapped_file import file_name
from rocketflow_store.format.record import BLANK_SIZE
from rocketflow_store.fsck.observation import LenientReader
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.log.resync import is_end_blank
from rocketflow_store.metadata.layout.other_engines import refuse_rocksdb_data
from rocketflow_store.metadata.layout.store_meta import refuse_another_version
from rocketflow_store.metadata.layout.store_paths import StoreLock, StorePaths, check_directory
from rocketflow_store.model.errors import BackupTargetError, NotAStoreError, StoreError, UnreadableError
from rocketflow_store.model.system_flags import NEVER_QUEUED, TRANSACTION_MASK
from rocketflow_store.recovery.quarantine import HEALED, Quarantine
from rocketflow_store.views.queues.consume_queue import lost, pre_blank

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketflow_store.format.record import RecordFrame
    from rocketflow_store.fsck.findings import VerifyResult
    from rocketflow_store.settings.store_config import StoreConfig

_AROUND: Final = 4096
"""Bytes before and after damage that the store and the backup must have in common."""
_PIECE: Final = 16 << 20


@dataclass(slots=True)
class PutBack:
    """Bytes [`phy_offset`, `end`) of one CommitLog file that the backup proves; they begin with this message."""

    file: Path
    position: int
    phy_offset: int
    end: int
    records: int = 0
    topic: str = ""
    queue_id: int = 0
    queue_offset: int = 0
    is_new_file: bool = False

    def as_dict(self) -> dict[str, Any]:
        return {
            "file": str(self.file),
            "offset": self.position,
            "length": self.end - self.phy_offset,
            "records": self.records,
            "topic": self.topic,
            "queueId": self.queue_id,
            "queueOffset": self.queue_offset,
        }


@dataclass(slots=True)
class PutBackResult:
    """The ranges that were put back, or in a dry run would be, and what the store lacks afterwards."""

    found: VerifyResult
    left: VerifyResult
    put_back: list[PutBack] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)
    """Damage, or the rest of it, that the backup cannot prove: file, offset, length, why."""
    min_phy_offset: int = 0
    max_phy_offset: int = 0
    seconds: float = 0.0

    @property
    def records(self) -> int:
        """Number of records that were put back."""
        return sum(one.records for one in self.put_back)

    @property
    def files(self) -> int:
        """Number of CommitLog files that were missing and are put back."""
        return sum(one.is_new_file for one in self.put_back)


def put_back(
    path: str | Path,
    backup: str | Path,
    config: StoreConfig | None = None,
    *,
    dry_run: bool = False,
    workers: int = 2,
    progress: Callable[[int, int], None] | None = None,
) -> PutBackResult:
    """Verify a store and overwrite its damaged records with those of `backup`, a store that is only read.

    Missing CommitLog files are written if the backup has them completely. Queues and index are not changed: `left` has
    the findings of a second verification.

    Raises:
        StoreLockedError: a process has opened the store for writing.
        BackupTargetError: `backup` is the store itself, or has log files of another size.
    """
    began, path, backup = time.monotonic(), Path(path).absolute(), Path(backup).absolute()
    for one in (path, backup):
        check_directory(one, must_exist=True)
    paths = StorePaths.of(path, config)
    for found in (paths, StorePaths.of(backup)):
        if not found.holds_log():
            raise NotAStoreError(found.root, "holds no commitlog/; give the directory of a store")
    if path.resolve() == backup.resolve():
        raise BackupTargetError(backup, "is the store itself: give a backup or a replica")
    refuse_another_version(paths)
    refuse_rocksdb_data(path)
    lock = None if dry_run else StoreLock(paths)
    try:
        before = verify_store(path, config, workers=workers, progress=progress, locked=not dry_run)
        result = PutBackResult(before, before)
        with LenientReader(path, config) as store, LenientReader(backup) as source:
            _Proof(store, source, before).judge(result)
            result.min_phy_offset, result.max_phy_offset = store.min_phy_offset, before.end
            if not dry_run:
                for piece in result.put_back:
                    _write(piece, source, Quarantine(paths))
        if result.put_back and not dry_run:
            result.left = verify_store(path, config, workers=workers, progress=progress, locked=True)
    finally:
        if lock is not None:
            lock.release()
    result.seconds = time.monotonic() - began
    return result


class _Proof:
    """The decision, for each damage of `store`, which records of `source` were there."""

    def __init__(self, store: LenientReader, source: LenientReader, found: VerifyResult) -> None:
        self._store, self._source, self._found = store, source, found
        self._size = store.config.mapped_file_size_commit_log
        if source.config.mapped_file_size_commit_log != self._size:
            raise BackupTargetError(
                source.path,
                f"has log files of {source.config.mapped_file_size_commit_log} bytes, the store of {self._size}: "
                "it is of another store",
            )
        self._ranges = sorted((one.phy_offset, one.end) for one in found.damage)

    def judge(self, result: PutBackResult) -> None:
        """Add what can be put back, and why the rest cannot."""
        for damage in sorted(self._found.damage, key=lambda one: one.phy_offset):
            if not damage.gap:
                self._judge(Path(damage.file), damage.position, (damage.phy_offset, damage.end), result)
            elif damage.phy_offset % self._size or damage.length % self._size:
                why = "the file is too short: `store verify --repair` gives it its size, then try again"
                result.refused.append(_refusal(Path(damage.file), damage.position, damage.length, why))
            else:
                for base in range(damage.phy_offset, damage.end, self._size):
                    path = self._store.paths.commit_log / file_name(base)
                    self._judge(path, 0, (base, base + self._size), result, is_new_file=True)
        last = self._store.log.file_at(self._found.end)
        if last is not None and all(stop != self._found.end for _, stop in self._ranges):
            end = self._found.end
            self._judge(last.path, end - last.file_from_offset, (end, end), result)

    def _judge(
        self, path: Path, position: int, wanted: tuple[int, int], result: PutBackResult, *, is_new_file: bool = False
    ) -> None:
        """Add what can be put back of damage; at the log's end also records after it that their queues name."""
        start, end = wanted
        most = end if end != self._found.end or is_new_file else end - end % -self._size
        compared, why = self._surroundings(start, end)
        at, named, pieces = start, 0, [PutBack(path, position, start, start)]
        while at < most and not why:
            step = self._record_at(at, most)
            if isinstance(step, str):
                why = step
                break
            frame, size, topic, is_named = step
            if at + size > end and not is_named:
                why = "the backup's record there reaches past the end of the log, and no queue names it"
                break
            piece = pieces[-1]
            if at - piece.phy_offset >= _PIECE and not is_new_file:
                piece = PutBack(path, position + at - start, at, at)
                pieces.append(piece)
            if frame is not None:
                if not piece.records:
                    piece.topic, piece.queue_id, piece.queue_offset = topic, frame.queue_id, frame.queue_offset
                piece.records += 1
                named += is_named
            at = piece.end = at + size
        count = sum(one.records for one in pieces)
        if not compared and named < count:
            why = "no byte around it and no queue shows that the backup is of this store"
        if why and (is_new_file or (not compared and named < count)):
            at, pieces = start, []
        if at < end:
            result.refused.append(_refusal(path, position + at - start, end - at, why))
        for piece in pieces:
            if piece.end > piece.phy_offset:
                piece.is_new_file = is_new_file
                result.put_back.append(piece)

    def _record_at(self, at: int, end: int) -> tuple[RecordFrame | None, int, str, bool] | str:
        """Return the record of the backup at `at`, its size and topic, and whether its queue names it; else the reason.

        The frame is None for the end mark of a file, or the unwritten rest of the log's last one.
        """
        source = self._source
        mapped = source.log.file_at(at)
        if mapped is None or at >= source.max_phy_offset:
            return f"the backup's log is [{source.min_phy_offset}, {source.max_phy_offset})"
        position = at - mapped.file_from_offset
        try:
            if is_end_blank(mapped, position):
                size = mapped.file_size - position
                return (None, size, "", False) if at + size <= end else "the backup's file ends there"
            size = source.record_size_at(at) or 0
            if not BLANK_SIZE < size <= end - at:
                return f"the backup has no record there that fits into the {end - at} damaged bytes"
            copy = memoryview(mapped.bytes_of(position, position + size))
            frame = self._store.log.check_copy(copy, 0, at)
        except StoreError as error:
            return f"the backup's record does not prove itself: {error}"
        topic = bytes(copy[frame.topic_start : frame.topic_end]).decode("utf-8", "replace")
        known = self._is_named(frame, topic)
        return known if isinstance(known, str) else (frame, size, topic, known)

    def _is_named(self, frame: RecordFrame, topic: str) -> bool | str:
        """Return True if the queue's unit names the record, False if no unit can be read; else what contradicts it."""
        if frame.sys_flag & TRANSACTION_MASK in NEVER_QUEUED:
            return False
        queue, number = self._store.find(topic, frame.queue_id), frame.queue_offset
        if queue is None or number < 0:
            return False
        first = max(number - 1, 0)
        units = queue.units_or_zeros(first, number + 2)
        here, places, name = number - first, units["phy_offset"], f"{topic} queue {frame.queue_id} offset {number}"
        if (int(places[here]), int(units["msg_size"][here])) == (frame.phy_offset, frame.size):
            return True
        of_repair = max((start for start, _ in self._ranges if start <= frame.phy_offset), default=-1)
        known = queue.written(units) & ~lost(units) & ~pre_blank(units) & (places != of_repair)
        if known[here]:
            return f"the backup's record is {name}, whose unit is at physical offset {int(places[here])}"
        before, after = places[:here][known[:here]], places[here + 1 :][known[here + 1 :]]
        if (before >= frame.phy_offset).any() or (after <= frame.phy_offset).any():
            return f"the backup's record is {name}, which does not fit between its neighbours in the queue"
        return False

    def _surroundings(self, start: int, end: int) -> tuple[int, str]:
        """Compare the bytes around damage with the backup's; return how many distinguish stores, and why to refuse."""
        source, size = self._source, self._size
        stops = [stop for _, stop in self._ranges if stop <= start]
        low = max(0, (start - 1) // size * size, start - _AROUND, source.min_phy_offset, *stops)
        begins = [begin for begin, _ in self._ranges if begin >= end]
        high = min(end // size * size + size, end + _AROUND, self._found.end, source.max_phy_offset, *begins)
        compared = 0
        for begin, stop in ((low, start), (end, high)):
            mine, others = (self._bytes(one, begin, stop) for one in (self._store, source))
            if mine != others and mine and others:
                return 0, "the bytes around it differ from the backup's: it is of another store, or damaged too"
            compared += len(mine.strip(b"\0")) if mine == others else 0
        return compared, ""

    def _bytes(self, reader: LenientReader, start: int, stop: int) -> bytes:
        """Return bytes of a log; none if the range is empty, or no file has it."""
        mapped = reader.log.file_at(start) if start < stop else None
        if mapped is None:
            return b""
        return bytes(mapped.bytes_of(start - mapped.file_from_offset, stop - mapped.file_from_offset))


def _refusal(file: Path, offset: int, count: int, why: str) -> dict[str, Any]:
    return {"file": str(file), "offset": offset, "length": count, "why": why}


def _write(piece: PutBack, source: LenientReader, quarantine: Quarantine) -> None:
    """Copy the old bytes to the quarantine, then write those of the backup, durably."""
    mapped = source.log.file_at(piece.phy_offset)
    assert mapped is not None
    size, why = piece.end - piece.phy_offset, f"put back from {source.path}"
    if piece.is_new_file:
        quarantine.note(HEALED, piece.file, 0, size, why)
        fd = os_files.create_exclusively(piece.file, write=True)
    else:
        fd = os_files.open_file(piece.file, write=True)
    try:
        kept = None
        if piece.is_new_file:
            os_files.preallocate(fd, piece.file, size)
        else:
            with suppress(UnreadableError):  # a range that the disk cannot read cannot be copied
                old = os_files.read_at(fd, piece.position, size, piece.file)
                if np.frombuffer(old, np.uint8).any():
                    kept = quarantine.keep(f"commitlog/{piece.phy_offset:020d}.record", old)
            quarantine.note(HEALED, piece.file, piece.position, size, why, kept)
        begin = piece.phy_offset - mapped.file_from_offset
        for start in range(0, size, _PIECE):
            stop = min(start + _PIECE, size)
            os_files.write_at(fd, piece.file, piece.position + start, mapped.bytes_of(begin + start, begin + stop))
        os_files.sync_file(fd, piece.file)
    finally:
        os_files.close_file(fd)
    if piece.is_new_file:
        os_files.sync_directory(piece.file.parent)
