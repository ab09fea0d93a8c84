"""Counts of a push consumer by topic, and what operators see of them (request 307).

RocketMQ's source: client/stat/ConsumerStatsManager.java, remoting/protocol/body/ConsumeStatus.java.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, replace
from typing import Final

_WINDOW_S: Final = 60.0


@dataclass(slots=True)
class TopicCounts:
    """Totals of a topic; times are milliseconds, `at` is the second of a sample."""

    at: float = 0.0
    pulls: int = 0
    pulled: int = 0
    pull_ms: float = 0.0
    calls: int = 0
    consumed: int = 0
    failed: int = 0
    consume_ms: float = 0.0

    def count_pull(self, messages: int, ms: float) -> None:
        """Count a pull that took `ms` milliseconds."""
        self.pulls += 1
        self.pulled += messages
        self.pull_ms += ms

    def count_call(self, consumed: int, failed: int, ms: float) -> None:
        """Count a call of the listener that took `ms` milliseconds."""
        self.calls += 1
        self.consumed += consumed
        self.failed += failed
        self.consume_ms += ms


class ConsumeFigures:
    """Counts pulls and calls of the listener by topic; rates are those of the last minute. Times are seconds."""

    def __init__(self) -> None:
        self._totals: dict[str, TopicCounts] = defaultdict(TopicCounts)
        self._samples: dict[str, deque[TopicCounts]] = defaultdict(deque)

    def of(self, topic: str) -> TopicCounts:
        """Return the counts of a topic."""
        return self._totals[topic]

    def sample(self, now: float) -> None:
        """Remember the totals of this moment; those older than a minute are forgotten, except the last of them."""
        for topic, totals in self._totals.items():
            samples = self._samples[topic]
            samples.append(replace(totals, at=now))
            while len(samples) > 1 and samples[1].at <= now - _WINDOW_S:
                samples.popleft()

    def status_table(self, now: float) -> dict[str, dict[str, float]]:
        """Return the members of ConsumeStatus by topic."""
        return {topic: self._status(topic, totals, now) for topic, totals in self._totals.items()}

    def _status(self, topic: str, totals: TopicCounts, now: float) -> dict[str, float]:
        samples = self._samples[topic]
        first = samples[0] if samples else replace(totals, at=now)
        seconds = now - first.at
        pulls, calls = totals.pulls - first.pulls, totals.calls - first.calls

        def rate(count: int) -> float:
            return count / seconds if seconds > 0 else 0.0

        return {
            "pullRT": (totals.pull_ms - first.pull_ms) / pulls if pulls else 0.0,
            "pullTPS": rate(totals.pulled - first.pulled),
            "consumeRT": (totals.consume_ms - first.consume_ms) / calls if calls else 0.0,
            "consumeOKTPS": rate(totals.consumed - first.consumed),
            "consumeFailedTPS": rate(totals.failed - first.failed),
            "consumeFailedMsgs": totals.failed - first.failed,
        }
