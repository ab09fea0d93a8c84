"""How far streaming queries are behind, from their progress: for a log line, a gauge, or a check.

    listener = LagListener()
    spark.streams.addListener(listener)
    ...
    listener.total()          # QueueLag of all queues of all queries together
    listener.lags()           # {query id: {QueueKey: QueueLag}}

A Python data source cannot report metrics of its own; what it can report is a "latest offset". The source puts the lag
of each queue there (as of the start of the batch, behind the end of that batch), and this listener takes it out.
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
        """{query id: {queue: lag}}."""
        with self._lock:
            return {query: dict(lags) for query, lags in self._lags.items()}

    def data_loss(self, query_id: str) -> tuple[int, int]:
        """(events, messages) that failOnDataLoss=false let pass in the query's present run."""
        with self._lock:
            return self._losses.get(query_id, (0, 0))

    def total(self, query_id: str | None = None) -> QueueLag:
        """All queues together, of one query or of all: messages and bytes added up, the largest ms.

        What is not known of one queue is left out of the sum; None where it is known of no queue that waits.
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
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Take the lag out of a batch's progress."""
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
        _log.info("query %s is behind by %d messages, %s bytes, %s ms", query_id, total.messages, size, age)
        if self._on_lag is not None:
            self._on_lag(query_id, lags)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """An idle query has read all there was at its last look."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Forget the query."""
        with self._lock:
            self._lags.pop(str(event.id), None)
            self._losses.pop(str(event.id), None)


def _of_known(together: Callable[[list[int]], int], found: list[int | None]) -> int | None:
    """Return the known ones together; 0 of none, None where none is known."""
    known = [one for one in found if one is not None]
    return together(known) if known else None if found else 0


def _report(latest_offset: Any) -> dict[str, Any] | None:
    """The report of a rocketflow source, None for another source's offset."""
    try:
        report = parse_json(latest_offset) if isinstance(latest_offset, str) else latest_offset
    except ValueError:
        return None
    return report if isinstance(report, dict) and "dataLoss" in report and "queues" in report else None
