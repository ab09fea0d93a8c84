"""The lag of streaming queries, from their progress: for a log line, a gauge, or a check.

    listener = LagListener()
    spark.streams.addListener(listener)
    ...
    listener.total()          # QueueLag of all queues of all queries together
    listener.lags()           # {query id: {QueueKey: QueueLag}}

A Python data source cannot report metrics of its own, but it can report a "latest offset". The source puts the lag of
each queue there (measured at the start of a batch, after the end of that batch), and this listener reads it.
"""

# ruff: noqa: N802 - the method names are Spark's

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from rocketflow.spark.source.lag import QueueLag, lag_of_report
from rocketflow.spark.source.stream_offset import QueueKey
from rocketflow_store.spi.json_text import parse_json

_log: Final = logging.getLogger("rocketflow.spark.lag_listener")

OnLag = Callable[[str, dict[QueueKey, QueueLag]], None]
"""(query id, lag by queue), called after every batch."""


class LagListener(StreamingQueryListener):
    """Keeps the newest lag of every rocketflow source of every running query."""

    def __init__(self, on_lag: OnLag | None = None) -> None:
        self._on_lag = on_lag
        self._lock = threading.Lock()
        self._lags: dict[str, dict[QueueKey, QueueLag]] = {}
        self._losses: dict[str, tuple[int, int]] = {}

    def lags(self) -> dict[str, dict[QueueKey, QueueLag]]:
        """Return {query id: {queue: lag}}."""
        with self._lock:
            return {query: dict(lags) for query, lags in self._lags.items()}

    def data_loss(self, query_id: str) -> tuple[int, int]:
        """Return (events, messages) of the losses that failOnDataLoss=false accepted in the query's present run."""
        with self._lock:
            return self._losses.get(query_id, (0, 0))

    def total(self, query_id: str | None = None) -> QueueLag:
        """Return the lag of all queues, of one query or of all: the sums of messages and bytes, and the largest ms.

        Unknown values of a queue are not counted; a value is None if it is unknown for every queue with a backlog.
        """
        with self._lock:
            chosen = [one for query, lags in self._lags.items() if query_id in (None, query) for one in lags.values()]
        return QueueLag(
            sum(one.latest for one in chosen),
            sum(one.messages for one in chosen),
            _of_known(sum, [one.bytes for one in chosen if one.messages]),
            _of_known(max, [one.ms for one in chosen if one.messages]),
        )

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: no lag is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Read the lag from a batch's progress."""
        progress = event.progress
        query_id = str(progress.id)
        lags: dict[QueueKey, QueueLag] = {}
        events, messages = 0, 0
        for source in progress.sources:
            report = _report(source.latestOffset)
            if report is None:
                continue
            lags.update(lag_of_report(report))
            events += report["dataLoss"]["events"]
            messages += report["dataLoss"]["messages"]
        if not lags:
            return
        with self._lock:
            self._lags[query_id] = lags
            self._losses[query_id] = (events, messages)
        total = self.total(query_id)
        size, age = ("?" if one is None else one for one in (total.bytes, total.ms))
        _log.info("query %s lags by %d messages, %s bytes, %s ms", query_id, total.messages, size, age)
        if self._on_lag is not None:
            self._on_lag(query_id, lags)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing: an idle query has read all messages that existed at its last look."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Forget the query."""
        with self._lock:
            self._lags.pop(str(event.id), None)
            self._losses.pop(str(event.id), None)


def _of_known(together: Callable[[list[int]], int], found: list[int | None]) -> int | None:
    """Combine the values that are known; return 0 without values, None if none is known."""
    known = [one for one in found if one is not None]
    return together(known) if known else None if found else 0


def _report(latest_offset: Any) -> dict[str, Any] | None:
    """Return the report of a rocketflow source, or None for another source's offset."""
    try:
        report = parse_json(latest_offset) if isinstance(latest_offset, str) else latest_offset
    except ValueError:
        return None
    return report if isinstance(report, dict) and "dataLoss" in report and "queues" in report else None
