"""What a running bridge is told (stop) and tells (progress): shared by both directions."""

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

_TELL_S: Final = 5.0


class StopRequest:
    """Whether somebody asked the bridge to stop. A signal ends what is under way only where that may wait for Kafka."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.number = 0
        self._may_be_ended = False

    @property
    def signal_name(self) -> str | None:
        """Which signal asked."""
        return signal.Signals(self.number).name if self.number else None

    @contextlib.contextmanager
    def listening(self) -> Iterator[StopRequest]:
        """Take the stopping signals in this block (in the main thread; elsewhere `asked` is all there is)."""
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
    def may_end(self) -> Iterator[None]:
        """A call that may wait for long and leaves nothing behind: a stop ends it by StoppedError."""
        self._may_be_ended = True
        try:
            if self.number:
                raise StoppedError(self.number)
            yield
        finally:
            self._may_be_ended = False

    def _stop(self, number: int, frame: FrameType | None) -> None:
        first = not self.asked.is_set()
        self.asked.set()
        self.number = number
        if first and self._may_be_ended:
            raise StoppedError(number)


@dataclass(slots=True)
class BridgeSummary:
    """What a run did; `lag` counts messages that are there and not copied."""

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
    _told: float = field(default_factory=time.monotonic)
    _rows_told: int = 0

    @property
    def exit_code(self) -> int:
        """3 where messages were lost or quarantined, 128 and the signal's number where one stopped the bridge."""
        if self.lost or self.quarantined:
            return 3
        return 0 if self.stopped is None else 128 + signal.Signals[self.stopped]

    def as_dict(self) -> dict[str, Any]:
        """The one object that ends a run."""
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

    def tell_due(self) -> bool:
        """Whether it is time for a line of progress."""
        return time.monotonic() - self._told >= _TELL_S

    def tell_begun(self, source: str, target: str, offsets: Mapping[str, int | None]) -> None:
        """Print on stderr that a topic is copied from now on, from which offset of each partition or queue."""
        places = ", ".join(f"{place}: {'its begin' if at is None else at}" for place, at in sorted(offsets.items()))
        print(f"{self.direction} {self.bridge_id}: {source} to {target}, from {places}", file=sys.stderr, flush=True)

    def tell(self) -> None:
        """A line of progress on stderr."""
        now = time.monotonic()
        seconds, rows = now - self._told, self.rows - self._rows_told
        self._told, self._rows_told = now, self.rows
        rate = rows / seconds if seconds else 0.0
        print(
            f"{self.direction} {self.bridge_id}: {self.rows} messages in {self.batches} commits, {rate:.0f}/s, "
            f"lag {self.lag_messages} messages, {self.lag_ms} ms",
            file=sys.stderr,
            flush=True,
        )


def warn_of_loss(store: str, where: str, go_on: int, lost: int) -> None:
    """Messages that are gone, and that the bridge was told to go on without: counted among the store's events."""
    events.report(events.DATA_LOSS, store, where, where, offset=go_on, count=lost, quietly=True)
    warn(f"{events.DATA_LOSS} {where}; going on at {go_on}, without {lost} messages at least")


def warn(text: str) -> None:
    """A line on stderr for something that a person should know."""
    print(f"warning: {text}", file=sys.stderr, flush=True)
