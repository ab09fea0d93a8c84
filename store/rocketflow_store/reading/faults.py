"""Policies of a read for messages that it cannot return: raise, or continue without them.

A read has one policy. It passes each fault to `meet`; if that returns, the read continues without the messages and
passes them to `skipped`. No read tests which policy it has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from rocketflow_store.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rocketflow_store.model.errors import StoreError
    from rocketflow_store.reading.skipped import SkippedMessages


class ReadFaults(ABC):
    """A policy for the faults that a read meets."""

    @abstractmethod
    def meet(self, error: StoreError, cause: Exception | None = None) -> None:
        """Raise `error` (from `cause`), or return: the read continues without the messages that it is about."""

    @abstractmethod
    def skipped(
        self, rows: Sequence[SkippedMessages], *, store: Path, place: Path | str, offset: int, why: str
    ) -> None:
        """Take note of messages that the answer lacks: at `offset` of `place`, a file or a queue of `store`."""


class RaiseFaults(ReadFaults):
    """The strict policy: the first message that cannot be returned raises its typed error."""

    def meet(self, error: StoreError, cause: Exception | None = None) -> None:
        """Raise `error`."""
        if cause is not None:
            raise error from cause
        raise error

    def skipped(
        self, rows: Sequence[SkippedMessages], *, store: Path, place: Path | str, offset: int, why: str
    ) -> None:
        """Raise AssertionError: a strict read does not continue after `meet`."""
        raise AssertionError(f"a strict read continued without messages: {why}")


class SkipFaults(ReadFaults):
    """Skips messages that cannot be returned: logs each fault (RF-SKIP), counts its messages and reports them."""

    def __init__(self, report: Callable[[SkippedMessages], object] | None = None) -> None:
        self._report = report
        self.count = 0
        """Number of messages skipped so far."""

    def meet(self, error: StoreError, cause: Exception | None = None) -> None:
        """Return: the read continues."""

    def skipped(
        self, rows: Sequence[SkippedMessages], *, store: Path, place: Path | str, offset: int, why: str
    ) -> None:
        """Log one event for all of `rows`, and count and report each of them."""
        count = sum(one.count for one in rows)
        events.report(events.SKIPPED, store, place, why, offset=offset, count=count)
        self.count += count
        if self._report is not None:
            for one in rows:
                self._report(one)


STRICT = RaiseFaults()
"""The policy of a read that names none."""
