"""SQL92 filters over RecordBatches that carry the messages' properties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketflow_store.spi.filters import SqlFilter, compile_filter

if TYPE_CHECKING:
    import numpy.typing as npt


class SqlRows:
    """Keeps the rows of a batch whose properties pass an expression."""

    def __init__(self, expression: str) -> None:
        self._filter: SqlFilter = compile_filter(expression)
        self._lookups = {
            name: pc.MapLookupOptions(query_key=_scalar(name), occurrence="last") for name in self._filter.properties
        }

    def keep(self, batch: pa.RecordBatch, properties: pa.Array) -> pa.RecordBatch:
        """Return the rows that pass; `properties` is the map column of the same rows."""
        columns = {
            name: pc.call_function("map_lookup", [properties], options) for name, options in self._lookups.items()
        }
        mask = self._filter.mask(columns, batch.num_rows)
        if mask.all():
            return batch
        kept: Any = batch.filter(_booleans(mask))
        return kept


def _booleans(mask: npt.NDArray[np.bool_]) -> pa.Array:
    bits = np.packbits(mask, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, pa.py_buffer(bits)])


def _scalar(text: str) -> pa.Scalar:
    """Return a string scalar; pa.scalar would import pandas."""
    raw = text.encode()
    offsets = np.array([0, len(raw)], np.int32)
    return pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(raw)])[0]
