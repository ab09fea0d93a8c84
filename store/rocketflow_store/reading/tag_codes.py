"""Tags codes of queue units that a record confirmed: a tag filter trusts no other code.

A filter skips a unit by the hash of its tag, without reading the record: a damaged code would hide a message. So the
first unit of each unwanted code is compared with its record, once for each topic: a code that no record confirms is not
trusted, and the record's tag decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

_MOST: Final = 1 << 16
"""The most codes that are kept for a topic; with more different tags, records are read again."""


class ConfirmedTagCodes:
    """Codes of one topic, as int32 (the part that filters compare)."""

    def __init__(self) -> None:
        self._codes: set[int] = set()
        self._array = np.zeros(0, np.int32)

    def __contains__(self, tags_code: int) -> bool:
        return low_half(tags_code) in self._codes

    def mask(self, tags_codes: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Return the mask of confirmed codes."""
        return np.isin(tags_codes, self._array)

    def add(self, tags_codes: set[int]) -> None:
        """Add codes that records confirmed; a concurrent reader sees the old ones or the new ones."""
        codes = {*map(low_half, tags_codes)} | (self._codes if len(self._codes) < _MOST else set())
        self._codes, self._array = codes, np.array(sorted(codes), np.int32)


class TagCodes:
    """The confirmed codes of every topic of one store."""

    def __init__(self) -> None:
        self._of_topic: dict[str, ConfirmedTagCodes] = {}

    def of(self, topic: str) -> ConfirmedTagCodes:
        """Return a topic's codes."""
        return self._of_topic.get(topic) or self._of_topic.setdefault(topic, ConfirmedTagCodes())


def low_half(tags_code: int) -> int:
    """Return the low 32 bits of a tags code, signed."""
    low = tags_code & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low
