"""Asynchronous puts: a future for each put, one encoder thread, one sync for many puts.

Callers add their requests to a bounded queue. The encoder takes all queued requests and appends them as one run, in the
order of the queue, so the order of each caller is kept. With SYNC_FLUSH a second thread syncs the log and completes
every future whose records were written before that sync began, while the encoder continues.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from rocketflow_store.append.requests import SYNC_TIMED_OUT, body_size, not_visible_because
from rocketflow_store.append.waiting_requests import Waiting, WaitingRequests
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
    from rocketflow_store.telemetry.statistics import StoreStatistics


class AsyncPut:
    """Starts its threads with the first put; `close` completes every future."""

    def __init__(
        self,
        path: Path,
        put: PutPath,
        acknowledgement: Acknowledgement,
        log_append: LogAppend,
        statistics: StoreStatistics,
        max_requests: int,
    ) -> None:
        self._path, self._put, self._acknowledgement = path, put, acknowledgement
        self._log_append, self._statistics = log_append, statistics
        self._waiting = WaitingRequests(max_requests)
        self._written = threading.Condition()
        self._to_sync: deque[tuple[int, list[Waiting]]] = deque()
        self._encoded = False
        self._starting = threading.Lock()
        self._threads: list[threading.Thread] = []

    def submit_one(self, request: PutRequest) -> Future[PutMessageResult]:
        """Append a request later; return a future of its result."""
        return self._submit((request,), one=True)

    def submit(self, requests: Sequence[PutRequest]) -> Future[list[PutMessageResult]]:
        """Append requests later, consecutive in the log; return one future of all their results."""
        return self._submit(requests, one=False)

    def _submit(self, requests: Sequence[PutRequest], *, one: bool) -> Future[Any]:
        size = sum([body_size(request) for request in requests])
        future: Future[Any] = Future()
        waiting = Waiting(requests, future, one, size, time.perf_counter_ns(), [])
        # a callback runs in these threads, so it must not wait for them
        patience_s = self._acknowledgement.timeout_s if threading.current_thread() not in self._threads else None
        if not self._waiting.put(waiting, patience_s):
            if self._waiting.closed:
                raise StoreClosedError(self._path)
            self._refuse_busy(waiting)
        elif not self._threads:
            self._start()
        return future

    def _refuse_busy(self, waiting: Waiting) -> None:
        why = f"{self._waiting.count} asynchronous puts are queued and none completed within syncFlushTimeout"
        waiting.outcomes = [
            self._put.refuse(request, PutMessageStatus.OS_PAGE_CACHE_BUSY, why) for request in waiting.requests
        ]
        waiting.future.set_running_or_notify_cancel()
        waiting.complete()

    def _start(self) -> None:
        with self._starting:
            if self._threads:
                return
            threads = [threading.Thread(target=self._encode_all, name="async-put-encoder", daemon=True)]
            if self._acknowledgement.sync_flush:
                threads.append(threading.Thread(target=self._sync_all, name="async-put-commit", daemon=True))
            for thread in threads:
                thread.start()
            self._threads = threads

    def close(self) -> None:
        """Refuse further puts, append and acknowledge the queued ones, and end the threads."""
        self._waiting.close()
        with self._starting:
            threads = self._threads
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    # -- the encoder

    def _encode_all(self) -> None:
        while True:
            taken = self._waiting.take()
            if not taken:
                break
            live = [one for one in taken if one.future.set_running_or_notify_cancel()]
            self._waiting.forget([one for one in taken if one not in live] if len(live) < len(taken) else [])
            if live:
                self._append(live)
        with self._written:
            self._encoded = True
            self._written.notify()

    def _append(self, live: list[Waiting]) -> None:
        try:
            self._log_append.fence.check()
            outcomes = self._put.append([request for one in live for request in one.requests])
            end = self._log_append.commit_log.wrote_offset
            at = 0
            for one in live:
                one.outcomes = outcomes[at : at + len(one.requests)]
                at += len(one.requests)
            fenced = self._log_append.fence.error
            if fenced is not None:
                live = self._without_refused(live, fenced)
            if self._acknowledgement.sync_flush:
                with self._written:
                    self._to_sync.append((end, live))
                    self._written.notify()
                return
            self._acknowledgement.notify_appended()
        except Exception as error:  # any error has to complete the futures, or their callers wait forever
            self._fail(live, error)
            return
        self._make_visible(live)

    def _without_refused(self, live: list[Waiting], fence: StoreFencedError) -> list[Waiting]:
        """Fail the puts of which no record was stored because the store was fenced; return the others."""
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
                in_time = self._acknowledgement.sync(runs[-1][0])
            except Exception as error:
                self._fail(live, error)
                continue
            if in_time:
                self._make_visible(live)
            else:
                self._complete_late(live, SYNC_TIMED_OUT)

    def _make_visible(self, live: list[Waiting]) -> None:
        """Make the messages visible to readers, and complete their futures."""
        try:
            self._acknowledgement.make_visible()
        except StoreFencedError as error:
            self._fail(live, error)
        except Exception as error:
            self._complete_late(live, not_visible_because(error))
        else:
            self._finish(live)

    def _complete_late(self, live: list[Waiting], why: str) -> None:
        for one in live:
            one.outcomes = self._acknowledgement.mark_late(one.outcomes, why)
        self._finish(live)

    # -- the end of a put

    def _finish(self, done: list[Waiting]) -> None:
        now_ns = time.perf_counter_ns()
        self._waiting.forget(done)
        for one in done:
            if now_ns - one.began_ns >= SLOW_PUT_NS:
                self._statistics.slow_put(now_ns - one.began_ns, len(one.requests))
            one.complete()

    def _fail(self, failed: list[Waiting], error: Exception) -> None:
        self._waiting.forget(failed)
        for one in failed:
            one.future.set_exception(error)


def _stored(outcome: PutMessageResult | Exception) -> bool:
    return isinstance(outcome, PutMessageResult) and outcome.stored
