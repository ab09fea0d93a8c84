"""Puts of many threads: a leader appends the waiting puts, all are acknowledged, and every thread wakes."""

from __future__ import annotations

import errno
import os
import random
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rocketflow_store import FlushDiskType, Message, MessageStore, PutMessageResult, PutMessageStatus, StoreConfig
from rocketflow_store.append.put_lock import PutLock
from rocketflow_store.files import disk
from rocketflow_store.model.errors import StoreClosedError
from rocketflow_store.records.arrow.queue_column import QueueColumn
from rocketflow_store.testing import Probe
from rocketflow_store.views.queues.queue_offsets import QueueOffsets

SMALL = StoreConfig(mapped_file_size_commit_log=256 << 10, max_hash_slot_num=1000, max_index_num=10_000)
MODES = pytest.mark.parametrize("mode", list(FlushDiskType))
SYNC = replace(SMALL, flush_disk_type=FlushDiskType.SYNC_FLUSH)
DEADLINE_S = 60


def queue_puts(store: MessageStore, count: int) -> tuple[list[threading.Thread], dict[int, Any]]:
    """Start `count` threads whose puts wait in the queue; return them and the dict of their outcomes."""
    outcomes: dict[int, Any] = {}

    def call(number: int) -> None:
        try:
            outcomes[number] = store.put_message(Message("t", b"%d" % number, queue_id=0))
        except BaseException as error:
            outcomes[number] = error

    threads = [threading.Thread(target=call, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + DEADLINE_S
    while Probe(store).put_lock.waiting < count:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return threads, outcomes


def joined(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), "thread still sleeps"


def written_sizes(store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list that gets the size in bytes of each write to the log; a run is one write."""
    runs: list[int] = []
    real = Probe(store).commit_log.append

    def append(data: Any, stretches: Any) -> None:
        runs.append(len(data))
        real(data, stretches)

    monkeypatch.setattr(Probe(store).commit_log, "append", append)
    return runs


@MODES
def test_waiting_puts_share_one_run_and_one_sync(
    mode: FlushDiskType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MessageStore.open(tmp_path / "s", replace(SMALL, flush_disk_type=mode)) as store:
        runs = written_sizes(store, monkeypatch)
        syncs = []
        real = Probe(store).commit_log.sync
        monkeypatch.setattr(Probe(store).commit_log, "sync", lambda: (syncs.append(1), real())[1])
        with Probe(store).put_lock:
            threads, outcomes = queue_puts(store, 50)
        joined(threads)
        assert runs == [store.max_phy_offset]
        if mode is FlushDiskType.SYNC_FLUSH:
            assert len(syncs) == 1
        assert sorted(one.queue_offset for one in outcomes.values()) == list(range(50))
        for number, one in outcomes.items():
            assert one.status is PutMessageStatus.PUT_OK
            found = store.look_message_by_offset(one.physical_offset)
            assert found is not None
            assert (found.body, found.queue_offset) == (b"%d" % number, one.queue_offset)
        assert store.max_offset("t", 0) == 50
        assert store.statistics()["putMessageTimesTotal"] == 50


@MODES
def test_puts_of_each_thread_keep_their_order_and_are_visible(mode: FlushDiskType, tmp_path: Path) -> None:
    callers, each = 16, 60
    results: dict[int, list[PutMessageResult]] = {}
    with MessageStore.open(tmp_path / "s", replace(SMALL, flush_disk_type=mode)) as store:

        def call(caller: int) -> None:
            mine = []
            for number in range(each):
                if number % 7 == 3:
                    batch = [Message("t", f"{caller}-{number}-{k}".encode(), queue_id=caller % 3) for k in range(2)]
                    mine += store.put_messages(batch)
                else:
                    mine.append(store.put_message(Message("t", f"{caller}-{number}".encode(), queue_id=caller % 3)))
                assert store.max_offset("t", caller % 3) > mine[-1].queue_offset, "acknowledged, so visible"
            results[caller] = mine

        threads = [threading.Thread(target=call, args=(caller,)) for caller in range(callers)]
        for thread in threads:
            thread.start()
        joined(threads)
        places = [one.physical_offset for mine in results.values() for one in mine]
        assert len(set(places)) == len(places) == sum(store.max_offset("t", queue) for queue in range(3))
        for caller, mine in results.items():
            assert [one.physical_offset for one in mine] == sorted(one.physical_offset for one in mine)
            for one in mine:
                found = store.look_message_by_offset(one.physical_offset)
                assert found is not None
                assert found.body.startswith(b"%d-" % caller)


def test_every_waiter_of_a_failed_sync_gets_flush_disk_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with MessageStore.open(tmp_path / "s", SYNC) as store:
        store.put_message(Message("t", b"first", queue_id=0))

        def fdatasync(fd: int) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with Probe(store).put_lock:
            threads, outcomes = queue_puts(store, 20)
            monkeypatch.setattr(disk, "fdatasync", fdatasync)
        joined(threads)
        monkeypatch.undo()
        assert {one.status for one in outcomes.values()} == {PutMessageStatus.FLUSH_DISK_TIMEOUT}
        assert store.max_offset("t", 0) == 1
        assert store.put_message(Message("t", b"more")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE


def test_waiting_put_times_out_while_its_leader_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with MessageStore.open(tmp_path / "s", replace(SYNC, sync_flush_timeout=50)) as store:
        store.put_message(Message("t", b"first", queue_id=0))
        go_on, real = threading.Event(), disk.fdatasync
        with Probe(store).put_lock:
            threads, outcomes = queue_puts(store, 8)
            monkeypatch.setattr(disk, "fdatasync", lambda fd: (go_on.wait(DEADLINE_S), real(fd))[1])
        while len(outcomes) < 7:  # all but the leader
            for thread in threads:
                thread.join(0.01)
        assert {one.status for one in outcomes.values()} == {PutMessageStatus.FLUSH_DISK_TIMEOUT}
        go_on.set()
        joined(threads)
        monkeypatch.undo()
        assert sorted(one.status.name for one in outcomes.values())[-1] == "PUT_OK"
        assert store.put_message(Message("t", b"after", queue_id=0)).queue_offset == 9


def test_interrupted_leader_wakes_all_waiting_puts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with MessageStore.open(tmp_path / "s", SMALL) as store:

        def interrupted(*_: Any) -> None:
            monkeypatch.undo()
            raise KeyboardInterrupt

        with Probe(store).put_lock:
            threads, outcomes = queue_puts(store, 10)
            monkeypatch.setattr(Probe(store).commit_log, "append", interrupted)
        joined(threads)
        assert sum(isinstance(one, KeyboardInterrupt) for one in outcomes.values()) == 1
        others = [one for one in outcomes.values() if not isinstance(one, KeyboardInterrupt)]
        assert {one.status for one in others} == {PutMessageStatus.UNKNOWN_ERROR}
        assert store.put_message(Message("t", b"after", queue_id=0)).queue_offset == 0


def test_waiting_puts_raise_closed_when_the_store_closes(tmp_path: Path) -> None:
    store = MessageStore.open(tmp_path / "s", SMALL)
    with Probe(store).put_lock:
        threads, outcomes = queue_puts(store, 5)
        Probe(store).refuse_puts()
    joined(threads)
    assert all(isinstance(one, StoreClosedError) for one in outcomes.values())
    store.close()


def test_put_lock_is_exclusive() -> None:
    lock = PutLock()
    assert lock.acquire_now()
    assert not lock.acquire_now()
    lock.release()
    with lock:
        assert not lock.acquire_now()
    assert lock.acquire_now()
    lock.release()


@pytest.mark.parametrize("seed", range(20))
def test_offsets_assigned_by_columns_equal_one_by_one(seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    ends = {(f"t{topic}", rng.choice([0, 1, 7, 9000, 65_535, 65_536, 1 << 30])): rng.randrange(50) for topic in (0, 1)}
    model: dict[tuple[str, int], int] = {}

    def end_of(topic: str, queue_id: int) -> int:
        return ends.get((topic, queue_id), 0)

    offsets = QueueOffsets(end_of)
    for _ in range(30):
        fork, before = offsets.fork(), dict(model)
        for _ in range(rng.randrange(1, 4)):
            ids = [0, 1, 2, 7, 300, 9000, 65_535] + ([65_536, 1 << 30] if rng.random() < 0.3 else [])
            queues = sorted({(f"t{rng.randrange(2)}", rng.choice(ids)) for _ in range(6)})
            rows = [rng.randrange(len(queues)) for _ in range(40)]
            got = fork.assign(QueueColumn.of(queues), np.array(rows, np.int32)).tolist()
            for row, offset in zip(rows, got, strict=True):
                following = model.setdefault(queues[row], end_of(*queues[row]))
                assert offset == following, queues[row]
                model[queues[row]] = following + 1
        if rng.random() < 0.3:
            model = before  # the write failed
        else:
            offsets.join(fork)
        one = f"t{rng.randrange(2)}", rng.choice([0, 5, 7, 65_536])
        assert offsets.next(*one) == model.setdefault(one, end_of(*one))
        offsets.advance(*one)
        model[one] += 1
        offsets.move_to({one: model[one] + 2})
        model[one] += 2


def test_batch_over_many_queues_appends_each_row_to_its_queue(tmp_path: Path) -> None:
    count = 3000
    rng = random.Random(11)
    places = [(f"t{rng.randrange(3)}", rng.choice([0, 3, 40, 40_000])) for _ in range(count)]
    batch = pa.record_batch(
        {
            "topic": [topic for topic, _ in places],
            "queueId": pa.array([queue_id for _, queue_id in places], pa.int32()),
            "body": [b"%d" % number for number in range(count)],
        }
    )
    with MessageStore.open(tmp_path / "s", SMALL) as store:
        for _ in range(2):
            store.append_batch(batch)
        for place in set(places):
            mine = [b"%d" % number for number, one in enumerate(places) if one == place] * 2
            found = [one for part in store.read(*place, 0, len(mine), columns=["body"]) for one in part["body"]]
            assert [one.as_py() for one in found] == mine
            assert store.max_offset(*place) == len(mine)
