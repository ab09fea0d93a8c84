"""SIGTERM and SIGHUP stop a command in order, as SIGINT does: a store that is open for writing is closed cleanly."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

STOPPING: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class StoppedError(BaseException):
    """Somebody asked the process to stop; `number` is the signal's. No `except Exception` takes it for a failure."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


class _Held:
    """Whether a stop waits, and the signal that asked for it meanwhile."""

    depth = 0
    number = 0


def stop_in_order() -> None:
    """From now on the first of these signals ends what is under way; those behind it change nothing any more."""
    for one in STOPPING:
        if signal.getsignal(one) in (signal.SIG_DFL, signal.default_int_handler):  # nohup's SIG_IGN stays
            signal.signal(one, _stop)


@contextlib.contextmanager
def stop_waits() -> Iterator[None]:
    """A stop that is asked for in this block, which must be short (a put, the start of a child), comes behind it."""
    _Held.depth += 1
    try:
        yield
    finally:
        _Held.depth -= 1
        if _Held.depth == 0 and _Held.number:
            number, _Held.number = _Held.number, 0
            raise StoppedError(number)


def _too_late(number: int, frame: FrameType | None) -> None:
    """The process is stopping already."""


def _stop(number: int, frame: FrameType | None) -> None:
    for one in STOPPING:
        signal.signal(one, _too_late)  # not SIG_IGN: Python complains of a signal that is on its way just now
    if _Held.depth:
        _Held.number = number
    else:
        raise StoppedError(number)
