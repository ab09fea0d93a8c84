"""One append transaction of the log: place, write, then publish or take back.

Every append goes through it: puts, client batches, Arrow batches, sink commits, deliveries, requeues. A filler assigns
records their offsets and writes their bytes (`record_run` for single records, `chunk_append` for columns). No record
exists for others before `publish`; `take_back` removes the bytes of a failed write.
"""

from __future__ import annotations

from array import array
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rocketflow_store.log.commit_log import LOG_END
from rocketflow_store.model.errors import StoreFencedError, StorePoolDeficientError
from rocketflow_store.model.shared_numbers import number
from rocketflow_store.telemetry.statistics import PUT_TIMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketflow_store.append.assigned_properties import AssignedProperties
    from rocketflow_store.append.record_run import RecordRun
    from rocketflow_store.log.commit_log import CommitLog
    from rocketflow_store.log.fence import Fence
    from rocketflow_store.model.clock import Clock
    from rocketflow_store.telemetry.statistics import StoreStatistics
    from rocketflow_store.views.dispatch.confirmed_dispatch import ConfirmedDispatch, Dispatched
    from rocketflow_store.views.queues.queue_offsets import QueueOffsets


class Filled(Protocol):
    """Records placed by a filler: `count` of them, up to `end` (exclusive), stored at `store_timestamp` (ms)."""

    end: int
    count: int
    store_timestamp: int

    def advance(self, offsets: QueueOffsets) -> None:
        """Advance the queues past the records."""


class LogAppend:
    """Publishes records written after the log's end, or takes them back; the caller holds the put lock.

    `store_timestamp` (ms) is that of the newest record, which may be deleted by now: no later record is older.
    """

    store_timestamp = number(0)

    def __init__(
        self,
        commit_log: CommitLog,
        offsets: QueueOffsets,
        assigned: AssignedProperties,
        dispatch: ConfirmedDispatch,
        fence: Fence,
        statistics: StoreStatistics,
        clock: Clock,
        store_timestamp: int,
    ) -> None:
        self.commit_log, self.offsets, self.assigned = commit_log, offsets, assigned
        self._dispatch, self.fence, self._statistics = dispatch, fence, statistics
        self._clock = clock
        self.numbers = array("q", [store_timestamp])

    def withdraw_record_crc(self) -> None:
        """Withdraw the promise of the confirm file that every record ends with its CRC."""
        self._dispatch.confirm_file.record_without_crc()

    def tick(self) -> int:
        """Return the store timestamp (ms) of the next record: now, but at least that of the record before."""
        return max(self.numbers[0], self._clock.now_ms())

    def take_back(self, begin: int, error: BaseException) -> None:
        """Remove what was written from `begin` on after `error`; a failed sync or a failed removal fences the store."""
        if isinstance(error, StoreFencedError):
            self.fence.close(error)
        try:
            self.commit_log.undo(begin)
        except StoreFencedError as failed:
            self.fence.close(failed)
            raise

    @contextmanager
    def taken_back_on_error(self, begin: int) -> Iterator[None]:
        """Take back what was written from `begin` on if the block raises."""
        try:
            yield
        except BaseException as error:
            self.take_back(begin, error)
            raise

    def append(self, run: RecordRun) -> None:
        """Write a run and publish it; take back the bytes of a failed write."""
        begin = self.commit_log.numbers[LOG_END]
        data = run.data()
        try:
            self.commit_log.append(data, run.stretches)
        except StorePoolDeficientError:
            raise  # before anything was written
        except BaseException as error:
            self.take_back(begin, error)
            raise
        self.publish(run, [(run.end, run.rows)])

    def publish(self, filled: Filled, rows: list[tuple[int, Dispatched]]) -> None:
        """Advance the log and the queues past the written records, and queue their rows for dispatch.

        An interrupt in here fences the store, because log, queue offsets and dispatch may disagree.
        """
        try:  # nothing below allocates much, or waits for anything
            self.commit_log.publish(
                filled.end
            )  # before the offsets: a queue offset must not refer to a record outside the log
            filled.advance(self.offsets)
            self._dispatch.extend(rows)
            self.numbers[0] = filled.store_timestamp
        except BaseException as error:
            self.fence.close_for(f"interrupted while publishing: {error!r}")
            raise
        self._statistics.numbers[PUT_TIMES] += filled.count
