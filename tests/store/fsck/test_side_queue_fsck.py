"""`verify` compares batch queues and LMQs with the log, byte for byte; `repair` rebuilds them."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, SkipFaults, StoreReader
from rocketflow_store.format.batch_unit import BATCH_UNIT_SIZE
from rocketflow_store.format.consume_queue_unit import UNIT_SIZE
from rocketflow_store.fsck.repair import repair_store
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.rebuild.rebuild import rebuild_store
from rocketflow_store.records.arrow.unit_types import BATCH_UNIT_DTYPE
from rocketflow_store.views.dispatch import side_queues
from rocketflow_store.views.queues import queue_table
from tests.support.damage import flip
from tests.support.side_queue_damage import BATCH, HARM, LIGHT, files_of, lengthen
from tests.support.side_queues import CONFIG, SideStore, make, served
from tests.support.trials import sampled

SEED = 7


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SideStore]:
    path = tmp_path_factory.mktemp("side") / "s"
    return path, make(path, count=113)


def test_undamaged_store_has_no_findings(whole: tuple[Path, SideStore]) -> None:
    assert verify_store(whole[0]).findings == []


@pytest.mark.parametrize(
    ("harm", "queue", "record"), sampled(list(itertools.product(HARM, [BATCH, LIGHT], [True, False])), 3)
)
def test_damaged_side_queue_is_found_and_rebuilt(
    whole: tuple[Path, SideStore], tmp_path: Path, queue: str, harm: Callable[[Path], None], record: bool
) -> None:
    path = tmp_path / "s"
    shutil.copytree(whole[0], path)
    harm(path / queue)
    if not record:
        (path / "rocketflow" / "stop").unlink()
    found = verify_store(path)
    assert found.exit_code == 1
    assert not found.lost_records
    assert any(one.file.startswith(str((path / queue).parent)) for one in found.findings), found.findings
    done = repair_store(path)
    assert done.left.findings == []
    assert (done.exit_code, bool(done.steps)) == (0, True)
    if harm is not lengthen:
        topic, queue_id = queue.split("/")[1:]
        assert ("rebuild-queue", f"{topic}/{queue_id}") in [(one.action, one.target) for one in done.steps]
    assert repair_store(path).steps == []
    with MessageStore.open(path, CONFIG) as store:
        assert served(store) == whole[1].bodies


def test_every_byte_of_a_batch_unit_is_compared(whole: tuple[Path, SideStore], tmp_path: Path) -> None:
    """Physical offset, size, tags code, store time, base offset, count, compacted offset, reserved."""
    path = tmp_path / "s"
    shutil.copytree(whole[0], path)
    file = files_of(path / BATCH)[1]
    rng = random.Random(SEED)
    kinds = {name: set[str]() for name in BATCH_UNIT_DTYPE.names or ()}
    for position in sampled(range(2 * BATCH_UNIT_SIZE, 3 * BATCH_UNIT_SIZE), 3):
        mask = 1 << rng.randrange(8)
        flip(file, position, mask)
        findings = verify_store(path).findings
        assert [(one.file, one.offset, one.length) for one in findings] == [
            (str(file), 2 * BATCH_UNIT_SIZE, BATCH_UNIT_SIZE)
        ], (position, mask, findings)
        flip(file, position, mask)
        field = max(
            (at, name) for name, (_, at) in BATCH_UNIT_DTYPE.fields.items() if at <= position % BATCH_UNIT_SIZE
        )[1]
        kinds[field].add(findings[0].kind)
    assert kinds["reserved"] == kinds["store_timestamp"] == {"wrong-unit"}
    assert set.union(*kinds.values()) <= {"wrong-unit", "missing-unit"}
    assert verify_store(path).findings == []


def test_flipped_unit_of_an_lmq_is_found(whole: tuple[Path, SideStore], tmp_path: Path) -> None:
    path = tmp_path / "s"
    shutil.copytree(whole[0], path)
    file = files_of(path / LIGHT)[0]
    for position in sampled(range(3 * UNIT_SIZE, 4 * UNIT_SIZE), 3):
        flip(file, position, 1)
        findings = verify_store(path).findings
        assert [(one.offset, one.length) for one in findings] == [(3 * UNIT_SIZE, UNIT_SIZE)], (position, findings)
        flip(file, position, 1)


def test_units_after_the_end_and_duplicates_are_found(whole: tuple[Path, SideStore], tmp_path: Path) -> None:
    """Units without a record are found."""
    path = tmp_path / "s"
    shutil.copytree(whole[0], path)
    for queue, size in ((BATCH, BATCH_UNIT_SIZE), (LIGHT, UNIT_SIZE)):
        last = files_of(path / queue)[-1]
        raw = bytearray(last.read_bytes())
        end = -(-len(bytes(raw).rstrip(b"\0")) // size)
        assert (end + 1) * size <= len(raw)
        raw[end * size : (end + 1) * size] = raw[:size]
        last.write_bytes(raw)
        assert [one.kind for one in verify_store(path).findings if one.file == str(last)] == ["stray-unit"], queue
    repair_store(path)
    assert verify_store(path).findings == []


def test_damaged_record_of_side_queues_is_lost_alone(whole: tuple[Path, SideStore], tmp_path: Path) -> None:
    """Its units still point at it; the rest of both kinds of queues agrees."""
    path, made = tmp_path / "s", whole[1]
    shutil.copytree(whole[0], path)
    log = files_of(path / "commitlog")[0]
    flip(log, 3000)
    found = verify_store(path)
    assert [one.kind for one in found.findings] == ["record"]
    assert found.lost_records == 1
    shutil.rmtree(path / BATCH)
    shutil.rmtree(path / LIGHT)
    repair_store(path)
    assert {one.kind for one in verify_store(path).findings} == {"record"}
    with MessageStore.open(path, CONFIG) as store:
        there = served(store)
        assert {place: made.bodies[place] for place in there} == there
        for (topic, queue_id), end in made.ends.items():
            assert store.max_offset(topic, queue_id) == end


def test_messages_from_before_multi_dispatch_are_no_finding(tmp_path: Path) -> None:
    """If enableMultiDispatch was enabled later, earlier records name offsets that others have now."""
    from dataclasses import replace

    from rocketflow_store import Message

    message = Message("t", b"x", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"}, queue_id=0)
    path = tmp_path / "s"
    with MessageStore.open(path, replace(CONFIG, enable_multi_dispatch=False)) as store:
        for _ in range(3):
            assert store.put_message(message).stored
    assert verify_store(path).findings == []
    with MessageStore.open(path, CONFIG) as store:
        for _ in range(5):
            assert store.put_message(message).stored
    assert verify_store(path).findings == []


def test_units_of_another_lmq_serve_no_message(whole: tuple[Path, SideStore], tmp_path: Path) -> None:
    """D1: an LMQ's records belong to another topic; each must name the queue, and the offset in it."""
    path, made = tmp_path / "s", whole[1]
    shutil.copytree(whole[0], path)
    other = files_of(path / LIGHT.replace("%b", "%a"))[1]
    files_of(path / LIGHT)[0].write_bytes(other.read_bytes())
    with StoreReader(path) as reader:
        there = served(reader, anyhow=True)
        assert {place: made.bodies.get(place) for place in there} == there
        low, high = reader.bounds("%LMQ%b", 0)
        parts = reader.read("%LMQ%b", 0, low, high, ["body", "queueOffset"], faults=SkipFaults())
        for row in [row for part in parts for row in part.to_pylist()]:
            assert row["body"] == made.bodies["%LMQ%b", 0, row["queueOffset"]], row
    before = {one.kind for one in verify_store(path).findings}
    assert before == {"wrong-unit", "stray-unit"} or before == {"wrong-unit"}
    repair_store(path)
    with StoreReader(path) as reader:
        assert served(reader) == made.bodies


def test_lmqs_with_names_that_only_rocketmq_accepts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Existing ones are queues like others: they are no damage, and are rebuilt from the log."""
    path, name = tmp_path / "s", "%LMQ%sensors.temp@+$#"
    for module in (queue_table, side_queues):
        monkeypatch.setattr(module, "is_directory_name", lambda _: True)
    with MessageStore.open(path, CONFIG) as store:
        for number in range(30):
            light = {"INNER_MULTI_DISPATCH": name}
            assert store.put_message(Message("plain", b"%d" % number, properties=light, queue_id=0)).stored
    monkeypatch.undo()
    unit_file = min((path / "consumequeue" / name / "0").iterdir())
    before = unit_file.read_bytes()
    assert verify_store(path).findings == []
    assert repair_store(path).steps == []
    assert rebuild_store(path, config=CONFIG).exit_code == 0
    assert unit_file.read_bytes() == before
    flip(unit_file, 9)
    assert repair_store(path).left.findings == []
    assert unit_file.read_bytes() == before
    with MessageStore.open(path, CONFIG) as store:
        assert store.bounds(name, 0) == (0, 30)
