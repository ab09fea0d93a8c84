"""Recovery of the newest index file after an unclean stop."""

from __future__ import annotations

import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.errors import StoreError
from rocketflow_store.model.java_compat import index_hash
from rocketflow_store.views.index.index_service import IndexService, next_name
from tests.support.disk_layer import Failing

START = 1_700_000_000_000
SLOTS, ENTRIES = 10, 50
HASHES = [index_hash("t", f"k{number}") for number in range(200)]


def service(path: Path) -> IndexService:
    return IndexService(path, SLOTS, ENTRIES, ManualClock(START), write=True)


def filled(path: Path, count: int) -> IndexService:
    """Put `count` entries of records 100 bytes and 777 ms apart."""
    made = service(path)
    for number in range(count):
        made.put_run([HASHES[number]], [100 * number], START + 777 * number)
    return made


def time_of(phy_offset: int) -> int | None:
    return START + 777 * (phy_offset // 100)


def test_end_time_is_that_of_the_last_kept_record(tmp_path: Path) -> None:
    index = filled(tmp_path, 30)
    index.recover(2000, time_of)
    header = index.files[0].header
    assert (header.end_phy_offset, header.end_timestamp) == (1900, START + 777 * 19)
    assert header.index_count == 21
    assert [index.offsets("t", f"k{number}", 9, 0, 1 << 60) for number in (0, 19, 20)] == [[0], [1900], []]


def test_end_time_without_the_record_is_known_to_the_second(tmp_path: Path) -> None:
    index = filled(tmp_path, 30)
    index.recover(2000, lambda phy_offset: None)
    assert index.files[0].header.end_timestamp == START + 777 * 19 // 1000 * 1000
    index = filled(tmp_path / "whole", 30)
    index.recover(9000, lambda phy_offset: None)
    assert index.files[0].header.end_timestamp == START + 777 * 29, "nothing was cut: the header has it"


def test_emptied_file_is_removed_and_the_next_one_continues(tmp_path: Path) -> None:
    index = filled(tmp_path, 60)  # 49 fit into a file
    first = index.files[0].header
    index.recover(4900, time_of)
    assert [one.header.index_count for one in index.files] == [50]
    index.put_run([HASHES[49]], [4900], START + 777 * 49)
    entry = index.files[1].entry_table()[1]
    assert (int(entry["phy_offset"]), int(entry["time_diff"])) == (
        4900,
        (START + 777 * 49 - first.end_timestamp) // 1000,
    )
    index.close()
    assert [one.header.index_count for one in service(tmp_path).files] == [50, 2], "the removed file does not return"


def test_index_without_kept_entries_is_empty(tmp_path: Path) -> None:
    index = filled(tmp_path, 10)
    index.recover(0, time_of)
    assert index.files == []
    assert index.end_phy_offset == -1


@pytest.mark.parametrize("lost_from", [1, 2, 15])
def test_counted_entries_that_are_not_on_disk_are_cut(tmp_path: Path, lost_from: int) -> None:
    index = filled(tmp_path, 30)
    index.files[0].entry_table()[lost_from:] = 0
    index.recover(3000, time_of)
    assert [one.header.index_count for one in index.files] == ([lost_from] if lost_from > 1 else [])
    for number in range(lost_from - 1, 30):
        index.put_run([HASHES[number]], [100 * number], START + 777 * number)
    assert all(index.offsets("t", f"k{number}", 9, 0, 1 << 60) == [100 * number] for number in range(30))
    assert index.files[0].header.end_timestamp == START + 777 * 29


def test_entries_on_a_page_older_than_the_header_are_cut(tmp_path: Path) -> None:
    index = filled(tmp_path, 30)
    index.files[0].entry_table()["phy_offset"][20:] = 300
    index.recover(3000, time_of)
    assert index.files[0].header.index_count == 20
    assert index.files[0].header.end_phy_offset == 1800


def test_slots_that_did_not_reach_the_disk_are_rebuilt(tmp_path: Path) -> None:
    index = filled(tmp_path, 30)
    used = index.files[0].header.hash_slot_count
    index.files[0].slots()[:] = 0
    index.recover(3000, time_of)
    assert index.files[0].header.hash_slot_count == used
    assert all(index.offsets("t", f"k{number}", 9, 0, 1 << 60) == [100 * number] for number in range(30))


def test_recovery_over_many_blocks_keeps_the_right_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketflow_store.views.index.index_file.BLOCK_ENTRIES", 7)
    for keep in (6, 7, 8, 29, 30):
        index = filled(tmp_path / str(keep), 30)
        index.recover(100 * keep, time_of)
        assert index.files[0].header.index_count == keep + 1
        found = [index.offsets("t", f"k{number}", 9, 0, 1 << 60) for number in range(30)]
        assert found == [[100 * number] if number < keep else [] for number in range(30)]
    index.files[0].entry_table()[8:] = 0
    assert index.files[0].written_below(1 << 40) == 7


def test_store_killed_between_seconds_verifies_clean(tmp_path: Path) -> None:
    """The durable frontier is in the middle of the newest index file, its last record between two seconds."""
    clock = ManualClock(START)
    config = StoreConfig(
        mapped_file_size_commit_log=1 << 16,
        mapped_file_size_consume_queue=400,
        max_hash_slot_num=SLOTS,
        max_index_num=ENTRIES,
        flush_interval_commit_log=3_600_000,
        flush_interval_consume_queue=3_600_000,
        clock=clock,
    )
    with MessageStore.open(tmp_path / "s", config) as store:
        for number in range(8):
            clock.set(START + 777 * number)
            assert store.put_message(Message("t", b"x", keys=[f"k{number}"], queue_id=0)).stored
        store.flush()
        clock.set(START + 100_000)
        assert store.put_message(Message("t", b"x", keys=["later"], queue_id=0)).stored
        shutil.copytree(tmp_path / "s", tmp_path / "killed")
        log = tmp_path / "killed" / "commitlog" / f"{0:020d}"
        with log.open("r+b") as cut:
            cut.seek(store.get_message("t", 0, 8).messages[0].phy_offset)
            cut.write(bytes(4096))
    with MessageStore.open(tmp_path / "killed", config) as store:
        assert store.max_offset("t", 0) == 8
        assert store.index.files[0].header.end_timestamp == START + 777 * 7
    assert list(verify_store(tmp_path / "killed", config).findings) == []


def test_redispatch_does_not_index_the_newest_record_again(tmp_path: Path) -> None:
    """To rebuild one queue, every record is dispatched again, and the index is kept."""
    path, config = tmp_path / "s", StoreConfig(max_hash_slot_num=SLOTS, max_index_num=ENTRIES)
    with MessageStore.open(path, config) as store:
        for number in range(7):
            assert store.put_message(Message("t", b"x", keys=[f"k{number}", "all"], queue_id=number % 2)).stored
    entries = [one.entries for one in StoreReader(path, config).index.files]
    for _ in range(2):
        shutil.rmtree(path / "consumequeue" / "t" / "0")
        with MessageStore.open(path, config) as store:
            assert store.recovery.healed
            assert [one.entries for one in store.index.files] == entries


def test_unreadable_confirm_file_ends_the_recovery_without_a_guess(tmp_path: Path) -> None:
    """Another file decides what a record must contain: without it recovery fails instead of guessing."""
    path, clock = tmp_path / "s", ManualClock(START)
    config = StoreConfig(clock=clock, mapped_file_size_commit_log=1 << 14, max_hash_slot_num=50, max_index_num=400)
    with MessageStore.open(path, config) as store:
        for number in range(40):
            clock.set(START + 7 * number)
            assert store.put_message(Message("t", b"%d" % number, keys=[f"k{number}"], queue_id=0)).stored
            if number == 20:
                store.flush()
                end = store.max_phy_offset
        shutil.copytree(path, tmp_path / "image")
    (log,) = (tmp_path / "image" / "commitlog").iterdir()
    log.write_bytes(log.read_bytes()[:end].ljust(1 << 14, b"\0"))  # the power loss removed unflushed records
    failed = 0
    for nth in range(1, 60):
        shutil.rmtree(path)
        shutil.copytree(tmp_path / "image", path)
        (path / "lock").unlink(missing_ok=True)
        failing = Failing(("pread",), nth, where=lambda call: call.path is not None and call.path.name == "confirm")
        try:
            with failing:
                MessageStore.open(path, config).close()
        except StoreError:
            failed += 1
        if not failing.hits:
            break
        MessageStore.open(path, config).close()
        assert verify_store(path).findings == [], f"read {nth}"
    else:
        pytest.fail("the file was read more often than this test tries")
    assert failed


def test_index_names_rise_in_the_repeated_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """RocketMQ names index files by the local time; they are read in the order of their names."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        first = int(datetime(2026, 10, 25, 0, 58, 59, 999_000, UTC).timestamp() * 1000)  # 02:58:59.999, summer time
        last = next_name(first, None)
        assert last == "20261025025859999"
        for expected in ("20261025025900000", "20261025025900001"):
            last = next_name(first + 120_000, last)  # 02:00:59.999 again
            assert last == expected
        assert next_name(first + 2 * 3_600_000, last) == "20261025035859999"
    finally:
        monkeypatch.undo()
        time.tzset()
    assert next_name(0, "99999999999999999") == "100000000000000000"
