"""The append-only log: placing and writing the next records.

There is one writer. A record never crosses a file: if it would leave less than 8 bytes, a blank record ends the file
and the record begins the next one. The published offset moves only after the last byte was written.

With a TransientStorePool records are written to a buffer first: the committed offset is the end of what is in the
files, and only that is flushed, dispatched and read.
"""

from __future__ import annotations

import threading
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rocketflow_store.files.mapped.mapped_file import PAGE_BYTES
from rocketflow_store.format.record import BLANK_SIZE, check_fits_a_file, encode_blank
from rocketflow_store.model.errors import StoreError, StoreFencedError, StorePoolDeficientError
from rocketflow_store.model.shared_numbers import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
    from rocketflow_store.files.mapped.transient_store_pool import BufferedFiles


@dataclass(frozen=True, slots=True)
class Run:
    """Rows [start, stop) of a batch that are stored together in one file: bytes [phy_offset, end_offset) of the log."""

    phy_offset: int
    end_offset: int
    start: int
    stop: int


LOG_END: Final = 0
"""Place of `wrote_offset` in the numbers of a log: a property would cost a call for each append."""
_WINDOW_BYTES: Final = 256 << 10


class CommitLog:
    """Appends to `files` from `wrote_offset` on; through the buffers of `buffered`, if given."""

    wrote_offset = number(LOG_END)
    """End (exclusive) of the log."""

    def __init__(self, files: MappedFileQueue, wrote_offset: int, buffered: BufferedFiles | None = None) -> None:
        self._files, self._buffered = files, buffered
        self.numbers = array("q", [wrote_offset])
        self._committed_offset = wrote_offset
        self._commit_lock, self._position_lock = threading.Lock(), threading.Lock()
        self.commit_error: StoreError | None = None
        """The error of the last commit; the next may succeed, nothing is appended until one does."""
        self.flushed_offset = wrote_offset
        self._look_ahead_at = wrote_offset

    def place(self, sizes: npt.NDArray[np.int64], offset: int | None = None) -> tuple[npt.NDArray[np.int64], list[Run]]:
        """Return physical offsets for records of these sizes at `offset` (by default the end), and their runs."""
        offset = self.numbers[LOG_END] if offset is None else offset
        file_size = self._files.file_size
        offsets = np.empty(len(sizes), np.int64)
        ends = np.cumsum(sizes)
        runs: list[Run] = []
        row, before = 0, 0
        while row < len(sizes):
            room = file_size - offset % file_size
            stop = int(np.searchsorted(ends, before + room - BLANK_SIZE, side="right"))
            if stop > row:
                offsets[row:stop] = offset + ends[row:stop] - sizes[row:stop] - before
                end_offset = offset + int(ends[stop - 1]) - before
                runs.append(Run(offset, end_offset, row, stop))
                offset = end_offset
                row, before = stop, int(ends[stop - 1])
            if row < len(sizes):
                if stop == row and room == file_size:
                    check_fits_a_file(int(sizes[row]), file_size)
                offset += file_size - offset % file_size
        return offsets, runs

    def make_room(self, offset: int, runs: list[Run]) -> int:
        """Create the files that runs after `offset` need, and return the end of the runs.

        Full files are ended with a blank record.
        """
        for run in runs:
            if run.phy_offset != offset:
                self._end_file(offset)
            self._file_for(run.phy_offset)
            offset = run.end_offset
            if offset >= self._look_ahead_at:
                self._look_ahead(offset)
        return offset

    def write_runs(
        self,
        data: memoryview,
        starts: npt.NDArray[np.int64],
        ends: npt.NDArray[np.int64],
        runs: list[Run],
        *,
        direct: bool = False,
    ) -> None:
        """Write the runs' bytes (`data` holds the rows one after the other) into the reserved files.

        With `direct` the write bypasses the page cache, if possible. Nothing is published: `publish` does that, and
        `undo` removes what a failed write left.
        """
        for run in runs:
            mapped = self._file_for(run.phy_offset)
            part = data[int(starts[run.start]) : int(ends[run.stop - 1])]
            if direct and self._buffered is None:
                mapped.write_direct(run.phy_offset - mapped.file_from_offset, part)
            else:
                self._write(mapped, run.phy_offset - mapped.file_from_offset, part)

    def append(self, data: bytes | bytearray | memoryview, stretches: Sequence[tuple[int, int]]) -> None:
        """Write encoded records after the end. Nothing is published; `undo` removes what a failed write left.

        A stretch (physical offset, position in `data`) holds records that are stored together in one file; `place_one`
        returned the offsets. Raises StorePoolDeficientError, before anything is written, if a file is needed and all
        buffers are in use.
        """
        at, buffered = self.numbers[LOG_END], self._buffered
        if buffered is not None and buffered.refuses and any(self._files.find(one) is None for one, _ in stretches):
            raise StorePoolDeficientError(self._files.directory, buffered.pool.size)
        for phy_offset, part in _parts(data, stretches):
            if phy_offset != at:
                self._end_file(at)
            mapped = self._file_for(phy_offset)
            self._write(mapped, phy_offset - mapped.file_from_offset, part)
            at = phy_offset + len(part)

    def place_one(self, size: int, offset: int | None = None) -> tuple[int, int]:
        """Return the offset of a record of `size` bytes that is appended at `offset` (by default the end).

        The second number is the offset up to which records may follow it in the same file.
        """
        offset = self.numbers[LOG_END] if offset is None else offset
        file_size = self._files.file_size
        if size + BLANK_SIZE > file_size:
            check_fits_a_file(size, file_size)
        room = file_size - offset % file_size
        if size + BLANK_SIZE > room:
            offset, room = offset + room, file_size
        return offset, offset + room - BLANK_SIZE

    def _end_file(self, offset: int) -> None:
        mapped = self._file_for(offset)
        position = offset - mapped.file_from_offset
        self._write(mapped, position, encode_blank(mapped.file_size - position))

    def _file_for(self, offset: int) -> MappedFile:
        return self._files.find(offset) or self._begin_file(offset - offset % self._files.file_size)

    def _begin_file(self, file_from_offset: int) -> MappedFile:
        mapped = self._files.create(file_from_offset)
        if self._buffered is not None:
            self._buffered.begin(mapped)
        return mapped

    def _write(self, mapped: MappedFile, position: int, data: bytes | bytearray | memoryview) -> None:
        if self._buffered is None:
            mapped.write(position, data)
        else:
            self._buffered.write(mapped, position, data)

    def open_window(self) -> tuple[Any, int] | None:
        """Return a window for the kernel on the next bytes of the log, and the offset before which it may end a record.

        None if there is none, or if a TransientStorePool is between the log and its files.
        """
        offset, size = self.numbers[LOG_END], self._files.file_size
        window = None if self._buffered is not None else self._files.open_window(offset, _WINDOW_BYTES)
        stop = offset - offset % size + size - BLANK_SIZE
        return None if window is None else (window, min(stop, self._look_ahead_at - 1))

    def undo(self, offset: int) -> None:
        """Remove what was written after the published offset; raise StoreFencedError if that fails."""
        if self._buffered is not None:
            self._buffered.undo(offset)
        start = offset if offset % self._files.file_size == 0 else offset - offset % self._files.file_size + 1
        try:
            self._files.drop_from(start)
            last = self._files.find(offset)
            if last is not None:
                last.zero_from(offset - last.file_from_offset)
        except (StoreError, OSError) as error:
            why = f"a failed write cannot be undone: {error}"
            raise StoreFencedError(self._files.directory, why) from error

    def publish(self, offset: int) -> None:
        """Set the end of the log to `offset`."""
        assert offset >= self.numbers[LOG_END]
        self.numbers[LOG_END] = offset
        if self._buffered is not None and not self._buffered:  # already in the files
            self._committed_to(offset)
        if offset >= self._look_ahead_at:
            self._look_ahead(offset)

    @property
    def committed_offset(self) -> int:
        """The offset before which everything published is in the files."""
        return self.numbers[LOG_END] if self._buffered is None else self._committed_offset

    def _committed_to(self, offset: int) -> None:
        with self._position_lock:
            self._committed_offset = max(self._committed_offset, offset)

    def commit(self, least_pages: int = 0) -> bool:
        """Write buffered bytes to the files, if they are at least `least_pages`; return True if there were any.

        A failure raises StoreAccessError or StoreFullError; everything stays in the buffers for the next attempt.
        """
        if self._buffered is None:
            return False
        with self._commit_lock:
            start, target = self._committed_offset, self.numbers[LOG_END]
            if not flush_due(target, start, least_pages, self._files.file_size):
                return False
            try:
                self._buffered.commit(start, target)
            except StoreError as error:
                self.commit_error = error
                raise
            self.commit_error = None
            self._committed_to(target)
            return True

    def _look_ahead(self, offset: int) -> None:
        """Preallocate the next file once this one is half full, and the one after it at three quarters."""
        size = self._files.file_size
        begin = offset - offset % size
        next_at, after_next_at = begin + size // 2, begin + size // 4 * 3
        if offset >= after_next_at:
            self._files.allocate_ahead(begin + size, begin + 2 * size)
            self._look_ahead_at = begin + size + size // 2
        elif offset >= next_at:
            self._files.allocate_ahead(begin + size)
            self._look_ahead_at = after_next_at
        else:
            self._look_ahead_at = next_at

    def sync_unpublished(self, begin: int) -> None:
        """Make the bytes written from `begin` on durable, published or not; a failure raises StoreFencedError."""
        self._files.sync_names()
        for mapped in self._files.files:
            if mapped.end_offset > begin:
                mapped.sync_in_place()

    def sync(self) -> int:
        """Make everything committed durable, and return its end. A failure raises StoreFencedError."""
        target = self.committed_offset
        self._files.sync_names()
        offset = self.flushed_offset
        while offset < target:
            mapped = self._files.find(offset)
            assert mapped is not None
            mapped.sync_in_place()
            offset = mapped.end_offset
        self.flushed_offset = max(self.flushed_offset, target)
        return target


def flush_due(wrote_offset: int, flushed_offset: int, least_pages: int, file_size: int) -> bool:
    """Return True if a flush is due: enough pages wait, or a file is full."""
    if wrote_offset <= flushed_offset:
        return False
    if wrote_offset // file_size > flushed_offset // file_size:
        return True
    return wrote_offset // PAGE_BYTES - flushed_offset // PAGE_BYTES >= least_pages


def _parts(
    data: bytes | bytearray | memoryview, stretches: Sequence[tuple[int, int]]
) -> Iterable[tuple[int, bytes | bytearray | memoryview]]:
    """Return (physical offset, bytes) of each stretch."""
    if len(stretches) == 1:
        return ((stretches[0][0], data),)
    view = memoryview(data)
    stops = [start for _, start in stretches[1:]]
    return [(phy_offset, view[start:stop]) for (phy_offset, start), stop in zip(stretches, [*stops, len(data)])]
