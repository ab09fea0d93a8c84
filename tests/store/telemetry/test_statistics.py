"""Statistics of a store under RocketMQ's `getRuntimeInfo` names."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from rocketflow_store import FlushDiskType, Message, MessageStore, PutMessageStatus, StoreConfig
from rocketflow_store.files import os_files
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.errors import StoreFencedError
from rocketflow_store.model.results import PutMessageResult
from rocketflow_store.telemetry.statistics import PUT_TIME_BUCKETS, StoreStatistics, runtime_info

MS = 1_000_000
START = 1_700_000_000_000


def config(**changes: object) -> StoreConfig:
    small = {"mapped_file_size_commit_log": 1 << 16, "mapped_file_size_consume_queue": 4000}
    return StoreConfig(**{**small, "clock": ManualClock(START), **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("elapsed_ms", "bucket"),
    [
        (0, "[<=0ms]"), (1, "[0~10ms]"), (9, "[0~10ms]"), (10, "[10~50ms]"), (49, "[10~50ms]"), (50, "[50~100ms]"),
        (100, "[100~200ms]"), (200, "[200~500ms]"), (500, "[500ms~1s]"), (1000, "[1~2s]"), (2000, "[2~3s]"),
        (3000, "[3~4s]"), (4000, "[4~5s]"), (5000, "[5~10s]"), (9999, "[5~10s]"), (10_000, "[10s~]"),
        (10**7, "[10s~]"),
    ],
)  # fmt: skip
def test_put_times_fall_into_buckets_of_rocketmq(elapsed_ms: int, bucket: str) -> None:
    statistics = StoreStatistics(START)
    statistics.put_times = 1
    if elapsed_ms:
        statistics.slow_put(elapsed_ms * MS + 999, 1)
    figures = statistics.as_dict(START)
    assert figures["putMessageDistributeTime"] == {name: int(name == bucket) for name in PUT_TIME_BUCKETS}
    assert figures["putLatency99"] == figures["putLatency999"] == bucket
    assert figures["putMessageEntireTimeMax"] == elapsed_ms


def test_fastest_bucket_counts_puts_that_were_not_slow() -> None:
    statistics = StoreStatistics(START)
    statistics.put_times = 1000
    statistics.slow_put(3 * MS, 8)
    statistics.slow_put(30 * MS, 1)
    statistics.refused(PutMessageStatus.MESSAGE_ILLEGAL, 5)
    figures = statistics.as_dict(START + 5)
    spread = figures["putMessageDistributeTime"]
    assert (spread["[<=0ms]"], spread["[0~10ms]"], spread["[10~50ms]"]) == (996, 8, 1)
    assert sum(spread.values()) == 1005
    assert (figures["putLatency99"], figures["putLatency999"]) == ("[<=0ms]", "[0~10ms]")
    assert figures["runtime"] == 5


def test_rates_cover_10_60_and_600_seconds() -> None:
    statistics = StoreStatistics(START)
    for second in range(700):
        statistics.put_times = 5 * second if second < 690 else 5 * 689 + 100 * (second - 689)
        statistics.sample(START + 1000 * second)
        statistics.sample(START + 1000 * second + 999)  # too early to count
        if second == 9:
            assert statistics.as_dict(START)["putTps"] == [None, None, None]
        if second == 10:
            assert statistics.as_dict(START)["putTps"] == [5.0, None, None]
    ten, sixty, six_hundred = statistics.as_dict(START)["putTps"]
    assert ten == 100.0
    assert sixty == pytest.approx((50 * 5 + 1000) / 60)
    assert six_hundred == pytest.approx((590 * 5 + 1000) / 600)
    assert statistics.as_dict(START)["getTotalTps"] == [0.0, 0.0, 0.0]


def test_statistics_count_puts_gets_and_recovery_of_a_store(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", config()) as store:
        store.create_topic("t", 1)
        store.put_messages([Message("t", b"x" * 100, queue_id=0) for _ in range(5)])
        store.append_batch(pa.table({"body": [b"y" * 100] * 7}), "t")
        assert store.put_message(Message("no topic", b"x")).status is PutMessageStatus.MESSAGE_ILLEGAL
        store.get_message("t", 0, 0, 4)
        store.get_message("t", 0, 12)
        figures = store.statistics()
        assert figures["putMessageTimesTotal"] == 12
        assert figures["putMessageSizeTotal"] == store.max_phy_offset
        assert figures["putMessageAverageSize"] == store.max_phy_offset / 12
        assert figures["putMessageFailedTimes"] == 1
        assert figures["putMessageFailedByStatus"] == {"MESSAGE_ILLEGAL": 1}
        assert sum(figures["putMessageDistributeTime"].values()) == 13
        assert (figures["getMessageTimesTotalFound"], figures["getMessageTimesTotalMiss"]) == (1, 1)
        assert figures["getMessageTransferredMsgCount"] == 4
        assert (figures["commitLogMinOffset"], figures["commitLogMaxOffset"]) == (0, store.max_phy_offset)
        assert figures["dispatchBehindBytes"] == 0
        assert 0 < figures["commitLogDiskRatio"] <= 1
        assert (figures["diskFull"], figures["fenced"], figures["isOSPageCacheBusy"]) == (False, False, False)
        assert figures["bootTimestamp"] == START
        store.flush()
        assert store.statistics()["remainHowManyDataToFlush"] == 0
    (tmp_path / "s" / "abort").write_text("1")
    with MessageStore.open(tmp_path / "s", config()) as store:
        recovery = store.statistics()["recovery"]
        assert recovery["abortFound"]
        assert recovery["dispatched"] == 12
        assert store.statistics()["putMessageTimesTotal"] == 0


def test_hanging_put_makes_other_puts_return_os_page_cache_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(START)
    with MessageStore.open(tmp_path / "s", config(clock=clock)) as store:
        store.create_topic("t", 1)
        store.put_message(Message("t", b"x", queue_id=0))
        entered, leave = threading.Event(), threading.Event()
        real = os_files.write_at

        def hangs(fd: int, path: object, position: int, data: bytes) -> None:
            if "commitlog" in str(path):
                entered.set()
                assert leave.wait(60)
            real(fd, path, position, data)

        monkeypatch.setattr(os_files, "write_at", hangs)
        results: list[PutMessageResult] = []
        thread = threading.Thread(target=lambda: results.append(store.put_message(Message("t", b"x", queue_id=0))))
        thread.start()
        assert entered.wait(60)
        clock.set(START + 1000)
        assert not store.statistics()["isOSPageCacheBusy"]
        clock.set(START + 1001)
        figures = store.statistics()
        assert figures["isOSPageCacheBusy"]
        assert figures["pageCacheLockTimeMills"] == 1001
        assert store.put_message(Message("t", b"x", queue_id=0)).status is PutMessageStatus.OS_PAGE_CACHE_BUSY
        leave.set()
        thread.join(60)
        assert results[0].stored
        assert store.put_message(Message("t", b"x", queue_id=0)).stored
        assert store.statistics()["putMessageFailedByStatus"] == {"OS_PAGE_CACHE_BUSY": 1}
        assert store.statistics()["pageCacheLockTimeMills"] == 0


def test_unsynced_messages_count_as_flush_disk_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with MessageStore.open(tmp_path / "s", config(flush_disk_type=FlushDiskType.SYNC_FLUSH)) as store:
        store.put_message(Message("t", b"x", queue_id=0))

        def broken(fd: int, path: object) -> None:
            raise StoreFencedError(path, "the disk is broken")

        monkeypatch.setattr(os_files, "sync_file", broken)
        assert store.put_message(Message("t", b"x", queue_id=0)).status is PutMessageStatus.FLUSH_DISK_TIMEOUT
        assert store.put_message(Message("t", b"x", queue_id=0)).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        figures = store.statistics()
        assert figures["putMessageFailedByStatus"] == {"FLUSH_DISK_TIMEOUT": 1, "SERVICE_NOT_AVAILABLE": 1}
        assert figures["fenced"]
        assert figures["dispatchBehindBytes"] > 0, "readers do not see a message that is not confirmed"


def test_runtime_info_has_texts_of_rocketmq(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", config()) as store:
        store.put_message(Message("t", b"x", queue_id=0))
        info = runtime_info(store.statistics())
    assert info["putMessageTimesTotal"] == "1"
    assert info["putMessageDistributeTime"].count(":") == 13
    assert info["putTps"] == ""
    assert info["diskFull"] == "false"
    assert all(isinstance(value, str) for value in info.values())
