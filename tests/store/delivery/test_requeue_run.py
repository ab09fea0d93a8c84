"""A manual requeue: fixed rows, progress with each batch, records as they go to their topics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rocketflow_store import FlushDiskType, Message, MessageStore, ReceivedMessage, StoreConfig, StoreReader
from rocketflow_store.commits.progress_commit import ProgressMovedError
from rocketflow_store.commits.staged_part import stage_alike
from rocketflow_store.commits.store_commits import StoreCommits
from rocketflow_store.delivery.requeue.ledger import ledger, requeued_by_others
from rocketflow_store.delivery.requeue.requeue_rows import ChosenRows, requeued_chunks
from rocketflow_store.delivery.requeue.requeue_run import (
    RequeuedBatch,
    RequeueMismatchError,
    RequeueRequest,
    RequeueRun,
    advance_run,
    begin_run,
    find_run,
)
from rocketflow_store.format.record import FIXED_SIZE
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.compression import compress_body
from rocketflow_store.model.errors import CorruptRecordError, StoreConfigError, StoreError
from rocketflow_store.model.system_flags import TRANSACTION_COMMIT, TRANSACTION_PREPARED
from tests.support.damage import flip
from tests.support.record_bytes import unplaced_record

SMALL = StoreConfig(
    mapped_file_size_commit_log=64 << 10,
    mapped_file_size_consume_queue=20_000,
    max_hash_slot_num=5_000,
    max_index_num=20_000,
    flush_disk_type=FlushDiskType.SYNC_FLUSH,
)
REQUEST = RequeueRequest("r", "%DLQ%g", "orders", where="true")
OVER = {
    "DELAY": "0",
    "RETRY_TOPIC": "old",
    "REAL_TOPIC": "%RETRY%g",
    "TIMER_OUT_MS": "5",
    "POP_CK": "x",
    "REQUEUE_RUN_ID": "an older one",
}


def dead_letters(store: MessageStore, count: int) -> None:
    store.create_topic("%DLQ%g", 2)
    store.create_topic("orders", 3)
    store.put_messages(
        Message(
            "%DLQ%g",
            compress_body(b"%d" % number, 3),
            tags=f"t{number}",
            keys=f"k{number} all",
            properties={**OVER, "own": "Köln"},
            queue_id=number % 2,
            sharding_key=f"s{number % 2}" if number % 4 == 0 else None,
            reconsume_times=7,
            sys_flag=TRANSACTION_COMMIT | 0x301,
            prepared_transaction_offset=99,
            born_host="[2001:db8::7]:1" if number % 3 == 0 else "10.0.0.1:2",
        )
        for number in range(count)
    )


def queues(store: MessageStore) -> dict[int, tuple[int, int]]:
    return {queue_id: store.bounds(REQUEST.from_topic, queue_id) for queue_id in store.queues(REQUEST.from_topic)}


def move(store: MessageStore, path: Path, run: RequeueRun, places: list[tuple[int, int]], **more: Any) -> RequeueRun:
    """Requeue one batch of these (queue id, queue offset)."""
    rows = ChosenRows(
        run.request.run_id,
        run.request.from_topic,
        np.array([place[0] for place in places], np.int32),
        np.array([place[1] for place in places], np.int64),
        ("orders",),
        np.zeros(len(places), np.int32),
        (3,),
        run.rows,
    )
    with StoreReader(path) as reader:
        parts = stage_alike(requeued_chunks(reader, rows, store.config), path / "rocketflow/staging/r/0", "p")
    positions = {queue_id: offset + 1 for queue_id, offset in places}
    batch = RequeuedBatch(positions, more.get("finished", False), len(places), parts, {"orders": len(places)})
    return advance_run(StoreCommits(store), run, batch)


def moved(store: MessageStore) -> list[ReceivedMessage]:
    found = [one for queue_id in range(3) for one in store.get_message("orders", queue_id, 0).messages]
    return sorted(found, key=lambda one: one.phy_offset)


def test_run_continues_after_its_last_commit(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, SMALL) as store:
        dead_letters(store, 20)
        assert find_run(store, REQUEST) is None
        begun = begin_run(StoreCommits(store), REQUEST, queues(store))
        assert (begun.left, begun.rows, begun.finished) == ({0: (0, 10), 1: (0, 10)}, 0, False)
        after = move(store, path, begun, [(0, 1), (0, 4)])
        assert (after.left, after.rows) == ({0: (5, 10), 1: (0, 10)}, 2)
        with pytest.raises(ProgressMovedError):  # a second process planned the same
            move(store, path, begun, [(0, 1), (0, 4)])
        dead_letters(store, 20)
    with MessageStore.open(path, SMALL) as store:
        known = find_run(store, REQUEST)
        assert known == after
        assert known == begin_run(StoreCommits(store), REQUEST, queues(store)), "rows that came later are not the run's"
        ended = move(store, path, known, [(0, 9), (1, 3), (1, 9)], finished=True)
        assert (ended.left, ended.rows, ended.finished) == ({}, 5, True)
        places = [
            (one.properties["REQUEUE_ORIGIN_QUEUE_ID"], one.properties["REQUEUE_ORIGIN_QUEUE_OFFSET"])
            for one in moved(store)
        ]
        assert places == [("0", "1"), ("0", "4"), ("0", "9"), ("1", "3"), ("1", "9")]
        for other in (RequeueRequest("r", "%DLQ%g", None, "true"), RequeueRequest("r", "%DLQ%g", "orders", "false")):
            with pytest.raises(RequeueMismatchError, match="another run id"):
                find_run(store, other)
        with pytest.raises(StoreConfigError, match="runId"):
            begin_run(StoreCommits(store), RequeueRequest("a b", "%DLQ%g"), {})
    assert verify_store(path).findings == []


def test_requeued_record_is_a_new_message_with_its_origin(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, SMALL) as store:
        dead_letters(store, 12)
        places = [(queue_id, offset) for queue_id in range(2) for offset in range(6)]
        move(store, path, begin_run(StoreCommits(store), REQUEST, queues(store)), places, finished=True)
        for (queue_id, offset), one in zip(places, moved(store), strict=True):
            dead = store.look_message_by_offset(int(store.read_units("%DLQ%g", queue_id, offset, offset + 1)[0][0]))
            assert dead is not None
            kept = {name: value for name, value in dead.properties.items() if name not in {*OVER, "__CRC32#"}}
            origin = {
                "REQUEUE_RUN_ID": "r",
                "REQUEUE_ORIGIN_TOPIC": "%DLQ%g",
                "REQUEUE_ORIGIN_QUEUE_ID": str(queue_id),
                "REQUEUE_ORIGIN_QUEUE_OFFSET": str(offset),
                "REQUEUE_ORIGIN_MSG_ID": dead.msg_id,
            }
            mine = {name: value for name, value in one.properties.items() if name != "__CRC32#"}
            assert mine == {**kept, **origin}
            assert (one.stored_body, one.flag, one.sys_flag & 0x301) == (dead.stored_body, dead.flag, 0x301)
            assert (one.born_timestamp, one.born_host) == (dead.born_timestamp, dead.born_host)
            assert (one.reconsume_times, one.prepared_transaction_offset) == (0, 0)
            assert one.phy_offset in [
                found.phy_offset for found in store.query_message("orders", dead.keys[0] if dead.keys else "")
            ]
        shards = {
            one.properties["__SHARDINGKEY"]: one.queue_id for one in moved(store) if "__SHARDINGKEY" in one.properties
        }
        assert shards == {"s0": abs(hash_of("s0")) % 3}
    assert verify_store(path).findings == []


def hash_of(text: str) -> int:
    from rocketflow_store.model.java_compat import string_hash

    return string_hash(text)


def test_rows_that_cannot_be_requeued_are_named(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, SMALL) as store:
        dead_letters(store, 4)
        half = store.put_record(unplaced_record("%DLQ%g", b"half", sys_flag=TRANSACTION_PREPARED))
        assert half.stored  # in no queue: it cannot be chosen
        long = store.put_message(Message("%DLQ%g", b"long", queue_id=0, properties={"long": "x" * 32_600}))
        run = begin_run(StoreCommits(store), REQUEST, queues(store))
        end = store.max_phy_offset
        with pytest.raises(StoreError, match=f"queue 0, queue offset {long.queue_offset}: properties.*--where"):
            move(store, path, run, [(0, 0), (0, long.queue_offset)])
        assert store.max_phy_offset == end
        at = store.read_units("%DLQ%g", 1, 1, 2)[0][0]
    log = path / "commitlog" / f"{0:020d}"
    raw = bytearray(log.read_bytes())
    raw[int(at) + FIXED_SIZE + 30] ^= 1
    log.write_bytes(raw)
    with MessageStore.open(path, SMALL) as store, pytest.raises(CorruptRecordError, match="queue 1, queue offset 1"):
        move(store, path, run, [(1, 0), (1, 1)])


def test_ledger_lists_runs_and_rows_that_others_moved(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, SMALL) as store:
        dead_letters(store, 400)
        run = begin_run(StoreCommits(store), REQUEST, queues(store))
        run = move(store, path, run, [(0, offset) for offset in range(0, 200, 2)])
        run = move(store, path, run, [(1, offset) for offset in range(150)], finished=True)
        other = RequeueRequest("r2", "%DLQ%g", "orders")
        move(store, path, begin_run(StoreCommits(store), other, queues(store)), [(1, 199)], finished=True)
    with StoreReader(path) as reader:
        lines = [entry.as_dict() for entry in ledger(reader)]
        assert [(one["kind"], one["runId"], one["rows"]) for one in lines] == [
            *(("requeue", "r", rows) for rows in (0, 100, 150)),
            *(("requeue", "r2", rows) for rows in (0, 1)),
        ]
        assert lines[1]["progress"]["moved"] == {"0": [0, 199]}
        assert (lines[1]["from"], lines[1]["to"]) == ("%DLQ%g", {"orders": 100})
        assert lines[1]["beginOffset"] < lines[1]["endOffset"] <= lines[2]["beginOffset"]
        offsets = np.arange(200)
        zeros = np.zeros(200, np.int32)
        by_r = requeued_by_others(reader, other)
        assert by_r.among(zeros, offsets).tolist() == [offset % 2 == 0 for offset in range(200)]
        assert by_r.among(zeros + 1, offsets).tolist() == [offset < 150 for offset in range(200)]
        by_r2 = requeued_by_others(reader, REQUEST)
        assert np.flatnonzero(by_r2.among(zeros + 1, offsets)).tolist() == [199]
        assert not requeued_by_others(reader, RequeueRequest("r3", "orders")).keys.size


def test_ledger_skips_only_damaged_records(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, SMALL) as store:
        dead_letters(store, 400)
        run = begin_run(StoreCommits(store), REQUEST, queues(store))
        run = move(store, path, run, [(0, offset) for offset in range(200)])
        move(store, path, run, [(1, offset) for offset in range(5)], finished=True)
    other = RequeueRequest("r2", "%DLQ%g", "orders")
    with StoreReader(path) as reader:
        begun, moved, last = [entry.commit for entry in ledger(reader)]
        rows = [
            message
            for queue_id in range(3)
            for message in reader.get_message("orders", queue_id, 0, 500).messages
            if message.properties["REQUEUE_ORIGIN_QUEUE_ID"] == "0"
        ]
    damaged = rows[len(rows) // 2]
    for place in (begun.begin_offset, damaged.phy_offset):
        flip(path / "commitlog" / f"{place - place % (64 << 10):020d}", place % (64 << 10) + 2)
    with StoreReader(path) as reader:
        assert [entry.commit for entry in ledger(reader)] == [moved, last]
        offsets = np.arange(200)
        still_known = requeued_by_others(reader, other).among(np.zeros(200, np.int32), offsets)
        lost = int(damaged.properties["REQUEUE_ORIGIN_QUEUE_OFFSET"])
        assert np.flatnonzero(~still_known).tolist() == [lost]
