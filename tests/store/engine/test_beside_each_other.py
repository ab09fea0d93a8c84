"""Concurrent calls: queries, flushes, clean-ups and new topics during puts and during a close."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.commits.batch_commit import last_commit
from rocketflow_store.commits.progress_commit import ProgressBatch, commit_progress
from rocketflow_store.delivery.timer.deliver_due import deliver_due_timers
from rocketflow_store.delivery.timer.timer_message_service import TimerMessageService
from rocketflow_store.format.batch_unit import BATCH_UNIT_SIZE
from rocketflow_store.fsck.repair import repair_store
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.errors import StoreClosedError, StoreConfigError
from rocketflow_store.records.arrow.unit_types import BATCH_UNIT_DTYPE
from rocketflow_store.testing import Probe
from rocketflow_store.views.queues.batch_consume_queue import BatchConsumeQueue
from tests.support.trials import some

NOW = 1_800_000_000_000
SMALL = StoreConfig(
    mapped_file_size_commit_log=1 << 14,
    mapped_file_size_consume_queue=60,
    mapper_file_size_batch_consume_queue=BATCH_UNIT_SIZE * 2,
    max_hash_slot_num=10,
    max_index_num=5_000,
    file_reserved_time=0,
)


@contextmanager
def repeating(work: Callable[[], object]) -> Iterator[list[BaseException]]:
    """Run `work` in a thread until the block ends, or it raises."""
    stop, raised = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            while not stop.is_set():
                work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield raised
    finally:
        stop.set()
        thread.join(60)


def test_queries_by_key_beside_puts_lose_no_key(tmp_path: Path) -> None:
    before, count = sys.getswitchinterval(), some(3_000)
    sys.setswitchinterval(5e-6)
    try:
        with MessageStore.open(tmp_path / "s", SMALL) as store:
            store.put_message(Message("t", b"x", keys="k0", queue_id=0))
            with repeating(lambda: store.query_message("t", "k0")) as raised:
                for number in range(1, count):
                    store.put_message(Message("t", b"x", keys=f"k{number}", queue_id=0))
            assert raised == []
            lost = [number for number in range(count) if len(store.query_message("t", f"k{number}")) != 1]
            assert lost == []
    finally:
        sys.setswitchinterval(before)
    assert verify_store(tmp_path / "s").findings == []


def test_index_header_of_the_writer_is_not_read_again(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", SMALL) as store:
        store.put_message(Message("t", b"x", keys="k", queue_id=0))
        (file,) = store.index.files
        header = file.header
        assert len(list(file.walk(0, 0, NOW * 2))) == 0
        assert file.reload() is header is file.header


@pytest.mark.parametrize("call", ["flush", "clean"])
def test_close_waits_for_running_calls(tmp_path: Path, call: str) -> None:
    for number in range(6):
        path = tmp_path / str(number)
        store = MessageStore.open(path, SMALL)
        for _ in range(60):
            store.put_message(Message("t", b"x" * 500, keys="k", queue_id=0))
        with repeating(getattr(store, call)) as raised:
            store.close()
        assert [type(one) for one in raised] == [StoreClosedError]
        assert not (path / "abort").exists()
        assert verify_store(path).findings == []


def test_store_closes_while_a_topic_deletion_waits(tmp_path: Path) -> None:
    store = MessageStore.open(tmp_path / "s", SMALL)
    store.put_message(Message("t", b"x", queue_id=0))
    refused: list[type[BaseException]] = []

    def delete() -> None:
        try:
            store.delete_topic("t")
        except StoreClosedError as error:
            refused.append(type(error))

    threads = [threading.Thread(target=work, daemon=True) for work in (delete, store.close)]
    with Probe(store).clean_lock:  # a clean-up is running
        for thread in threads:
            thread.start()
            time.sleep(0.2)
    for thread in threads:
        thread.join(30)
    assert [thread.is_alive() for thread in threads] == [False, False]
    assert refused in ([], [StoreClosedError])
    assert not (tmp_path / "s" / "abort").exists()


def test_units_into_a_held_file_stay(tmp_path: Path) -> None:
    path = tmp_path / "s"
    store = MessageStore.open(path, SMALL)
    for number in range(60):
        store.put_message(Message("t", b"x" * 1000, keys=f"k{number}", queue_id=0))
    held = store.get_message("t", 0, 0, 1)
    store.clean()
    begin = store.bounds("t", 0)[0]
    assert begin > 0
    assert verify_store(path).findings == []
    body = bytes(held.message_mapped_list[0].body)
    store.close()
    assert bytes(held.message_mapped_list[0].body) == body
    held.release()
    assert verify_store(path).findings == []
    with StoreReader(path) as reader:
        assert reader.bounds("t", 0) == (begin, 60)


def test_closed_store_creates_no_topics(tmp_path: Path) -> None:
    store = MessageStore.open(tmp_path / "s", SMALL)
    store.close()
    for call in (lambda: store.create_topic("n"), lambda: store.ensure_topic("n"), lambda: store.queue_count("n")):
        with pytest.raises(StoreClosedError):
            call()


def test_topics_created_during_puts_keep_their_queues(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", SMALL) as store:
        for number in range(30):
            go = threading.Barrier(2)

            def put(topic: str = f"t{number}", go: threading.Barrier = go) -> None:
                go.wait()
                store.put_message(Message(topic, b"x"))

            thread = threading.Thread(target=put)
            thread.start()
            go.wait()
            store.create_topic(f"t{number}", 20)
            thread.join()
            assert store.queue_count(f"t{number}") == 20


def test_queue_type_that_stored_messages_do_not_have_is_refused(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", SMALL) as store:
        store.put_message(Message("t", b"x", queue_id=3))
        with pytest.raises(StoreConfigError, match="messages of the other type"):
            store.create_topic("t", queue_type="BatchCQ")


def test_batch_queue_whose_files_are_all_deleted_keeps_its_offset(tmp_path: Path) -> None:
    queue = BatchConsumeQueue(tmp_path, "t", 0, SMALL.mapper_file_size_batch_consume_queue, write=True)
    units = np.zeros(5, BATCH_UNIT_DTYPE)
    units["phy_offset"], units["msg_size"] = 1000 * np.arange(5), 900
    units["msg_base_offset"], units["batch_size"] = np.arange(5), 1
    queue.put(units)
    assert len(queue.remove_below(3_000, 0, 0)) == 1
    queue.cut(0)
    assert (queue.end_unit, queue.bounds(0)) == (0, (0, 0))
    queue.cut_beyond(0)
    units["msg_base_offset"] += 3
    queue.put(units)
    assert queue.bounds(0) == (3, 8)
    queue.close()


@pytest.mark.parametrize("crc", [False, True])
def test_empty_commit_records_the_crcs_that_it_has(tmp_path: Path, crc: bool) -> None:
    path = tmp_path / "s"
    config = StoreConfig(mapped_file_size_commit_log=1 << 16, enabled_append_prop_crc=crc)
    with MessageStore.open(path, config) as store:
        store.put_message(Message("t", b"x", queue_id=0))
        commit_progress(store, ProgressBatch("p", "run", None, {"at": 1}))
        commit = last_commit(store, "p")
        assert commit is not None
        assert commit.record_crc is crc
        store.flush()
    (path / "abort").touch()
    with MessageStore.open(path, config) as store:
        assert store.recovery.quarantined == []
    assert verify_store(path).findings == []


def test_timer_whose_newest_message_expired(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    config = StoreConfig(mapped_file_size_commit_log=1 << 14, mapped_file_size_consume_queue=2000, clock=clock)
    with MessageStore.open(tmp_path / "s", config) as store:
        service = TimerMessageService(store)
        store.put_message(Message("later", b"due", queue_id=0, deliver_timestamp=NOW + 2_000))
        clock.set(NOW + 4_000)
        for _ in range(3_000):
            if service.counts.delivered or service.error is not None:
                break
            service.wake()
            threading.Event().wait(0.01)
        assert (service.error, service.counts.delivered) == (None, 1)
        for _ in range(100):
            store.put_message(Message("t", b"y" * 1000, queue_id=0))
        store.flush()
        for file in sorted((tmp_path / "s" / "commitlog").iterdir())[:-2]:
            os.utime(file, (1, 1))
        assert store.clean().log_files
        service.stop()
        assert deliver_due_timers(store).delivered == 0
    assert verify_store(tmp_path / "s").findings == []


def test_invalid_delay_level(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, SMALL) as store:
        store.put_message(Message("t", b"x", queue_id=0))
    (path / "config" / "delayOffset.json").write_text('{"offsetTable":{0:9}}')
    with MessageStore.open(path, SMALL) as store:
        assert store.bounds("t", 0) == (0, 1)
    assert repair_store(path).left.findings == []
