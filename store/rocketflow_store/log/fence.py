"""The fence of one store: once a sync failed, or its files moved, nothing is acknowledged until it is reopened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.model.errors import StoreError, StoreFencedError, StoreMovedError
from rocketflow_store.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocketflow_store.log.commit_log import CommitLog


class Fence:
    """The fenced state of the store at `path`, with the first reason."""

    def __init__(self, path: Path, commit_log: CommitLog) -> None:
        self._path, self._commit_log = path, commit_log
        self.error: StoreFencedError | None = None
        """The reason why the store is fenced, or None if it is not; read by other classes."""
        self.on_close: Callable[[], None] | None = None
        """Called once, before the store counts as fenced after a failure; it must not raise."""
        self.on_moved: Callable[[str], str] = lambda why: why
        """Called with a reason before the store is fenced because its files moved; returns the reason to report."""

    def check(self) -> None:
        """Raise StoreFencedError if the store is fenced."""
        if self.error is not None:
            raise type(self.error)(self._path, self.error.why)

    def close(self, error: StoreFencedError) -> None:
        """Fence the store, unless it is fenced already."""
        if self.error is None:
            code = events.FENCED
            if isinstance(error, StoreMovedError):
                code = events.MOVED
                error = StoreMovedError(self._path, self.on_moved(error.why))
            elif self.on_close is not None:
                self.on_close()
            self.error = error
            events.report(code, str(self._path), error.path, error.why, offset=self._commit_log.flushed_offset)

    def close_for(self, why: str) -> None:
        """Fence the store: see `close`."""
        self.close(StoreFencedError(self._path, why))

    def guard(self, sync: Callable[[], object], *, any_error: bool = True) -> None:
        """Run `sync`; if it raises StoreFencedError, or (with `any_error`) a StoreError, fence the store.

        The error is then raised as StoreFencedError.
        """
        try:
            sync()
        except StoreFencedError as error:
            self.close(error)
            raise
        except StoreError as error:
            if not any_error:
                raise
            fenced = StoreFencedError(self._path, str(error))
            self.close(fenced)
            raise fenced from error
