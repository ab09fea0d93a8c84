"""Bad records after the durable frontier: damage if only the process of the writer ended, else the torn tail.

The stores are those of a writer with ASYNC_FLUSH that synced nothing since its open: the frontier is the log's begin.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from rocketflow.cli.app import run
from rocketflow_store import Message, MessageStore, StoreReader
from rocketflow_store.commits.batch_commit import SinkBatch, commit_batch, last_commit
from rocketflow_store.commits.staged_part import batch_directory, stage
from rocketflow_store.files import disk, os_files
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.layout.store_paths import StorePaths
from rocketflow_store.metadata.native.confirm import read_confirm
from rocketflow_store.model.errors import StoreFencedError
from rocketflow_store.records.encoding.encode import BatchEncoder
from rocketflow_store.recovery.preview import preview_recovery
from rocketflow_store.recovery.result import RecoveryResult
from rocketflow_store.testing import Probe
from tests.support.damage import CONFIG as SMALL
from tests.support.damage import Planted
from tests.support.independent_reader import Record
from tests.support.killed_store import KilledStore, flip_bit

NEVER = 3_600_000
CONFIG = replace(SMALL, flush_interval_commit_log=NEVER, flush_interval_consume_queue=NEVER)
COUNT = 40


def killed(path: Path, fill: Callable[[MessageStore], object]) -> KilledStore:
    """Return the store that a kill of its writer leaves after `fill`."""
    with MessageStore.open(path, CONFIG) as store:
        fill(store)
        return KilledStore(path)


def put_some(store: MessageStore) -> None:
    for number in range(COUNT):
        assert store.put_message(Message("t", b"%d" % number * 20, queue_id=0, keys=[f"k{number}"])).stored


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> KilledStore:
    return killed(tmp_path_factory.mktemp("messages") / "s", put_some)


def served(path: Path, topic: str = "t") -> list[int]:
    return sorted(offset for (name, _, offset) in Planted(path, {}, {}).served() if name == topic)


def opened(path: Path) -> RecoveryResult:
    with MessageStore.open(path, CONFIG) as store:
        return store.recovery


def assert_alone(path: Path, record: Record) -> None:
    """Assert that an open loses this record of `messages` and no other."""
    (found,) = opened(path).quarantined
    assert (found.offset, found.length) == (record.phy_offset, record.size)
    assert served(path) == [one for one in range(COUNT) if one != record.queue_offset]


def assert_torn(path: Path, record: Record, about: str) -> None:
    """Assert that an open cuts the log of `messages` at this record, and reports `about` the stop."""
    (seen,) = preview_recovery(path, CONFIG).quarantined
    (found,) = opened(path).quarantined
    assert found.offset == seen.offset == record.phy_offset
    assert f"; {found.length} bytes with {COUNT - 1 - record.queue_offset} complete records cut, not known" in found.why
    assert found.why.startswith(f"{seen.why}; kept in ")
    assert "(the last known sync ended at 0)" in found.why
    assert seen.why.partition("ended at 0)")[2] == about
    assert served(path) == [*range(record.queue_offset)]


RESTARTED = "; since then the system was restarted, or the store was copied or restored"


def test_damage_on_the_same_boot_loses_one_message(messages: KilledStore) -> None:
    record = messages.records[20]
    path = messages.again()
    flip_bit(path, record.phy_offset + 90, 3)
    assert read_confirm(StorePaths(path)).synced_offset == end_of(messages)  # type: ignore[union-attr]
    assert_alone(path, record)


@pytest.mark.parametrize("boot", ["another", ""])
def test_first_bad_record_after_a_restart_of_the_system_is_the_torn_tail(
    messages: KilledStore, boot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = messages.again()
    flip_bit(path, messages.records[20].phy_offset + 90, 3)
    monkeypatch.setattr(disk, "boot_id", lambda: boot)
    assert_torn(path, messages.records[20], RESTARTED)


def test_first_bad_record_of_a_copy_is_the_torn_tail(messages: KilledStore, tmp_path: Path) -> None:
    """A copy may be one of a disk from before: its page cache was lost."""
    path = messages.copy(tmp_path / "s")
    flip_bit(path, messages.records[20].phy_offset + 90, 3)
    assert_torn(path, messages.records[20], RESTARTED)


def test_file_with_the_inode_of_a_removed_one_has_another_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    def mark(device: int, inode: int, changed_ns: int) -> int:
        status: Any = SimpleNamespace(st_dev=device, st_ino=inode, st_ctime_ns=changed_ns)
        return os_files.cache_mark(status)

    marks = {mark(*one) for one in ((1, 2, 3), (1, 2, 4), (1, 3, 3), (2, 2, 3))}
    assert len(marks) == 4
    monkeypatch.setattr(disk, "boot_id", lambda: "")
    assert mark(1, 2, 3) == 0


@pytest.mark.parametrize("size", [64, 72])
def test_confirm_file_of_an_older_version_proves_no_kept_cache(messages: KilledStore, size: int) -> None:
    path = messages.again()
    confirm = path / "rocketflow" / "confirm"
    confirm.write_bytes(confirm.read_bytes()[:size])
    flip_bit(path, messages.records[20].phy_offset + 90, 3)
    assert_torn(path, messages.records[20], "")


@pytest.mark.parametrize("kept", [True, False])
def test_explain_says_what_the_open_takes_for_durable(
    messages: KilledStore, tmp_path: Path, kept: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    path = messages.again() if kept else messages.copy(tmp_path / "s")
    flip_bit(path, messages.records[20].phy_offset + 90, 3)
    assert run(["store", "recover", str(path), "--explain", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["syncedTo"], plan["pageCacheKept"]) == (end_of(messages) if kept else 0, kept)
    assert run(["store", "recover", str(path), "--explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith(
        "; the page cache kept what was written" if kept else "; a bad record after it is a torn tail"
    )
    (line,) = [one for one in lines if one.startswith("quarantined")]
    assert f"offset {messages.records[20].phy_offset}, " in line
    assert run(["store", "recover", str(path), "--dry-run", "--json"]) == 3
    dry = json.loads(capsys.readouterr().out)["quarantined"]
    assert dry == plan["quarantined"]
    assert run(["store", "recover", str(path), "--json"]) == 3
    (done,) = json.loads(capsys.readouterr().out)["quarantined"]
    assert done["why"].startswith(dry[0]["why"])


def test_verify_reports_where_an_open_would_cut(messages: KilledStore, tmp_path: Path) -> None:
    path = messages.copy(tmp_path / "s")
    for number in (20, 30):
        flip_bit(path, messages.records[number].phy_offset + 90, 3)
    first, second = verify_store(path).findings
    assert first.detail.endswith("; an open cuts the log here, since it is not known to be synced after 0")
    assert "cuts" not in second.detail


def test_zeros_before_the_confirm_offset_on_the_same_boot_are_damage(messages: KilledStore) -> None:
    """The end of the log is lost, and the messages that follow get neither its offsets nor its queue offsets."""
    path = messages.again()
    record = messages.records[-2]
    with (path / "commitlog" / f"{0:020d}").open("r+b") as log:
        log.seek(record.phy_offset)
        log.write(bytes(4096))
    with MessageStore.open(path, CONFIG) as store:
        (found,) = store.recovery.quarantined
        assert (found.offset, found.offset + found.length) == (record.phy_offset, end_of(messages))
        result = store.put_message(Message("t", b"after", queue_id=0))
        assert (result.physical_offset, result.queue_offset) == (end_of(messages), COUNT)


def end_of(store: KilledStore) -> int:
    return store.records[-1].phy_offset + store.records[-1].size


# -- failed syncs


def test_bad_record_after_a_failed_sync_is_the_torn_tail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system drops or reverts pages whose sync failed: the page cache is not what was written."""

    def fail(fd: int, path: object) -> None:
        raise StoreFencedError(path, "the disk is broken")

    def fill(store: MessageStore) -> None:
        put_some(store)
        with monkeypatch.context() as broken:
            broken.setattr(os_files, "sync_file", fail)
            with pytest.raises(StoreFencedError):
                Probe(store).flush_log()

    fenced = killed(tmp_path / "s", fill)
    flip_bit(fenced.again(), fenced.records[20].phy_offset + 90, 3)
    assert_torn(fenced.path, fenced.records[20], "; a sync had failed")


def test_bad_record_after_a_failed_recovery_is_the_torn_tail(
    messages: KilledStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int, path: object) -> None:
        raise StoreFencedError(path, "the disk is broken")

    path = messages.again()
    with monkeypatch.context() as broken:
        broken.setattr(os_files, "sync_file", fail)
        with pytest.raises(StoreFencedError):
            MessageStore.open(path, CONFIG)
    flip_bit(path, messages.records[20].phy_offset + 90, 3)
    assert_torn(path, messages.records[20], "; a sync had failed")


# -- commits of sinks

ROWS = 30


def commit(store: MessageStore, batch_id: int) -> tuple[int, int]:
    """Commit a batch of rows; return the begin of its envelope and the end of its last row."""
    encoder = BatchEncoder(store.config, lambda _: 1, default_topic="out", row_hashes=True)
    rows = pa.RecordBatch.from_pydict({"body": [b"%d/%d" % (batch_id, row) for row in range(ROWS)]})
    part = stage(encoder.encode(rows, 1), batch_directory(store.paths.staging, "q", batch_id), "p0")
    done = commit_batch(store, SinkBatch("q", "q", batch_id, "run", 1, [part]))
    return done.begin_offset, done.end_offset


@pytest.fixture(scope="module")
def commits(tmp_path_factory: pytest.TempPathFactory) -> KilledStore:
    return killed(tmp_path_factory.mktemp("commits") / "s", lambda store: [commit(store, one) for one in (0, 1)])


def rows_of(store: KilledStore, batch_id: int) -> list[Record]:
    return [one for one in store.records if one.topic == "out"][ROWS * batch_id : ROWS * (batch_id + 1)]


def committed(path: Path) -> int:
    with MessageStore.open(path, CONFIG) as store:
        last = last_commit(store, "q")
        return -1 if last is None else last.batch_id


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("row", [0, 12, ROWS - 1])
def test_damaged_row_of_a_complete_commit_is_lost_alone(commits: KilledStore, batch: int, row: int) -> None:
    path, record = commits.again(), rows_of(commits, batch)[row]
    flip_bit(path, record.phy_offset + 90, 3)
    (found,) = preview_recovery(path, CONFIG).quarantined
    assert (found.offset, found.length) == (record.phy_offset, record.size)
    assert committed(path) == 1
    assert served(path, "out") == [one for one in range(2 * ROWS) if one != record.queue_offset]


@pytest.mark.parametrize("row", [0, 12, ROWS - 1])
def test_commit_with_a_bad_row_is_cut_as_a_whole_if_the_cache_was_lost(
    commits: KilledStore, tmp_path: Path, row: int
) -> None:
    path, record = commits.copy(tmp_path / "s"), rows_of(commits, 1)[row]
    flip_bit(path, record.phy_offset + 90, 3)
    assert committed(path) == 0
    assert served(path, "out") == [*range(ROWS)]


@pytest.mark.parametrize("row", [0, 12, ROWS - 1])
def test_damaged_row_of_a_synced_commit_is_lost_alone(tmp_path: Path, row: int) -> None:
    """The envelope proves where the commit ends, also if no record follows it."""

    def fill(store: MessageStore) -> None:
        commit(store, 0)
        commit(store, 1)
        Probe(store).flush_log()

    killed_one = killed(tmp_path / "s", fill)
    path, record = killed_one.copy(tmp_path / "copy"), rows_of(killed_one, 1)[row]
    flip_bit(path, record.phy_offset + 90, 3)
    assert committed(path) == 1
    assert served(path, "out") == [one for one in range(2 * ROWS) if one != record.queue_offset]


def test_commit_that_a_kill_interrupted_is_cut(commits: KilledStore) -> None:
    """Its rows are in the log before its envelope, and after the confirm offset: nothing of it was committed."""
    path, confirm = commits.again(), commits.path / "rocketflow" / "confirm"
    begin = rows_of(commits, 0)[-1].phy_offset + rows_of(commits, 0)[-1].size
    raw = bytearray(confirm.read_bytes())
    raw[8:16] = begin.to_bytes(8, "little")
    confirm.write_bytes(raw)
    with (path / "commitlog" / f"{0:020d}").open("r+b") as log:
        log.seek(begin)
        log.write(bytes(rows_of(commits, 1)[0].phy_offset - begin))
    assert opened(path).truncated_to == begin
    assert committed(path) == 0
    with StoreReader(path) as reader:
        assert reader.bounds("out", 0) == (0, ROWS)
