"""Dispatch follows the confirm offset: appended rows wait here until the flush mode lets readers see them."""

from __future__ import annotations

import threading
from array import array
from collections import deque
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rocketflow_store.model.errors import StoreFencedError
from rocketflow_store.model.shared_numbers import number
from rocketflow_store.records.decoding.dispatch_rows import DispatchRows
from rocketflow_store.telemetry import events
from rocketflow_store.views.dispatch.run_rows import RunRows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from rocketflow_store.log.commit_log import CommitLog
    from rocketflow_store.log.fence import Fence
    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.metadata.native.confirm import ConfirmFile
    from rocketflow_store.views.dispatch.dispatcher import Dispatcher
    from rocketflow_store.views.index.index_service import IndexService

Dispatched: TypeAlias = RunRows | DispatchRows
"""The rows of one write, or of one chunk of it."""


_CONFIRM_OFFSET, _TIMESTAMP, _PHY_OFFSET = range(3)


class ConfirmedDispatch:
    """Rows in the order of the log, dispatched up to the synced (SYNC_FLUSH) or written (ASYNC_FLUSH) offset."""

    confirm_offset = number(_CONFIRM_OFFSET)
    """The offset before which readers may see the log."""
    dispatched_timestamp = number(_TIMESTAMP)
    """Store time (ms) of the last dispatched record."""
    dispatched_phy_offset = number(_PHY_OFFSET)
    """Physical offset of the last dispatched record with a unit."""

    def __init__(
        self,
        path: Path,
        dispatcher: Dispatcher,
        index: IndexService,
        log: CommitLogView,
        commit_log: CommitLog,
        fence: Fence,
        confirm_file: ConfirmFile,
        newest: tuple[int, int],
        *,
        sync_flush: bool,
    ) -> None:
        """Take the dispatch targets.

        `newest` is the store time (ms) and the physical offset of the newest record that was dispatched before.
        """
        self._path, self._dispatcher, self._index, self._log = path, dispatcher, index, log
        self._commit_log, self._fence, self._sync_flush = commit_log, fence, sync_flush
        self.lock = threading.RLock()
        self.pending: deque[tuple[int, Dispatched]] = deque()
        """Rows that were not dispatched yet, each up to an end offset."""
        self.numbers = array("q", [commit_log.committed_offset, *newest])
        self.confirm_file = confirm_file
        self.failure: BaseException | None = None
        """The error of the last call of `follow`, None if it succeeded."""
        self.on_dispatched: Callable[[Sequence[Dispatched]], None] | None = None
        """Called with dispatched rows once readers see them, by the thread that dispatched; it must not raise."""

    def extend(self, rows: Iterable[tuple[int, Dispatched]]) -> None:
        """Add appended rows, each up to an end offset. Called under the put lock, in the order of the log."""
        self.pending.extend(rows)

    def follow(self, until: int | None = None) -> None:
        """Dispatch the rows that the flush mode confirms, and publish the new confirm offset.

        Returns at once if readers already see everything before `until`. If the dispatch fails (no space for a queue,
        for example), all rows are kept: `failure` holds the error, and the next call tries again. A failed sync fences
        the store.
        """
        if until is not None and until <= self.numbers[_CONFIRM_OFFSET]:
            return
        with self.lock:
            limit = self._commit_log.flushed_offset if self._sync_flush else self._commit_log.committed_offset
            ready: list[Dispatched] = []
            try:
                for end, rows in self.pending.copy():
                    if end > limit:
                        break
                    ready.append(rows)
                    confirmed = end
                if ready:
                    if self.failure is not None:
                        self._forget_keys(ready[0])
                    self._dispatch_all(ready)
                    self._confirm(confirmed, ready[-1])
                for _ in ready:  # none is dropped before all are dispatched: a repeated dispatch changes nothing
                    self.pending.popleft()
            except BaseException as error:
                if self.failure is None:
                    offset, why = self.confirm_offset, f"cannot be dispatched: {error!r}"
                    events.report(events.HELD_UP, self._path, "log", why, offset=offset, count=len(ready))
                self.failure = error
                if isinstance(error, StoreFencedError):
                    self._fence.close(error)
                raise
            self.failure = None
        if ready and self.on_dispatched is not None:
            self.on_dispatched(ready)

    def _confirm(self, offset: int, last: Dispatched) -> None:
        """Let readers see every record before `offset`; `last` are the rows that end there."""
        self.numbers[_CONFIRM_OFFSET] = offset
        self.confirm_file.confirm(offset)
        if isinstance(last, RunRows):
            self.numbers[_TIMESTAMP] = last.store_timestamp
        elif len(last.store_timestamps):
            self.numbers[_TIMESTAMP] = int(last.store_timestamps[-1])
        with_unit = _last_with_unit(last)
        if with_unit >= 0:
            self.numbers[_PHY_OFFSET] = with_unit

    def follow_for_all(self) -> None:
        """Dispatch once on behalf of many waiting puts; each of them then finds the result, or `failure`."""
        with suppress(Exception):
            self.follow()

    def _forget_keys(self, first: Dispatched) -> None:
        """Remove the index entries that a failed dispatch left, before it is repeated from `first` on."""
        phy_offset = first.first_phy_offset if isinstance(first, RunRows) else int(first.phy_offsets[0])
        if self._index.end_phy_offset >= phy_offset or not self._index.is_complete:
            self._index.recover(phy_offset, self._log.store_timestamp_at)

    def _dispatch_all(self, ready: list[Dispatched]) -> None:
        if len(ready) == 1 and isinstance(ready[0], RunRows):  # a put that was appended alone
            self._dispatcher.dispatch_run(ready[0])
            return
        for kind, group in groupby(ready, type):
            if kind is RunRows:
                for rows in group:
                    self._dispatcher.dispatch_run(rows)  # type: ignore[arg-type]
            else:
                self._dispatcher.dispatch_all(list(group))  # type: ignore[arg-type]


def _last_with_unit(rows: Dispatched) -> int:
    """Return the physical offset of the last of some records that got a ConsumeQueue unit, -1 if none did."""
    if isinstance(rows, RunRows):
        return rows.last_with_unit
    with_unit = np.flatnonzero(rows.queue_of >= 0)
    return int(rows.phy_offsets[with_unit[-1]]) if len(with_unit) else -1
