"""Messages of one Kafka partition as columns, built from the client's records or from record batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rocketflow_store.spi.arrow import int_array, values_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HeaderRows:
    """Headers of all rows, in order: `rows` (ascending) has each header's row; names are bytes, values may be null."""

    rows: Ints
    names: pa.Array
    values: pa.Array


@dataclass(frozen=True, slots=True)
class KafkaRows:
    """Messages of one partition, in offset order.

    `timestamps` are ms, -1 for none; `log_append` is True where the broker set the timestamp; `keys` and `values` are
    binary, null where Kafka's are.
    """

    topic: str
    partition: int
    offsets: Ints
    timestamps: Ints
    log_append: npt.NDArray[np.bool_]
    keys: pa.Array
    values: pa.Array
    headers: HeaderRows | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        return int(self.keys.nbytes + self.values.nbytes) + 24 * len(self)

    def take(self, keep: npt.NDArray[np.intp]) -> KafkaRows:
        """Return the rows at the positions `keep` (ascending)."""
        chosen = int_array(keep, pa.int64())
        headers = None
        if self.headers is not None:
            new_row = np.full(len(self), -1, np.int64)
            new_row[keep] = np.arange(len(keep))
            rows = new_row[self.headers.rows]
            kept = np.flatnonzero(rows >= 0)
            wanted = int_array(kept, pa.int64())
            headers = HeaderRows(rows[kept], self.headers.names.take(wanted), self.headers.values.take(wanted))
        return KafkaRows(
            self.topic,
            self.partition,
            self.offsets[keep],
            self.timestamps[keep],
            self.log_append[keep],
            self.keys.take(chosen),
            self.values.take(chosen),
            headers,
        )


def rows_of_records(topic: str, partition: int, records: Sequence[Any]) -> KafkaRows:
    """Convert the client's `ConsumerRecord`s into columns."""
    headers = None
    if any(record.headers for record in records):
        flat = [(row, name, value) for row, record in enumerate(records) for name, value in record.headers]
        headers = HeaderRows(
            np.array([one[0] for one in flat], np.int64),
            values_array([one[1].encode() for one in flat], pa.binary()),
            values_array([one[2] for one in flat], pa.binary()),
        )
    stamps = [record.timestamp for record in records]
    return KafkaRows(
        topic,
        partition,
        np.array([record.offset for record in records], np.int64),
        np.array([-1 if one is None else one for one in stamps], np.int64),
        np.array([record.timestamp_type == 1 for record in records], np.bool_),
        values_array([record.key for record in records], pa.binary()),
        values_array([record.value for record in records], pa.binary()),
        headers,
    )
