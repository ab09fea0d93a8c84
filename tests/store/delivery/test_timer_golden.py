"""features-53 and -55: RocketFlow reads the timer files of a broker as they are and delivers its pending timers."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketflow_store import MessageStore, StoreConfig, StoreReader
from rocketflow_store.delivery.timer.deliver_due import deliver_due_timers
from rocketflow_store.delivery.timer.timer_checkpoint import read_timer_checkpoint
from rocketflow_store.delivery.timer.timer_log import TimerLog
from rocketflow_store.delivery.timer.timer_wheel import TimerWheel
from rocketflow_store.format.timer_layout import DELETE, ROLL
from rocketflow_store.fsck.dump_file import dump_file, kind_of
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.topic_names import TIMER_TOPIC
from tests.support.golden import GOLDEN

HOUR = 3_600_000


class Oracle:
    """Apache's reading of the timers of a golden store."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.read: dict[str, Any] = json.loads((GOLDEN / name / "queries.json").read_text())["timer"]
        self.stopped: int = self.read["timercheck"]["lastReadTimeMs"]

    def count(self, flag: int, *, waiting: bool) -> int:
        """Return how many records of the timer log have a flag, of those that wait or of those that were handled."""
        log = [one for one in self.read["timerlog"] if one["magic"] & flag]
        return sum((one["writeTimeMs"] + one["delayMs"] >= self.stopped) == waiting for one in log)


@pytest.fixture(params=["features-53", "features-55"])
def oracle(request: pytest.FixtureRequest) -> Oracle:
    """Return the reading of one version: 5.3.3 recalls a message by `topic+uniqKey`, 5.5.0 by its UNIQ_KEY."""
    return Oracle(request.param)


@pytest.fixture
def store(oracle: Oracle, golden_store: Callable[..., Path], tmp_path: Path) -> Path:
    path = tmp_path / "s"
    shutil.copytree(golden_store(oracle.name), path)
    return path


def waiting(path: Path) -> dict[int, tuple[int, int]]:
    """Return (tick, magic) of every waiting message by its physical offset, from the timer's files."""
    check = read_timer_checkpoint(path / "config" / "timercheck")
    log = TimerLog(path / "timerlog", 4096, path / "none")
    ticks, slots = TimerWheel.load(path / "timerwheel", 1000).find(check.last_read_time_ms, 1 << 42)
    found = {}
    for tick, slot in zip(ticks.tolist(), slots, strict=True):
        units = log.chain(int(slot["first"]), int(slot["last"]), 1000, tick)
        deletes = units["magic"] & DELETE != 0
        assert int(slot["num"]) == len(units) - 2 * int(deletes.sum())
        found.update({int(unit["phy_offset"]): (tick, int(unit["magic"])) for unit in units})
    log.close()
    return found


def test_files_are_read_as_by_apache(store: Path, oracle: Oracle) -> None:
    check = read_timer_checkpoint(store / "config" / "timercheck")
    timercheck = oracle.read["timercheck"]
    assert (check.last_read_time_ms, check.last_timer_log_flush_pos) == (
        oracle.stopped,
        timercheck["lastTimerLogFlushPos"],
    )
    assert (check.last_timer_queue_offset, check.master_timer_queue_offset) == (
        *(timercheck["lastTimerQueueOffset"], timercheck["masterTimerQueueOffset"]),
    )
    names = ("writeTimeMs", "delayMs", "physicalOffset", "size", "topicHash", "prevPos", "magic")
    log = TimerLog(store / "timerlog", 4096, store / "none")
    positions, units = log.read(0, log.end)
    fields = ("write_ms", "delay_ms", "phy_offset", "msg_size", "topic_hash", "previous", "magic")
    found = [[int(one[name]) for name in fields] for one in units]
    assert found == [[one[name] for name in names] for one in oracle.read["timerlog"]]
    assert positions.tolist() == [one["pos"] for one in oracle.read["timerlog"]]
    log.close()
    dumped = [one for file in sorted((store / "timerlog").iterdir()) for one in dump_file(file)]
    assert [one["offset"] for one in dumped if one["kind"] == "timer"] == positions.tolist()
    assert [one["kind"] for one in dumped].count("blank") == len(list((store / "timerlog").iterdir())) - 1
    slots = [one for one in dump_file(store / "timerwheel") if one["timeMs"] >= oracle.stopped]
    keys = ("timeMs", "firstPos", "lastPos", "num")
    assert [[one[key] for key in keys] for one in sorted(slots, key=lambda one: one["timeMs"])] == [
        [one[key] for key in keys] for one in oracle.read["slotsFromLastRead"]
    ]
    for name in ("timerlog/00000000000000000000", "timerwheel"):  # outside of the store
        elsewhere = store.parent / "00000000000000000007"
        shutil.copy(store / name, elsewhere)
        assert kind_of(elsewhere) == name.partition("/")[0]
    (dumped,) = dump_file(store / "config" / "timercheck")
    assert dumped["lastReadTimeMs"] == oracle.stopped


@pytest.mark.parametrize("lost", [(), ("timerwheel",), ("timerwheel", "timerlog", "config/timercheck")])
def test_rebuilt_wheel_has_the_messages_of_the_brokers(store: Path, oracle: Oracle, lost: tuple[str, ...]) -> None:
    before = waiting(store)
    for name in lost:
        shutil.rmtree(store / name) if (store / name).is_dir() else (store / name).unlink()
    clock = ManualClock(oracle.stopped + 500)
    with MessageStore.open(store, StoreConfig(clock=clock, mapped_file_size_timer_log=4096)) as opened:
        run = deliver_due_timers(opened)
        assert (run.delivered, run.rolled) == (0, 0)  # everything due had been delivered
        assert run.already_delivered == 59
        assert run.deleted == oracle.count(DELETE, waiting=False) == 7
    after = waiting(store)
    mark = {phy_offset for phy_offset in after if phy_offset not in before}
    assert not mark
    assert {phy: magic for phy, (_, magic) in after.items()} == {phy: magic for phy, (_, magic) in before.items()}
    for phy_offset, (tick, magic) in before.items():  # a broker rolls by the time of reading, RocketFlow of storing
        assert abs(after[phy_offset][0] - tick) <= (2_000 if magic & ROLL else 0)
    check = read_timer_checkpoint(store / "config" / "timercheck")
    assert check.last_timer_queue_offset == check.master_timer_queue_offset == 106


def test_pending_timers_of_a_broker_are_delivered_when_due(store: Path, oracle: Oracle) -> None:
    clock = ManualClock(oracle.stopped + 500)
    config = StoreConfig(clock=clock, mapped_file_size_timer_log=4096)
    with StoreReader(store, config) as reader:
        before = reader.snapshot().queues
        _, high = reader.bounds(TIMER_TOPIC, 0)
        waiting_now = {one["physicalOffset"]: one for one in oracle.read["timerlog"]}
        assert high == len(waiting_now)
    due = Counter[str]()
    rolled = 0
    for hours in (0, 2, 12, 24.1, 36, 48.5, 60, 73):
        clock.set(oracle.stopped + int(hours * HOUR))
        with MessageStore.open(store, replace(config)) as opened:
            preview = deliver_due_timers(opened, dry_run=True, sample=100)
            run = deliver_due_timers(opened)
            assert run.delivered == preview.delivered == len(preview.samples)
            assert all(one.due_ms + 1000 <= clock.now_ms() for one in preview.samples)
            due.update(one.uniq_key for one in preview.samples)
            rolled += run.rolled
            assert deliver_due_timers(opened).commits == 0
    assert (run.pending, rolled) == (0, oracle.count(ROLL, waiting=True))
    found = Counter[str]()
    with StoreReader(store, config) as reader:
        for queue_id in reader.queues("f-timer"):
            offset, high = before["f-timer", queue_id][1], reader.max_offset("f-timer", queue_id)
            while offset < high:
                got = reader.get_message("f-timer", queue_id, offset)
                for one in got.messages:
                    assert one.store_timestamp >= int(one.properties["TIMER_OUT_MS"]) + 1000
                    assert one.properties["REAL_QID"] == str(queue_id)
                    found[one.uniq_key or ""] += 1
                offset = got.next_begin_offset
    assert found == due
    assert set(found.values()) == {1}
    assert len(found) == oracle.count(1, waiting=True) - 2 * oracle.count(DELETE, waiting=True) > 20


def test_rebuild_removes_the_snapshots_of_a_wheel(store: Path, oracle: Oracle) -> None:
    """A broker with timerWheelSnapshotFlush uses the snapshot with the greatest position, whatever the log holds."""
    config = StoreConfig(clock=ManualClock(oracle.stopped + 500), mapped_file_size_timer_log=4096)
    for left_over in (False, True):  # before the first delivery, and beside trusted files
        shutil.copy(store / "timerwheel", store / "timerwheel.5512")
        with MessageStore.open(store, config) as opened:
            deliver_due_timers(opened)
        assert [one.name for one in store.glob("timerwheel*")] == ["timerwheel"], left_over
