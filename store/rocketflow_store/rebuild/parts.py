"""Parts, the output of a scan task for the write tasks: Arrow IPC files of units, of batch units, of index entries.

Units are sorted by queue, and within a queue in the order of the log. Readers map the file and copy only the rows that
they need.
"""

from __future__ import annotations

import enum
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from rocketflow_store.files import os_files
from rocketflow_store.records.arrow.unit_types import BATCH_UNIT_DTYPE, INDEX_ROW_DTYPE, UNIT_DTYPE

if TYPE_CHECKING:
    import numpy.typing as npt

    Rows = npt.NDArray[np.void]


class PartKind(enum.Enum):
    """Kind of the rows of a part."""

    UNITS = "units"
    BATCH_UNITS = "batch-units"
    ENTRIES = "entries"

    @property
    def dtype(self) -> np.dtype[np.void]:
        """Layout of one row."""
        return _DTYPES[self]


_DTYPES: Final = {
    PartKind.UNITS: UNIT_DTYPE,
    PartKind.BATCH_UNITS: BATCH_UNIT_DTYPE,
    PartKind.ENTRIES: INDEX_ROW_DTYPE,
}


def parts_directory(side: Path) -> Path:
    """Return the directory of all parts of a rebuild."""
    return side / "parts"


def part_path(side: Path, number: int, kind: PartKind) -> Path:
    """Return the path of a part of scan task `number`."""
    return parts_directory(side) / f"{number:08d}.{kind.value}"


def write_part(path: Path, kind: PartKind, rows: Rows) -> None:
    """Write `rows` to `path`; the file need not be durable: a job that is stopped begins again."""
    width = kind.dtype.itemsize
    column = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), len(rows), [None, pa.py_buffer(np.ascontiguousarray(rows).view(np.uint8).data)]
    )
    batch = pa.RecordBatch.from_arrays([column], names=[kind.value])
    os_files.make_directory(path.parent)
    own = attempt(path)
    fd = os_files.open_file(own, write=True, create=True)
    try:
        with pa.PythonFile(_Written(fd, own), "w") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
    finally:
        os_files.close_file(fd)
    finished(own, path)


class _Written:
    """A file to which Arrow writes unbuffered."""

    closed = False

    def __init__(self, fd: int, path: Path) -> None:
        self._fd, self._path, self._end = fd, path, 0

    def write(self, data: bytes | pa.Buffer) -> int:
        with memoryview(data) as view:
            os_files.write_at(self._fd, self._path, self._end, view)
            self._end += view.nbytes
            return view.nbytes

    def tell(self) -> int:
        return self._end

    def flush(self) -> None:
        """Do nothing: nothing is buffered."""

    def close(self) -> None:
        """Do nothing: the opener closes the descriptor."""


def attempt(path: Path) -> Path:
    """Return a temporary name for a file while it is written.

    A task may run twice, and one of the two may outlive the rebuild: it must never hold a file open that belongs to the
    store by then.
    """
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}")


def finished(own: Path, path: Path) -> None:
    """Rename a complete file from its `attempt` name to its final one."""
    try:
        os_files.rename(own, path)
    except OSError as error:
        raise os_files.access_error(path, error) from error


class Parts:
    """The parts of one kind below `side`, opened when they are first read."""

    def __init__(self, side: Path, kind: PartKind) -> None:
        self._side, self._kind = side, kind
        self._open: dict[int, Rows] = {}

    def rows(self, number: int, start: int, count: int) -> Rows:
        """Return `count` rows of part `number` from `start` on, a view of the file."""
        found = self._open.get(number)
        if found is None:
            found = self._open[number] = self._map(number)
        return found[start : start + count]

    def _map(self, number: int) -> Rows:
        path = part_path(self._side, number, self._kind)
        fd = os_files.open_file(path, write=False)
        try:
            buffer = os_files.map_read_only(fd, os_files.file_size(fd))
        finally:
            os_files.close_file(fd)
        batch = pa.ipc.open_file(pa.BufferReader(buffer)).get_batch(0)
        return np.frombuffer(batch.column(0).buffers()[1], self._kind.dtype, batch.num_rows)
