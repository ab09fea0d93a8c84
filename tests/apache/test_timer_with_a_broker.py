"""A RocketMQ 5.5.0 or 5.3.3 broker and RocketFlow take turns: each timer message is delivered once, when it is due."""

from __future__ import annotations

import base64
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, StoreReader
from rocketflow_store.delivery.timer.deliver_due import TimerRun, deliver_due_timers
from rocketflow_store.delivery.timer.timer_checkpoint import read_timer_checkpoint
from rocketflow_store.fsck.repair import repair_store
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.topic_names import TIMER_TOPIC
from tests.apache.judge import VERSIONS_5, versions
from tests.apache.test_apache_opens_rocketflow_stores import SIZES
from tests.support.real_broker import RealBroker
from tests.support.trials import FULL, LEVEL

pytestmark = [pytest.mark.apache, pytest.mark.slow]

CONFIG = replace(SIZES, mapped_file_size_timer_log=1 << 20, default_topic_queue_nums=2)
WAIT_SECONDS = 120.0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def put(path: Path, due: dict[str, int], recalled: tuple[str, ...], version: str) -> None:
    """Put a timer message for each name, and recalls of some of them as that broker version writes them."""
    with MessageStore.open(path, CONFIG) as store:
        for number, (name, at) in enumerate(due.items()):
            properties = {"TIMER_DELIVER_MS": str(at), "UNIQ_KEY": f"KEY{name}"}
            sent = store.put_message(Message("t", name.encode(), properties=properties, queue_id=number % 2))
            assert sent.topic == TIMER_TOPIC
        for name in recalled:
            named = f"t+KEY{name}" if version == "5.3.3" else f"KEY{name}"
            recall = {"TIMER_DEL_UNIQKEY": named, "TIMER_DELIVER_MS": str(due[name]), "UNIQ_KEY": f"KEY{name}"}
            assert store.put_message(Message("t", b"0", properties=recall)).topic == TIMER_TOPIC


def delivered(path: Path) -> dict[str, list[int]]:
    """Return the store timestamps of every message of the topic, by its name."""
    found: dict[str, list[int]] = {}
    with StoreReader(path, CONFIG) as reader:
        for queue_id in reader.queues("t"):
            offset, high = reader.bounds("t", queue_id)
            while offset < high:
                got = reader.get_message("t", queue_id, offset)
                for one in got.messages:
                    found.setdefault(one.body.decode(), []).append(one.store_timestamp)
                offset = max(got.next_begin_offset, offset + 1)
    return found


def wait_for(path: Path, names: set[str]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not names <= set(delivered(path)):
        assert time.monotonic() < end, f"not delivered: {sorted(names - set(delivered(path)))}"
        time.sleep(0.1)


def deliver(path: Path) -> TimerRun:
    with MessageStore.open(path, CONFIG) as store:
        return deliver_due_timers(store)


def leave_alone(path: Path) -> None:
    """Do nothing between the turns."""


def lose_the_wheel(path: Path) -> None:
    (path / "timerwheel").unlink()
    (path / "config" / "timercheck").unlink()


def lose_everything(path: Path) -> None:
    lose_the_wheel(path)
    shutil.rmtree(path / "timerlog")


def cut_the_wheel_and_repair(path: Path) -> None:
    """Truncate the wheel, with which no broker starts, and repair the store."""
    with (path / "timerwheel").open("r+b") as file:
        file.truncate(1_000_000)
    assert [one.kind for one in verify_store(path, CONFIG).findings] == ["timer"]
    assert repair_store(path, CONFIG).left.findings == []


@pytest.mark.skipif(LEVEL == "sample", reason="boots a broker: RF_FAULTS=1 runs it")
@pytest.mark.parametrize("version", versions("5.5.0", of=VERSIONS_5))
@pytest.mark.parametrize("between", [cut_the_wheel_and_repair, leave_alone])
def test_broker_continues_after_rocketflow(tmp_path: Path, between: Callable[[Path], None], version: str) -> None:
    """RocketFlow delivers some messages, the broker the rest, and neither delivers one twice."""
    path = tmp_path / "s"
    start = now_ms()
    early = {f"early{number}": start + 1_000 + number % 2 * 500 for number in range(12)}
    late = {f"late{number}": start + 6_000 + number % 3 * 1000 for number in range(12)}
    far = {f"far{number}": start + 86_400_000 + number * 1000 for number in range(5)}
    put(path, {**early, **late, **far}, ("late3", "far2"), version)
    while now_ms() < start + 3_000:
        time.sleep(0.05)
    assert deliver(path).delivered == len(early)
    between(path)
    with RealBroker(version, path, CONFIG, tmp_path / "home"):
        wait_for(path, set(late) - {"late3"})
    run = deliver(path)
    assert (run.delivered, run.pending) == (0, 4)
    found = delivered(path)
    due = {**early, **late}
    assert Counter({name: len(times) for name, times in found.items()}) == Counter(set(due) - {"late3"})
    assert not [name for name, times in found.items() if times[0] < due[name]]


@pytest.mark.skipif(not FULL, reason="with RF_FULL=1: two starts of a broker")
@pytest.mark.parametrize("version", VERSIONS_5)
def test_broker_continues_after_a_repair(tmp_path: Path, version: str) -> None:
    path = tmp_path / "s"
    start = now_ms()
    early = {f"early{number}": start + 1_500 + number % 3 * 1000 for number in range(20)}
    late = {f"late{number}": start + 60_000 + number % 3 * 1000 for number in range(20)}
    put(path, {**early, **late}, ("early3", "late2"), version)
    with RealBroker(version, path, CONFIG, tmp_path / "home"):
        wait_for(path, set(early) - {"early3"})
    before = delivered(path)
    cut_the_wheel_and_repair(path)
    assert delivered(path) == before
    with RealBroker(version, path, CONFIG, tmp_path / "home"):
        wait_for(path, set(late) - {"late2"})
    assert deliver(path).delivered == 0
    found = delivered(path)
    assert Counter({name: len(times) for name, times in found.items()}) == Counter(
        {*early, *late} - {"early3", "late2"}
    )
    assert not [name for name, times in found.items() if times[0] < {**early, **late}[name]]


@pytest.mark.skipif(not FULL, reason="with RF_FULL=1: four starts of a broker")
@pytest.mark.parametrize("version", VERSIONS_5)
@pytest.mark.parametrize("between", [leave_alone, lose_the_wheel, lose_everything])
def test_broker_and_rocketflow_take_turns_three_times(
    tmp_path: Path, between: Callable[[Path], None], version: str
) -> None:
    path = tmp_path / "s"
    start = now_ms()
    early = {f"early{number}": start + 1_500 + number % 3 * 1000 for number in range(20)}
    far = {f"far{number}": start + 86_400_000 + number * 1000 for number in range(5)}
    put(path, {**early, **far}, ("early3", "far2"), version)
    assert set(delivered(path)) <= set(early)
    assert deliver(path).pending >= 4  # wheel, log and timercheck exist: the broker continues from them
    with RealBroker(version, path, CONFIG, tmp_path / "home") as broker:
        wait_for(path, set(early) - {"early3"})
        soon = now_ms() + 5_000
        lines = [f"SEND\tt\t{n % 2}\t{base64.b64encode(b'sent%d' % n).decode()}\ta\tk\t0\t{soon}" for n in range(6)]
        answers = broker.ask("t", lines)
        assert [one[1] for one in answers if one[0] == "SENT"] == ["SEND_OK"] * 6
    between(path)
    sent = {f"sent{number}": soon for number in range(6)}
    before = delivered(path)
    while now_ms() < soon + 1_000:
        time.sleep(0.05)
    run = deliver(path)
    assert run.delivered == len(set(sent) - set(before))
    assert set(delivered(path)) == (set(early) - {"early3"}) | set(sent)
    late = {f"late{number}": now_ms() + 6_000 + number % 2 * 1000 for number in range(10)}
    put(path, late, ("late9",), version)
    run = deliver(path)
    check = read_timer_checkpoint(path / "config" / "timercheck")
    with StoreReader(path, CONFIG) as reader:
        assert check.last_timer_queue_offset == check.master_timer_queue_offset == reader.max_offset(TIMER_TOPIC, 0)
    with RealBroker(version, path, CONFIG, tmp_path / "home"):
        wait_for(path, set(late) - {"late9"})
    assert deliver(path).delivered == 0
    found = delivered(path)
    due = {**early, **sent, **late}
    assert Counter({name: len(times) for name, times in found.items()}) == Counter(set(due) - {"early3", "late9"})
    assert not [name for name, times in found.items() if times[0] < due[name]]
    with StoreReader(path, CONFIG) as reader:
        dry_run = deliver_due_timers(reader, dry_run=True)
        assert (dry_run.delivered, dry_run.pending) == (0, 5)
    assert not verify_store(path).findings
