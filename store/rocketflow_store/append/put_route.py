"""Single puts of usual messages by the compiled kernel, which stores to maps of the files that it is given.

A put is one call without a system call: the kernel looks at the gate, takes the offsets, stores record, unit, index
entries and confirm offset in this order, and returns the result. It needs a window on the log and on the units of the
queue: a part of a file whose blocks are allocated and whose pages are in memory. What has none, and every message that
is not usual, is left over for `put_path`, which is the definition. A window costs as much as many puts, so it is opened
for stores that put single messages again and again.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.errors import StoreError
from rocketflow_store.model.message import Message
from rocketflow_store.model.results import PutMessageResult
from rocketflow_store.model.status import PutMessageStatus
from rocketflow_store.telemetry.statistics import SLOW_PUT_NS

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketflow_store.append.log_append import LogAppend
    from rocketflow_store.append.put_lock import PutLock
    from rocketflow_store.records.arrow.queue_turns import QueueTurns
    from rocketflow_store.records.encoding.compiled_messages import CompiledMessages
    from rocketflow_store.records.encoding.message_encoder import MessageEncoder
    from rocketflow_store.settings.store_config import StoreConfig
    from rocketflow_store.telemetry.statistics import StoreStatistics
    from rocketflow_store.views.dispatch.confirmed_dispatch import ConfirmedDispatch
    from rocketflow_store.views.index.index_service import IndexService
    from rocketflow_store.views.queues.consume_queue import ConsumeQueue
    from rocketflow_store.views.queues.queue_table import FileQueueTable

WINDOW_PUTS: Final = 64
"""Windows are opened for this number of single puts at least."""
MOST_QUEUES: Final = 64
"""Queues with a window, each of which takes two descriptors."""


@dataclass(frozen=True, slots=True)
class RouteTargets:
    """Objects that the kernel's puts read and change besides the log; `index` is None if indexing is switched off."""

    queue_counts: dict[str, int]
    queues: FileQueueTable
    index: IndexService | None
    is_disk_full: Callable[[], bool]


class PutRoute:
    """The kernel's puts under one lock, and their windows.

    `take` stores a usual message and returns its result, None if it is left over. `with_window` are the queues that
    have one.
    """

    def __init__(
        self,
        config: StoreConfig,
        writers: tuple[CompiledMessages, MessageEncoder],
        lock: PutLock,
        log_append: LogAppend,
        turns: QueueTurns,
        dispatch: ConfirmedDispatch,
        statistics: StoreStatistics,
        targets: RouteTargets,
        id_prefix: str,
    ) -> None:
        self._lock, self._log, self._offsets = lock, log_append.commit_log, log_append.offsets
        self.dispatch, self.fence, self._targets = dispatch, log_append.fence, targets
        self._credit = 0
        self.with_window: dict[tuple[str, int], ConsumeQueue] = {}
        assert COMPILED is not None
        self._no_queue = COMPILED.NO_QUEUE_WINDOW
        compiled, encoder = writers
        self._kernel = COMPILED.PutRoute(
            compiled.writer,
            (Message, PutMessageResult, PutMessageStatus.PUT_OK),
            encoder,
            (self._log.numbers, log_append.numbers, statistics.numbers, dispatch.numbers, encoder.numbers),
            (
                *(config.clock.now_ms, lock.is_held, targets.is_disk_full),
                *(dispatch.lock.acquire, dispatch.lock.release, statistics.slow_put),
            ),
            dispatch,
            self.fence,
            (targets.queue_counts, turns, self._offsets.near),
            id_prefix,
            SLOW_PUT_NS,
        )
        self.take: Callable[[object], PutMessageResult | None] = self._kernel.put

    @property
    def taken(self) -> int:
        """Number of messages that the kernel stored."""
        return int(self._kernel.taken)

    def learn(self, put: PutMessageResult) -> None:
        """Open the window for which a message was left over, which was stored by `put`, if that pays."""
        self._credit += 1
        if not self._kernel.missing or not put.stored or self._credit + self._kernel.taken < WINDOW_PUTS:
            return
        if self._lock.acquire_now():
            try:
                with self.dispatch.lock, suppress(StoreError):
                    is_of_queue = self._kernel.missing == self._no_queue
                    if not is_of_queue:
                        self._open_log()
                    if is_of_queue or not self.with_window:
                        self._open_queue(put.topic, put.queue_id)
                self._credit = -self._kernel.taken
            finally:
                self._lock.release()

    def _open_log(self) -> None:
        """Open windows on the log, and on the newest index file."""
        index = None if self._targets.index is None else self._targets.index.open_window()
        log = self._log.open_window()
        if log is not None and (index is not None or self._targets.index is None):
            self._kernel.open(*log, self.dispatch.confirm_file.open_window(), index)

    def _open_queue(self, topic: str, queue_id: int) -> None:
        queue, offsets = self._targets.queues.find(topic, queue_id), self._offsets.near.get(topic)
        if queue is None or offsets is None:
            return
        self.with_window.pop((topic, queue_id), None)
        if len(self.with_window) >= MOST_QUEUES:
            self.with_window.pop(next(iter(self.with_window))).close_window()
        units = queue.open_window(self._offsets.next(topic, queue_id))
        if units is not None:
            self.with_window[topic, queue_id] = queue
            self._kernel.teach(topic, queue_id, offsets, queue.numbers, units)

    def close(self) -> None:
        """Leave every message over from now on."""
        self._kernel.close()
