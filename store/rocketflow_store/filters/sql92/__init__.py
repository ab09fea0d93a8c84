"""RocketMQ's SQL92 filters over message properties, message by message or a batch at a time.

paid = compile_filter("amount > 100 AND region IN ('eu', 'us')")
paid.matches({"amount": "250", "region": "eu"})
paid.mask({"amount": amounts, "region": regions})
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocketflow_store.filters.sql92.parser import parse
from rocketflow_store.filters.sql92.scalar import IncomparableError, evaluate

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from rocketflow_store.filters.sql92.syntax_tree import Node

__all__ = ["SqlFilter", "compile_filter"]


@dataclass(frozen=True, slots=True)
class SqlFilter:
    """A compiled expression; `properties` are the names it uses, in order of appearance."""

    expression: str
    properties: tuple[str, ...]
    root: Node

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Return True if the condition is TRUE; null, FALSE and values that cannot be compared do not match."""
        try:
            return evaluate(self.root, properties) is True
        except IncomparableError:
            return False

    def mask(
        self, columns: Mapping[str, pa.Array | pa.ChunkedArray], num_rows: int | None = None
    ) -> npt.NDArray[np.bool_]:
        """Return `matches` of every row, bool[rows]. Columns are strings, null where a message lacks the property.

        A property without a column is missing everywhere; `num_rows` is needed only when no column is given.
        """
        from rocketflow_store.filters.sql92.columnar import mask

        if num_rows is None:
            if not columns:
                raise ValueError("num_rows is needed when no column is given")
            num_rows = len(next(iter(columns.values())))
        return mask(self.root, columns, num_rows)


def compile_filter(expression: str) -> SqlFilter:
    """Compile a SQL92 expression to a filter.

    Raises:
        InvalidFilterError: the expression is invalid; the error has the position and the reason.
    """
    root, properties = parse(expression)
    return SqlFilter(expression, properties, root)
