"""RocketMQ's tag expressions: `*`, or tags joined by `||`.

A queue unit holds only the tag's Java hash, so a match by code is a candidate; the record's own tag decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocketflow_store.model.errors import InvalidFilterError
from rocketflow_store.model.java_compat import string_hash

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class TagFilter:
    """The tags of an expression: messages with one of them match, or every message if it `matches_all`."""

    tags: tuple[str, ...]
    codes: frozenset[int]
    matches_all: bool = False

    @classmethod
    def parse(cls, expression: str | None) -> TagFilter:
        """Return the filter of an expression; None, an empty string and `*` match every message.

        As in RocketMQ, blanks match no message.

        Raises:
            InvalidFilterError: the expression consists of separators alone.
        """
        if expression is None or expression in ("", "*"):
            return cls((), frozenset(), matches_all=True)
        parts = expression.split("||")
        if not any(parts):
            raise InvalidFilterError(expression, 0, "names no tag; use * for all, or TagA || TagB")
        tags = tuple(dict.fromkeys(tag.strip() for tag in parts if tag.strip()))
        return cls(tags, frozenset(string_hash(tag) for tag in tags))

    @property
    def matches_none(self) -> bool:
        return not (self.tags or self.matches_all)

    def matches_code(self, tags_code: int) -> bool:
        """Return True if a unit with this tags code may have one of the tags; only its low 32 bits count."""
        low = tags_code & 0xFFFFFFFF
        return self.matches_all or (low - (1 << 32) if low >> 31 else low) in self.codes

    def mask_codes(self, tags_codes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return `matches_code` of each of `tags_codes`, bool[n]."""
        import numpy as np

        if self.matches_all:
            return np.ones(len(tags_codes), bool)
        return np.isin(tags_codes.astype(np.int32), np.array(sorted(self.codes), np.int32))

    def matches_tag(self, tag: str | None) -> bool:
        """Return True if a message with this TAGS property matches."""
        return self.matches_all or tag in self.tags

    def mask_tags(self, column: pa.Array) -> npt.NDArray[np.bool_]:
        """Return `matches_tag` of each value of a string column, bool[n]; null means no tag."""
        import numpy as np
        import pyarrow.compute as pc

        if self.matches_all:
            return np.ones(len(column), bool)

        options = pc.SetLookupOptions(value_set=_strings(self.tags))
        mask: Any = pc.call_function("is_in", [column], options)
        return np.asarray(mask.to_numpy(zero_copy_only=False), dtype=bool)


def _strings(values: tuple[str, ...]) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    raw = [value.encode() for value in values]
    offsets = np.zeros(len(raw) + 1, np.int32)
    np.cumsum([len(one) for one in raw], out=offsets[1:])
    return pa.Array.from_buffers(pa.string(), len(raw), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(raw))])
