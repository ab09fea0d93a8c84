"""Asynchronous puts: a future for each, one encoder for all, one sync for many.

Callers hand their requests to a bounded queue. The encoder takes what came together and appends it as one run, in the
order in which it came; so the order of each caller is kept. With SYNC_FLUSH a second thread has the log synced and
completes every future whose records were written before that sync began, while the encoder goes on.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.append.record_run import MAX_RUN_BYTES, MAX_RUN_MESSAGES
from rocketflow_store.append.requests import LATE, body_size, unseen_because
from rocketflow_store.model.errors import StoreClosedError, StoreFencedError
from rocketflow_store.model.results import PutMessageResult
from rocketflow_store.model.status import PutMessageStatus
from rocketflow_store.telemetry.statistics import SLOW_PUT_NS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocketflow_store.append.acknowledgement import Acknowledgement
    from rocketflow_store.append.log_append import LogAppend
    from rocketflow_store.append.put_path import PutPath
    from rocketflow_store.append.requests import PutRequest
    from rocketflow_store.log.fence import Fence
    from rocketflow_store.log.group_flush import GroupFlush
    from rocketflow_store.settings.store_config import StoreConfig
    from rocketflow_store.telemetry.statistics import StoreStatistics
    from rocketflow_store.views.dispatch.confirmed_dispatch import ConfirmedDispatch

_MOST_BYTES: Final = 64 << 20
"""Bodies of requests that may wait; one larger than that waits alone."""


@dataclass(slots=True)
class _Pending:
    requests: Sequence[PutRequest]
    future: Future[Any]
    one: bool
    """Whether the future is of one result, not of a list."""
    size: int
    began_ns: int
    outcomes: list[PutMessageResult | Exception]


class AsyncPut:
    """Starts its threads with the first put; `close` completes every future."""

    def __init__(
        self,
        path: Path,
        config: StoreConfig,
        put: PutPath,
        acknowledgement: Acknowledgement,
        log_append: LogAppend,
        flush: GroupFlush,
        fence: Fence,
        dispatch: ConfirmedDispatch,
        statistics: StoreStatistics,
    ) -> None:
        self._path, self._put, self._acknowledgement = path, put, acknowledgement
        self._commit_log, self._flush, self._fence = log_append.commit_log, flush, fence
        self._dispatch, self._statistics = dispatch, statistics
        self._timeout_s, self._most = acknowledgement.timeout_s, config.max_async_put_message_requests
        lock = threading.Lock()
        self._work, self._room = threading.Condition(lock), threading.Condition(lock)
        self._written = threading.Condition()
        self._queue: deque[_Pending] = deque()
        self._to_sync: deque[tuple[int, list[_Pending]]] = deque()
        self._waiting, self._waiting_bytes = 0, 0
        self._idle, self._closed, self._encoded = False, False, False
        self._threads: list[threading.Thread] = []

    def submit_one(self, request: PutRequest) -> Future[PutMessageResult]:
        """A future of the request's result."""
        return self._submit((request,), one=True)

    def submit(self, requests: Sequence[PutRequest]) -> Future[list[PutMessageResult]]:
        """One future of the results of all requests, which follow each other in the log."""
        return self._submit(requests, one=False)

    def _submit(self, requests: Sequence[PutRequest], *, one: bool) -> Future[Any]:
        size = sum([body_size(request) for request in requests])
        pending = _Pending(requests, Future(), one, size, time.perf_counter_ns(), [])
        with self._work:
            # who is called back by these threads must not wait for them
            if self._is_full(pending) and threading.current_thread() not in self._threads:
                self._room.wait_for(lambda: self._closed or not self._is_full(pending), self._timeout_s)
                if self._is_full(pending) and not self._closed:
                    return self._busy(pending)
            if self._closed:
                raise StoreClosedError(self._path)
            self._queue.append(pending)
            self._waiting += len(requests)
            self._waiting_bytes += size
            if self._idle:
                self._idle = False
                self._work.notify()
            elif not self._threads:
                self._start()
        return pending.future

    def _is_full(self, one: _Pending) -> bool:
        return self._waiting > 0 and (
            self._waiting + len(one.requests) > self._most or self._waiting_bytes + one.size > _MOST_BYTES
        )

    def _busy(self, pending: _Pending) -> Future[Any]:
        why = f"{self._waiting} asynchronous puts wait, and none was done within syncFlushTimeout"
        pending.outcomes = [
            self._put.refuse(request, PutMessageStatus.OS_PAGE_CACHE_BUSY, why) for request in pending.requests
        ]
        pending.future.set_running_or_notify_cancel()
        _complete(pending)
        return pending.future

    def _start(self) -> None:
        self._threads.append(threading.Thread(target=self._encode_all, name="async-put-encoder", daemon=True))
        if self._acknowledgement.sync_flush:
            self._threads.append(threading.Thread(target=self._sync_all, name="async-put-commit", daemon=True))
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Take no more, append and acknowledge what waits, end the threads."""
        with self._work:
            self._closed = True
            self._work.notify_all()
            self._room.notify_all()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    # -- the encoder

    def _encode_all(self) -> None:
        while True:
            taken = self._take()
            if not taken:
                break
            live = [one for one in taken if one.future.set_running_or_notify_cancel()]
            self._forget([one for one in taken if one not in live] if len(live) < len(taken) else [])
            if live:
                self._append(live)
        with self._written:
            self._encoded = True
            self._written.notify()

    def _take(self) -> list[_Pending]:
        """What came together, as much as one run holds; nothing at the end."""
        with self._work:
            while not self._queue:
                if self._closed:
                    return []
                self._idle = True
                self._work.wait()
            self._idle = False
            taken, count, size = [self._queue.popleft()], 0, 0
            count, size = len(taken[0].requests), taken[0].size
            while self._queue:
                following = self._queue[0]
                count, size = count + len(following.requests), size + following.size
                if count > MAX_RUN_MESSAGES or size > MAX_RUN_BYTES:
                    break
                taken.append(self._queue.popleft())
            return taken

    def _append(self, live: list[_Pending]) -> None:
        try:
            self._fence.check()
            outcomes = self._put.append([request for one in live for request in one.requests])
            end = self._commit_log.wrote_offset
            at = 0
            for one in live:
                one.outcomes = outcomes[at : at + len(one.requests)]
                at += len(one.requests)
            if self._fence.error is not None:
                live = self._without_refused(live, self._fence.error)
            if self._acknowledgement.sync_flush:
                with self._written:
                    self._to_sync.append((end, live))
                    self._written.notify()
                return
            if self._acknowledgement.appended is not None:
                self._acknowledgement.appended()
        except Exception as error:  # whatever it is, nobody may wait forever
            self._fail(live, error)
            return
        self._show(live)

    def _without_refused(self, live: list[_Pending], fence: StoreFencedError) -> list[_Pending]:
        """Fail the puts of which nothing was stored: the store was fenced while they were appended."""
        refused = [one for one in live if not any(_stored(outcome) for outcome in one.outcomes)]
        self._fail(refused, fence)
        return [one for one in live if one not in refused]

    # -- the group commit

    def _sync_all(self) -> None:
        while True:
            with self._written:
                while not self._to_sync:
                    if self._encoded:
                        return
                    self._written.wait()
                runs = list(self._to_sync)
                self._to_sync.clear()
            live = [one for _, run in runs for one in run]
            try:
                in_time = self._flush.flush_to(runs[-1][0], self._timeout_s)
            except Exception as error:
                self._fail(live, error)
                continue
            if in_time:
                self._show(live)
            else:
                self._late(live, LATE)

    def _show(self, live: list[_Pending]) -> None:
        """Let readers see what was put, and complete its futures."""
        try:
            self._dispatch.follow()
        except StoreFencedError as error:
            self._fail(live, error)
        except Exception as error:
            self._late(live, unseen_because(error))
        else:
            self._finish(live)

    def _late(self, live: list[_Pending], why: str) -> None:
        for one in live:
            one.outcomes = self._acknowledgement.late(one.outcomes, why)
        self._finish(live)

    # -- the end of a put

    def _finish(self, done: list[_Pending]) -> None:
        now_ns = time.perf_counter_ns()
        self._forget(done)
        for one in done:
            if now_ns - one.began_ns >= SLOW_PUT_NS:
                self._statistics.slow_put(now_ns - one.began_ns, len(one.requests))
            _complete(one)

    def _fail(self, failed: list[_Pending], error: Exception) -> None:
        self._forget(failed)
        for one in failed:
            one.future.set_exception(error)

    def _forget(self, gone: list[_Pending]) -> None:
        if not gone:
            return
        with self._work:
            for one in gone:
                self._waiting -= len(one.requests)
                self._waiting_bytes -= one.size
            self._room.notify_all()


def _stored(outcome: PutMessageResult | Exception) -> bool:
    return isinstance(outcome, PutMessageResult) and outcome.stored


def _complete(one: _Pending) -> None:
    errors = [outcome for outcome in one.outcomes if not isinstance(outcome, PutMessageResult)]
    if errors:
        one.future.set_exception(errors[0])
    else:
        one.future.set_result(one.outcomes[0] if one.one else one.outcomes)
