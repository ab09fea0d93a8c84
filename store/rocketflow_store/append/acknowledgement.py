"""Acknowledgement of a put: the flush that the mode promises, then visibility to readers, then the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.append.requests import SYNC_TIMED_OUT, Outcomes, not_visible_because
from rocketflow_store.model.errors import StoreError, StoreFencedError
from rocketflow_store.model.results import PutMessageResult
from rocketflow_store.model.status import PutMessageStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketflow_store.log.group_flush import GroupFlush
    from rocketflow_store.settings.store_config import StoreConfig
    from rocketflow_store.telemetry.statistics import StoreStatistics
    from rocketflow_store.views.dispatch.confirmed_dispatch import ConfirmedDispatch


class Acknowledgement:
    """Flushes, dispatches and acknowledges appended records.

    `on_append` is called after an append that waits for no sync; None if no flush thread needs it.
    """

    def __init__(
        self,
        flush: GroupFlush,
        dispatch: ConfirmedDispatch,
        statistics: StoreStatistics,
        config: StoreConfig,
        on_append: Callable[[], None] | None,
    ) -> None:
        self._flush, self._dispatch, self._statistics = flush, dispatch, statistics
        self.sync_flush, self.timeout_s = config.sync_flush, config.sync_flush_timeout / 1000
        self.on_append = on_append

    def acknowledge(self, outcomes: Outcomes, end: int) -> Outcomes:
        """Flush the log up to `end`, make the messages visible to readers, and return their outcomes.

        If the sync or the dispatch fails or is late, stored messages get FLUSH_DISK_TIMEOUT and the reason.
        """
        for one in outcomes:
            if isinstance(one, PutMessageResult) and one.physical_offset >= 0:
                break
        else:
            return outcomes
        if self.sync_flush:
            try:
                in_time = self.sync(end)
            except StoreFencedError as error:
                return self.mark_late(outcomes, str(error))
            if not in_time:
                return self.mark_late(outcomes, SYNC_TIMED_OUT)
        else:
            self.notify_appended()
        try:
            self._dispatch.follow(end)
        except (StoreError, MemoryError) as error:
            return self.mark_late(outcomes, not_visible_because(error))
        return outcomes

    def sync(self, end: int) -> bool:
        """Sync the log up to `end`; return False if that takes longer than syncFlushTimeout.

        StoreFencedError if the sync fails.
        """
        return self._flush.flush_to(end, self.timeout_s)

    def flush_to(self, end: int, timeout_s: float) -> bool:
        """Sync the log up to `end`; return False after `timeout_s`. StoreFencedError if the sync fails."""
        return self._flush.flush_to(end, timeout_s)

    def make_durable(self, end: int, timeout_s: float | None = None) -> None:
        """Sync the log up to `end`; FlushDiskTimeoutError after `timeout_s` (None: syncFlushTimeout).

        StoreFencedError if the sync fails.
        """
        self._flush.make_durable(end, self.timeout_s if timeout_s is None else timeout_s)

    def flush_early(self, begin: int) -> None:
        """Start writing unpublished records from `begin` on to the disk, without waiting for the sync."""
        self._flush.flush_early(begin)

    def notify_appended(self) -> None:
        """Notify the flush threads of an append that waits for no sync."""
        if self.on_append is not None:
            self.on_append()

    def make_visible(self) -> None:
        """Dispatch what the flush mode confirms, so that readers see it; StoreError if dispatch fails."""
        self._dispatch.follow()

    def make_visible_to(self, end: int) -> None:
        """Dispatch as `make_visible`, unless readers see all records before `end` already."""
        self._dispatch.follow(end)

    def mark_late(self, outcomes: Outcomes, why: str) -> Outcomes:
        """Return `outcomes` with FLUSH_DISK_TIMEOUT and `why` for each stored message.

        These messages may be neither durable nor visible.
        """
        late = [
            one._replace(status=PutMessageStatus.FLUSH_DISK_TIMEOUT, why=why)
            if isinstance(one, PutMessageResult) and one.stored
            else one
            for one in outcomes
        ]
        self._statistics.late([one for one in late if isinstance(one, PutMessageResult)])
        return late
