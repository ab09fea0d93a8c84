"""Timer messages are delivered once, at their time, whatever happens to the timer's files and to the clock."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rocketflow_store import Message, MessageStore, StoreReader
from rocketflow_store.commits.progress_commit import ProgressMovedError
from rocketflow_store.delivery.timer import timer_committer
from rocketflow_store.delivery.timer.deliver_due import deliver_due_timers
from rocketflow_store.delivery.timer.timer_checkpoint import read_timer_checkpoint
from rocketflow_store.delivery.timer.timer_delivery import TimerDelivery
from rocketflow_store.delivery.timer.timer_log import TimerLog
from rocketflow_store.delivery.timer.timer_message_service import SOON_S, TimerMessageService, TimerState
from rocketflow_store.delivery.timer.timer_wheel import TimerWheel
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.errors import MessageRejectedError, StoreClosedError, StoreConfigError
from rocketflow_store.model.status import PutMessageStatus
from rocketflow_store.model.topic_names import TIMER_TOPIC
from rocketflow_store.records.encoding.delayed_placement import TimerCongestion
from tests.support.timer_worlds import DAY, HOUR, SECOND, START, World, keep, lose_something
from tests.support.trials import LEVEL, seeds


def test_message_is_delivered_in_its_tick_like_a_brokers(tmp_path: Path) -> None:
    world = World(tmp_path / "s")
    with world.open() as store:
        assert store.create_topic("t", 2) is None
        number = world.send(store, 4_500)
        world.send(store, 5_000)
        assert deliver_due_timers(store).delivered == 0
    for at, there in ((4_999, set()), (5_000, {0, 1}), (6_000, {0, 1})):
        world.now = START + at
        run = world.run()
        assert set(world.delivered()) == there
        assert run.until_ms == (START + at) // 1000 * 1000
    world.check()
    with StoreReader(world.path) as reader:
        waited = reader.get_message(TIMER_TOPIC, 0, 0).messages[0]
        found = reader.get_message("t", number % 2, 0).messages[0]
        added = {"TIMER_ENQUEUE_MS": str(START), "TIMER_DEQUEUE_MS": str(START + 5_000)}
        assert {**waited.properties, **added, "__CRC32#": ""} == {**found.properties, "__CRC32#": ""}
        assert (found.stored_body, found.born_timestamp, found.born_host, found.store_host) == (
            *(waited.stored_body, waited.born_timestamp, waited.born_host),
            waited.store_host,
        )
    assert not verify_store(world.path).findings


def test_far_messages_are_rolled_until_they_are_due(tmp_path: Path) -> None:
    world = World(tmp_path / "s", roll_window=3_600)
    with world.open() as store:
        for after in (30 * 60 * SECOND, HOUR + 600 * SECOND, HOUR + 1_800 * SECOND, 5 * HOUR):
            world.send(store, after)
    rolled = 0
    for minutes in (0, 31, 61, 70, 90, 120, 181, 241, 290, 301):
        world.now = START + minutes * 60 * SECOND
        rolled += world.run().rolled
        if minutes in (61, 181):  # a rebuilt wheel does not roll a message again
            (world.path / "rocketflow/timer").unlink()
        world.check()
    assert rolled == 1 + 1 + 3  # after half the window, after all of it, and three times
    with StoreReader(world.path) as reader:
        times = [int(one.properties.get("TIMER_ROLL_TIMES", 0)) for one in reader.get_message("t", 1, 0).messages]
        assert max(times) == 3


def test_recalled_message_is_not_delivered(tmp_path: Path) -> None:
    world = World(tmp_path / "s", roll_window=3_600)
    with world.open() as store:
        numbers = [world.send(store, after) for after in (5_000, 5_000, 5_000, 3 * HOUR, 3 * HOUR)]
        for number in (1, 2, 3):
            world.recall(store, numbers[number])
    world.run()
    for hours in (0.01, 1, 2, 2.5, 3.1):
        world.now = START + int(hours * HOUR)
        world.run()
        world.check()
    assert set(world.delivered()) == {0, 4}


@pytest.mark.parametrize("name", ["t+K0", "K0"])
@pytest.mark.parametrize("taken_in", [False, True])
def test_recall_sent_to_another_topic_recalls_nothing(tmp_path: Path, name: str, taken_in: bool) -> None:
    """The sender of a recall needs the right to send to its topic: it recalls messages of this topic alone."""
    world = World(tmp_path / "s")
    with world.open() as store:
        world.send(store, 5_000)
    if taken_in:
        world.run()
    with world.open() as store:
        properties = {"TIMER_DEL_UNIQKEY": name, "TIMER_DELIVER_MS": str(START + 5_000), "UNIQ_KEY": "K0"}
        assert store.put_message(Message("other", b"0", properties=properties)).topic == TIMER_TOPIC
    world.now = START + 5_000
    world.run()
    world.check()
    assert set(world.delivered()) == {0}


@pytest.mark.parametrize("taken_in", [False, True])
def test_damaged_message_is_skipped_alone_and_reported(tmp_path: Path, taken_in: bool) -> None:
    world = World(tmp_path / "s")
    with world.open() as store:
        for after in (5_000, 5_000, 6_000):
            world.send(store, after)
    if taken_in:
        assert world.run().pending == 3
    with StoreReader(world.path) as reader:
        damaged = reader.get_message(TIMER_TOPIC, 0, 1).messages[0]
    with open(sorted((world.path / "commitlog").iterdir())[0], "r+b") as file:
        file.seek(damaged.phy_offset + 84)  # the body
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))
    world.now = START + 10_000
    with StoreReader(world.path, world.config()) as reader:
        preview = deliver_due_timers(reader, dry_run=True)
    assert (preview.delivered, preview.skipped) == (2, 1)
    run = world.run()
    assert (run.delivered, run.skipped, run.pending) == (2, 1, 0)
    assert set(world.delivered()) == {0, 2}
    again = world.run()
    assert (again.delivered, again.skipped) == (0, 0)


def test_message_that_waited_longer_than_a_wheel_turn_is_delivered(tmp_path: Path) -> None:
    world = World(tmp_path / "s")
    with world.open() as store:
        for after in (5_000, DAY, 3 * DAY, 30 * DAY):
            world.send(store, after)
        deliver_due_timers(store)
    world.now = START + 29 * DAY
    run = world.run()
    assert (run.delivered, run.rolled) == (3, 1)
    world.check()
    world.now = START + 31 * DAY
    world.run()
    world.check()


def test_clock_set_back_causes_no_duplicate_or_early_delivery(tmp_path: Path) -> None:
    world = World(tmp_path / "s")
    with world.open() as store:
        world.send(store, 5_000)
        world.send(store, 2 * HOUR)
    world.now = START + DAY
    world.run()
    world.check()
    world.now = START + 3 * HOUR
    with world.open() as store:
        world.send(store, 60 * SECOND)
        early = world.send(store, HOUR)
    world.run()
    assert early not in world.delivered()
    done = world.due_by_now(START + DAY) - {2, 3}
    assert set(world.delivered()) == done
    world.now = START + 3 * HOUR + 70 * SECOND
    world.run()
    assert set(world.delivered()) == done | {2}
    assert read_timer_checkpoint(world.path / "config/timercheck").last_read_time_ms <= world.sent[3].due
    world.now = START + 2 * DAY
    world.run()
    world.check()


def test_clock_that_was_far_ahead_once_rolls_messages_at_their_time(tmp_path: Path) -> None:
    """A message is rolled when its time has come, not because a much earlier tick was passed."""
    world = World(tmp_path / "s")
    with world.open() as store:
        world.send(store, 5_000)
    world.now = START + 30 * DAY
    world.run()
    world.now = START + HOUR
    with world.open() as store:
        world.send(store, 5 * DAY)
        world.send(store, DAY)
    rolled = 0
    for hours in (2, 30, 60, 100, 150):
        world.now = START + hours * HOUR
        run = world.run()
        rolled += run.rolled
        assert (run.rolled, run.commits) in ((0, 0), (0, 1), (1, 1))
        world.check()
    assert rolled <= 2


def test_until_after_the_clock_counts_as_now(tmp_path: Path) -> None:
    world = World(tmp_path / "s")
    with world.open() as store:
        world.send(store, 5_000)
        world.send(store, 50_000)
        assert deliver_due_timers(store, START + DAY).delivered == 0
    world.now = START + DAY
    assert world.run(START + 20_000).delivered == 1
    world.check(START + 20_000)
    assert world.run().delivered == 1


def test_delivery_from_a_closed_store_raises_and_writes_nothing(tmp_path: Path) -> None:
    world = World(tmp_path / "s")
    with world.open() as store:
        world.send(store, 1_000)
    world.now = START + 2_000
    before = {one: one.stat().st_mtime_ns for one in world.path.rglob("*")}
    for dry_run in (True, False):
        with pytest.raises(StoreClosedError):
            deliver_due_timers(store, dry_run=dry_run)
    assert {one: one.stat().st_mtime_ns for one in world.path.rglob("*")} == before
    assert world.run().delivered == 1


def test_dry_run_returns_the_same_and_writes_nothing(tmp_path: Path) -> None:
    world = World(tmp_path / "s")
    with world.open() as store:
        for after in (3_000, 5_000, 5_000, HOUR):
            world.send(store, after)
        world.recall(store, 2)
    world.now = START + 10_000
    before = {path: path.stat().st_mtime_ns for path in world.path.rglob("*")}
    with StoreReader(world.path, world.config()) as reader:
        preview = deliver_due_timers(reader, dry_run=True, sample=1)
        with pytest.raises(StoreConfigError, match="open for writing"):
            deliver_due_timers(reader)
    assert {path: path.stat().st_mtime_ns for path in world.path.rglob("*")} == before
    assert (preview.delivered, preview.deleted, preview.pending) == (2, 1, 1)
    assert preview.next_due_ms == START + HOUR - SECOND
    assert [(one.topic, one.due_ms, one.uniq_key) for one in preview.samples] == [("t", START + 2_000, "K0")]
    seen = []
    with world.open() as store:
        run = deliver_due_timers(store, progress=seen.append)
    assert (run.delivered, run.deleted, run.commits) == (2, 1, 1)
    assert [one.delivered for one in seen] == [2]


def test_tick_of_many_commits_is_delivered_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped after any of its commits, or planned twice from the same state: each message once, recalls too."""
    monkeypatch.setattr(timer_committer, "COMMIT_ROWS", 7)
    world = World(tmp_path / "s")
    with world.open() as store:
        for number in range(60):
            world.send(store, 5_000 + number // 30 * SECOND)
        for number in (1, 29, 30, 58):
            world.recall(store, number)
        deliver_due_timers(store)
    world.now = START + 60_000
    for stop_after in (1, 3, 2):
        with world.open() as store:
            commits = 0

            def stop(_: object, stop_after: int = stop_after) -> None:
                nonlocal commits
                commits += 1
                if commits == stop_after:
                    raise KeyboardInterrupt

            with pytest.raises(KeyboardInterrupt):
                deliver_due_timers(store, progress=stop)
        assert not [number for number, times in world.delivered().items() if times != 1]
    with world.open() as store:
        one, other = TimerDelivery(store), TimerDelivery(store)
        assert one.step()
        with pytest.raises(ProgressMovedError):
            other.step()
        assert not other.step()  # planned again from the current state
        one.finish()
    world.check()


def test_files_have_the_waiting_messages(tmp_path: Path) -> None:
    """However they were written, wheel and log have the same messages in the same ticks."""
    world = World(tmp_path / "s")
    with world.open() as store:
        for number in range(300):
            world.send(store, 2_000 + number % 7 * SECOND + number // 100 * HOUR)
        deliver_due_timers(store)
    step_by_step = waiting(world)
    assert sum(len(one) for one in step_by_step.values()) == 300
    for name in ("timerwheel", "rocketflow/timer"):
        (world.path / name).unlink()
        world.run()
        assert waiting(world) == step_by_step
    world.now = START + HOUR
    world.run()
    after = waiting(world)
    assert after == {tick: one for tick, one in step_by_step.items() if tick >= world.now}
    assert read_timer_checkpoint(world.path / "config/timercheck").last_timer_queue_offset == 300


def waiting(world: World) -> dict[int, list[int]]:
    """Return the physical offsets of waiting messages by tick, from the files."""
    check = read_timer_checkpoint(world.path / "config/timercheck")
    log = TimerLog(world.path / "timerlog", 4096, world.path / "none")
    ticks, slots = TimerWheel.load(world.path / "timerwheel", 1000).find(check.last_read_time_ms, 1 << 42)
    try:
        return {
            tick: log.chain(int(slot["first"]), int(slot["last"]), 1000, tick)["phy_offset"].tolist()
            for tick, slot in zip(ticks.tolist(), slots, strict=True)
        }
    finally:
        log.close()


def test_log_that_was_cut_and_grew_again_is_noticed(tmp_path: Path) -> None:
    """The timer's files name messages that the log lost, and others are at their places."""
    world = World(tmp_path / "s")
    with world.open() as store:
        world.send(store, 60_000)
        deliver_due_timers(store)
        end = store.max_phy_offset
        world.send(store, 70_000)
        deliver_due_timers(store)
    cut_log(world, end)
    del world.sent[1]
    with world.open() as store:
        number = len(world.sent)
        assert store.max_offset(TIMER_TOPIC, 0) == 1
        assert world.send(store, 65_000) == number
    for after in (68_000, 120_000):
        world.now = START + after
        world.run()
        world.check()


def cut_log(world: World, end: int) -> None:
    """Cut the log at `end` as a power loss does."""
    log = next((world.path / "commitlog").iterdir())
    with log.open("r+b") as file:
        file.seek(end)
        file.write(bytes((256 << 10) - end))
    (world.path / "abort").touch()
    for name in ("rocketflow/confirm", "rocketflow/stop"):
        (world.path / name).unlink(missing_ok=True)


def test_delivery_that_the_log_lost_is_repeated(tmp_path: Path) -> None:
    """The timer's files have the delivery, the log does not."""
    world = World(tmp_path / "s")
    with world.open() as store:
        world.send(store, 5_000)
        world.send(store, 60_000)
        deliver_due_timers(store)
        end = store.max_phy_offset
    world.now = START + 10_000
    assert world.run().delivered == 1
    cut_log(world, end)
    assert not world.delivered()
    for after in (10_000, 70_000):
        world.now = START + after
        assert world.run().delivered == 1
        world.check()


def test_service_delivers_and_leaves_trusted_files(tmp_path: Path) -> None:
    world = World(tmp_path / "s")
    clock = ManualClock(START)
    with MessageStore.open(world.path, replace(world.config(), clock=clock)) as store:
        with TimerMessageService(store) as service:
            for after in (2_000, 3_000, 3_000, HOUR):
                world.send(store, after)
            done = threading.Event()
            for at in range(1, 8):
                clock.set(START + at * SECOND)
                wanted = sum(1 for one in world.sent.values() if one.due <= START + at * SECOND)
                for _ in range(3_000):
                    if service.counts.delivered == wanted:
                        break
                    service.wake()
                    done.wait(0.01)
                assert (service.error, service.counts.delivered) == (None, wanted)
        world.now = START + 7 * SECOND
        assert deliver_due_timers(store).commits == 0
    world.check()


def test_service_says_what_waits_and_how_far_it_is(tmp_path: Path) -> None:
    world = World(tmp_path / "s")
    clock = ManualClock(START)
    with (
        MessageStore.open(world.path, replace(world.config(), clock=clock)) as store,
        TimerMessageService(store) as service,
    ):

        def reach(taken: int, read_ms: int) -> TimerState:
            for _ in range(3_000):
                if (service.counts.taken, service.state().read_ms) == (taken, read_ms):
                    break
                service.wake()
                time.sleep(0.01)
            return service.state()

        assert reach(0, START) == TimerState(START, 0, 0, (0,) * len(SOON_S))
        for after in (2_000, 3_000, 3_000, 100_000, HOUR - 1, HOUR + 1, 2 * DAY):
            world.send(store, after)
        assert reach(7, START) == TimerState(START, 7, 7, (3, 0, 1, 0, 1, 1, 0, 0))
        clock.set(START + 4 * SECOND)
        assert reach(7, START + 4 * SECOND) == TimerState(START + 4 * SECOND, 7, 4, (0, 0, 1, 0, 2, 0, 0, 0))
        assert (service.error, service.counts.delivered) == (None, 3)


def test_messages_read_again_after_a_rebuild_are_not_taken_in_twice(tmp_path: Path) -> None:
    world = World(tmp_path / "s")
    with world.open() as store:
        world.send(store, HOUR)
        assert deliver_due_timers(store).commits == 1  # the first one records where delivery is
    (world.path / "timerwheel").unlink()
    with world.open() as store:
        world.send(store, HOUR)
        delivery = TimerDelivery(store)
        delivery.step()
        assert (delivery.counts.taken, delivery.pending()) == (1, (2, START + HOUR - SECOND))
        delivery.close()


def test_full_tick_refuses_messages_while_the_service_runs(tmp_path: Path) -> None:
    world = World(tmp_path / "s")
    clock = ManualClock(START)
    at = {"TIMER_DELIVER_MS": str(START + HOUR)}

    def put(store: MessageStore, wanted: PutMessageStatus, properties: dict[str, str]) -> None:
        result = store.put_message(Message("t", b"b", queue_id=0, properties=properties))
        assert (result.status, result.stored) == (wanted, wanted is PutMessageStatus.PUT_OK)

    with MessageStore.open(world.path, replace(world.config(), clock=clock, timer_congest_num_each_slot=5)) as store:
        for _ in range(10):
            put(store, PutMessageStatus.PUT_OK, at)
        with TimerMessageService(store) as service:
            for _ in range(3_000):
                if service.error is not None or service.waiting_at(START + HOUR - 1) == 10:
                    break
                service.wake()
                time.sleep(0.01)
            assert (service.error, service.waiting_at(START + HOUR - 1)) == (None, 10)
            put(store, PutMessageStatus.WHEEL_TIMER_FLOW_CONTROL, at)
            put(store, PutMessageStatus.PUT_OK, {"TIMER_DELIVER_MS": str(START + HOUR + SECOND)})
            put(store, PutMessageStatus.PUT_OK, {})
        put(store, PutMessageStatus.PUT_OK, at)


@pytest.mark.parametrize(("waiting", "refused"), [(5, 0), (6, 80), (9, 320), (10, 400), (99, 400)])
def test_congested_tick_refuses_a_share_of_messages(waiting: int, refused: int) -> None:
    congestion = TimerCongestion({7000: waiting}.__getitem__, 5)
    errors = []
    for _ in range(400):
        try:
            congestion.check({"TIMER_OUT_MS": "7000"})
        except MessageRejectedError as error:
            errors.append(str(error))
    assert abs(len(errors) - refused) <= 1
    assert all("timerCongestNumEachSlot is 5" in one for one in errors)


@pytest.mark.parametrize("seed", seeds(3, 200))
def test_random_stops_clocks_and_damage_keep_deliveries_exact(tmp_path: Path, seed: int) -> None:
    """Messages, recalls, clocks that jump forward, stops, lost and damaged files, in any order."""
    rng = random.Random(seed)
    world = World(tmp_path / "s", roll_window=rng.choice([60, 3_600, 172_800]))
    story = [f"seed {seed}"]
    for _ in range(8 if LEVEL == "sample" else 14):
        with world.open() as store:
            for _ in range(rng.choice([0, 1, 5, 80])):
                world.send(store, rng.choice([-5, 1, 999, 1_000, 30_000, HOUR, 2 * DAY, rng.randrange(10 * DAY)]))
            for number in rng.sample(sorted(world.sent), min(len(world.sent), rng.randrange(4))):
                one = world.sent[number]
                tick = (one.due - 1) // SECOND * SECOND
                if one.due > world.now and one.recalled < 0 and tick not in (0, world.now // SECOND * SECOND):
                    world.recall(store, number)
            if rng.random() < 0.8:
                deliver_due_timers(store)
                keep(world, tmp_path / "kept")
        story.append(lose_something(world, rng, tmp_path / "kept"))
        world.now += rng.choice([0, 400, SECOND, 61 * SECOND, HOUR, DAY, 3 * DAY, 16 * DAY])
        world.run()
        try:
            world.check()
            with world.open() as store:
                assert deliver_due_timers(store).commits == 0
        except AssertionError as error:
            raise AssertionError(story) from error


def test_message_without_a_due_time_is_skipped(tmp_path: Path) -> None:
    from rocketflow_store.format.properties import encode_properties
    from rocketflow_store.format.record import RecordFields

    world = World(tmp_path / "s")
    host = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
    odd = [
        {"TIMER_OUT_MS": "soon", "REAL_TOPIC": "t", "REAL_QID": "0"},
        {"REAL_TOPIC": "t", "REAL_QID": "0"},
        {"TIMER_OUT_MS": "5", "REAL_QID": "0"},
        {"TIMER_OUT_MS": "5", "REAL_TOPIC": "../t", "REAL_QID": "0"},
        {"TIMER_OUT_MS": "5", "REAL_TOPIC": "rmq_sys_wheel_timer", "REAL_QID": "0"},
        {"TIMER_OUT_MS": "5", "REAL_TOPIC": "t", "REAL_QID": "-1"},
        {"TIMER_OUT_MS": "9" * 19, "REAL_TOPIC": "t", "REAL_QID": "0"},
    ]
    with world.open() as store:
        for one in odd:
            fields = RecordFields(TIMER_TOPIC.encode(), 0, b"x", encode_properties(one), 0, 0, START, host, host)
            assert store.put_record(fields).stored
        world.send(store, 5_000)
        world.now += 10_000
    assert world.run().delivered == 1
    world.check()
    assert np.array(list(world.delivered().values())).tolist() == [1]
