"""Missing units and files of a queue are an error or a reported loss for every reader, and never a shorter queue."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from rocketflow.cli import app
from rocketflow_store import Message, MessageStore, SkipFaults, StoreReader
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.errors import CorruptRecordError, OffsetOutOfRangeError
from rocketflow_store.telemetry import events
from rocketflow_store.views.queues.promised_queues import PromisedQueues
from tests.support.damage import CONFIG

COUNT = 75
"""Messages of each queue; a queue file has 20."""
QUEUES = (("orders", 0), ("orders", 1), ("bills", 0))
UNIT = 20


def put(store: MessageStore, start: int, stop: int) -> None:
    for number in range(start, stop):
        for topic, queue_id in QUEUES:
            store.put_message(Message(topic, b"%d" % number, queue_id=queue_id, keys=[f"k{number}"]))


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("promised") / "clean"
    with MessageStore.open(path, CONFIG) as store:
        for topic in ("orders", "bills"):
            store.create_topic(topic, 2)
        put(store, 0, COUNT)
    return path


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the files of a writer that flushed 70 messages of each queue and was killed."""
    room = tmp_path_factory.mktemp("promised")
    with MessageStore.open(room / "live", CONFIG) as store:
        for topic in ("orders", "bills"):
            store.create_topic(topic, 2)
        put(store, 0, 70)
        store.flush()
        put(store, 70, COUNT)
        shutil.copytree(room / "live", room / "killed")
    return room / "killed"


@pytest.fixture(scope="module")
def never_flushed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    room = tmp_path_factory.mktemp("promised")
    with MessageStore.open(room / "live", CONFIG) as store:
        put(store, 0, COUNT)
        shutil.copytree(room / "live", room / "killed")
    return room / "killed"


STOPS = ("clean", "killed", "never_flushed")


def queue_files(path: Path) -> list[Path]:
    return sorted((path / "consumequeue" / "orders" / "0").iterdir())


def zero(path: Path, first: int, stop: int) -> None:
    for number in range(first, stop):
        file = queue_files(path)[number // 20]
        with file.open("r+b") as opened:
            opened.seek(number % 20 * UNIT)
            opened.write(bytes(UNIT))


def another_queues_files(path: Path) -> None:
    shutil.rmtree(path / "consumequeue" / "orders" / "0")
    shutil.copytree(path / "consumequeue" / "bills" / "0", path / "consumequeue" / "orders" / "0")


def cut(path: Path) -> None:
    with queue_files(path)[-1].open("r+b") as opened:
        opened.truncate(100)


DAMAGES: dict[str, tuple[Callable[[Path], None], int]] = {
    "the first unit": (lambda path: zero(path, 0, 1), 1),
    "a unit in the middle": (lambda path: zero(path, 37, 38), 1),
    "two files of units": (lambda path: zero(path, 20, 60), 40),
    "the last unit": (lambda path: zero(path, COUNT - 1, COUNT), 1),
    "the tail": (lambda path: zero(path, 50, COUNT), 25),
    "every unit": (lambda path: zero(path, 0, COUNT), COUNT),
    "the first file": (lambda path: queue_files(path)[0].unlink(), 20),
    "a file in the middle": (lambda path: queue_files(path)[1].unlink(), 20),
    "the last file": (lambda path: queue_files(path)[-1].unlink(), 15),
    "the last file's end": (cut, 15),
    "the directory": (lambda path: shutil.rmtree(path / "consumequeue" / "orders" / "0"), COUNT),
    "the topic": (lambda path: shutil.rmtree(path / "consumequeue" / "orders"), COUNT),
    "all queues": (lambda path: shutil.rmtree(path / "consumequeue"), COUNT),
    "the right files": (another_queues_files, COUNT),
}


class SkippedCount(logging.Handler):
    """Counts the messages that readers reported as skipped."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "rf_code", "") == events.SKIPPED:
            self.count += int(record.args[3])  # type: ignore[arg-type, index]


@contextmanager
def skipped_count() -> Iterator[SkippedCount]:
    handler = SkippedCount()
    logging.getLogger("rocketflow_store").addHandler(handler)
    try:
        yield handler
    finally:
        logging.getLogger("rocketflow_store").removeHandler(handler)


def expect_loss(reader: StoreReader, missing: int, count: int = COUNT) -> None:
    """Check that the bounds are the complete queue's, a strict read raises, and skipped messages are reported."""
    assert reader.topics() == ["bills", "orders"]
    assert reader.queues("orders") == [0, 1]
    assert reader.bounds("orders", 0) == (0, count)
    with pytest.raises((CorruptRecordError, OffsetOutOfRangeError)):
        list(reader.read("orders", 0, 0, count))
    with skipped_count() as skipped:
        got = sum(batch.num_rows for batch in reader.read("orders", 0, 0, count, faults=SkipFaults()))
    assert (got, skipped.count) == (count - missing, missing)
    assert reader.snapshot().queues["orders", 0] == (0, count)
    assert reader.bounds("bills", 0)[0] == 0


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("name", DAMAGES)
def test_reader_of_a_stopped_store_reports_missing_units(
    tmp_path: Path, name: str, stop: str, request: pytest.FixtureRequest
) -> None:
    path = tmp_path / "s"
    shutil.copytree(request.getfixturevalue(stop), path)
    damage, missing = DAMAGES[name]
    damage(path)
    with StoreReader(path) as reader:
        expect_loss(reader, missing)
    with MessageStore.open(path, CONFIG) as store:
        assert store.bounds("orders", 0) == (0, COUNT)
        assert sum(batch.num_rows for batch in store.read("orders", 0, 0, COUNT)) == COUNT
    assert verify_store(path).findings == []


@pytest.mark.parametrize("name", ["the first unit", "a unit in the middle", "the last unit", "the tail", "every unit"])
def test_reader_beside_a_writer_reports_missing_units(tmp_path: Path, name: str) -> None:
    path = tmp_path / "s"
    damage, missing = DAMAGES[name]
    with MessageStore.open(path, CONFIG) as store:
        put(store, 0, COUNT)
        with StoreReader(path) as known:
            assert known.bounds("orders", 0) == (0, COUNT)
            damage(path)
            with StoreReader(path) as reader:
                expect_loss(reader, missing)
            expect_loss(known, missing)
            put(store, COUNT, COUNT + 5)
            with StoreReader(path) as reader:
                expect_loss(reader, missing, COUNT + 5)
            expect_loss(known, missing, COUNT + 5)


def test_unit_zeroed_before_a_reader_saw_it_does_not_stop_that_reader(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, CONFIG) as store:
        put(store, 0, 30)
        with StoreReader(path) as reader:
            assert reader.bounds("orders", 0) == (0, 30)
            put(store, 30, 31)
            zero(path, 30, 31)
            put(store, 31, 45)
            assert reader.bounds("orders", 0) == (0, 45)


@pytest.mark.parametrize(
    "name", ["a unit in the middle", "the tail", "the first file", "the last file", "the directory"]
)
def test_cat_and_info_report_lost_queue_files(
    tmp_path: Path, clean: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s"
    shutil.copytree(clean, path)
    damage, missing = DAMAGES[name]
    damage(path)
    assert app.run(["store", "cat", str(path), "--topic", "orders", "--queue", "0", "--json"]) == 3
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == COUNT - missing
    assert f"{missing} messages could not be read" in shown.err
    assert app.run(["store", "info", str(path), "--json"]) == 0
    info = json.loads(capsys.readouterr().out)
    (orders,) = [one for one in info["topics"] if one["topic"] == "orders"]
    assert orders["queues"][0] == {"queueId": 0, "minOffset": 0, "maxOffset": COUNT}


# -- no false alarms


@contextmanager
def without_promises_broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Note promises that hold and that units do not keep."""
    broken: list[str] = []
    holds = PromisedQueues.holds

    def noted(self: PromisedQueues, key: tuple[str, int], *args: int, batch: bool = False) -> bool:
        found = holds(self, key, *args, batch=batch)
        if found:
            broken.append(str(key))
        return found

    monkeypatch.setattr(PromisedQueues, "holds", noted)
    yield broken
    assert broken == []


def seen(path: Path) -> dict[tuple[str, int], tuple[int, int]]:
    with StoreReader(path) as reader:
        found = reader.snapshot().queues
        for (topic, queue_id), (low, high) in found.items():
            assert sum(batch.num_rows for batch in reader.read(topic, queue_id, low, high)) == high - low
    return found


def test_deleted_topic_is_not_promised(tmp_path: Path, clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s"
    shutil.copytree(clean, path)
    with without_promises_broken(monkeypatch):
        with MessageStore.open(path, CONFIG) as store:
            with StoreReader(path) as reader:
                assert reader.bounds("orders", 0) == (0, COUNT)
                store.delete_topic("orders")
                assert reader.bounds("orders", 0) == (0, 0)
            assert seen(path) == {("bills", 0): (0, COUNT)}
            store.put_message(Message("orders", b"new", queue_id=0))
            assert seen(path) == {("bills", 0): (0, COUNT), ("orders", 0): (0, 1)}
            store.flush()
            shutil.copytree(path, tmp_path / "killed")
        assert seen(path) == {("bills", 0): (0, COUNT), ("orders", 0): (0, 1)}
        assert seen(tmp_path / "killed") == {("bills", 0): (0, COUNT), ("orders", 0): (0, 1)}


def by_another_writer(path: Path, action: Callable[[MessageStore], None]) -> None:
    """Let a writer that leaves no record of RocketFlow change the store."""
    kept = {one: one.read_bytes() for one in (path / "rocketflow").iterdir() if one.is_file()}
    with MessageStore.open(path, CONFIG) as store:
        action(store)
    for one in (path / "rocketflow").iterdir():
        if one.is_file():
            one.unlink()
    for one, data in kept.items():
        one.write_bytes(data)


def test_topic_that_another_writer_deleted_or_created_again_is_not_promised(
    tmp_path: Path, clean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s"
    shutil.copytree(clean, path)
    by_another_writer(path, lambda store: store.delete_topic("orders"))
    with without_promises_broken(monkeypatch):
        assert seen(path) == {("bills", 0): (0, COUNT)}

    def anew(store: MessageStore) -> None:
        store.create_topic("orders", 2)
        put(store, 0, 3)

    by_another_writer(path, anew)
    with StoreReader(path) as reader:
        assert reader.bounds("orders", 0) == (0, 3)
        assert reader.bounds("bills", 0) == (0, COUNT + 3)


def test_removed_messages_are_not_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s"
    config = replace(CONFIG, file_reserved_time=0)
    with MessageStore.open(path, config) as store:
        store.put_message(Message("bills", b"old", queue_id=1))
        put(store, 0, 400)
    with without_promises_broken(monkeypatch):
        with MessageStore.open(path, config) as store, StoreReader(path) as reader:
            assert reader.bounds("orders", 0) == (0, 400)
            store.clean()
            low, high = reader.bounds("orders", 0)
            assert (low, high) == store.bounds("orders", 0)
            assert low > 100
            seen(path)
        seen(path)
        shutil.rmtree(path / "consumequeue" / "bills" / "1")  # RocketMQ deletes a queue whose messages are all removed
        seen(path)


def test_gaps_do_not_move_the_minimum_offset(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, CONFIG) as store:
        put(store, 0, 160)
    intact = (path / "consumequeue" / "orders" / "0").rename(tmp_path / "intact")
    pre_blank = bytes(8) + (0x7FFFFFFF).to_bytes(4, "big") + bytes(8)
    for gap in range(0, 160, 3):
        for unit in (bytes(UNIT), pre_blank):
            if unit == pre_blank and gap == 0:
                continue  # that fills the room before the first message
            shutil.rmtree(path / "consumequeue" / "orders" / "0", ignore_errors=True)
            shutil.copytree(intact, path / "consumequeue" / "orders" / "0")
            with queue_files(path)[gap // 20].open("r+b") as opened:
                opened.seek(gap % 20 * UNIT)
                opened.write(unit)
            with StoreReader(path) as reader:
                assert reader.bounds("orders", 0) == (0, 160), (gap, unit)
