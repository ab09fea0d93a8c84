"""A record whose topic, queueId or queueOffset is damaged is a lost message, and every check reports it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rocketflow.cli import app
from rocketflow_store import Message, MessageStore, SkipFaults, StoreReader
from rocketflow_store.fsck.repair import repair_store
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.rebuild.rebuild import rebuild_store
from rocketflow_store.rebuild.result import RebuildRequest
from rocketflow_store.spi.table_rows import BATCH_CQ
from rocketflow_store.tables.topic_config import QUEUE_TYPE_ATTRIBUTE
from tests.support.damage import CONFIG as WITH_RECORD_CRC
from tests.support.damage import flip
from tests.support.trials import LEVEL, SEED

CONFIG = replace(WITH_RECORD_CRC, enabled_append_prop_crc=False)

COUNT = 80
QUEUES = (("orders", 0), ("orders", 1), ("bills", 0))
BITS = {"queueId": (15, 2), "queueOffset": (27, 3), "far": (26, 2), "huge": (20, 7), "topic": (None, 1)}
"""By kind of damage: the position in the record of the damaged byte, and the bit that flips."""


def cases(kinds: Iterable[str], numbers: Sequence[int]) -> list[tuple[str, int]]:
    """Return every kind of damage to each of these messages; in a sample each kind to one of them."""
    if LEVEL != "sample":
        return [(kind, number) for kind in kinds for number in numbers]
    return [(kind, numbers[(SEED + nth) % len(numbers)]) for nth, kind in enumerate(kinds)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    path, places = tmp_path_factory.mktemp("lost-places") / "s", []
    with MessageStore.open(path, CONFIG) as opened:
        for topic in ("orders", "bills"):
            opened.create_topic(topic, 2)
        for number in range(COUNT):
            for topic, queue_id in QUEUES:
                put = opened.put_message(Message(topic, b"%d" % number, queue_id=queue_id))
                if (topic, queue_id) == QUEUES[0]:
                    places.append(put.physical_offset)
    return path, places


def damaged(tmp_path: Path, store: tuple[Path, list[int]], number: int, kind: str) -> Path:
    path, size = tmp_path / "s", CONFIG.mapped_file_size_commit_log
    shutil.copytree(store[0], path)
    place = store[1][number]
    file = path / "commitlog" / f"{place - place % size:020d}"
    at, bit = BITS[kind]
    position = place % size + at if at is not None else file.read_bytes().index(b"orders", place % size) + 5
    flip(file, position, 1 << bit)
    return path


LOST = {"lost-message", "record"}
"""Findings: `record` if the queue that a record claims cannot exist."""
OF_INDEX = {"index-entry", "missing-entry"}


def check(path: Path, number: int) -> None:
    """Check that the loss is reported each time, all other messages are served, and their queue has its bounds."""
    for _ in range(2):
        found = verify_store(path)
        assert found.exit_code == 3
        assert found.lost_records == 1
        assert LOST & {one.kind for one in found.findings}
        assert {one.kind for one in found.findings} <= LOST | OF_INDEX, found.findings
    with StoreReader(path) as reader:
        assert reader.bounds("orders", 0) == (0, COUNT)
        served = [
            row["queueOffset"]
            for batch in reader.read("orders", 0, 0, COUNT, ["queueOffset"], faults=SkipFaults())
            for row in batch.to_pylist()
        ]
        assert served == [one for one in range(COUNT) if one != number]
    assert repair_store(path).exit_code == 3
    assert verify_store(path).findings == [one for one in found.findings if one.kind in LOST]


@pytest.mark.parametrize(("kind", "number"), cases(BITS, [0, 40, COUNT - 1]))
def test_rebuild_of_a_log_that_lacks_a_queue_offset_reports_the_loss(
    tmp_path: Path, store: tuple[Path, list[int]], number: int, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = damaged(tmp_path, store, number, kind)
    planned = rebuild_store(path, RebuildRequest(dry_run=True))
    assert app.run(["store", "rebuild", str(path)]) == 3
    shown = "".join(capsys.readouterr())
    assert f"offset {number} of topic orders, queue 0" in shown
    assert planned.exit_code == 3
    assert f"offset {number} of topic orders, queue 0" in str(planned.damaged)
    check(path, number)
    shutil.rmtree(path / "consumequeue")
    assert app.run(["store", "rebuild", str(path)]) == 3
    check(path, number)


@pytest.mark.parametrize("kind", BITS)
@pytest.mark.parametrize("number", [40])
def test_repair_of_a_log_that_lacks_a_queue_offset_reports_the_loss(
    tmp_path: Path, store: tuple[Path, list[int]], number: int, kind: str
) -> None:
    path = damaged(tmp_path, store, number, kind)
    assert app.run(["store", "verify", str(path), "--repair"]) == 3
    assert verify_store(path).exit_code == 3
    shutil.rmtree(path / "consumequeue" / "orders" / "0")
    assert repair_store(path).exit_code == 3
    check(path, number)


@pytest.mark.parametrize(("kind", "number"), cases(BITS, [0, COUNT - 1]))
def test_verify_reports_the_loss_after_an_open_rebuilt_the_queues(
    tmp_path: Path, store: tuple[Path, list[int]], number: int, kind: str
) -> None:
    path = damaged(tmp_path, store, number, kind)
    shutil.rmtree(path / "consumequeue")
    with MessageStore.open(path, CONFIG) as opened:
        assert opened.recovery.quarantined or number == COUNT - 1
    check(path, number)


@pytest.fixture(scope="module")
def batch_store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    path = tmp_path_factory.mktemp("lost-batches") / "s"
    with MessageStore.open(path, CONFIG) as opened:
        topics = opened.config_files.topics
        opened.create_topic("orders", 1)
        made = topics.topics()["orders"]
        topics.put(made.with_attribute(QUEUE_TYPE_ATTRIBUTE, BATCH_CQ))
    with MessageStore.open(path, CONFIG) as opened:
        put = [opened.put_message(Message("orders", b"%d" % number, queue_id=0)) for number in range(COUNT)]
    assert (path / "batchconsumequeue").is_dir()
    return path, [one.physical_offset for one in put]


@pytest.mark.parametrize(("kind", "number"), cases(["queueId", "queueOffset"], [0, 40, COUNT - 1]))
def test_rebuild_of_a_batch_queue_that_lacks_a_queue_offset_reports_the_loss(
    tmp_path: Path, batch_store: tuple[Path, list[int]], number: int, kind: str
) -> None:
    path = damaged(tmp_path, batch_store, number, kind)
    shutil.rmtree(path / "batchconsumequeue")
    result = rebuild_store(path)
    assert result.exit_code == 3
    assert f"offset {number} of topic orders, queue 0" in str(result.damaged)
    for _ in range(2):
        found = verify_store(path)
        assert (found.exit_code, found.lost_records) == (3, 1)
        assert {one.kind for one in found.findings} == {"lost-message"}
        assert repair_store(path).exit_code == 3
    with StoreReader(path) as reader:
        low, high = reader.bounds("orders", 0)
        assert (low, high) == (int(number == 0), COUNT)
        rows = reader.read("orders", 0, low, high, ["queueOffset"], faults=SkipFaults())
        served = [row["queueOffset"] for batch in rows for row in batch.to_pylist()]
        assert served == [one for one in range(COUNT) if one != number]
