"""SQL92 filters over the properties of messages as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketflow_store.spi.filters import SqlFilter, compile_filter

if TYPE_CHECKING:
    import numpy.typing as npt


class SqlRows:
    """Finds the rows whose properties pass an expression."""

    def __init__(self, expression: str) -> None:
        self._filter: SqlFilter = compile_filter(expression)
        self._lookups = {
            name: pc.MapLookupOptions(query_key=_scalar(name), occurrence="last") for name in self._filter.properties
        }

    def mask(self, properties: pa.Array) -> npt.NDArray[np.bool_]:
        """Return the mask of the rows that pass; `properties` is their map column."""
        columns = {
            name: pc.call_function("map_lookup", [properties], options) for name, options in self._lookups.items()
        }
        return self._filter.mask(columns, len(properties))


def _scalar(text: str) -> pa.Scalar:
    """Return a string scalar; pa.scalar would import pandas."""
    raw = text.encode()
    offsets = np.array([0, len(raw)], np.int32)
    return pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(raw)])[0]
