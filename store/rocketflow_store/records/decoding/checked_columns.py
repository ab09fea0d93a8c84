"""Columns of a queue's records by the compiled kernel: each record is located, checked and copied in one pass.

What the kernel does not take goes through `decode` and `record_crc`, which alone name faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from rocketflow_store.format.record import MIN_RECORD_SIZE
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.system_flags import COMPRESSED_FLAG
from rocketflow_store.records.arrow.columns import BODY_ERROR, SOURCE_SCHEMA
from rocketflow_store.records.arrow.gather import in_row, to_string
from rocketflow_store.records.decoding.decode import (
    END_OF_TIMES_MS,
    FIRST_TIME_MS,
    NUMBER_COLUMNS,
    PLACE_COLUMNS,
    PROPERTY_COLUMNS,
    ColumnBuilder,
    RecordColumns,
    batch_of,
    place_column,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from rocketflow_store.records.decoding.decode import QueueIdentity

    Ints = npt.NDArray[np.int64]

PLACE, RECORD_CRC, EVERY_CRC = 0, 1, 2
"""What is checked of a record besides its place: nothing, its own CRC, that or its body's."""
_MOST_OCTETS: Final = (1 << 31) - 1
_MOST_PROPERTIES: Final = (1 << 15) - 1


def octets_of(buffer: pa.Buffer) -> npt.NDArray[np.uint8]:
    """Return the bytes of a buffer (Arrow says that they are signed)."""
    return np.frombuffer(buffer, np.uint8)


class CheckedColumns:
    """The source's columns of checked records; those that the kernel does not make are built when they are asked for.

    `flags` are the sysFlags of all records together. `bare` are the first and the last physical offset of those without
    a CRC of their own, None if all have one.
    """

    def __init__(
        self,
        arrays: dict[str, pa.Array],
        identity: QueueIdentity,
        records: tuple[pa.Buffer, Ints, Ints],
        place: tuple[Ints, Ints],
        seen: tuple[int, tuple[int, int] | None],
    ) -> None:
        self._arrays, self._identity, self._records, self._place = arrays, identity, records, place
        self._others: ColumnBuilder | None = None
        self.count = len(place[0])
        self.flags, self.bare = seen

    def batch(self, columns: Sequence[str]) -> pa.RecordBatch:
        """Return the columns, in order, as a RecordBatch of the source's types."""
        return batch_of(self.column, columns)

    def column(self, name: str) -> pa.Array:
        """Return a column by its name in `columns.SOURCE_SCHEMA`."""
        if name not in self._arrays:
            self._arrays[name] = self._column(name)
        return self._arrays[name]

    def _column(self, name: str) -> pa.Array:
        if name in PLACE_COLUMNS:
            return place_column(name, self._identity, (self._records[2], *self._place))
        if name == BODY_ERROR:
            return pa.nulls(self.count, SOURCE_SCHEMA.field(name).type)
        if self._others is None:
            self._others = ColumnBuilder(RecordColumns(*self._records), self._identity, *self._place)
        return self._others.column(name)


def checked_columns(
    records: tuple[pa.Buffer, Ints, Ints],
    place: tuple[Ints, Ints],
    identity: QueueIdentity,
    columns: Iterable[str],
    contents: int,
) -> CheckedColumns | None:
    """Return the columns of `records` (buffer, positions, sizes), which must be at `place` (queue, physical offsets).

    None if there is no kernel, or one of the records is unusual or has a fault. `contents` is PLACE, RECORD_CRC or
    EVERY_CRC; compressed bodies are unusual with the last.
    """
    buffer, positions, sizes = records
    count = len(positions)
    if COMPILED is None or not identity.exact or not count:
        return None
    wanted = dict.fromkeys(columns)
    room = int(np.maximum(sizes, MIN_RECORD_SIZE).sum()) - MIN_RECORD_SIZE * count + 1
    if not 0 < room <= _MOST_OCTETS:
        return None
    numbers = {name: np.empty(count, f"i{NUMBER_COLUMNS[name].width}") for name in wanted if name in NUMBER_COLUMNS}
    texts = {name: _Values(count, min(room, _MOST_PROPERTIES * count)) for name in wanted if name in PROPERTY_COLUMNS}
    body = _Values(count, room) if "body" in wanted else None
    seen = COMPILED.queue_columns(
        octets_of(buffer),
        (in_row(positions), in_row(sizes), in_row(place[1]), in_row(place[0])),
        (identity.topic.encode(), identity.queue_id),
        contents,
        COMPRESSED_FLAG if contents == EVERY_CRC else 0,
        [_number(name, values) for name, values in numbers.items()],
        None if body is None else (body.offsets, octets_of(body.octets)),
        [
            (PROPERTY_COLUMNS[name].encode(), one.valid, one.offsets, octets_of(one.octets))
            for name, one in texts.items()
        ],
    )
    if seen is None:
        return None
    first, last, flags, body_size, text_sizes = seen
    arrays = {name: _number_array(name, values) for name, values in numbers.items()}
    if body is not None:
        arrays["body"] = body.array(body_size)
    for (name, one), (present, size) in zip(texts.items(), text_sizes, strict=True):
        arrays[name] = one.text_array(size, present)
    bare = None if first < 0 else (first, last)
    return CheckedColumns(arrays, identity, records, (place[0], place[1]), (flags, bare))


class _Values:
    """Buffers of a column of values, which the kernel fills."""

    def __init__(self, count: int, room: int) -> None:
        self.valid = np.zeros(-(-count // 8), np.uint8)
        self.offsets = np.empty(count + 1, np.int32)
        self.octets = pa.allocate_buffer(room, resizable=True)

    def array(self, size: int, kind: pa.DataType | None = None) -> pa.Array:
        """Return the values, of `size` bytes together."""
        self.octets.resize(size)
        count = len(self.offsets) - 1
        return pa.Array.from_buffers(kind or pa.binary(), count, [None, pa.py_buffer(self.offsets), self.octets])

    def text_array(self, size: int, present: int) -> pa.Array:
        """Return the values as strings, null where a record has none."""
        array = to_string(self.array(size))
        if present == len(array):
            return array
        return pa.Array.from_buffers(array.type, len(array), [pa.py_buffer(self.valid), *array.buffers()[1:]])


def _number(name: str, values: npt.NDArray[Any]) -> tuple[object, ...]:
    one = NUMBER_COLUMNS[name]
    bounds = (1000, FIRST_TIME_MS, END_OF_TIMES_MS) if one.is_time else (1, 0, 0)
    return one.offset, one.hosts, one.width, *bounds, values.view(np.uint8)


def _number_array(name: str, values: npt.NDArray[Any]) -> pa.Array:
    return pa.Array.from_buffers(SOURCE_SCHEMA.field(name).type, len(values), [None, pa.py_buffer(values)])
