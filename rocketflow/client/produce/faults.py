"""Brokers that are avoided for a while after slow or failed sends, without I/O.

RocketMQ's source: client/latency/MQFaultStrategy.java, LatencyFaultToleranceImpl.java (5.3.3).
"""

from __future__ import annotations

from typing import Final, NamedTuple

LATENCY_MAX_MS: Final = (50, 100, 550, 1800, 3000, 5000, 15_000)
NOT_AVAILABLE_MS: Final = (0, 0, 2000, 5000, 6000, 10_000, 30_000)
FAILURE_MS: Final = 10_000
"""The latency that a failed send counts as."""


class _Fault(NamedTuple):
    available_from_ms: int
    is_reachable: bool


class BrokerFaults:
    """Notes the latency of each broker's last send. Times are milliseconds of a clock that the caller chooses."""

    def __init__(self) -> None:
        self._faults: dict[str, _Fault] = {}

    def note(
        self, broker: str, latency_ms: int, now_ms: int, *, is_refused: bool = False, failed: bool = False
    ) -> None:
        """Note a send. `failed` is one without an answer or with an error, `is_refused` one that a broker answered so.

        A broker that refused counts as unreachable until a send to it succeeds.
        """
        pause_ms = not_available_ms(FAILURE_MS if failed or is_refused else latency_ms)
        before = self._faults.get(broker)
        available_from = before.available_from_ms if before is not None else 0
        if pause_ms:
            available_from = max(available_from, now_ms + pause_ms)
        self._faults[broker] = _Fault(available_from, not is_refused)

    def is_available(self, broker: str, now_ms: int) -> bool:
        """Return whether no fault of a broker lasts still."""
        fault = self._faults.get(broker)
        return fault is None or now_ms >= fault.available_from_ms

    def is_reachable(self, broker: str) -> bool:
        """Return whether a broker has not refused its last send."""
        fault = self._faults.get(broker)
        return fault is None or fault.is_reachable


def not_available_ms(latency_ms: int) -> int:
    """Return for how long a broker is avoided after a send that took `latency_ms`."""
    pauses = (pause for limit, pause in zip(LATENCY_MAX_MS, NOT_AVAILABLE_MS) if latency_ms >= limit)
    return max(pauses, default=0)
