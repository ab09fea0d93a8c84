"""Records of one queue, found by its ConsumeQueue units, as Arrow columns.

A row is returned only if the record confirms it: size, magic code, physical offset, queue, queue offset, topic and
lengths are checked here, the CRC in `record_crc`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from rocketflow_store.format.lmq_properties import lmq_units
from rocketflow_store.format.record import FIXED_SIZE, MAGIC_V1, MAGIC_V2, MAX_V1_TOPIC_SIZE, MIN_RECORD_SIZE
from rocketflow_store.model.compression import decompress_body
from rocketflow_store.model.errors import CorruptRecordError, UnsupportedRecordError
from rocketflow_store.model.message_id import decode_host
from rocketflow_store.model.property_names import (
    PROPERTY_INNER_MULTI_DISPATCH,
    PROPERTY_INNER_MULTI_QUEUE_OFFSET,
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
)
from rocketflow_store.model.system_flags import BORN_HOST_V6_FLAG, COMPRESSED_FLAG, STORE_HOST_V6_FLAG
from rocketflow_store.records.arrow.columns import SOURCE_SCHEMA
from rocketflow_store.records.arrow.gather import (
    constant_string,
    fixed_width_at,
    gather,
    int_array,
    to_string,
    values_array,
    windows_at,
)
from rocketflow_store.records.decoding.properties import PropertySegments, split_properties

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]


_HEAD_SIZE: Final = 88
"""Size of everything before the body if both hosts are IPv4."""


class NumberField(NamedTuple):
    """A number of a record: `offset` if both hosts are IPv4, the number of `hosts` before it, and its width."""

    offset: int
    hosts: int
    width: int
    is_time: bool = False


NUMBER_COLUMNS: Final = {
    "flag": NumberField(16, 0, 4),
    "sysFlag": NumberField(36, 0, 4),
    "bornTimestamp": NumberField(40, 0, 8, is_time=True),
    "storeTimestamp": NumberField(56, 1, 8, is_time=True),
    "reconsumeTimes": NumberField(72, 2, 4),
    "preparedTransactionOffset": NumberField(76, 2, 8),
    "bodyCRC": NumberField(8, 0, 4),
}
PLACE_COLUMNS: Final = frozenset({"topic", "queueId", "queueOffset", "physicalOffset", "storeSize", "brokerName"})
"""Columns that follow from the record's place, whatever its other bytes are."""
PROPERTY_COLUMNS: Final = {"tags": PROPERTY_TAGS, "keys": PROPERTY_KEYS, "uniqKey": PROPERTY_UNIQ_KEY}


class QueueIdentity(NamedTuple):
    """The queue whose records are expected.

    Not `exact` for LMQs: their records are of other topics, and name them.
    """

    topic: str
    queue_id: int
    broker_name: str
    exact: bool = True


class RecordColumns:
    """Views on the fields of `count` records at `positions` of `buffer`.

    The constructor checks bounds and lengths; `faults` then holds the first fault of each bad row.
    """

    def __init__(self, buffer: pa.Buffer, positions: Ints, sizes: Ints) -> None:
        self.count = len(positions)
        self.faults: dict[int, str] = {}
        self._segments: PropertySegments | None = None
        inside = (positions >= 0) & (sizes >= MIN_RECORD_SIZE) & (positions + sizes <= buffer.size)
        # too short for any record: zeros instead, so that fields can be read
        self.buffer = buffer if buffer.size >= MIN_RECORD_SIZE else pa.py_buffer(bytes(MIN_RECORD_SIZE))
        self.octets = np.frombuffer(self.buffer, np.uint8)
        if not inside.all():
            self._expect(inside, "record reaches outside of the file")
            positions = np.where(inside, positions, 0)
            sizes = np.where(inside, sizes, 0)
        self.positions, self.sizes = positions, sizes
        # one copy of every head, so that fields are read from the cache and not from all over the file
        self._heads = windows_at(self.octets, _HEAD_SIZE, positions)
        self._locate(inside)

    def _locate(self, inside: Mask) -> None:
        self._expect(self.field(">i4", 0) == self.sizes, "size differs from the queue unit's")
        magic = self.field(">i4", 4)
        v2: Mask | None = None
        if not (magic == MAGIC_V1).all():
            v2 = magic == MAGIC_V2
            self._expect(v2 | (magic == MAGIC_V1), "magic code is not that of a record")
        self.sys_flag = self.field(">i4", 36)
        self.born_v6 = self.sys_flag & BORN_HOST_V6_FLAG != 0
        self.store_v6 = self.sys_flag & STORE_HOST_V6_FLAG != 0
        self.plain_hosts = not (self.born_v6 | self.store_v6).any()
        hosts: Ints | int = 0 if self.plain_hosts else 12 * self.born_v6.astype(np.int64) + 12 * self.store_v6
        ends = self.positions + self.sizes
        body_sizes = self.after_hosts(">i4", 84).astype(np.int64)
        self.body_starts = self.positions + (_HEAD_SIZE + hosts)
        fits = (body_sizes >= 0) & (self.body_starts + body_sizes <= ends - 3)
        if not (fits & inside).all():
            body_sizes = np.where(fits & inside, body_sizes, 0)
        self.body_ends = self.body_starts + body_sizes
        topic_sizes, properties_sizes = self._tails(v2)
        self.properties_starts = self.topic_ends + 2
        self.properties_ends = self.properties_starts + np.maximum(properties_sizes, 0)
        fits &= (topic_sizes >= 0) & (self.topic_ends + 2 <= ends) & (self.properties_ends == ends)
        self._expect(fits, "lengths of the parts do not add up to the record's size")

    def _tails(self, v2: Mask | None) -> tuple[Ints, Ints]:
        """Return (topic sizes, properties sizes), and set the positions of the topics."""
        # never outside of the record: the page after it may be unreadable
        last = np.maximum(self.positions + self.sizes - 2, self.positions)
        at = np.minimum(self.body_ends, last)
        self._topics: npt.NDArray[np.uint8] | None = None
        if self.count and v2 is None:
            guess = int(self.octets[at[0]])
            width = guess + 3
            if guess <= MAX_V1_TOPIC_SIZE and bool((at + width <= last + 2).all()):
                # usually all topics are as long as the first: one copy of length, name and properties' length
                tails = windows_at(self.octets, width, at)
                if bool((tails[:, 0] == guess).all()):
                    self._topics = tails[:, 1 : 1 + guess]
                    self.topic_starts = self.body_ends + 1
                    self.topic_ends = self.topic_starts + guess
                    sizes = tails[:, 1 + guess].astype(np.int64) << 8 | tails[:, 2 + guess]
                    return np.full(self.count, guess, np.int64), np.where(sizes >= 1 << 15, sizes - (1 << 16), sizes)
        topic_sizes = self.octets[at].view(np.int8).astype(np.int64)
        topic_length_size: Ints | int = 1
        if v2 is not None:
            topic_sizes = np.where(v2, fixed_width_at(self.octets, ">i2", at), topic_sizes)
            topic_length_size = np.where(v2, 2, 1)
        self.topic_starts = self.body_ends + topic_length_size
        self.topic_ends = self.topic_starts + topic_sizes
        sizes_at = np.clip(self.topic_ends, self.positions, last)
        return topic_sizes, fixed_width_at(self.octets, ">i2", sizes_at).astype(np.int64)

    def _expect(self, good: Mask, why: str) -> None:
        """Give the fault `why` to rows that are not `good` and have no fault yet."""
        if not good.all():
            for row in np.flatnonzero(~good).tolist():
                self.faults.setdefault(row, why)

    def field(self, dtype: str, offset: int) -> npt.NDArray[Any]:
        """Return a field at a constant distance from each record's first byte, up to the born host."""
        return self._in_heads(dtype, offset)

    def after_born_host(self, dtype: str, offset: int) -> npt.NDArray[Any]:
        """Return a field whose `offset` is that with an IPv4 born host."""
        if self.plain_hosts:
            return self._in_heads(dtype, offset)
        return fixed_width_at(self.octets, dtype, self.positions + offset + 12 * self.born_v6.astype(np.int64))

    def after_hosts(self, dtype: str, offset: int) -> npt.NDArray[Any]:
        """Return a field whose `offset` is that with two IPv4 hosts."""
        if self.plain_hosts:
            return self._in_heads(dtype, offset)
        shift = 12 * self.born_v6.astype(np.int64) + 12 * self.store_v6.astype(np.int64)
        last = np.maximum(self.positions + self.sizes - np.dtype(dtype).itemsize, self.positions)
        return fixed_width_at(self.octets, dtype, np.minimum(self.positions + offset + shift, last))

    def number(self, one: NumberField) -> npt.NDArray[Any]:
        """Return a number of each record."""
        read = (self.field, self.after_born_host, self.after_hosts)[one.hosts]
        return read(f">i{one.width}", one.offset)

    def _in_heads(self, dtype: str, offset: int) -> npt.NDArray[Any]:
        wire = np.dtype(dtype)
        if self.count == 0:
            return np.zeros(0, wire.newbyteorder("="))
        view: npt.NDArray[Any] = np.ndarray(
            (self.count,), wire, buffer=self._heads, offset=offset, strides=(_HEAD_SIZE,)
        )
        return view.astype(wire.newbyteorder("="))

    def check_own_offset(self, file_from_offset: int) -> None:
        """Check that each record's physical offset is its position in a file that begins at `file_from_offset`."""
        self._expect(self.field(">i8", 28) == self.positions + file_from_offset, "physical offset is another one")

    def check_place(self, phy_offsets: Ints, queue_offsets: Ints, identity: QueueIdentity) -> None:
        """Check that each record's offsets and queue are those at which it was found (D1)."""
        self._expect(self.field(">i8", 28) == phy_offsets, "physical offset is another one")
        if not identity.exact:
            self._expect(self._names_lmq(identity.topic, queue_offsets), "it does not name this queue")
            return
        self._expect(self.field(">i4", 12) == identity.queue_id, "queue id is another one")
        self._expect(self.field(">i8", 20) == queue_offsets, "queue offset is another one")
        self._expect(self.of_topic(identity.topic.encode()), "topic is another one")

    def _names_lmq(self, name: str, queue_offsets: Ints) -> Mask:
        """Return a mask of the records without a fault that are in an LMQ at these offsets."""
        named = np.zeros(self.count, bool)
        sound = np.array([row for row in range(self.count) if row not in self.faults], np.intp)
        if len(sound):
            records = self.keep(sound) if self.faults else self
            for row, one, queue_offset in records.lmqs():
                at = int(sound[row])
                named[at] |= one == name and queue_offset == int(queue_offsets[at])
        return named

    def of_topic(self, topic: bytes) -> Mask:
        """Return a mask of the records of a topic."""
        name = np.frombuffer(topic, np.uint8)
        if self._topics is not None and self._topics.shape[1] == len(name):
            return (self._topics == name).all(axis=1)  # type: ignore[no-any-return]
        # the topic of a record with wrong lengths may be outside of the buffer
        same: Mask = (self.topic_ends - self.topic_starts == len(name)) & (self.topic_ends <= len(self.octets))
        rows = np.flatnonzero(same)
        same[rows] = (windows_at(self.octets, len(name), self.topic_starts[rows]) == name).all(axis=1)
        return same

    def bodies(self) -> pa.Array:
        """Return the stored bodies."""
        return gather(self.buffer, self.body_starts, self.body_ends)

    def property_segments(self) -> PropertySegments:
        """Return the pairs of all property strings; they are parsed once."""
        if self._segments is None:
            self._segments = split_properties(gather(self.buffer, self.properties_starts, self.properties_ends))
        return self._segments

    def lmqs(self) -> list[tuple[int, str, int]]:
        """Return (row, name, queue offset) of the LMQs that the records are in."""
        segments = self.property_segments()
        lengths = segments.name_ends - segments.name_starts
        if not (lengths == len(PROPERTY_INNER_MULTI_QUEUE_OFFSET)).any():
            return []
        offsets = segments.column(PROPERTY_INNER_MULTI_QUEUE_OFFSET)
        names = segments.column(PROPERTY_INNER_MULTI_DISPATCH)
        rows = np.flatnonzero(np.asarray(offsets.is_valid()) & np.asarray(names.is_valid())).tolist()
        return [
            (row, name, offset)
            for row in rows
            for name, offset in lmq_units(
                {
                    PROPERTY_INNER_MULTI_DISPATCH: names[row].as_py(),
                    PROPERTY_INNER_MULTI_QUEUE_OFFSET: offsets[row].as_py(),
                }
            )
        ]

    def topics(self) -> pa.Array:
        """Return the topics of the records."""
        return to_string(gather(self.buffer, self.topic_starts, self.topic_ends))

    def hosts(self, offset: int, v6: Mask, shifted: bool) -> list[bytes]:
        """Return the host bytes (8 or 20 each) at `offset` (that with an IPv4 born host)."""
        shift: Ints | int = 12 * self.born_v6.astype(np.int64) if shifted and not self.plain_hosts else 0
        starts = self.positions + offset + shift
        return gather(self.buffer, starts, starts + np.where(v6, 20, 8)).to_pylist()  # type: ignore[no-any-return]

    def keep(self, rows: npt.NDArray[np.intp]) -> RecordColumns:
        """Return a view on some of the rows."""
        return RecordColumns(self.buffer, self.positions[rows], self.sizes[rows])

    def before_faults(self) -> RecordColumns:
        """Return a view on the rows before the first fault."""
        return self.keep(np.arange(min(self.faults))) if self.faults else self


def decompressed_runs(
    records: RecordColumns, most_bytes: int, keeps: Callable[[int, str], bool]
) -> Iterator[tuple[list[int], Bodies]]:
    """Yield runs of rows with their bodies; compressed ones (sysFlag bit 0) are decompressed.

    A run ends after the row with which its bodies reach `most_bytes`. `keeps` is called with each row whose body cannot
    be decompressed, and the reason: True keeps the body as it is stored, False skips the row.
    """
    rows, size, values, errors = list[int](), 0, list[bytes](), list[bytes | None]()
    for row, (body, sys_flag) in enumerate(zip(records.bodies().to_pylist(), records.sys_flag.tolist(), strict=True)):
        error = None
        try:
            values.append(decompress_body(body, sys_flag) if sys_flag & COMPRESSED_FLAG else body)
        except (CorruptRecordError, UnsupportedRecordError) as fault:
            if not keeps(row, fault.why):
                continue
            values.append(body)
            error = fault.why.encode()
        rows.append(row)
        errors.append(error)
        size += len(values[-1])
        if size >= most_bytes:
            yield rows, Bodies.of(values, errors)
            rows, size, values, errors = [], 0, [], []
    if rows:
        yield rows, Bodies.of(values, errors)


@dataclass(frozen=True, slots=True)
class Bodies:
    """Decompressed bodies; `errors` are the reasons for those that are as they are stored, else null."""

    values: pa.Array
    errors: pa.Array

    @classmethod
    def of(cls, values: Sequence[bytes], errors: Sequence[bytes | None]) -> Bodies:
        """Return the bodies of some rows, and the reasons by row."""
        return cls(values_array(values, pa.binary()), values_array(errors, pa.string()))


@lru_cache(maxsize=64)
def _schema_of(columns: tuple[str, ...]) -> pa.Schema:
    return pa.schema([SOURCE_SCHEMA.field(name) for name in columns])


def batch_of(column: Callable[[str], pa.Array], columns: Sequence[str]) -> pa.RecordBatch:
    """Return the columns that `column` builds, in order, as a RecordBatch of the source's types."""
    return pa.RecordBatch.from_arrays([column(name) for name in columns], schema=_schema_of(tuple(columns)))


def place_column(name: str, identity: QueueIdentity, place: tuple[Ints, Ints, Ints]) -> pa.Array:
    """Return a column that follows from the records' place: (sizes, queue offsets, physical offsets)."""
    sizes, queue_offsets, phy_offsets = place
    count, kind = len(sizes), SOURCE_SCHEMA.field(name).type
    match name:
        case "topic":
            return constant_string(identity.topic, count)
        case "brokerName":
            return constant_string(identity.broker_name, count)
        case "queueId":
            return int_array(np.full(count, identity.queue_id, np.int32), kind)
        case "queueOffset":
            return int_array(queue_offsets, kind)
        case "storeSize":
            return int_array(sizes, kind)
        case "physicalOffset":
            return int_array(phy_offsets, kind)
    raise AssertionError(f"column {name} is in the schema but not built")


class ColumnBuilder:
    """Builds the source's columns of checked records, each at most once and only those requested.

    `bodies` are the decompressed bodies; None to return the stored ones, none of which is compressed.
    """

    def __init__(
        self,
        records: RecordColumns,
        identity: QueueIdentity,
        queue_offsets: Ints,
        phy_offsets: Ints,
        bodies: Bodies | None = None,
    ) -> None:
        self._records, self._identity, self._bodies = records, identity, bodies
        self._queue_offsets, self._phy_offsets = queue_offsets, phy_offsets
        self._segments: PropertySegments | None = None
        self._built: dict[str, pa.Array] = {}

    def batch(self, columns: Sequence[str]) -> pa.RecordBatch:
        """Return the columns, in order, as a RecordBatch of the source's types."""
        return batch_of(self.column, columns)

    def column(self, name: str) -> pa.Array:
        """Return a column by its name in `columns.SOURCE_SCHEMA`; it is built at the first call."""
        if name not in self._built:
            self._built[name] = self._column(name)
        return self._built[name]

    def _column(self, name: str) -> pa.Array:
        records, count = self._records, self._records.count
        kind = SOURCE_SCHEMA.field(name).type
        if name in NUMBER_COLUMNS:
            one = NUMBER_COLUMNS[name]
            return _times(records.number(one), kind) if one.is_time else int_array(records.number(one), kind)
        if name in PROPERTY_COLUMNS:
            return self.segments.column(PROPERTY_COLUMNS[name])
        match name:
            case "body":
                return records.bodies() if self._bodies is None else self._bodies.values
            case "bodyError":
                return pa.nulls(count, kind) if self._bodies is None else self._bodies.errors
            case "msgId":
                return self._msg_ids()
            case "bornHost":
                return _host_names(records.hosts(48, records.born_v6, shifted=False))
            case "storeHost":
                return _host_names(records.hosts(64, records.store_v6, shifted=True))
            case "properties":
                return self.segments.maps()
        return place_column(name, self._identity, (records.sizes, self._queue_offsets, self._phy_offsets))

    @property
    def count(self) -> int:
        """The number of rows."""
        return self._records.count

    @property
    def segments(self) -> PropertySegments:
        if self._segments is None:
            self._segments = self._records.property_segments()
        return self._segments

    def _msg_ids(self) -> pa.Array:
        hosts = self._records.hosts(64, self._records.store_v6, shifted=True)
        offsets = self._phy_offsets.astype(">i8").view(np.uint8).reshape(-1, 8)
        if not self._records.store_v6.any():
            raw = np.empty((len(hosts), 16), np.uint8)
            raw[:, :8] = np.frombuffer(b"".join(hosts), np.uint8).reshape(-1, 8)
            raw[:, 8:] = offsets
            return hex_strings(raw)
        text = [(host + offset.tobytes()).hex().upper() for host, offset in zip(hosts, offsets, strict=True)]
        return values_array([one.encode() for one in text], pa.string())


FIRST_TIME_MS: Final = -62_104_060_800_000  # the begin of the year 2
END_OF_TIMES_MS: Final = 253_370_764_800_000  # the begin of the year 9999


def _times(milliseconds: npt.NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    """Return times in ms as timestamps; null outside of the years 2 to 9998, which each time zone's calendar has."""
    if not len(milliseconds) or (
        int(milliseconds.min()) >= FIRST_TIME_MS and int(milliseconds.max()) < END_OF_TIMES_MS
    ):
        return int_array(milliseconds * 1000, kind)
    known = (milliseconds >= FIRST_TIME_MS) & (milliseconds < END_OF_TIMES_MS)
    return pa.array(np.where(known, milliseconds, 0).astype(np.int64) * 1000, mask=~known).cast(kind)


_HEX_PAIRS = np.frombuffer("".join(f"{value:02X}" for value in range(256)).encode(), "<u2")


def hex_strings(raw: npt.NDArray[np.uint8]) -> pa.Array:
    """Return rows of bytes, shape (n, width), as upper-case hex strings."""
    count, width = raw.shape
    offsets = np.arange(0, (count + 1) * 2 * width, 2 * width, dtype=np.int32)
    digits = _HEX_PAIRS[raw]
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(digits)])


def _host_names(hosts: list[bytes]) -> pa.Array:
    names = {host: decode_host(host).encode() for host in set(hosts)}
    if len(names) == 1:
        return constant_string(decode_host(hosts[0]), len(hosts))
    parts = [names[host] for host in hosts]
    offsets = np.zeros(len(parts) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, parts), np.int32, len(parts)), out=offsets[1:])
    return pa.Array.from_buffers(pa.string(), len(parts), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(parts))])


assert FIXED_SIZE == 74, "the offsets above are those of this layout"
