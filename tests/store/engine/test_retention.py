"""Retention: which files are deleted when, which others follow, and that everything else stays unchanged."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from rocketflow.cli.app import app
from rocketflow_store import (
    GetMessageStatus,
    Message,
    MessageStore,
    PutMessageStatus,
    SkipFaults,
    StoreConfig,
    StoreReader,
)
from rocketflow_store.commits.batch_commit import CommitStatus, SinkBatch, commit_batch, last_commit
from rocketflow_store.commits.staged_part import stage
from rocketflow_store.engine.retention import (
    CleanReason,
    DiskPressure,
    FileAge,
    clean_reason,
    disk_pressure,
    expired_index_files,
    expired_log_files,
    expired_queue_files,
    is_delete_hour,
)
from rocketflow_store.files.mapped.mapped_file import MappedFile
from rocketflow_store.fsck.repair import repair_store
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.layout.store_paths import StorePaths
from rocketflow_store.metadata.native.checked_json import read_checked_json, write_checked_json
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.errors import (
    NotAStoreError,
    OffsetOutOfRangeError,
    StoreConfigError,
    StoreError,
    StoreFullError,
    StoreLockedError,
)
from rocketflow_store.rebuild.rebuild import rebuild_store
from rocketflow_store.records.encoding.encode import BatchEncoder
from rocketflow_store.testing import Probe

HOUR_MS = 3_600_000
NOON_MS = 1_700_006_400_000 - 1_700_006_400_000 % (24 * HOUR_MS) + 12 * HOUR_MS
LOG_SIZE = 1 << 13
SMALL = {
    "mapped_file_size_commit_log": LOG_SIZE,
    "mapped_file_size_consume_queue": 400,
    "max_hash_slot_num": 10,
    "max_index_num": 50,
    "delete_commit_log_files_interval": 0,
    "delete_consume_queue_files_interval": 0,
    "delete_when": "",
}


def config(now_ms: int = NOON_MS, **changes: object) -> StoreConfig:
    return StoreConfig(**{**SMALL, "clock": ManualClock(now_ms), **changes})  # type: ignore[arg-type]


def fill(store: MessageStore, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        message = Message("t", b"%d" % number * 20, keys=[f"k{number}"], queue_id=number % 2)
        assert store.put_message(message).stored


def age(store: MessageStore, hours: int, files: int) -> None:
    """Make the oldest `files` log files `hours` old."""
    seconds = store.config.clock.now_ms() / 1000 - hours * 3600
    for mapped in Probe(store).log_files[:files]:
        os.utime(mapped.path, (seconds, seconds))


def names(directory: Path) -> list[int]:
    return sorted(int(path.name) for path in directory.iterdir())


# -- decisions


def ages(*modified_ms: int) -> list[FileAge]:
    return [FileAge(at * 100, at * 100 + 100, modified) for at, modified in enumerate(modified_ms)]


def test_delete_when_names_hours() -> None:
    noon_in_utc = NOON_MS
    assert is_delete_hour(noon_in_utc, "12", UTC)
    assert is_delete_hour(noon_in_utc, "04;12", UTC)
    assert is_delete_hour(noon_in_utc, "14", timezone(timedelta(hours=2)))
    assert not is_delete_hour(noon_in_utc, "04;13", UTC)
    assert not is_delete_hour(noon_in_utc, "", UTC)
    for wrong in ("24", "four", "4,5", "-1"):
        with pytest.raises(StoreConfigError):
            StoreConfig(delete_when=wrong)


@pytest.mark.parametrize(
    ("used", "changes", "wanted"),
    [
        (75, {}, DiskPressure.NONE),
        (76, {}, DiskPressure.OVER_MAX),
        (85, {}, DiskPressure.OVER_MAX),
        (86, {}, DiskPressure.CLEAN_FORCIBLY),
        (90, {}, DiskPressure.CLEAN_FORCIBLY),
        (91, {}, DiskPressure.FULL),
        (-1, {}, DiskPressure.OVER_MAX),
        (91, {"disk_space_warning_level_ratio": 100}, DiskPressure.FULL),  # RocketMQ allows 35 to 90
        (36, {"disk_space_warning_level_ratio": 0}, DiskPressure.FULL),
        (31, {"disk_space_clean_forcibly_ratio": 0}, DiskPressure.CLEAN_FORCIBLY),
        (86, {"disk_space_clean_forcibly_ratio": 100}, DiskPressure.CLEAN_FORCIBLY),
        (11, {"disk_max_used_space_ratio": 0}, DiskPressure.OVER_MAX),
    ],
)
def test_disk_pressure_by_used_percent(used: int, changes: dict[str, int], wanted: DiskPressure) -> None:
    assert disk_pressure(used, config(**changes)) is wanted


def test_clean_reason_by_hour_pressure_and_request() -> None:
    plain = config(delete_when=";".join(str(hour) for hour in range(24)))
    assert clean_reason(NOON_MS, DiskPressure.NONE, plain) is CleanReason.HOUR
    assert clean_reason(NOON_MS, DiskPressure.NONE, config()) is None
    assert clean_reason(NOON_MS, DiskPressure.OVER_MAX, config()) is CleanReason.DISK
    assert clean_reason(NOON_MS, DiskPressure.NONE, config(), manual=True) is CleanReason.MANUAL


@pytest.mark.parametrize(
    ("modified", "pressure", "changes", "removable_to", "wanted"),
    [
        ((0, 0, 0), DiskPressure.NONE, {}, 300, 2),  # never the newest
        ((0,), DiskPressure.FULL, {}, 300, 0),
        ((), DiskPressure.FULL, {}, 0, 0),
        ((0, NOON_MS, 0, 0), DiskPressure.NONE, {}, 400, 1),  # none after a young one
        ((0, NOON_MS, 0, 0), DiskPressure.OVER_MAX, {}, 400, 1),
        ((0, NOON_MS, 0, 0), DiskPressure.CLEAN_FORCIBLY, {}, 400, 3),
        ((NOON_MS,) * 4, DiskPressure.FULL, {}, 400, 3),
        ((NOON_MS,) * 4, DiskPressure.FULL, {"clean_file_forcibly_enable": False}, 400, 0),
        ((0,) * 20, DiskPressure.NONE, {}, 2000, 10),
        ((0,) * 20, DiskPressure.NONE, {"delete_file_batch_max": 3}, 2000, 3),
        ((0, 0, 0), DiskPressure.FULL, {}, 199, 1),  # only what is durable and dispatched
        ((NOON_MS - 72 * HOUR_MS, NOON_MS), DiskPressure.NONE, {}, 200, 1),
        ((NOON_MS - 72 * HOUR_MS + 1, NOON_MS), DiskPressure.NONE, {}, 200, 0),
        ((NOON_MS + HOUR_MS, NOON_MS), DiskPressure.NONE, {"file_reserved_time": 0}, 200, 0),
    ],
)
def test_expired_log_files_are_counted_from_the_oldest(
    modified: tuple[int, ...], pressure: DiskPressure, changes: dict[str, object], removable_to: int, wanted: int
) -> None:
    files = ages(*modified)
    assert expired_log_files(files, NOON_MS, pressure, config(**changes), removable_to=removable_to) == wanted


def test_queue_and_index_files_follow_the_log() -> None:
    assert expired_queue_files([10, 99, 100, 5], 100) == 2
    assert expired_queue_files([10, 20], 100) == 1, "the newest has the queue's end"
    assert expired_queue_files([], 100) == expired_index_files([], 100) == 0
    assert expired_index_files([99, 100, 50], 100) == 1
    assert expired_index_files([10, 20], 100) == 1


# -- the store


def test_expired_files_are_deleted_and_the_rest_is_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, config()) as store:
        fill(store, 400)
        files = len(Probe(store).log_files)
        assert files > 8
        bodies = {(q, o): store.get_message("t", q, o, 1).messages[0].body for q in (0, 1) for o in range(200)}
        age(store, hours=73, files=files - 3)
        assert not Probe(store).clean().log_files, "no hour, no pressure, no request"
        assert store.min_phy_offset == 0
        result = store.clean()
        assert len(result.log_files) == files - 3
        assert store.min_phy_offset == result.min_phy_offset == (files - 3) * LOG_SIZE == names(path / "commitlog")[0]
        assert result.queue_files
        assert result.index_files
        after = check_what_stays(store, bodies)
        fill(store, 10, first=400)
        assert [store.max_offset("t", queue) for queue in (0, 1)] == [205, 205]
    with MessageStore.open(path, config()) as store:
        assert [store.min_offset("t", queue) for queue in (0, 1)] == after
        assert [store.max_offset("t", queue) for queue in (0, 1)] == [205, 205]
    (path / "abort").write_text("1")
    with MessageStore.open(path, config()) as store:
        assert [store.min_offset("t", queue) for queue in (0, 1)] == after
        check_what_stays(store, bodies)
    assert verify_store(path).findings == []


def check_what_stays(store: MessageStore, bodies: dict[tuple[int, int], bytes]) -> list[int]:
    """Return the minimum offsets; all messages after them are unchanged, all before raise a typed error."""
    lows = []
    for queue in (0, 1):
        low, high = store.bounds("t", queue)
        assert 0 < low < 200 <= high
        for offset in range(low, 200):
            assert store.get_message("t", queue, offset, 1).messages[0].body == bodies[queue, offset]
        assert store.get_message("t", queue, low - 1).status is GetMessageStatus.OFFSET_TOO_SMALL
        with pytest.raises(OffsetOutOfRangeError):
            list(store.read("t", queue, low - 1, high))
        units = store.read_units("t", queue, low, high)
        assert int(units["phy_offset"][0]) >= store.min_phy_offset
        number = (low - 1) * 2 + queue
        assert store.query_message("t", f"k{number}") == []
        lows.append(low)
    assert store.look_message_by_offset(0) is None
    number = 398
    assert [one.queue_offset for one in store.query_message("t", f"k{number}")] == [199]
    return lows


def empty_by_retention(store: MessageStore) -> None:
    """Delete the 33 messages of queue 0 of topic `quiet`: no remaining log file has one."""
    for number in range(33):
        store.put_message(Message("quiet", b"%d" % number, queue_id=0))
    fill(store, 300)
    age(store, hours=100, files=len(Probe(store).log_files) - 1)
    store.clean()


def test_emptied_queue_continues_at_its_offset(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, config()) as store:
        empty_by_retention(store)
        assert store.bounds("quiet", 0) == (33, 33)
        assert store.get_message("quiet", 0, 33).status is GetMessageStatus.OFFSET_OVERFLOW_ONE
    for stop in ("clean", "unclean"):
        if stop == "unclean":
            (path / "abort").write_text("1")
        with MessageStore.open(path, config()) as store, StoreReader(path) as reader:
            low, high = store.bounds("quiet", 0)
            assert (low, high) == (33, 33 if stop == "clean" else 34)
            assert store.put_message(Message("quiet", b"on", queue_id=0)).queue_offset == high
            assert reader.bounds("quiet", 0) == (33, high + 1)
            assert store.get_message("quiet", 0, high).messages[0].body == b"on"
    assert verify_store(path).findings == []


@pytest.mark.parametrize(
    "healed_by",
    [None, repair_store, lambda path, config: rebuild_store(path, config=config)],
    ids=["open", "repair", "rebuild"],
)
@pytest.mark.parametrize("lost", ["consumequeue/quiet", "consumequeue"])
def test_emptied_queue_that_is_lost_continues_at_its_offset(
    tmp_path: Path, lost: str, healed_by: Callable[[Path, StoreConfig], object] | None
) -> None:
    """Its offsets are not assigned a second time, and no removed message is reported lost."""
    path = tmp_path / "s"
    with MessageStore.open(path, config()) as store:
        empty_by_retention(store)
    shutil.rmtree(path / lost)
    if healed_by is not None:
        healed_by(path, config())
    with MessageStore.open(path, config()) as store:
        assert store.bounds("quiet", 0) == (33, 33)
        assert store.put_message(Message("quiet", b"on", queue_id=0)).queue_offset == 33


def test_emptied_queue_with_an_older_stop_record(tmp_path: Path) -> None:
    """Its queue files show where the last message was."""
    path = tmp_path / "s"
    with MessageStore.open(path, config()) as store:
        empty_by_retention(store)
    stop = StorePaths(path).stop_record
    record = read_checked_json(stop)
    assert record is not None
    write_checked_json(stop, {**record, "queues": [one[:5] for one in record["queues"]]})
    shutil.rmtree(path / "consumequeue" / "quiet")
    with MessageStore.open(path, config()) as store:
        assert store.bounds("quiet", 0) == (33, 33)


def test_files_are_deleted_in_batches_at_the_hour(tmp_path: Path) -> None:
    hours = ";".join(str(hour) for hour in range(24))
    with MessageStore.open(tmp_path / "s", config(delete_when=hours, delete_file_batch_max=2)) as store:
        Probe(store).use_disk_figures(lambda path: 10)
        fill(store, 300)
        store.flush()
        files = len(Probe(store).log_files)
        age(store, hours=80, files=files - 1)
        rounds = [len(Probe(store).clean().log_files) for _ in range(files)]
        assert rounds == [2] * ((files - 1) // 2) + [1] * ((files - 1) % 2) + [0] * (files - files // 2)
        assert len(Probe(store).log_files) == 1


def test_stop_during_a_pause_ends_the_round(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", config()) as store:
        fill(store, 300)
        store.flush()
        age(store, hours=80, files=5)
        assert len(Probe(store).clean(lambda seconds: True, manual=True).log_files) == 1


def test_full_disk_deletes_files_of_any_age_and_refuses_puts(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", config()) as store:
        fill(store, 300)
        store.flush()
        files = len(Probe(store).log_files)
        used = {"percent": 91}
        Probe(store).use_disk_figures(lambda path: used["percent"])
        assert len(Probe(store).clean().log_files) == min(10, files - 1)
        refused = store.put_message(Message("t", b"x", queue_id=0))
        assert refused.status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        assert "diskSpaceWarningLevelRatio" in refused.why
        with pytest.raises(StoreFullError):
            store.append_batch(pa.table({"body": [b"x"]}), "t")
        used["percent"] = 88
        fill_before = len(Probe(store).log_files)
        Probe(store).clean()
        assert len(Probe(store).log_files) <= fill_before
        assert store.put_message(Message("t", b"x", queue_id=0)).stored, "forced cleaning refuses nothing"
        used["percent"] = 80
        before = len(Probe(store).log_files)
        Probe(store).clean()
        assert len(Probe(store).log_files) == before, "these files are young"


def test_files_that_are_not_durable_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with MessageStore.open(tmp_path / "s", config(flush_interval_commit_log=3_600_000)) as store:
        fill(store, 300)
        Probe(store).use_disk_figures(lambda path: 91)
        assert Probe(store).flushed_offset == 0
        assert not Probe(store).clean().log_files
        store.flush()
        assert Probe(store).clean().log_files


def test_last_batch_of_an_idle_sink_survives_retention(tmp_path: Path) -> None:
    path = tmp_path / "s"
    rows = pa.RecordBatch.from_arrays([pa.array([b"row"] * 9, pa.binary())], names=["body"])

    def batch(store: MessageStore, sink_id: str, batch_id: int) -> SinkBatch:
        chunks = BatchEncoder(store.config, lambda _: 1, default_topic="out", row_hashes=True).encode(rows, NOON_MS)
        return SinkBatch(sink_id, sink_id, batch_id, "run", 1, [stage(chunks, tmp_path / "staging", "p")])

    with MessageStore.open(path, config()) as store:
        for batch_id in range(3):
            for sink_id in ("one", "two"):
                assert commit_batch(store, batch(store, sink_id, batch_id)).status is CommitStatus.COMMITTED
        fill(store, 300)
        assert commit_batch(store, batch(store, "two", 3)).status is CommitStatus.COMMITTED
        age(store, hours=80, files=len(Probe(store).log_files) - 2)
        assert store.clean().log_files
        assert store.bounds("rmq_sys_ROCKETFLOW_COMMIT", 0) == (6, 7)
        for sink_id, last in (("one", 2), ("two", 3)):
            found = last_commit(store, sink_id)
            assert found is not None
            assert found.batch_id == last
        assert last_commit(store, "three") is None
    with MessageStore.open(path, config()) as store:
        end = store.max_offset("out", 0)
        assert commit_batch(store, batch(store, "one", 2)).status is CommitStatus.REPLAYED
        assert store.max_offset("out", 0) == end
        with pytest.raises(StoreError):
            commit_batch(store, batch(store, "one", 1))
        assert commit_batch(store, batch(store, "one", 3)).status is CommitStatus.COMMITTED
        assert store.max_offset("out", 0) == end + 9


# -- readers


def test_held_file_stays_until_it_is_released_or_time_is_up(tmp_path: Path) -> None:
    clock = ManualClock(NOON_MS)
    whatever_the_disk = {"disk_max_used_space_ratio": 100, "disk_space_clean_forcibly_ratio": 100}
    with MessageStore.open(tmp_path / "s", config(clock=clock, **whatever_the_disk)) as store:
        fill(store, 300)
        age(store, hours=80, files=4)
        first, second = Probe(store).log_files[:2]
        held = first.hold()
        assert held is not None
        content = bytes(first.bytes_of(0, first.file_size))
        assert store.clean().log_files == []
        assert first.path.exists()
        assert store.min_phy_offset == LOG_SIZE, "new readers do not get it"
        assert first.hold() is None
        held.release()
        held = second.hold()
        assert held is not None
        assert [path.name for path in store.clean().log_files] == [first.path.name]
        clock.set(NOON_MS + 120_000)
        assert len(Probe(store).clean().log_files) == 1, "redeleteHangedFileInterval, destroyMapedFileIntervalForcibly"
        assert not second.path.exists()
        assert held.view[20:28] != content[20:28]
        assert os.pread(held.fd, len(held.view), 0) == held.view
        with pytest.raises(StoreError):
            _ = MappedFile(second.path, 0, write=False)


def test_reader_beside_the_writer_sees_data_or_the_typed_error(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, config()) as store, StoreReader(path) as reader, StoreReader(path) as late:
        fill(store, 400)
        low, high = reader.bounds("t", 0)
        running = reader.read("t", 0, low, high, ["body"], max_batch_bytes=2000)
        first = next(running)
        late.bounds("t", 0)
        age(store, hours=80, files=len(Probe(store).log_files) - 1)
        store.clean()
        got = first.column(0).to_pylist()
        try:
            for batch in running:
                got += batch.column(0).to_pylist()
        except OffsetOutOfRangeError:
            pass
        assert got == [b"%d" % (2 * offset) * 20 for offset in range(len(got))]
        with pytest.raises(OffsetOutOfRangeError):
            list(late.read("t", 0, 0, high, ["body"]))
        low, high = late.bounds("t", 0)
        assert low > 0
        skipped = pa.Table.from_batches(late.read("t", 0, 0, high, ["body"], faults=SkipFaults())).column(0).to_pylist()
        assert skipped == [b"%d" % (2 * offset) * 20 for offset in range(low, high)]


# -- the command


def test_store_clean_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETFLOW_cleanFileForciblyEnable", "false")  # however full the disk of the tests is
    path = tmp_path / "s"
    with MessageStore.open(path, config()) as store:
        fill(store, 400)
        files = len(Probe(store).log_files)
    for mapped in sorted((path / "commitlog").iterdir())[: files - 2]:
        os.utime(mapped, (1_000_000, 1_000_000))
    before = {one: one.stat().st_mtime_ns for one in path.rglob("*")}
    run = CliRunner().invoke
    would = json.loads(run(app, ["store", "clean", str(path), "--dry-run", "--json"]).stdout)
    assert {one: one.stat().st_mtime_ns for one in path.rglob("*")} == before, "a dry run changes nothing"
    assert would["dryRun"]
    assert len(would["commitLogFiles"]) == files - 2
    kept = json.loads(run(app, ["store", "clean", str(path), "--reserved-hours", "1000000", "--json"]).stdout)
    assert kept["commitLogFiles"] == []
    done = json.loads(run(app, ["store", "clean", str(path), "--json"]).stdout)
    assert {key: done[key] for key in done if key not in ("dryRun", "diskUsedPercent")} == {
        key: would[key] for key in would if key not in ("dryRun", "diskUsedPercent")
    }
    assert done["minOffset"] == {"before": 0, "after": (files - 2) * LOG_SIZE}
    assert run(app, ["store", "clean", str(path)]).exit_code == 0
    again = json.loads(run(app, ["store", "clean", str(path), "--json"]).stdout)
    assert again["commitLogFiles"] == []
    assert again["minOffset"]["after"] == (files - 2) * LOG_SIZE
    with MessageStore.open(path, config()):
        busy = run(app, ["store", "clean", str(path)])
        assert isinstance(busy.exception, StoreLockedError)
    assert isinstance(run(app, ["store", "clean", str(tmp_path / "none")]).exception, NotAStoreError)
