"""Stop a command cleanly on SIGTERM, SIGHUP and SIGINT: a store that is open for writing is closed."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

STOPPING: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class StoppedError(BaseException):
    """A signal (`number`) requested a stop. As a BaseException it is not caught by `except Exception`."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


class _Held:
    """The nesting depth of `stop_waits` blocks, and the signal that arrived in them (0 for none)."""

    depth = 0
    number = 0


def stop_in_order() -> None:
    """Install the handlers: the first stop signal raises StoppedError, later ones are ignored."""
    for one in STOPPING:
        if signal.getsignal(one) in (signal.SIG_DFL, signal.default_int_handler):  # nohup's SIG_IGN stays
            signal.signal(one, _stop)


@contextlib.contextmanager
def stop_waits() -> Iterator[None]:
    """Defer a stop until the end of this block, which must be short (a put, the start of a child)."""
    _Held.depth += 1
    try:
        yield
    finally:
        _Held.depth -= 1
        if _Held.depth == 0 and _Held.number:
            number, _Held.number = _Held.number, 0
            raise StoppedError(number)


def _too_late(number: int, frame: FrameType | None) -> None:
    """Ignore a signal: the process is already stopping."""


def _stop(number: int, frame: FrameType | None) -> None:
    for one in STOPPING:
        signal.signal(one, _too_late)  # not SIG_IGN: Python reports an error for a signal already in delivery
    if _Held.depth:
        _Held.number = number
    else:
        raise StoppedError(number)
