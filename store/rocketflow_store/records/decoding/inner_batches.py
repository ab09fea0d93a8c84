"""Inner batches as rows: one row for each message of a record that holds several.

They are unwrapped as by RocketMQ's clients: body, flag and properties are the message's own, the queue offset counts on
from the record's; physical offsets, times, hosts, ids and sysFlag are the record's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from rocketflow_store.format.batch_body import BODY_AT, BODY_SIZE_AT, FLAG_AT, entry_positions
from rocketflow_store.model.system_flags import WRAPPED
from rocketflow_store.records.arrow.columns import BODY_ERROR, SOURCE_SCHEMA
from rocketflow_store.records.arrow.crc import crc32_column
from rocketflow_store.records.arrow.gather import fixed_width_at, gather, int_array, values_array
from rocketflow_store.records.decoding.batch_entries import entry_positions_of
from rocketflow_store.records.decoding.decode import PROPERTY_COLUMNS
from rocketflow_store.records.decoding.properties import split_properties

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

RECORD_COLUMNS: Final = ("body", "sysFlag", "queueOffset", BODY_ERROR)
"""Columns of the records that `unwrap` needs besides the requested ones."""


class NoBatchBodyError(ValueError):
    """The body of the record in `row` is not a batch; the text gives the reason."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(why)
        self.row = row


def unwrap(records: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Return the messages of `records`, in order, with just `columns`; a record that is no batch is one message.

    `records` has `columns` and RECORD_COLUMNS. A record whose body could not be decompressed is one message too. Raises
    NoBatchBodyError.
    """
    wrapped = np.asarray(records.column("sysFlag")) & WRAPPED == WRAPPED
    errors = records.column(BODY_ERROR)
    if errors.null_count < len(errors):
        wrapped &= ~np.asarray(errors.is_valid())
    if not wrapped.any():
        return records.select(columns)
    messages = _messages(records, np.flatnonzero(wrapped), (*columns, "queueOffset"))
    if not wrapped.all():
        plain = records.take(int_array(np.flatnonzero(~wrapped), pa.int64())).select(messages.schema.names)
        both = pa.Table.from_batches([messages, plain.cast(messages.schema)]).combine_chunks()
        order = np.argsort(np.asarray(both.column(both.num_columns - 1)), kind="stable")
        messages = both.take(int_array(order, pa.int64())).combine_chunks().to_batches()[0]
    return pa.RecordBatch.from_arrays(messages.columns[:-1], names=list(columns))


def without_batch(records: pa.RecordBatch, error: NoBatchBodyError, columns: Sequence[str]) -> pa.RecordBatch:
    """Return the record of `error` as one message, with the error as its `bodyError`."""
    record = records.slice(error.row, 1)
    why = values_array([str(error).encode()], pa.string())
    arrays = [why if name == BODY_ERROR else record.column(record.schema.get_field_index(name)) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _entries(bodies: Sequence[bytes], rows: Ints) -> list[Ints]:
    """Return the positions of the entries of each body; raise NoBatchBodyError for the row of an invalid one."""
    together = entry_positions_of(bodies)
    if together is not None:
        return together
    found = []
    for body, row in zip(bodies, rows.tolist(), strict=True):
        try:
            found.append(np.array(entry_positions(body), np.int64))
        except ValueError as error:
            raise NoBatchBodyError(row, str(error)) from error
    return found


def _messages(records: pa.RecordBatch, rows: Ints, columns: Sequence[str]) -> pa.RecordBatch:
    """Return the messages of the batches in `rows`."""
    bodies = records.column("body")
    ends = np.frombuffer(bodies.buffers()[1], np.int32, len(bodies) + 1, bodies.offset * 4).astype(np.int64)
    values = bodies.buffers()[2]
    octets = np.frombuffer(values, np.uint8)
    found = _entries([octets[ends[row] : ends[row + 1]].tobytes() for row in rows.tolist()], rows)
    counts = np.array([len(one) for one in found], np.int64)
    schema = pa.schema([SOURCE_SCHEMA.field(name) for name in columns])
    if not counts.any():
        return pa.RecordBatch.from_arrays([pa.array([], one.type) for one in schema], schema=schema)
    of_record = np.repeat(rows, counts)
    at = np.concatenate(found) + ends[of_record]
    body_ends = at + BODY_AT + fixed_width_at(octets, ">i4", at + BODY_SIZE_AT)
    own_ends = body_ends + 2 + fixed_width_at(octets, ">i2", body_ends)
    own_bodies = gather(values, at + BODY_AT, body_ends)
    segments = split_properties(gather(values, body_ends + 2, own_ends))
    in_record = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)

    def column(name: str) -> pa.Array:
        kind = SOURCE_SCHEMA.field(name).type
        match name:
            case "body":
                return own_bodies
            case "flag":
                return int_array(fixed_width_at(octets, ">i4", at + FLAG_AT), kind)
            case "bodyCRC":
                return int_array(crc32_column(own_bodies) & 0x7FFFFFFF, kind)
            case "queueOffset":
                return int_array(np.asarray(records.column(name))[of_record] + in_record, kind)
            case "tags" | "keys" | "uniqKey":
                return segments.column(PROPERTY_COLUMNS[name])
            case "properties":
                return segments.maps()
        return records.column(name).take(int_array(of_record, pa.int64()))

    return pa.RecordBatch.from_arrays([column(name) for name in columns], schema=schema)
