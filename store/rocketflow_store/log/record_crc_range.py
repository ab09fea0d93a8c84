"""In which part of a CommitLog every record ends with a CRC of itself, for those who read beside a writer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt


class RecordCrcRange:
    """Physical offsets in which a record without that CRC is damaged.

    `look` tells them ([from, to)), `mark` is another number for every start and stop of a writer: `refresh` goes by
    it. What was looked up may be less than what is true by now. Before a record is condemned it is looked up again,
    since a writer may have begun to append records without.
    """

    def __init__(self, look: Callable[[], tuple[int, int]], mark: Callable[[], int]) -> None:
        self._look, self._mark = look, mark
        self._range, self._marked = (0, 0), -1

    def refresh(self) -> None:
        """Look it up where a writer started or stopped since."""
        marked = self._mark()
        if marked != self._marked:
            self._range, self._marked = self._look(), marked

    def covers(self, phy_offset: int) -> bool:
        """Whether an offset is in it."""
        start, stop = self._range
        if not start <= phy_offset < stop:
            return False
        start, stop = self._range = self._look()
        return start <= phy_offset < stop

    def covering(self, phy_offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
        """Which of the offsets (their numbers) are in it."""
        inside = self._inside(phy_offsets)
        if len(inside):
            self._range = self._look()
            inside = self._inside(phy_offsets)
        return inside

    def _inside(self, phy_offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
        start, stop = self._range
        return np.flatnonzero((phy_offsets >= start) & (phy_offsets < stop))
