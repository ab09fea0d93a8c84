"""`verify --repair`: derived files are rebuilt byte for byte, damage costs only itself, a repeat changes nothing."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore
from rocketflow_store.files import os_files
from rocketflow_store.fsck.repair import repair_store
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.config_files import ConfigFiles
from rocketflow_store.model.errors import StoreLockedError, StoreVersionError
from tests.support.damage import CONFIG, Planted, copied, digests, flip, make
from tests.support.golden import config_of
from tests.support.trials import some, sweep

SEED = 20261121


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return make(tmp_path_factory.mktemp("whole") / "s")


@pytest.fixture
def planted(whole: Planted, tmp_path: Path) -> Planted:
    return copied(whole, tmp_path / "s")


def healed(planted: Planted, whole: Planted) -> None:
    """Repair; no message is lost, verify is clean, and a second repair changes no byte."""
    first = repair_store(planted.path)
    assert first.exit_code == 0
    assert first.steps
    assert first.left.findings == []
    after = digests(planted.path)
    for name, digest in digests(whole.path).items():
        if not name.startswith(("index/", "config/", "rocketflow/", "checkpoint")):
            assert after[name] == digest, name
    assert planted.served() == planted.bodies
    assert planted.keys_missing() == set()
    again = repair_store(planted.path)
    assert (again.exit_code, again.steps) == (0, [])
    assert digests(planted.path) == after


def quarantined(planted: Planted, lost: set[tuple[str, int, int]]) -> None:
    """Repair; only `lost` is not served, the report names it, and a second repair changes no byte."""
    first = repair_store(planted.path)
    assert first.exit_code == 3
    assert {one.kind for one in first.left.findings} == {"record"}
    assert first.left.lost_records >= len(lost)
    assert planted.served() == {place: body for place, body in planted.bodies.items() if place not in lost}
    assert planted.keys_missing() <= lost
    after = digests(planted.path)
    report = [json.loads(line) for line in (planted.path / "quarantine" / "report.jsonl").read_text().splitlines()]
    assert {one["code"] for one in report} >= {"RF-QUAR"}
    for one in report:
        if one["code"] == "RF-QUAR" and one["kept"] is not None:
            raw = (planted.path / one["file"]).read_bytes()[one["offset"] : one["offset"] + one["length"]]
            assert (planted.path / "quarantine" / one["kept"]).read_bytes() == raw
    assert repair_store(planted.path).steps == []
    assert digests(planted.path) == after
    used(planted, lost)


def used(planted: Planted, lost: set[tuple[str, int, int]]) -> None:
    """Check that the store opens, takes messages after the old ones, and serves what it served."""
    with MessageStore.open(planted.path, CONFIG) as store:
        result = store.put_message(Message("orders", b"after", queue_id=0))
        assert result.queue_offset == 75
    served = planted.served()
    assert served.pop(("orders", 0, 75)) == b"after"
    assert served == {place: body for place, body in planted.bodies.items() if place not in lost}


def test_repair_of_an_undamaged_store_does_nothing(planted: Planted) -> None:
    before = digests(planted.path)
    result = repair_store(planted.path)
    assert (result.exit_code, result.steps) == (0, [])
    assert digests(planted.path) == before


def test_repair_of_a_locked_store_is_refused(planted: Planted) -> None:
    with MessageStore.open(planted.path, CONFIG), pytest.raises(StoreLockedError) as caught:
        repair_store(planted.path)
    assert caught.value.exit_code == 75


DERIVED = [
    "consumequeue/orders/0/00000000000000000400",
    "consumequeue/bills/1/00000000000000000000",
    "consumequeue/bills/1/00000000000000001200",
    "checkpoint",
    "config/topics.json",
    "rocketflow/store.meta",
]


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "noise", "longer"])
@pytest.mark.parametrize("name", [*DERIVED, "index"])
def test_damaged_derived_files_are_rebuilt(planted: Planted, whole: Planted, name: str, damage: str) -> None:
    file = planted.path / name if name != "index" else sorted((planted.path / "index").iterdir())[1]
    if damage == "missing" and name == "rocketflow/store.meta":
        pytest.skip("a store without it is one that we have not written to")
    raw = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        noise = random.Random(SEED).randbytes(len(raw))
        file.write_bytes({"empty": b"", "cut": raw[: len(raw) // 2], "noise": noise, "longer": raw + b"x" * 40}[damage])
    healed(planted, whole)


def test_all_derived_files_are_rebuilt_at_once(planted: Planted, whole: Planted) -> None:
    shutil.rmtree(planted.path / "consumequeue")
    shutil.rmtree(planted.path / "index")
    (planted.path / "checkpoint").unlink()
    (planted.path / "index").mkdir()
    healed(planted, whole)


def test_swapped_queues_are_repaired_and_strange_files_quarantined(planted: Planted, whole: Planted) -> None:
    queues = planted.path / "consumequeue" / "bills"
    (queues / "0").rename(queues / "tmp")
    (queues / "1").rename(queues / "0")
    (queues / "tmp").rename(queues / "1")
    (planted.path / "commitlog" / "notes.txt").write_text("mine")
    (planted.path / "index" / "20990101000000000").write_bytes(b"?" * 100)
    healed(planted, whole)
    assert (planted.path / "quarantine" / "commitlog" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(("one", "other"), [(0, 3), (1, 3), (2, 3), (0, 1)])
def test_swapped_files_of_a_queue_and_an_empty_index_are_repaired(
    planted: Planted, whole: Planted, one: int, other: int
) -> None:
    """Units of the first file in slots after the end do not refute their records, which follow each other."""
    files = sorted((planted.path / "consumequeue" / "bills" / "0").iterdir())
    contents = files[one].read_bytes(), files[other].read_bytes()
    files[other].write_bytes(contents[0])
    files[one].write_bytes(contents[1])
    for index in (planted.path / "index").iterdir():
        index.write_bytes(b"")
    healed(planted, whole)


def test_units_after_the_end_are_removed(planted: Planted, whole: Planted) -> None:
    file, position = planted.queue_file("orders", 0, 75)
    unit = planted.queue_file("orders", 0, 10)[0].read_bytes()[200:220]
    with file.open("r+b") as opened:
        opened.seek(position)
        opened.write(unit)
    healed(planted, whole)


def test_random_bytes_of_derived_files_are_repaired(whole: Planted, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    for trial in range(some(20)):
        planted = copied(whole, tmp_path / str(trial))
        for _ in range(rng.randrange(1, 4)):
            topic, queue, offset = rng.choice(sorted(planted.places))
            file, position = planted.queue_file(topic, queue, offset)
            flip(file, position + rng.randrange(20), 1 << rng.randrange(8))
        entry = rng.randrange(1, CONFIG.max_index_num)
        full = sorted((planted.path / "index").iterdir())[:-1]
        flip(
            rng.choice(full), 40 + 4 * CONFIG.max_hash_slot_num + 20 * entry + rng.randrange(20), 1 << rng.randrange(8)
        )
        healed(planted, whole)
        shutil.rmtree(planted.path)


@pytest.mark.parametrize("position", [0, 3, 4, 12, 15, 20, 27, 35, 84, 87, 90])
def test_damaged_record_is_lost_alone(planted: Planted, position: int) -> None:
    place = ("orders", 1, 40)
    file, start = planted.log_file(planted.places[place][0])
    flip(file, start + position)
    damaged = file.read_bytes()
    quarantined(planted, {place})
    assert file.read_bytes() == damaged


@pytest.mark.parametrize("position", [3, 4, 12, 27, 90])
def test_damaged_record_in_a_lost_queue_is_lost_alone(planted: Planted, position: int) -> None:
    place = ("orders", 1, 40)
    file, start = planted.log_file(planted.places[place][0])
    flip(file, start + position, 0x40)
    shutil.rmtree(planted.path / "consumequeue" / "orders" / "1")
    repair_store(planted.path)
    served = planted.served()
    others = {one: body for one, body in planted.bodies.items() if one != place}
    # a head that names another queue cannot be distinguished from a right one: it is the only evidence
    assert {one: body for one, body in served.items() if one in others} == others
    assert place not in served
    after = digests(planted.path)
    assert repair_store(planted.path).steps == []
    assert digests(planted.path) == after


def test_lost_queue_file_whose_records_are_all_damaged(planted: Planted) -> None:
    """There is nothing to refill the file from; the units after it stay unchanged."""
    lost = {place for place in planted.places if place[:2] == ("orders", 1) and 20 <= place[2] < 40}
    for place in lost:
        file, start = planted.log_file(planted.places[place][0])
        flip(file, start + 90)
    planted.queue_file("orders", 1, 20)[0].unlink()
    quarantined(planted, lost)


def test_zeroed_block_with_every_queue_lost(planted: Planted) -> None:
    file = min((planted.path / "commitlog").iterdir())
    with file.open("r+b") as opened:
        opened.seek(4096)
        opened.write(bytes(4096))
    shutil.rmtree(planted.path / "consumequeue")
    lost = {place for place, (at, size) in planted.places.items() if at < 8192 and at + size > 4096}
    quarantined(planted, lost)


def test_end_mark_and_length_of_log_files_are_repaired(planted: Planted, whole: Planted) -> None:
    files = sorted((planted.path / "commitlog").iterdir())
    end = max(offset + size for offset, size in planted.places.values() if offset < 1 << 14)
    flip(files[0], end + 6)
    with files[1].open("ab") as opened:
        opened.write(b"not mine")
    healed(planted, whole)
    assert (planted.path / "quarantine" / "commitlog" / f"{files[1].name}.rest").read_bytes() == b"not mine"


def test_log_file_that_was_cut_is_repaired(planted: Planted) -> None:
    file = sorted((planted.path / "commitlog").iterdir())[1]
    base = int(file.name)
    cut = min(at for at, _ in planted.places.values() if at > base + 9000) + 100  # within a body
    file.write_bytes(file.read_bytes()[: cut - base])
    lost = {place for place, (at, size) in planted.places.items() if cut < at + size <= base + (1 << 14)}
    quarantined(planted, lost)


def test_missing_log_file_is_refused_to_writers_and_skipped_by_readers(planted: Planted) -> None:
    file = sorted((planted.path / "commitlog").iterdir())[1]
    file.unlink()
    base = int(file.name)
    result = repair_store(planted.path)
    assert result.exit_code == 3
    assert "missing-file" in {one.kind for one in result.left.findings}
    others = {
        place: body for place, body in planted.bodies.items() if planted.places[place][0] // (1 << 14) != base >> 14
    }
    assert planted.served() == others
    with pytest.raises(StoreVersionError, match=file.name):
        MessageStore.open(planted.path, CONFIG)


def test_bytes_after_the_end_are_cut(planted: Planted, whole: Planted) -> None:
    end = max(offset + size for offset, size in planted.places.values())
    file, start = planted.log_file(end)
    with file.open("r+b") as opened:
        opened.seek(start)
        opened.write(b"half a record")
    healed(planted, whole)


def test_positions_after_their_queues_are_clamped(planted: Planted) -> None:
    files = ConfigFiles(planted.path / "config")
    files.consumer_offsets.commit("readers", "orders", {0: 99999, 1: 30})
    shutil.rmtree(planted.path / "consumequeue" / "orders" / "1")
    result = repair_store(planted.path)
    assert (result.exit_code, [step.action for step in result.steps]) == (0, ["rebuild-queue", "clamp"])
    assert result.left.findings == []
    offsets = ConfigFiles(planted.path / "config").consumer_offsets
    assert offsets.offsets("readers", "orders") == {0: 75, 1: 30}
    assert offsets.offsets("readers", "bills") == {0: 5}
    report = (planted.path / "quarantine" / "report.jsonl").read_text()
    assert '"RF-CLAMP"' in report


def test_config_file_is_restored_from_its_backup_and_never_empty(planted: Planted) -> None:
    config = planted.path / "config"
    for name in ("consumerOffset.json", "topics.json"):
        (config / name).write_bytes(b"{noise")
    result = repair_store(planted.path)
    assert result.left.findings == []
    assert ConfigFiles(config).consumer_offsets.offsets("readers", "orders") == {0: 10, 1: 20}
    for name in ("consumerOffset.json", "consumerOffset.json.bak", "topics.json", "topics.json.bak"):
        (config / name).write_bytes(b"{noise")
    result = repair_store(planted.path)
    (left,) = result.left.findings
    assert left.file.endswith("consumerOffset.json")
    assert (config / "consumerOffset.json").read_bytes() == b"{noise"
    assert {topic: one.write_queue_nums for topic, one in ConfigFiles(config).topics.topics().items()} == {
        "bills": 8,
        "orders": 8,
    }


def test_repair_killed_at_any_write_completes_when_repeated(
    whole: Planted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each disk call that makes something durable is, in turn, the last one of a first repair."""

    def damaged(name: str) -> Planted:
        planted = copied(whole, tmp_path / name)
        shutil.rmtree(planted.path / "consumequeue" / "orders")
        flip(planted.queue_file("bills", 0, 30)[0], 215)
        flip(sorted((planted.path / "index").iterdir())[0], 400)
        flip(planted.path / "checkpoint", 0, 0x40)
        return planted

    class KilledError(Exception):
        pass

    calls = 0
    kill_at = -1

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            nonlocal calls
            calls += 1
            if calls == kill_at:
                raise KilledError
            return real(*arguments, **named)

        return call

    for name in ("write_atomically", "sync_file", "sync_directory", "write_at"):
        monkeypatch.setattr(os_files, name, counted(getattr(os_files, name)))
    healed(damaged("whole"), whole)
    total = calls
    assert total > 20
    for kill_at in sweep(total, 12):
        planted = damaged(str(kill_at))
        calls = 0
        with contextlib.suppress(KilledError):
            repair_store(planted.path)
        calls = total
        repair_store(planted.path)
        assert verify_store(planted.path).findings == [], kill_at
        assert planted.served() == planted.bodies, kill_at
        shutil.rmtree(planted.path)


@pytest.mark.parametrize(
    "name",
    [
        "basic-49",
        "basic-53",
        "crash-53-kill9",
        "crash-53-torn",
        "basic-55",
        "crash-55-kill9",
        "lost-derived-53",
        "expired-53",
    ],
)
def test_rebuilt_files_equal_those_that_apache_wrote(
    name: str, golden_store: Callable[..., Path], tmp_path: Path
) -> None:
    """Queues and index of Apache's stores, lost and rebuilt, are Apache's bytes."""
    golden, path = golden_store(name), tmp_path / "s"
    shutil.copytree(golden, path)
    if name.startswith("basic-"):
        shutil.rmtree(path / "consumequeue")
        for one in (path / "index").iterdir():
            one.unlink()
    result = repair_store(path, config_of(name))
    assert result.left.findings == []
    assert result.exit_code in (0, 1)
    if name.startswith("basic-"):
        for one in sorted((golden / "consumequeue").rglob("*")):
            if one.is_file():
                assert (path / one.relative_to(golden)).read_bytes() == one.read_bytes(), one
        rebuilt, expected = (sorted((root / "index").iterdir()) for root in (path, golden))
        assert [one.read_bytes() for one in rebuilt] == [one.read_bytes() for one in expected]
    after = digests(path)
    assert repair_store(path, config_of(name)).steps == []
    assert digests(path) == after


KINDS = ["flip", "zero", "noise", "cut", "longer", "missing", "empty"]


def test_several_kinds_of_damage_lose_only_what_the_log_lost(whole: Planted, tmp_path: Path) -> None:
    """Row S20: whatever happens to one to three files, no wrong body is served, and only log damage loses messages."""
    for trial in range(some(25)):
        seed = SEED + trial
        rng = random.Random(seed)
        planted = copied(whole, tmp_path / "image")
        log_hurt = False
        for _ in range(rng.randrange(1, 4)):
            file = rng.choice([one for one in sorted(planted.path.rglob("*")) if one.is_file() and one.stat().st_size])
            kind = rng.choice(KINDS)
            if file.parent.name == "commitlog":
                log_hurt, kind = True, "flip" if kind in ("missing", "empty") else kind
            hurt(file, kind, rng)
        if rng.random() < 0.2:
            (planted.path / "abort").write_text("1")
        result = repair_store(planted.path)
        served = planted.served()
        assert served.items() <= planted.bodies.items(), seed
        lost = planted.bodies.keys() - served.keys()
        assert log_hurt or not lost, seed
        assert not lost or result.exit_code == 3, seed
        assert {one.kind for one in result.left.findings} <= {"record", "config"}, (seed, result.left.findings)
        after = digests(planted.path)
        repair_store(planted.path)
        assert digests(planted.path) == after, seed
        shutil.rmtree(planted.path)


def hurt(file: Path, kind: str, rng: random.Random) -> None:
    raw = file.read_bytes()
    start = rng.randrange(len(raw))
    size = min(len(raw) - start, rng.choice([20, 512, 4096]))
    match kind:
        case "flip":
            flip(file, start, 1 << rng.randrange(8))
        case "zero":
            file.write_bytes(raw[:start] + bytes(size) + raw[start + size :])
        case "noise":
            file.write_bytes(raw[:start] + rng.randbytes(size) + raw[start + size :])
        case "cut":
            file.write_bytes(raw[:start])
        case "longer":
            file.write_bytes(raw + rng.randbytes(50))
        case "missing":
            file.unlink()
        case "empty":
            file.write_bytes(b"")
