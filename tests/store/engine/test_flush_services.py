"""The background flushes: when, in which order, and the contents of the checkpoint after them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rocketflow_store import FlushDiskType, Message, MessageStore, PutMessageStatus, StoreConfig
from rocketflow_store.append.log_append import LogAppend
from rocketflow_store.files import os_files
from rocketflow_store.format.checkpoint_layout import CheckpointFields, decode_checkpoint
from rocketflow_store.log.commit_log import flush_due
from rocketflow_store.log.group_flush import ThoroughSchedule
from rocketflow_store.metadata.layout.store_paths import StorePaths
from rocketflow_store.metadata.native.confirm import read_confirm
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.errors import StoreFencedError
from rocketflow_store.testing import Probe

START = 1_700_000_000_000
LOG_SIZE = 1 << 16
NEVER = 3_600_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


def opened(path: Path, clock: ManualClock, **changes: object) -> MessageStore:
    """Open a store whose threads sleep: the test runs their steps."""
    settings = {
        "mapped_file_size_commit_log": LOG_SIZE,
        "mapped_file_size_consume_queue": 400,
        "max_hash_slot_num": 10,
        "max_index_num": 50,
        "flush_interval_commit_log": NEVER,
        "flush_interval_consume_queue": NEVER,
        "enabled_append_prop_crc": False,
        "clock": clock,
    }
    return MessageStore.open(path, StoreConfig(**{**settings, **changes}))  # type: ignore[arg-type]


def put(store: MessageStore, count: int = 1, size: int = 10) -> None:
    for _ in range(count):
        assert store.put_message(Message("t", b"x" * size, keys=["k"], queue_id=0)).stored


def checkpoint(store: MessageStore) -> CheckpointFields:
    try:
        return decode_checkpoint(store.paths.checkpoint.read_bytes())
    except FileNotFoundError:
        return CheckpointFields()


# -- decisions


def test_thorough_flush_comes_first_and_then_by_time() -> None:
    schedule = ThoroughSchedule(4, 10_000)
    times = (START, START + 1, START + 9999, START + 10_000, START + 10_001, START + 20_000)
    assert [schedule.least_pages(now) for now in times] == [0, 4, 4, 0, 4, 0]
    assert schedule.least_pages(START - NEVER) == 0, "a clock that was set back does not put it off"
    assert schedule.least_pages(START - NEVER + 1) == 4


@pytest.mark.parametrize(
    ("wrote", "flushed", "least_pages", "due"),
    [
        (100, 100, 0, False),
        (101, 100, 0, True),
        (4095, 0, 1, False),
        (4096, 4095, 1, True),  # pages, not bytes: as RocketMQ counts
        (4 * 4096 - 1, 0, 4, False),
        (4 * 4096, 0, 4, True),
        (LOG_SIZE + 10, LOG_SIZE - 10, 4, True),  # a full file does not wait
        (LOG_SIZE, LOG_SIZE - 10, 4, True),
    ],
)
def test_flush_is_due_by_waiting_pages(wrote: int, flushed: int, least_pages: int, due: bool) -> None:
    assert flush_due(wrote, flushed, least_pages, LOG_SIZE) is due


# -- the log


def test_complete_log_is_synced_at_every_interval_by_default(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path / "s", clock) as store:
        for _ in range(3):
            put(store)
            assert Probe(store).flushed_offset < store.max_phy_offset
            Probe(store).flush_log()
            assert Probe(store).flushed_offset == store.max_phy_offset


def test_flush_waits_for_least_pages_until_the_thorough_interval(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path / "s", clock, flush_commit_log_least_pages=4) as store:
        put(store)
        Probe(store).flush_log()
        flushed = Probe(store).flushed_offset
        assert flushed == store.max_phy_offset, "the first is thorough"
        put(store, 10)
        clock.set(START + 9_999)
        Probe(store).flush_log()
        assert Probe(store).flushed_offset == flushed
        put(store, 4, 4096)
        Probe(store).flush_log()
        assert Probe(store).flushed_offset == store.max_phy_offset, "four pages"
        put(store)
        clock.set(START + 10_000)
        Probe(store).flush_log()
        assert Probe(store).flushed_offset == store.max_phy_offset, "flushCommitLogThoroughInterval"


def test_flush_during_a_batch_leaves_its_queues_to_the_batch(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write to each of many queues costs more than its bytes: a batch needs as few of them as possible."""
    seen = []

    def publish_and_flush(*given: Any) -> None:
        publish(*given)
        Probe(store).flush_log()
        seen.append((Probe(store).flushed_offset == Probe(store).wrote_offset, store.max_offset("t", 0)))

    publish = LogAppend.publish
    monkeypatch.setattr(LogAppend, "publish", publish_and_flush)
    batch = pa.RecordBatch.from_pydict({"body": [b"x"] * 9_000, "queueId": [n % 100 for n in range(9_000)]})
    with opened(tmp_path / "s", clock, mapped_file_size_commit_log=1 << 24) as store:
        store.create_topic("t", 100)
        store.append_batch(batch, topic="t")
        assert seen == [(True, 0)] * 3
        assert store.max_offset("t", 0) == 90


def test_waiting_sync_does_not_wait_for_pages(tmp_path: Path, clock: ManualClock) -> None:
    with opened(
        tmp_path / "s", clock, flush_commit_log_least_pages=4, flush_disk_type=FlushDiskType.SYNC_FLUSH
    ) as store:
        put(store, 3)
        assert Probe(store).flushed_offset == store.max_phy_offset == store.confirm_offset


# -- the durable frontier of the log


def stored_frontier(store: MessageStore) -> int:
    confirmed = read_confirm(store.paths)
    assert confirmed is not None
    return confirmed.log_synced_offset


def confirm_syncs(monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> list[int]:
    """Return the list of the times (ms) at which the confirm file is synced from now on."""
    seen, real = list[int](), os_files.sync_map

    def sync_map(mapped: Any, path: object) -> None:
        if str(path).endswith("/confirm"):
            seen.append(clock.now_ms() - START)
        real(mapped, path)

    monkeypatch.setattr(os_files, "sync_map", sync_map)
    return seen


@pytest.mark.parametrize("kind", [FlushDiskType.ASYNC_FLUSH, FlushDiskType.SYNC_FLUSH])
@pytest.mark.parametrize("step_ms", [500, 70])
def test_synced_offset_of_the_log_is_stored_within_a_second(
    tmp_path: Path, clock: ManualClock, kind: FlushDiskType, step_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every half second by default, or when puts wake the thread: no sync is older than a second and not stored."""
    assert StoreConfig().flush_interval_commit_log <= 500
    with opened(tmp_path / "s", clock, flush_disk_type=kind) as store:
        synced_at: dict[int, int] = {}
        times = confirm_syncs(monkeypatch, clock)
        for now in range(0, 3_500, step_ms):
            clock.set(START + now)
            put(store)
            Probe(store).flush_log()
            synced_at[Probe(store).flushed_offset] = now
            missing = [at for end, at in synced_at.items() if end > stored_frontier(store)]
            assert all(now - at < 1000 - step_ms for at in missing), (now, missing)
        assert len(times) <= 3_500 // 500 + 1, "not with every put"
        clock.set(START + 4_000)
        Probe(store).flush_log()
        stored = len(times)
        assert stored_frontier(store) == Probe(store).flushed_offset == store.max_phy_offset
        clock.set(START + 9_000)
        Probe(store).flush_log()
        assert len(times) == stored, "nothing was synced since"


def test_put_syncs_no_file_but_the_log(tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path / "s", clock, flush_disk_type=FlushDiskType.SYNC_FLUSH) as store:
        times = confirm_syncs(monkeypatch, clock)
        put(store, 10)
        assert times == []
        confirmed = read_confirm(store.paths)
        assert confirmed is not None
        assert confirmed.synced_offset == store.max_phy_offset


def test_queue_thread_stores_the_synced_offset_too(tmp_path: Path, clock: ManualClock) -> None:
    """The interval of the log's thread may be longer, while commits and SYNC_FLUSH sync the log."""
    with opened(tmp_path / "s", clock, flush_disk_type=FlushDiskType.SYNC_FLUSH) as store:
        Probe(store).flush_queues()
        clock.set(START + 1000)
        put(store)
        Probe(store).flush_queues()
        assert stored_frontier(store) == store.max_phy_offset
        confirmed = read_confirm(store.paths)
        assert confirmed is not None
        assert confirmed.durable_offset < confirmed.log_synced_offset, "queues and index were not synced"


def test_failed_sync_is_noted_and_stores_no_offset(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "s", clock) as store:
        put(store)

        def fail(fd: int, path: object) -> None:
            raise StoreFencedError(path, "the disk is broken")

        before = read_confirm(store.paths)
        with monkeypatch.context() as broken:
            broken.setattr(os_files, "sync_file", fail)
            with pytest.raises(StoreFencedError):
                Probe(store).flush_log()
        after = read_confirm(store.paths)
        assert before is not None
        assert after is not None
        assert (before.cache_kept, before.sync_failed) == (True, False)
        assert (after.cache_kept, after.sync_failed) == (False, True)
        assert after.synced_offset == after.durable_offset == before.durable_offset


# -- queues, index, checkpoint


class Syncs:
    """Synced files in order, by their folder."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, paths: StorePaths) -> None:
        self.seen: list[str] = []
        real_sync, real_write = os_files.sync_file, os_files.write_atomically

        def sync_file(fd: int, path: object) -> None:
            first = Path(str(path)).relative_to(paths.root).parts[0]
            if not first.startswith(".checkpoint") and first != "rocketflow":
                self.seen.append(first)
            real_sync(fd, path)

        def write_atomically(path: Path, data: bytes) -> None:
            self.seen.append(path.name)
            real_write(path, data)

        monkeypatch.setattr(os_files, "sync_file", sync_file)
        monkeypatch.setattr(os_files, "write_atomically", write_atomically)

    def take(self) -> list[str]:
        seen, self.seen = self.seen, []
        return seen


def test_flush_syncs_log_then_queues_then_index_then_checkpoint(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "s", clock) as store:
        put(store, 3)
        syncs = Syncs(monkeypatch, store.paths)
        store.flush()
        assert syncs.take() == ["commitlog", "consumequeue", "index", "checkpoint", "ends"]


def test_queues_are_synced_by_waiting_units_and_by_time(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"mapped_file_size_consume_queue": 20_000, "max_index_num": 5000, "max_hash_slot_num": 100}
    with opened(tmp_path / "s", clock, flush_consume_queue_least_pages=2, **sizes) as store:
        put(store)
        Probe(store).flush_queues()  # thorough, since it is the first
        syncs = Syncs(monkeypatch, store.paths)
        clock.set(START + 1000)
        put(store, 8192 // 20 - 1)
        Probe(store).flush_queues()
        assert syncs.take() == []
        put(store, 2)
        Probe(store).flush_queues()
        assert syncs.take() == ["consumequeue"]
        put(store)
        clock.set(START + 10_000)
        Probe(store).flush_queues()
        assert syncs.take() == ["commitlog", "consumequeue", "index", "checkpoint", "ends"]


def test_shorter_thorough_interval_is_kept(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path / "s", clock, flush_consume_queue_thorough_interval=2000) as store:
        Probe(store).flush_queues()
        clock.set(START + 1999)
        put(store)
        Probe(store).flush_queues()
        before = read_confirm(store.paths)
        clock.set(START + 2000)
        Probe(store).flush_queues()
        after = read_confirm(store.paths)
        assert before is not None
        assert after is not None
        assert before.durable_offset < after.durable_offset == store.max_phy_offset


def test_flush_syncs_every_file_of_a_queue(tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path / "s", clock) as store:
        put(store, 5)
        store.flush()
        put(store, 100)  # 20 units a file
        synced: set[str] = set()
        real = os_files.sync_file

        def sync_file(fd: int, path: object) -> None:
            synced.add(str(path))
            real(fd, path)

        monkeypatch.setattr(os_files, "sync_file", sync_file)
        store.flush()
        queue = store.find("t", 0)
        assert queue is not None
        assert len(queue.paths) == 6
        assert {str(path) for path in queue.paths} <= synced


def test_checkpoint_has_only_durable_times(tmp_path: Path, clock: ManualClock) -> None:
    with opened(tmp_path / "s", clock) as store:
        put(store)
        Probe(store).flush_log()
        assert checkpoint(store).physic_msg_timestamp == 0, "it is written with the queues"
        clock.set(START + 5000)
        put(store)
        store.flush()
        fields = checkpoint(store)
        assert (fields.physic_msg_timestamp, fields.logics_msg_timestamp) == (START + 5000, START + 5000)
        clock.set(START + 6000)
        put(store)
        fields = checkpoint(store)
        assert (fields.physic_msg_timestamp, fields.logics_msg_timestamp) == (START + 5000, START + 5000)
        put(store, 60)  # fills an index file
        store.flush()
        assert checkpoint(store).index_msg_timestamp > 0
    fields = checkpoint(store)
    assert fields.physic_msg_timestamp == fields.logics_msg_timestamp == START + 6000


def test_failed_sync_of_a_queue_fences(tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path / "s", clock) as store:
        put(store)
        real = os_files.sync_file

        def sync_file(fd: int, path: object) -> None:
            if "consumequeue" in str(path):
                raise StoreFencedError(path, "the disk is broken")
            real(fd, path)

        before = read_confirm(store.paths)
        with monkeypatch.context() as broken:
            broken.setattr(os_files, "sync_file", sync_file)
            with pytest.raises(StoreFencedError):
                Probe(store).flush_queues()
        refused = store.put_message(Message("t", b"x", queue_id=0))
        assert refused.status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        after = read_confirm(store.paths)
        assert before is not None
        assert after is not None
        assert after.durable_offset == before.durable_offset
    assert store.paths.abort.exists(), "the next open recovers"
    with opened(tmp_path / "s", clock) as store:
        assert store.max_offset("t", 0) == 1


def test_put_lock_key_selects_the_lock() -> None:
    for value in (True, False):
        config = StoreConfig.from_mapping({"useReentrantLockWhenPutMessage": value})
        assert config.use_reentrant_lock_when_put_message is value
        assert config.without_effect == ("useReentrantLockWhenPutMessage",)
