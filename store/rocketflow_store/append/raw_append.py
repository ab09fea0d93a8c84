"""Append, sync and publish as three calls, for a broker that answers many senders at once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from rocketflow_store.model.broker_requests import AppendedRun, PutState, RawMessage, SentRun
from rocketflow_store.records.encoding.raw_encoder import HOST_SIZES, as_batch
from rocketflow_store.telemetry.statistics import SLOW_PUT_NS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow_store.append.acknowledgement import Acknowledgement
    from rocketflow_store.append.put_path import PutPath
    from rocketflow_store.append.requests import PutRequest
    from rocketflow_store.append.write_gate import WriteGate
    from rocketflow_store.model.results import PutMessageResult
    from rocketflow_store.telemetry.statistics import StoreStatistics


class RawAppend:
    """Appends raw messages on the write path of `put`."""

    def __init__(
        self, put: PutPath, gate: WriteGate, acknowledgement: Acknowledgement, statistics: StoreStatistics
    ) -> None:
        self._put, self._gate = put, gate
        self._acknowledgement, self._statistics = acknowledgement, statistics

    def try_append(self, requests: Sequence[RawMessage | SentRun]) -> AppendedRun | None:
        """Append requests if the put lock is free; return None if another thread holds it."""
        began_ns = time.perf_counter_ns()
        prepared = _prepared(requests)
        if not self._put.lock.acquire_now():
            return None
        try:
            return self._append(prepared, began_ns)
        finally:
            self._put.lock.release()

    def append(self, requests: Sequence[RawMessage | SentRun]) -> AppendedRun:
        """Append requests, waiting for the put lock; refuse them if a put has held it for too long."""
        began_ns = time.perf_counter_ns()
        prepared = _prepared(requests)
        if self._put.is_page_cache_busy:
            return AppendedRun(cast("list[PutMessageResult]", self._put.refuse_busy(prepared)), 0)
        with self._put.lock:
            return self._append(prepared, began_ns)

    def _append(self, requests: Sequence[PutRequest], began_ns: int) -> AppendedRun:
        results = cast("list[PutMessageResult]", self._put.append_locked(requests))
        elapsed_ns = time.perf_counter_ns() - began_ns
        if elapsed_ns >= SLOW_PUT_NS:
            self._statistics.slow_put(elapsed_ns, len(results))
        return AppendedRun(results, self._put.wrote_offset)

    def flush_to(self, end: int, timeout_s: float) -> bool:
        """Sync the log up to `end`; return False after `timeout_s`. One sync serves all callers that wait.

        With SYNC_FLUSH readers see the records when this returns True: the thread that syncs publishes for all callers,
        except if the store was fenced meanwhile or the dispatch failed; then each caller tries it.
        """
        in_time = self._acknowledgement.flush_to(end, timeout_s)
        if in_time and self._acknowledgement.sync_flush:
            self._acknowledgement.make_visible_to(end)
        return in_time

    def publish(self, end: int) -> None:
        """Make records before `end` visible to readers, as far as the flush mode allows.

        With SYNC_FLUSH these are the synced ones, with a TransientStorePool those that are in the files.
        """
        if not self._acknowledgement.sync_flush:
            self._acknowledgement.notify_appended()
        self._acknowledgement.make_visible_to(end)

    def state(self) -> PutState:
        """Return whether a put would be refused now, and why, without a put and without I/O."""
        why = self._gate.refusal
        busy_ms = self._put.busy_ms
        is_busy = self._put.is_page_cache_busy
        return PutState(self._gate.is_fenced, self._gate.is_full, self._gate.is_closed, busy_ms, is_busy, why)


def _prepared(requests: Sequence[RawMessage | SentRun]) -> Sequence[PutRequest]:
    """Return the requests, with batches as `MessageBatch`; one with a malformed born host stays for the refusal."""
    if not any(one.is_batch for one in requests):
        return requests
    return [
        as_batch(one) if isinstance(one, RawMessage) and one.is_batch and len(one.born_host) in HOST_SIZES else one
        for one in requests
    ]
