"""Messages that a command skips because they cannot be read: reported one by one, and counted."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketflow_store import GetMessageResult, SkipFaults
    from rocketflow_store.spi.reads import SkippedMessages


class SkippedReport:
    """Reports and counts the skipped messages of one output."""

    def __init__(self) -> None:
        self.count = 0

    def removed(self, queue_id: int, start: int, stop: int) -> None:
        """Report requested offsets [start, stop) before the queue's first."""
        if start < stop:
            self._report(queue_id, start, stop, "were removed")

    def unknown(self, queue_id: int, start: int, stop: int) -> None:
        """Report offsets [start, stop) that the queue had, but has no longer."""
        if start < stop:
            self._report(queue_id, start, stop, "the queue does not go on; read it again, see store verify")

    def look(self, queue_id: int, start: int, stop: int, got: GetMessageResult) -> None:
        """Report those of the offsets [start, stop) that `got` skipped."""
        for one in got.skipped:
            first, last = max(one.queue_offset, start), min(one.queue_offset + one.count, stop)
            if first < last:
                place = f"cannot be read (physical offset {one.phy_offset}): " if one.phy_offset >= 0 else ""
                self._report(queue_id, first, last, f"{place}{one.why}")

    def faults(self) -> SkipFaults:
        """Return the policy of a read whose skipped messages are reported here."""
        from rocketflow_store import SkipFaults

        return SkipFaults(self._skipped)

    def _skipped(self, one: SkippedMessages) -> None:
        self.count += one.count
        place = f"physical offset {one.phy_offset}: " if one.phy_offset >= 0 else ""
        print(f"error: {place}{one.why}", file=sys.stderr)

    def _report(self, queue_id: int, start: int, stop: int, why: str) -> None:
        self.count += stop - start
        which = f"offset {start}" if stop - start == 1 else f"offsets {start} to {stop - 1}"
        print(f"error: queue {queue_id}, {which}: {why}", file=sys.stderr)
