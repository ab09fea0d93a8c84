"""Damaged records put back from a backup: the bytes that were there, or none; a kill at any write is repaired."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.backup.backup import backup_store
from rocketflow_store.files import os_files
from rocketflow_store.format.record import PROPERTY_CRC_SIZE, property_crc_tail
from rocketflow_store.fsck.put_back import put_back
from rocketflow_store.fsck.repair import repair_store
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.errors import BackupTargetError, NotAStoreError, StoreLockedError
from tests.support.damage import CONFIG, Place, Planted, copied, digests, flip, make
from tests.support.trials import some, sweep

SEED = 20261128
PLACE = ("orders", 1, 40)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return make(tmp_path_factory.mktemp("whole") / "s")


@pytest.fixture(scope="module")
def backup(whole: Planted, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return backup_store(whole.path, tmp_path_factory.mktemp("backup") / "b").target


@pytest.fixture
def planted(whole: Planted, tmp_path: Path) -> Planted:
    return copied(whole, tmp_path / "s")


def logs(path: Path) -> dict[str, str]:
    """Return the digests of the CommitLog files."""
    return {name: one for name, one in digests(path).items() if name.startswith("commitlog/")}


def hurt(planted: Planted, place: Place = PLACE, at: int = 90) -> tuple[Path, int]:
    """Flip a byte of a record; return its file and the position of the record."""
    file, start = planted.log_file(planted.places[place][0])
    flip(file, start + at, 0x40)
    return file, start


def zero(file: Path, start: int, stop: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(start)
        opened.write(bytes(stop - start))


def _end(planted: Planted) -> tuple[Path, int]:
    return planted.log_file(max(offset + size for offset, size in planted.places.values()))


def _files(planted: Planted) -> list[Path]:
    return sorted((planted.path / "commitlog").iterdir())


def _any_byte(planted: Planted, rng: random.Random) -> None:
    place = rng.choice(sorted(planted.places))
    file, start = planted.log_file(planted.places[place][0])
    flip(file, start + rng.randrange(planted.places[place][1]), 1 << rng.randrange(8))


def _block(planted: Planted, rng: random.Random) -> None:
    start = 512 * rng.randrange(1, 31)
    zero(rng.choice(_files(planted)[:-1]), start, start + 512 * rng.randrange(1, 5))


def _file_head(planted: Planted, rng: random.Random) -> None:
    zero(rng.choice(_files(planted)[1:-1]), 0, rng.randrange(1, 3000))


def _file(planted: Planted, rng: random.Random) -> None:
    rng.choice(_files(planted)[1:-1]).unlink()


def _tail(planted: Planted, rng: random.Random) -> None:
    file, stop = _end(planted)
    zero(file, stop - rng.randrange(1, 2000), stop)


CASES = (_any_byte, _block, _file_head, _file, _tail)


@pytest.mark.parametrize("damage", CASES)
@pytest.mark.parametrize("also", ["", "queues", "repaired"])
def test_damage_that_a_backup_has_is_put_back_byte_for_byte(
    whole: Planted, backup: Path, tmp_path: Path, damage: Callable[[Planted, random.Random], None], also: str
) -> None:
    """The log is as before; what a repair did to queues and index meanwhile, another one corrects."""
    rng = random.Random(SEED)
    for trial in range(some(8)):
        planted = copied(whole, tmp_path / str(trial))
        damage(planted, rng)
        if also == "queues" and damage is not _tail:  # the units of the tail are its only proof
            shutil.rmtree(planted.path / "consumequeue" / "orders")
        elif also == "repaired" and damage is not _tail:
            shutil.rmtree(planted.path / "consumequeue" / "bills")
            shutil.rmtree(planted.path / "index")
            repair_store(planted.path)
        if logs(planted.path) == logs(whole.path):
            continue  # the zeros of a block were zeros before
        before = digests(planted.path)
        dry = put_back(planted.path, backup, dry_run=True)
        assert digests(planted.path) == before, (SEED, trial)
        done = put_back(planted.path, backup)
        assert (done.refused, dry.refused) == ([], []), (SEED, trial)
        assert [one.as_dict() for one in done.put_back] == [one.as_dict() for one in dry.put_back]
        assert logs(planted.path) == logs(whole.path), (SEED, trial)
        assert done.left.lost_records == 0, (SEED, trial)
        if done.left.findings:
            assert also, (SEED, trial)
            assert repair_store(planted.path).exit_code == 0
        assert planted.served() == planted.bodies
        assert planted.keys_missing() == set()
        again = put_back(planted.path, backup)
        assert (again.put_back, again.refused, again.left.findings) == ([], [], [])
        shutil.rmtree(planted.path)


def test_old_bytes_are_kept_in_the_quarantine_and_reported(planted: Planted, backup: Path) -> None:
    file, start = hurt(planted)
    size = planted.places[PLACE][1]
    damaged = file.read_bytes()[start : start + size]
    done = put_back(planted.path, backup)
    assert [(one.topic, one.queue_id, one.queue_offset, one.records) for one in done.put_back] == [(*PLACE, 1)]
    (line,) = (planted.path / "quarantine" / "report.jsonl").read_text().splitlines()
    report = json.loads(line)
    assert (report["code"], report["file"]) == ("RF-HEAL", f"commitlog/{file.name}")
    assert (report["offset"], report["length"], str(backup) in report["why"]) == (start, size, True)
    assert (planted.path / "quarantine" / report["kept"]).read_bytes() == damaged


def test_damage_of_the_backup_is_not_put_back(planted: Planted, backup: Path, tmp_path: Path) -> None:
    """Another record that the backup has is put back all the same."""
    other = tmp_path / "b"
    shutil.copytree(backup, other)
    hurt(Planted(other, planted.places, planted.bodies))
    hurt(planted)
    hurt(planted, ("bills", 0, 10))
    file, start = planted.log_file(planted.places[PLACE][0])
    done = put_back(planted.path, other)
    assert [(one.topic, one.queue_offset) for one in done.put_back] == [("bills", 10)]
    (refused,) = done.refused
    assert (refused["file"], refused["offset"]) == (str(file), start)
    assert "does not prove itself" in refused["why"]
    assert (done.left.exit_code, done.left.lost_records) == (3, 1)


def _forged(backup: Path, planted: Planted, to: Path, change: Callable[[bytearray], None]) -> Path:
    """Copy a backup and change one record in a way that its CRC is right."""
    shutil.copytree(backup, to)
    file, start = Planted(to, planted.places, planted.bodies).log_file(planted.places[PLACE][0])
    raw, end = bytearray(file.read_bytes()), start + planted.places[PLACE][1]
    record = raw[start : end - PROPERTY_CRC_SIZE]
    change(record)
    raw[start:end] = record + property_crc_tail(record)
    file.write_bytes(raw)
    return to


def _set(position: int, value: int, size: int) -> Callable[[bytearray], None]:
    def change(record: bytearray) -> None:
        record[position : position + size] = value.to_bytes(size, "big")

    return change


def _rename(record: bytearray) -> None:
    record[:] = record.replace(b"orders", b"orderz")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_set(20, 41, 8), "unit is at physical offset"),
        (_rename, "its neighbours"),
        (_set(12, 0, 4), "unit is at physical offset"),
        (_set(28, 4, 8), "the record says it is at 4"),
    ],
    ids=["queue-offset", "topic", "queue", "physical-offset"],
)
def test_record_of_another_place_is_not_put_back(
    planted: Planted, backup: Path, tmp_path: Path, change: Callable[[bytearray], None], why: str
) -> None:
    if change is _rename:  # a queue of that topic in which all messages are later ones, and one unit is lost
        with MessageStore.open(planted.path, CONFIG) as store:
            for number in range(42):
                store.put_message(Message("orderz", b"x", queue_id=1, keys=[str(number)]))
        zero(planted.path / "consumequeue" / "orderz" / "1" / f"{800:020d}", 0, 20)
    hurt(planted)
    before = logs(planted.path)
    done = put_back(planted.path, _forged(backup, planted, tmp_path / "b", change))
    assert done.put_back == []
    assert why in done.refused[0]["why"]
    assert logs(planted.path) == before


def test_records_of_another_store_are_not_put_back(planted: Planted, tmp_path: Path) -> None:
    """A store with the same messages at the same places differs in its times."""
    other = make(tmp_path / "other").path
    hurt(planted)
    for queues in (True, False):
        if not queues:
            shutil.rmtree(planted.path / "consumequeue")
        done = put_back(planted.path, other)
        assert done.put_back == []
        assert "of another store" in done.refused[0]["why"]


def test_file_without_any_proof_is_not_put_back(planted: Planted, backup: Path) -> None:
    """Without queues and with damage all around it, no byte of the store shows that the backup is of it."""
    files = _files(planted)
    shutil.rmtree(planted.path / "consumequeue")
    for file in files[:3]:
        file.write_bytes(random.Random(SEED).randbytes(CONFIG.mapped_file_size_commit_log))
    before = logs(planted.path)
    done = put_back(planted.path, backup)
    assert {one.file for one in done.put_back} <= {files[2]}
    assert [Path(one["file"]) for one in done.refused] == files[:2]
    assert all("no byte around it" in one["why"] for one in done.refused)
    assert [one for one in before if logs(planted.path)[one] != before[one]] == [f"commitlog/{files[2].name}"]


def test_store_that_is_open_itself_or_none_is_refused(planted: Planted, backup: Path, tmp_path: Path) -> None:
    hurt(planted)
    with MessageStore.open(planted.path, CONFIG), pytest.raises(StoreLockedError) as caught:
        put_back(planted.path, backup)
    assert caught.value.exit_code == 75
    with pytest.raises(BackupTargetError, match="the store itself"):
        put_back(planted.path, planted.path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotAStoreError):
        put_back(planted.path, tmp_path / "empty")
    with MessageStore.open(tmp_path / "sizes", StoreConfig(mapped_file_size_commit_log=1 << 15)) as store:
        store.put_message(Message("orders", b"x"))
    with pytest.raises(BackupTargetError, match="of another store"):
        put_back(planted.path, tmp_path / "sizes")


def test_run_killed_at_any_write_completes_when_repeated(
    whole: Planted, backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each disk call that makes something durable is, in turn, the last one of a first run."""

    class KilledError(Exception):
        pass

    calls, kill_at = 0, -1

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            nonlocal calls
            calls += 1
            if calls == kill_at:
                if real.__name__ == "write_at":  # a torn write
                    fd, path, position, data = arguments
                    real(fd, path, position, bytes(memoryview(data)[: memoryview(data).nbytes // 2]))  # type: ignore[arg-type]
                raise KilledError
            return real(*arguments, **named)

        return call

    def damaged(name: str) -> Planted:
        planted = copied(whole, tmp_path / name)
        hurt(planted)
        _files(planted)[1].unlink()
        return planted

    names = ("create_exclusively", "preallocate", "write_atomically", "sync_file", "sync_directory", "write_at")
    for name in names:
        monkeypatch.setattr(os_files, name, counted(getattr(os_files, name)))
    put_back(damaged("whole").path, backup)
    total = calls
    assert total > 10
    for kill_at in sweep(total, 8):
        planted = damaged(str(kill_at))
        calls = 0
        with contextlib.suppress(KilledError):
            put_back(planted.path, backup)
        calls = total
        put_back(planted.path, backup)
        assert verify_store(planted.path).findings == [], kill_at
        assert logs(planted.path) == logs(whole.path), kill_at
        shutil.rmtree(planted.path)
