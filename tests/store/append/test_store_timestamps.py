"""Store timestamps never fall along the log (B4), and only stored records advance them."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.files.mapped.mapped_file import MappedFile
from rocketflow_store.format.batch_body import BatchEntry, encode_batch_body
from rocketflow_store.format.checkpoint_layout import decode_checkpoint
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.log.commit_log import CommitLog
from rocketflow_store.metadata.native.confirm import read_confirm
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.message import MessageBatch
from rocketflow_store.records.decoding.decode import RecordColumns
from rocketflow_store.records.decoding.scan import scan_records
from tests.support.damage import CONFIG
from tests.support.record_bytes import unplaced_record
from tests.support.trials import ROOT, environment

BEGIN_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
PREPARED = 4


def at(moment_ms: int) -> StoreConfig:
    return replace(CONFIG, clock=ManualClock(moment_ms))


def store_timestamps(path: Path) -> list[int]:
    """Return the store timestamp (ms after BEGIN_MS) of every record, in the order of the log."""
    mapped = MappedFile(min((path / "commitlog").iterdir()), 0, write=False)
    scan = scan_records(mapped.populate(0, mapped.file_size), 0, mapped.file_size, 1000)
    found = RecordColumns(mapped.buffer, scan.positions, scan.sizes).after_born_host(">i8", 56)
    mapped.close()
    return [int(one) - BEGIN_MS for one in np.asarray(found)]


def write(path: str, last: str, end: str) -> None:
    """Put a message now, and another one an hour later that no queue has."""
    clock = ManualClock(BEGIN_MS)
    store = MessageStore.open(path, replace(CONFIG, clock=clock))
    store.put_message(Message("a", b"1", queue_id=0))
    clock.set(BEGIN_MS + HOUR_MS)
    if last == "deleted":
        store.put_message(Message("b", b"2", queue_id=0))
        store.delete_topic("b")
    else:
        store.put_record(unplaced_record("b", b"2", sys_flag=PREPARED))
        store.flush()
    if end == "killed":
        os._exit(1)
    store.close()


@pytest.mark.parametrize("end", ["closed", "killed"])
@pytest.mark.parametrize("last", ["deleted", "prepared"])
def test_timestamps_do_not_fall_after_clock_was_set_back(tmp_path: Path, last: str, end: str) -> None:
    path = tmp_path / "s"
    if end == "closed":
        write(str(path), last, end)
    else:
        code = f"from tests.store.append.test_store_timestamps import write; write({str(path)!r}, {last!r}, {end!r})"
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment(), check=False)
    with MessageStore.open(path, at(BEGIN_MS + 1000)) as store:
        assert store.put_message(Message("a", b"3", queue_id=0)).stored
    assert store_timestamps(path) == [0, HOUR_MS, HOUR_MS]
    assert verify_store(path).findings == []


def test_refused_put_does_not_advance_checkpoint_timestamp(tmp_path: Path) -> None:
    path, clock = tmp_path / "s", ManualClock(BEGIN_MS)
    with MessageStore.open(path, replace(CONFIG, clock=clock)) as store:
        assert store.put_message(Message("a", b"1", queue_id=0)).stored
        clock.set(BEGIN_MS + HOUR_MS)
        assert not store.put_message(Message("a", b"x" * (8 << 20), queue_id=0)).stored
    assert decode_checkpoint((path / "checkpoint").read_bytes()).physic_msg_timestamp == BEGIN_MS
    assert verify_store(path).findings == []


def test_damaged_timestamp_in_confirm_file_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "s"
    code = f"from tests.store.append.test_store_timestamps import write; write({str(path)!r}, 'prepared', 'killed')"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment(), check=False)
    confirm = path / "rocketflow" / "confirm"
    raw = bytearray(confirm.read_bytes())
    raw[56 + 6] ^= 1
    confirm.write_bytes(raw)
    with MessageStore.open(path, at(BEGIN_MS + 1000)) as store:
        assert store.put_message(Message("a", b"3", queue_id=0)).store_timestamp <= BEGIN_MS + HOUR_MS


def test_flush_records_timestamp_of_durable_records_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record put during the sync may be lost in a power loss, so its timestamp is not recorded."""
    clock = ManualClock(BEGIN_MS)
    with MessageStore.open(tmp_path / "s", replace(CONFIG, clock=clock)) as store:
        store.put_message(Message("a", b"1", queue_id=0))
        end, sync = store.max_phy_offset, CommitLog.sync

        def synced_while_another_puts(log: CommitLog) -> int:
            flushed = sync(log)
            if clock.now_ms() == BEGIN_MS:
                clock.set(BEGIN_MS + HOUR_MS)
                store.put_message(Message("a", b"2", queue_id=0))
            return flushed

        monkeypatch.setattr(CommitLog, "sync", synced_while_another_puts)
        store.flush()
        confirmed, fields = read_confirm(store.paths), decode_checkpoint(store.paths.checkpoint.read_bytes())
        assert confirmed is not None
        assert (confirmed.durable_offset, confirmed.durable_timestamp) == (end, BEGIN_MS)
        assert (fields.physic_msg_timestamp, fields.logics_msg_timestamp) == (BEGIN_MS, BEGIN_MS)


def test_record_after_refused_put_gets_the_clock_time(tmp_path: Path) -> None:
    """A clock set back after a refused put determines the next record's timestamp."""
    clock = ManualClock(BEGIN_MS)
    with MessageStore.open(tmp_path / "s", replace(CONFIG, clock=clock)) as store:
        store.put_message(Message("a", b"1", queue_id=0))
        clock.set(BEGIN_MS + HOUR_MS)
        too_large = b"x" * CONFIG.mapped_file_size_commit_log
        assert not store.put_message(Message("a", too_large, queue_id=0)).stored
        batch = encode_batch_body([BatchEntry(0, too_large[: len(too_large) // 2], b"")] * 3)
        assert not store.put_message(MessageBatch("a", batch, queue_id=0)).stored
        for moment, wanted in ((7, 7), (5, 7)):
            clock.set(BEGIN_MS + moment)
            assert store.put_message(Message("a", b"2", queue_id=0)).store_timestamp == BEGIN_MS + wanted
