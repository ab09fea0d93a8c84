"""Times at which timer messages are handled: pure functions of the message, the clock's tick and the progress.

A message is due at `due` (its TIMER_OUT_MS). It is delivered once its complete tick is over, so never before the time
that it was sent for. The progress of delivery is (`read_ms`, `done_below`): every message due before `read_ms` is
handled, and of the tick that begins there the messages below `done_below` in the log. That holds for messages below
`queue_offset` of the timer topic's queue; messages at or after it were not read yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rocketflow_store.model.errors import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from rocketflow_store.delivery.timer.timer_rows import TimerRows

    Ints = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TimerProgress:
    """The progress of delivery that each of its commits stores; offsets of records are physical."""

    read_ms: int = 0
    done_below: int = 0
    precision_ms: int = 1000
    """Length of the tick that begins at `read_ms`."""
    queue_offset: int = 0
    held: tuple[int, ...] = ()
    """Queue offsets of messages that are due before `read_ms` and not handled, because the clock went back."""
    search_from: int = -1
    """Offset from which the log is searched for a broker's deliveries; -1: from the end of this progress's commit."""

    def encode(self) -> dict[str, Any]:
        """Return the progress as a JSON object."""
        return {
            "version": 1,
            "readTimeMs": self.read_ms,
            "doneBelow": self.done_below,
            "precisionMs": self.precision_ms,
            "queueOffset": self.queue_offset,
            "held": list(self.held),
            "foreignFrom": self.search_from,
        }


def decode_progress(stored: Mapping[str, Any]) -> TimerProgress:
    """Return the progress that a commit stores; raise CorruptRecordError if this version did not write it."""
    names = ("readTimeMs", "doneBelow", "precisionMs", "queueOffset", "foreignFrom")
    values = [stored.get(name) for name in names]
    held = stored.get("held")
    numbers = all(isinstance(one, int) and -1 <= one < 1 << 63 for one in values)
    if stored.get("version") != 1 or not numbers or not isinstance(held, list):
        raise CorruptRecordError("the last commit of rmq_sys_timer", 0, "stores no valid progress of timer messages")
    if not all(isinstance(one, int) and 0 <= one < 1 << 63 for one in held) or values[2] not in (100, 200, 500, 1000):
        raise CorruptRecordError("the last commit of rmq_sys_timer", 0, "stores no valid progress of timer messages")
    read_ms, done_below, precision_ms, queue_offset, search_from = values
    return TimerProgress(read_ms, done_below, precision_ms, queue_offset, tuple(held), search_from)  # type: ignore[arg-type]


def is_done(progress: TimerProgress, rows: TimerRows) -> Mask:
    """Return the mask of `rows` that are handled according to `progress`."""
    before = is_passed(progress, rows.due, rows.phy_offsets)
    done: Mask = (rows.queue_offsets < progress.queue_offset) & before
    if progress.held:
        done &= ~np.isin(rows.queue_offsets, np.array(progress.held, np.int64))
    return done


def is_passed(progress: TimerProgress, due: Ints, phy_offsets: Ints) -> Mask:
    """Return the mask of places in the order of delivery that `progress` is past."""
    in_tick = (due >= progress.read_ms) & (due < progress.read_ms + progress.precision_ms)
    passed: Mask = (due < progress.read_ms) | (in_tick & (phy_offsets < progress.done_below))
    return passed


def tick_of(now_ms: int, precision_ms: int) -> int:
    """Return the tick (ms) that contains `now_ms`; messages due before it can be delivered."""
    return now_ms // precision_ms * precision_ms


def placed(due: Ints, stored: Ints, precision_ms: int, roll_window: int) -> tuple[Ints, Ints, Mask]:
    """Return (place of each message on the wheel in ms, tick in which it was stored, mask of messages to roll).

    A message due more than a roll window after it was stored is placed at a tick in between and rolled then. The store
    timestamp decides, so that the place does not depend on the time of reading.
    """
    written = stored // precision_ms * precision_ms
    window = roll_window * precision_ms
    ahead = due - written
    rolled = ahead >= window
    half = ahead - window < window // 3
    between = written + np.where(half, roll_window // 2 * precision_ms, window)
    return np.where(rolled, between, due), written, rolled
