"""A real broker and RocketFlow take turns at delivering one directory's delayed messages: each is delivered once."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, StoreReader
from rocketflow_store.delivery.delay.delivery import deliver_due
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.config_files.delay_offsets import DelayOffsetsFile
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC
from tests.apache.judge import VERSIONS_5
from tests.apache.test_apache_opens_rocketflow_stores import SIZES
from tests.support.real_broker import RealBroker
from tests.support.trials import LEVEL

pytestmark = [
    pytest.mark.apache,
    pytest.mark.slow,
    pytest.mark.skipif(LEVEL == "sample", reason="two minutes for two brokers each: RF_FULL=1 runs it"),
]

EACH = 6
WAIT_S = 120.0


def body(who: str, level: int, number: int) -> bytes:
    return f"{who} {level} {number:03}".encode()


def delivered(path: Path) -> list[tuple[bytes, int, int]]:
    """Return (body, delay level, ms after its due time; negative: early) of topic `orders`, in queue order."""
    found = []
    with StoreReader(path) as reader:
        waited = {}
        for queue_id in reader.queues(SCHEDULE_TOPIC):
            units = reader.read_units(SCHEDULE_TOPIC, queue_id, *reader.bounds(SCHEDULE_TOPIC, queue_id))
            for unit in units:
                one = reader.look_message_by_offset(int(unit["phy_offset"]))
                assert one is not None
                waited[one.body] = int(unit["tags_code"])
        for queue_id in reader.queues("orders"):
            for unit in reader.read_units("orders", queue_id, *reader.bounds("orders", queue_id)):
                one = reader.look_message_by_offset(int(unit["phy_offset"]))
                assert one is not None
                found.append((one.body, int(one.properties["DELAY"]), one.store_timestamp - waited[one.body]))
    return found


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def has(path: Path, who: str, level: int) -> bool:
    return sum(one.startswith(f"{who} {level} ".encode()) for one, _, _ in delivered(path)) == EACH


@pytest.mark.parametrize("version", VERSIONS_5)
@pytest.mark.parametrize("stop", ["orderly", "killed"])
def test_broker_and_rocketflow_take_turns_and_deliver_once(tmp_path: Path, stop: str, version: str) -> None:
    """A killed broker has not written its positions (it does so every 10 s): they are recovered from the log."""
    path = tmp_path / "s"
    with MessageStore.open(path, SIZES) as store:
        store.create_topic("orders", 2)
        for level in (1, 5):
            for number in range(EACH):
                one = Message("orders", body("rocketflow", level, number), delay_time_level=level, queue_id=number % 2)
                assert store.put_message(one).stored
    sent = {("rocketflow", 1), ("rocketflow", 5)}
    with RealBroker(version, path, SIZES, tmp_path / "home") as broker:
        wait_until(lambda: has(path, "rocketflow", 1))
        lines = []
        for level in (1, 2, 4):
            sent.add(("broker", level))
            for number in range(EACH):
                text = base64.b64encode(body("broker", level, number)).decode()
                lines.append(f"SEND\torders\t{number % 2}\t{text}\tt\tk{number}\t{level}")
        answers = broker.ask("orders", lines)
        assert [one[1] for one in answers if one[0] == "SENT"] == ["SEND_OK"] * len(lines)
        wait_until(lambda: has(path, "broker", 1))
        if stop == "killed":
            broker.kill()
    with MessageStore.open(path) as store:
        assert store.recovery.abort_found == (stop == "killed")
        rows = 0
        while not (has(path, "broker", 2) and has(path, "broker", 4)):
            rows += deliver_due(store).rows
            time.sleep(0.05)
        if not rows:
            pytest.skip("the broker took so long to stop that it had delivered everything")
        positions = DelayOffsetsFile(path / "config").offsets()
        assert positions[4] == EACH
    with RealBroker(version, path, SIZES, tmp_path / "home"):
        wait_until(lambda: has(path, "rocketflow", 5))
    with MessageStore.open(path) as store:
        assert deliver_due(store).rows == 0
    found = delivered(path)
    wanted = sorted(body(who, level, number) for who, level in sent for number in range(EACH))
    assert sorted(one for one, _, _ in found) == wanted
    assert [one for one in found if one[2] < 0] == []
    for who, level in sent:
        for queue in range(2):
            expected = [one for one, _, _ in found if one.startswith(f"{who} {level} ".encode())]
            numbers = [int(one[-3:]) for one in expected]
            assert [n for n in numbers if n % 2 == queue] == sorted(n for n in numbers if n % 2 == queue)
    assert verify_store(path).findings == []
