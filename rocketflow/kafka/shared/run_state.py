"""Stop requests and progress reports of a running bridge, in both directions."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rocketflow.process.job_timing import timing
from rocketflow.process.stop_signals import STOPPING, StoppedError
from rocketflow_store.spi import events

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType

REPORT_S: Final = 5.0


class StopRequest:
    """A request to stop the bridge. A signal interrupts only calls inside `interruptible`, which may wait for Kafka."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.number = 0
        self._is_interruptible = False

    @property
    def signal_name(self) -> str | None:
        """The name of the stopping signal, or None."""
        return signal.Signals(self.number).name if self.number else None

    @contextlib.contextmanager
    def listening(self) -> Iterator[StopRequest]:
        """Handle the stopping signals in this block. Outside the main thread only `asked` can stop the run."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        before = {one: signal.getsignal(one) for one in STOPPING}
        for one in STOPPING:
            if before[one] is not signal.SIG_IGN:
                signal.signal(one, self._stop)
        try:
            yield self
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a stop interrupt this block by StoppedError; for calls that may wait long and leave no partial state."""
        self._is_interruptible = True
        try:
            if self.number:
                raise StoppedError(self.number)
            yield
        finally:
            self._is_interruptible = False

    def _stop(self, number: int, frame: FrameType | None) -> None:
        first = not self.asked.is_set()
        self.asked.set()
        self.number = number
        if first and self._is_interruptible:
            raise StoppedError(number)


@dataclass(slots=True)
class BridgeSummary:
    """The summary of a run; `lag_messages` counts messages that exist and are not copied yet."""

    direction: str
    bridge_id: str
    rows: int = 0
    batches: int = 0
    quarantined: int = 0
    lost: int = 0
    caught_up: bool = False
    stopped: str | None = None
    lag_messages: int = 0
    lag_ms: int = 0
    progress: dict[str, Any] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    _reported: float = field(default_factory=time.monotonic)
    _rows_reported: int = 0

    @property
    def exit_code(self) -> int:
        """3 if messages were lost or quarantined, 128 + the signal's number if a signal stopped the bridge, else 0."""
        if self.lost or self.quarantined:
            return 3
        return 0 if self.stopped is None else 128 + signal.Signals[self.stopped]

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object that is printed at the end of a run."""
        return {
            "job": "kafka_bridge",
            "direction": self.direction,
            "bridge": self.bridge_id,
            "rows": self.rows,
            "batches": self.batches,
            **timing(self.rows, time.monotonic() - self.began),
            "lagMessages": self.lag_messages,
            "lagMs": self.lag_ms,
            "quarantined": self.quarantined,
            "lost": self.lost,
            "caughtUp": self.caught_up,
            "stopped": self.stopped,
            "progress": self.progress,
        }

    def is_report_due(self) -> bool:
        """Return True if the next progress line is due."""
        return time.monotonic() - self._reported >= REPORT_S

    def report_start(self, source: str, target: str, offsets: Mapping[str, int | None]) -> None:
        """Print on stderr that the copy of a topic starts, and at which offset of each partition or queue."""
        places = ", ".join(f"{place}: {'its begin' if at is None else at}" for place, at in sorted(offsets.items()))
        print(f"{self.direction} {self.bridge_id}: {source} to {target}, from {places}", file=sys.stderr, flush=True)

    def report(self, note: str = "") -> None:
        """Print a progress line on stderr, with a note at its end."""
        now = time.monotonic()
        seconds, rows = now - self._reported, self.rows - self._rows_reported
        self._reported, self._rows_reported = now, self.rows
        rate = rows / seconds if seconds else 0.0
        print(
            f"{self.direction} {self.bridge_id}: {self.rows} messages in {self.batches} commits, {rate:.0f}/s, "
            f"lag {self.lag_messages} messages, {self.lag_ms} ms{', ' if note else ''}{note}",
            file=sys.stderr,
            flush=True,
        )


def warn_of_loss(store: str, where: str, resume_at: int, lost: int) -> None:
    """Report lost messages as a store event and on stderr, before the bridge resumes without them."""
    events.report(events.DATA_LOSS, store, where, where, offset=resume_at, count=lost, quietly=True)
    warn(f"{events.DATA_LOSS} {where}; resuming at {resume_at}, at least {lost} messages are lost")


def warn(text: str) -> None:
    """Print a warning on stderr."""
    print(f"warning: {text}", file=sys.stderr, flush=True)
