"""Policies of a read for messages that it cannot return: raise, or continue without them.

A read has one policy. It passes each fault to `meet`; if that returns, the read continues without the messages and
passes them to `skipped`. A body that cannot be decoded is no such fault: the record is sound, and `keeps_bad_body`
decides, by `on_bad_body`. No read tests which policy it has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from rocketflow_store.model.on_bad_body import OnBadBody
from rocketflow_store.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rocketflow_store.model.errors import DamagedBodyError, StoreError
    from rocketflow_store.reading.skipped import SkippedMessages


class ReadFaults(ABC):
    """A policy for the faults that a read meets."""

    def __init__(self, on_bad_body: OnBadBody | str, report: Callable[[SkippedMessages], object] | None = None) -> None:
        self._on_bad_body, self._report = OnBadBody(on_bad_body), report
        self.count = 0
        """Number of messages skipped so far."""

    def keeps_bad_body(self, error: DamagedBodyError) -> bool:
        """Return True to return a message with its body as stored, False to pass it to `skipped_body`, or raise."""
        if self._on_bad_body is OnBadBody.FAIL:
            raise error
        return self._on_bad_body is OnBadBody.RAW

    @property
    def returns_bad_bodies(self) -> bool:
        """True if messages may be returned with a body as it is stored."""
        return self._on_bad_body is OnBadBody.RAW

    def skipped_body(
        self, rows: Sequence[SkippedMessages], *, store: Path, place: Path | str, offset: int, why: str
    ) -> None:
        """Log one event for all of `rows`, whose bodies cannot be decoded, and count and report each of them."""
        self._note(events.BAD_BODY, rows, store=store, place=place, offset=offset, why=why)

    def _note(
        self, code: str, rows: Sequence[SkippedMessages], *, store: Path, place: Path | str, offset: int, why: str
    ) -> None:
        count = sum(one.count for one in rows)
        events.report(code, store, place, why, offset=offset, count=count)
        self.count += count
        if self._report is not None:
            for one in rows:
                self._report(one)

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

    def __init__(self, on_bad_body: OnBadBody | str = OnBadBody.FAIL) -> None:
        super().__init__(on_bad_body)

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

    def __init__(
        self,
        report: Callable[[SkippedMessages], object] | None = None,
        on_bad_body: OnBadBody | str = OnBadBody.QUARANTINE,
    ) -> None:
        super().__init__(on_bad_body, report)

    def meet(self, error: StoreError, cause: Exception | None = None) -> None:
        """Return: the read continues."""

    def skipped(
        self, rows: Sequence[SkippedMessages], *, store: Path, place: Path | str, offset: int, why: str
    ) -> None:
        """Log one event for all of `rows`, and count and report each of them."""
        self._note(events.SKIPPED, rows, store=store, place=place, offset=offset, why=why)


STRICT = RaiseFaults()
"""The policy of a read that names none."""
