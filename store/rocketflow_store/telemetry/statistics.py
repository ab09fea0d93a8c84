"""Counters of a store that is open for writing: RocketMQ's StoreStatsService as data.

The write path takes no extra lock for them: messages and bytes are counted under the put lock. Puts below one
millisecond, the usual ones, are not timed into buckets: their count is the total less the counts of the other buckets.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_right
from collections import Counter, deque
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.model.shared_numbers import number

if TYPE_CHECKING:
    from rocketflow_store.model.results import PutMessageResult
    from rocketflow_store.model.status import PutMessageStatus

PUT_TIME_BUCKETS: Final = (
    "[<=0ms]",
    "[0~10ms]",
    "[10~50ms]",
    "[50~100ms]",
    "[100~200ms]",
    "[200~500ms]",
    "[500ms~1s]",
    "[1~2s]",
    "[2~3s]",
    "[3~4s]",
    "[4~5s]",
    "[5~10s]",
    "[10s~]",
)
"""RocketMQ's names of the buckets of `putMessageDistributeTime`."""
_BUCKET_FROM_MS: Final = (1, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000)
PUT_TIMES: Final = 0
"""Place of `put_times` in the numbers of `StoreStatistics`."""
SLOW_PUT_NS: Final = 1_000_000
"""Callers report puts that take at least this long to `slow_put`."""
TPS_WINDOWS_S: Final = (10, 60, 600)
_SAMPLE_MS: Final = 1000
_SAMPLES: Final = TPS_WINDOWS_S[-1] + 1


@dataclass(frozen=True, slots=True)
class _Sample:
    at_ms: int
    put: int
    found: int
    miss: int
    transferred: int


class StoreStatistics:
    """The counters of one open store."""

    put_times = number(PUT_TIMES)
    """Messages appended to the log; changed under the put lock."""

    def __init__(self, boot_timestamp_ms: int) -> None:
        self.boot_timestamp_ms = boot_timestamp_ms
        self.numbers = array("q", [0])
        self.lock_began_ms = 0
        """Time at which the current put took the put lock, in ms, or 0 if none holds it."""
        self._lock = threading.Lock()
        self._slow = [0] * len(PUT_TIME_BUCKETS)
        self._put_time_max_ns = 0
        self._refused: Counter[str] = Counter()
        self._late = 0
        self._found = self._miss = self._transferred = 0
        self._get_time_max_ns = 0
        self._samples: deque[_Sample] = deque(maxlen=_SAMPLES)

    # -- counting

    def slow_put(self, elapsed_ns: int, messages: int) -> None:
        """Count a put of `messages` messages that took at least `SLOW_PUT_NS`."""
        bucket = bisect_right(_BUCKET_FROM_MS, elapsed_ns // 1_000_000)
        with self._lock:
            self._slow[bucket] += messages
            self._put_time_max_ns = max(self._put_time_max_ns, elapsed_ns)

    def refused(self, status: PutMessageStatus, messages: int = 1) -> None:
        """Count messages that were not stored, by the status of the put."""
        with self._lock:
            self._refused[status.name] += messages

    def late(self, results: list[PutMessageResult]) -> None:
        """Count messages that were appended but not synced in time."""
        with self._lock:
            self._late += sum(result.physical_offset >= 0 for result in results)

    def got(self, messages: int, elapsed_ns: int) -> None:
        """Count a get that returned `messages` messages."""
        with self._lock:
            if messages:
                self._found += 1
                self._transferred += messages
            else:
                self._miss += 1
            self._get_time_max_ns = max(self._get_time_max_ns, elapsed_ns)

    def sample(self, now_ms: int) -> None:
        """Take a sample of the counts for the rates, unless the last sample is less than a second old."""
        if self._samples and 0 <= now_ms - self._samples[-1].at_ms < _SAMPLE_MS:
            return
        with self._lock:
            self._samples.append(_Sample(now_ms, self.put_times, self._found, self._miss, self._transferred))

    # -- results

    def page_cache_busy(self, now_ms: int, timeout_ms: int) -> bool:
        """Return True if a put has held the put lock for more than `timeout_ms` (RocketMQ's isOSPageCacheBusy)."""
        began_ms = self.lock_began_ms
        return began_ms > 0 and now_ms - began_ms > timeout_ms

    def as_dict(self, now_ms: int, put_bytes: int = 0) -> dict[str, Any]:
        """Return the counts under RocketMQ's `getRuntimeInfo` names; `put_bytes` is the growth of the log meanwhile.

        Rates are per second, over 10, 60 and 600 s, and None for a window with too few samples.
        """
        with self._lock:
            refused, slow, late = dict(self._refused), list(self._slow), self._late
            put_times = self.put_times
            samples = list(self._samples)
            found, miss, transferred = self._found, self._miss, self._transferred
            put_max_ms, get_max_ms = self._put_time_max_ns // 1_000_000, self._get_time_max_ns // 1_000_000
        slow[0] = max(put_times + sum(refused.values()) - sum(slow), 0)
        return {
            "bootTimestamp": self.boot_timestamp_ms,
            "runtime": max(now_ms - self.boot_timestamp_ms, 0),
            "putMessageTimesTotal": put_times,
            "putMessageSizeTotal": put_bytes,
            "putMessageAverageSize": put_bytes / put_times if put_times else 0.0,
            "putMessageFailedTimes": sum(refused.values()) + late,
            "putMessageFailedByStatus": {**refused, **({"FLUSH_DISK_TIMEOUT": late} if late else {})},
            "putMessageEntireTimeMax": put_max_ms,
            "putMessageDistributeTime": dict(zip(PUT_TIME_BUCKETS, slow, strict=True)),
            "putLatency99": _percentile(slow, 0.99),
            "putLatency999": _percentile(slow, 0.999),
            "getMessageEntireTimeMax": get_max_ms,
            "getMessageTimesTotalFound": found,
            "getMessageTimesTotalMiss": miss,
            "getMessageTransferredMsgCount": transferred,
            "putTps": _rates(samples, "put"),
            "getFoundTps": (found_rates := _rates(samples, "found")),
            "getMissTps": (miss_rates := _rates(samples, "miss")),
            "getTotalTps": [
                None if found is None or miss is None else found + miss
                for found, miss in zip(found_rates, miss_rates, strict=True)
            ],
            "getTransferredTps": _rates(samples, "transferred"),
            "pageCacheLockTimeMills": max(now_ms - self.lock_began_ms, 0) if self.lock_began_ms else 0,
        }


def _rates(samples: list[_Sample], name: str) -> list[float | None]:
    """Return the rate per second for each window of `TPS_WINDOWS_S`, None for a window with too few samples."""
    rates: list[float | None] = []
    for seconds in TPS_WINDOWS_S:
        if len(samples) <= seconds:
            rates.append(None)
            continue
        first, last = samples[-1 - seconds], samples[-1]
        passed_s = (last.at_ms - first.at_ms) / 1000
        rates.append((getattr(last, name) - getattr(first, name)) / passed_s if passed_s > 0 else None)
    return rates


def _percentile(counts: list[int], share: float) -> str:
    """Return the name of the bucket within which `share` of the puts were complete."""
    total = sum(counts)
    reached = bisect_right([count >= share * total for count in accumulate(counts)], False)
    return PUT_TIME_BUCKETS[min(reached, len(PUT_TIME_BUCKETS) - 1)]


def runtime_info(statistics: dict[str, Any]) -> dict[str, str]:
    """Format `MessageStore.statistics` as the texts of RocketMQ's `getRuntimeInfo`."""
    info: dict[str, str] = {}
    for name, value in statistics.items():
        if name == "putMessageDistributeTime":
            info[name] = "".join(f"{bucket}:{count} " for bucket, count in value.items())
        elif name.endswith("Tps"):
            info[name] = " ".join("" if rate is None else str(rate) for rate in value).strip()
        elif isinstance(value, bool):
            info[name] = str(value).lower()
        elif isinstance(value, int | float | str):
            info[name] = str(value)
    return info
