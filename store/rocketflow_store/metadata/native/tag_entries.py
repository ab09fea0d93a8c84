"""The parts of the log for which RocketFlow wrote an index entry for the TAGS of every record that has some.

Only there a missing entry is damage. RocketMQ before 5.4.0 writes none, so in what its brokers wrote (of either kind,
one after the other) such entries may exist or not. The ranges are valid as long as the index file that was the newest
when they were recorded exists: a broker that recovers from a crash deletes the newest files, and creates others under
other names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection

    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class TagEntries:
    """Ranges `[start, end)` of physical offsets, ascending and disjoint; `newest_file` is the newest index file of
    then.
    """

    ranges: tuple[tuple[int, int], ...] = ()
    newest_file: str = ""

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """Parse what `as_json` returned; no ranges for None. Raises ValueError or TypeError for anything else."""
        if document is None:
            return cls()
        return cls(tuple((int(start), int(end)) for start, end in document["ranges"]), str(document["newestFile"]))

    def as_json(self) -> dict[str, Any]:
        return {"ranges": [list(one) for one in self.ranges], "newestFile": self.newest_file}

    def believed(self, names: Collection[str]) -> Self:
        """Return the ranges if the index file that was the newest is among `names`, else none.

        Retention never deletes that file.
        """
        return self if not self.newest_file or self.newest_file in names else type(self)()

    def extended(self, start: int, end: int) -> Self:
        """Return the ranges with `[start, end)` appended."""
        kept = tuple((first, min(last, start)) for first, last in self.ranges if first < start)
        if kept and kept[-1][1] == start:
            start, kept = kept[-1][0], kept[:-1]
        return type(self)((*kept, (start, end)) if start < end else kept, self.newest_file)

    def last_from(self, end: int) -> int:
        """Return where the range that ends at `end` begins; `end` if there is none."""
        return self.ranges[-1][0] if self.ranges and self.ranges[-1][1] == end else end

    def contains(self, phy_offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return a mask of the offsets that are in a range."""
        inside = np.zeros(len(phy_offsets), bool)
        for first, last in self.ranges:
            inside |= (phy_offsets >= first) & (phy_offsets < last)
        return inside
