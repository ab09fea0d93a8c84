"""Times of requests from their arrival to their answer.

RocketMQ's source: remoting/metrics/RemotingMetricsManager.java, netty/NettyRemotingAbstract.java (writeResponse).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from rocketflow.aio.histogram import Histogram

BOUNDS_MS: Final = (1, 3, 5, 7, 10, 100, 1_000, 2_000, 3_000)

SUCCESS: Final = "success"
MAX_KINDS: Final = 100

ONE_WAY: Final = "oneway"
WRITE_FAILED: Final = "write_channel_failed"


class Rpc(NamedTuple):
    """A kind of request and answer; `was_held` is true of pulls that waited for messages."""

    code: int
    response_code: int
    was_held: bool
    result: str


_OTHER: Final = Rpc(-1, -1, False, "other")


class RpcLatency:
    """Histograms of times (ms) by kind; kinds after the first MAX_KINDS are counted together."""

    def __init__(self) -> None:
        self.by_kind: dict[Rpc, Histogram] = {}
        self.together: dict[int, int] = {}
        """Requests that the kernel took before they were decoded, by code."""

    def record(self, kind: Rpc, seconds: float, count: int = 1) -> None:
        """Count requests that took equally long."""
        found = self.by_kind.get(kind)
        if found is None:
            if len(self.by_kind) >= MAX_KINDS:
                kind = _OTHER
            found = self.by_kind.setdefault(kind, Histogram(BOUNDS_MS))
        found.observe(seconds * 1000, count)

    def took_together(self, code: int, count: int) -> None:
        """Count requests of a code that the kernel took."""
        self.together[code] = self.together.get(code, 0) + count
