"""Opening a store whose log is damaged in the middle: everything before and behind is served, nothing acked is cut."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rocketflow_store import FlushDiskType, Message, MessageStore, StoreConfig
from rocketflow_store.recovery_preview import preview_recovery
from rocketflow_store.verify import verify_store
from tests.store.damage import CONFIG, Place, Planted, copied, digests, flip, make

COUNT = 120


def killed(directory: Path, kind: FlushDiskType, *, flushed: int = 0) -> Planted:
    """The image of a store that was killed with 120 acked messages, the first `flushed` of them made durable."""
    config = StoreConfig(
        flush_disk_type=kind,
        flush_interval_commit_log=3_600_000,
        mapped_file_size_commit_log=CONFIG.mapped_file_size_commit_log,
        mapped_file_size_consume_queue=CONFIG.mapped_file_size_consume_queue,
        max_hash_slot_num=CONFIG.max_hash_slot_num,
        max_index_num=CONFIG.max_index_num,
    )
    places: dict[Place, tuple[int, int]] = {}
    bodies: dict[Place, bytes] = {}
    with MessageStore.open(directory / "live", config) as store:
        for number in range(COUNT):
            place = "orders", number % 2, number // 2
            bodies[place] = f"message {number} ".encode() * (1 + number % 20)
            result = store.put_message(Message("orders", bodies[place], queue_id=place[1], keys=[f"k{number}"]))
            places[place] = result.physical_offset, store.max_phy_offset - result.physical_offset
            if number + 1 == flushed:
                store.flush()
        shutil.copytree(directory / "live", directory / "image")
    return Planted(directory / "image", places, bodies)


def opened(planted: Planted) -> int:
    """Open, put one message, close; its queue offset. A second open changes nothing of the log."""
    with MessageStore.open(planted.path, CONFIG) as store:
        offset = store.put_message(Message("orders", b"after", queue_id=0)).queue_offset
    log = digests(planted.path / "commitlog")
    MessageStore.open(planted.path, CONFIG).close()
    assert digests(planted.path / "commitlog") == log
    return offset


def report_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (path / "quarantine" / "report.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("position", [0, 3, 4, 28, 35, 84, 87, 90])
@pytest.mark.parametrize("queues", ["whole", "lost"])
def test_damage_among_synced_records(tmp_path: Path, position: int, queues: str) -> None:
    planted = killed(tmp_path, FlushDiskType.SYNC_FLUSH)
    place = "orders", 0, 30
    phy_offset, size = planted.places[place]
    file, start = planted.log_file(phy_offset)
    flip(file, start + position, 0x40)
    if queues == "lost":
        shutil.rmtree(planted.path / "consumequeue")
    damaged = file.read_bytes()[start : start + size]
    before = digests(planted.path)
    (told,) = preview_recovery(planted.path, CONFIG).quarantined
    assert digests(planted.path) == before
    assert (told.offset, told.length) == (phy_offset, size)
    assert opened(planted) == COUNT // 2
    assert file.read_bytes()[start : start + size] == damaged
    served = planted.served()
    assert served.pop(("orders", 0, COUNT // 2)) == b"after"
    assert served == {one: body for one, body in planted.bodies.items() if one != place}
    (line,) = report_of(planted.path)
    assert (line["code"], line["offset"], line["length"]) == ("RF-QUAR", start, size)
    assert (planted.path / "quarantine" / str(line["kept"])).read_bytes() == damaged
    found = verify_store(planted.path)
    assert [(f.kind, f.file, f.offset, f.length) for f in found.findings] == [("record", str(file), start, size)]


def test_the_last_synced_record(tmp_path: Path) -> None:
    planted = killed(tmp_path, FlushDiskType.SYNC_FLUSH)
    place, (phy_offset, size) = max(planted.places.items(), key=lambda one: one[1])
    file, start = planted.log_file(phy_offset)
    flip(file, start + 90)
    damaged = file.read_bytes()[start : start + size]
    with MessageStore.open(planted.path, CONFIG) as store:
        assert store.recovery.truncated_to == phy_offset  # nothing is left to be served behind it
        assert [one.offset for one in store.recovery.quarantined] == [phy_offset]
    (copy,) = (planted.path / "quarantine").glob("*.cut")
    assert copy.read_bytes() == damaged
    assert planted.served() == {one: body for one, body in planted.bodies.items() if one != place}


def test_a_block_of_zeros_among_synced_records(tmp_path: Path) -> None:
    planted = killed(tmp_path, FlushDiskType.SYNC_FLUSH)
    with min((planted.path / "commitlog").iterdir()).open("r+b") as file:
        file.seek(8192)
        file.write(bytes(4096))
    touched = {place for place, (at, size) in planted.places.items() if at < 12288 and at + size > 8192}
    assert touched
    assert opened(planted) == COUNT // 2
    served = planted.served()
    del served["orders", 0, COUNT // 2]
    assert served == {place: body for place, body in planted.bodies.items() if place not in touched}


def test_a_tail_that_was_never_synced_is_cut_and_kept(tmp_path: Path) -> None:
    """Only a suffix goes, and what of it was whole can be had from the copy."""
    planted = killed(tmp_path, FlushDiskType.ASYNC_FLUSH, flushed=40)
    place = "orders", 0, 30
    phy_offset, _ = planted.places[place]
    file, start = planted.log_file(phy_offset)
    flip(file, start + 90)
    log = b"".join(one.read_bytes() for one in sorted((planted.path / "commitlog").iterdir()))
    end = max(at + size for at, size in planted.places.values())
    assert opened(planted) == 30
    served = planted.served()
    assert served.pop(place) == b"after"
    assert served == {one: body for one, body in planted.bodies.items() if planted.places[one][0] < phy_offset}
    copies = sorted((planted.path / "quarantine").glob("*.cut"))
    assert int(copies[0].name.split(".")[0]) == phy_offset
    assert b"".join(one.read_bytes() for one in copies) == log[phy_offset:end]
    assert {line["code"] for line in report_of(planted.path)} == {"RF-CUT"}


def test_damage_below_the_frontier_is_not_even_looked_at(tmp_path: Path) -> None:
    planted = killed(tmp_path, FlushDiskType.ASYNC_FLUSH, flushed=80)
    place = "orders", 0, 10
    file, start = planted.log_file(planted.places[place][0])
    flip(file, start + 4)
    assert opened(planted) == COUNT // 2
    served = planted.served()
    del served["orders", 0, COUNT // 2]
    assert served == {one: body for one, body in planted.bodies.items() if one != place}


def test_damage_in_a_store_that_was_closed_and_lost_its_queues(tmp_path: Path) -> None:
    planted = copied(make(tmp_path / "whole"), tmp_path / "s")
    place = "orders", 1, 40
    file, start = planted.log_file(planted.places[place][0])
    flip(file, start + 4)
    shutil.rmtree(planted.path / "consumequeue")
    assert opened(planted) == 75
    served = planted.served()
    del served["orders", 0, 75]
    assert served == {one: body for one, body in planted.bodies.items() if one != place}


@pytest.mark.parametrize("position", [0, 4, 28, 90])
def test_the_last_record_of_a_store_that_was_closed(tmp_path: Path, position: int) -> None:
    """It was acked and synced: it is damaged, not torn, and stays."""
    planted = copied(make(tmp_path / "whole"), tmp_path / "s")
    place, (phy_offset, size) = max(planted.places.items(), key=lambda one: one[1])
    file, start = planted.log_file(phy_offset)
    flip(file, start + position)
    damaged = file.read_bytes()[start : start + size]
    with MessageStore.open(planted.path, CONFIG) as store:
        assert store.put_message(Message("orders", b"after", queue_id=0)).physical_offset >= phy_offset + size
    assert file.read_bytes()[start : start + size] == damaged
    served = planted.served()
    del served["orders", 0, 75]
    assert served == {one: body for one, body in planted.bodies.items() if one != place}


def test_a_confirm_file_that_names_places_behind_the_log(tmp_path: Path) -> None:
    planted = killed(tmp_path, FlushDiskType.SYNC_FLUSH)
    with (planted.path / "rocketflow" / "confirm").open("r+b") as file:
        file.seek(8)
        file.write((1 << 60).to_bytes(8, "little") * 2)
    assert opened(planted) == COUNT // 2
    served = planted.served()
    del served["orders", 0, COUNT // 2]
    assert served == planted.bodies


@pytest.mark.parametrize("own_offset", [-2692272248847124483, -1, 1, 5000])
def test_a_first_record_that_was_torn_is_no_file_of_another_store(tmp_path: Path, own_offset: int) -> None:
    """It names a place where no file begins: noise, and so the torn tail of a log that has nothing else."""
    planted = make(tmp_path / "s")
    shutil.rmtree(planted.path / "rocketflow")
    (planted.path / "abort").touch()
    first, *others = sorted((planted.path / "commitlog").iterdir())
    for one in others:
        one.unlink()
    data = bytearray(first.read_bytes())
    size = int.from_bytes(data[:4], "big")
    data[28:36] = own_offset.to_bytes(8, "big", signed=True)
    first.write_bytes(bytes(data[:size]).ljust(len(data), b"\0"))
    with MessageStore.open(planted.path, CONFIG) as store:
        assert store.max_phy_offset == 0
        assert store.put_message(Message("orders", b"on", queue_id=0)).physical_offset == 0
