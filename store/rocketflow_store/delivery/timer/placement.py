"""When a timer message is handled: pure functions of the message, the clock's tick and how far delivery has come.

A message is due at `due` (its TIMER_OUT_MS). It is delivered once its whole tick is over, so never before the time that
it was sent for. How far delivery has come is (`read_ms`, `done_below`): every message due before `read_ms` is handled,
and of the tick that begins there those that stand below `done_below` in the log. That holds for messages below
`queue_offset` of the timer topic's queue; those behind it were not looked at yet.
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
    """How far delivery has come, as every commit of it says; offsets of records are physical."""

    read_ms: int = 0
    done_below: int = 0
    precision_ms: int = 1000
    """How long the tick is that begins at `read_ms`."""
    queue_offset: int = 0
    held: tuple[int, ...] = ()
    """Queue offsets of messages that are not handled although they are due before `read_ms`: the clock went back."""
    foreign_from: int = -1
    """From here on another writer's deliveries are to be looked for; -1: behind the commit that says this."""

    def encode(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "version": 1,
            "readTimeMs": self.read_ms,
            "doneBelow": self.done_below,
            "precisionMs": self.precision_ms,
            "queueOffset": self.queue_offset,
            "held": list(self.held),
            "foreignFrom": self.foreign_from,
        }


def decode_progress(told: Mapping[str, Any]) -> TimerProgress:
    """The progress that a commit keeps; CorruptRecordError for one that this version did not write."""
    names = ("readTimeMs", "doneBelow", "precisionMs", "queueOffset", "foreignFrom")
    values = [told.get(name) for name in names]
    held = told.get("held")
    numbers = all(isinstance(one, int) and -1 <= one < 1 << 63 for one in values)
    if told.get("version") != 1 or not numbers or not isinstance(held, list):
        raise CorruptRecordError("the last commit of rmq_sys_timer", 0, "keeps no progress of timer messages")
    if not all(isinstance(one, int) and 0 <= one < 1 << 63 for one in held) or values[2] not in (100, 200, 500, 1000):
        raise CorruptRecordError("the last commit of rmq_sys_timer", 0, "keeps no progress of timer messages")
    read_ms, done_below, precision_ms, queue_offset, foreign_from = values
    return TimerProgress(read_ms, done_below, precision_ms, queue_offset, tuple(held), foreign_from)  # type: ignore[arg-type]


def is_done(progress: TimerProgress, rows: TimerRows) -> Mask:
    """Which messages are handled, as far as the progress alone tells."""
    before = is_passed(progress, rows.due, rows.phy_offsets)
    done: Mask = (rows.queue_offsets < progress.queue_offset) & before
    if progress.held:
        done &= ~np.isin(rows.queue_offsets, np.array(progress.held, np.int64))
    return done


def is_passed(progress: TimerProgress, due: Ints, phy_offsets: Ints) -> Mask:
    """Which places in the order of delivery are passed."""
    in_tick = (due >= progress.read_ms) & (due < progress.read_ms + progress.precision_ms)
    passed: Mask = (due < progress.read_ms) | (in_tick & (phy_offsets < progress.done_below))
    return passed


def tick_of(now_ms: int, precision_ms: int) -> int:
    """The tick that is running at a time: what is due before it is delivered."""
    return now_ms // precision_ms * precision_ms


def placed(due: Ints, stored: Ints, precision_ms: int, roll_window: int) -> tuple[Ints, Ints, Mask]:
    """(where each message goes on the wheel, in ms; when it was taken in, as a tick; whether it is to be rolled there).

    What is due later than a window of ticks goes to a tick in between, and is put again then. The time of storing
    decides, so that the place does not depend on when somebody looks.
    """
    written = stored // precision_ms * precision_ms
    window = roll_window * precision_ms
    ahead = due - written
    rolled = ahead >= window
    half = ahead - window < window // 3
    between = written + np.where(half, roll_window // 2 * precision_ms, window)
    return np.where(rolled, between, due), written, rolled
