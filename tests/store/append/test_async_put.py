"""Asynchronous puts: order, group commit, backpressure, cancelling, and completion of every future."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocketflow_store import FlushDiskType, Message, MessageStore, PutMessageStatus, StoreConfig, StoreReader
from rocketflow_store.files import os_files
from rocketflow_store.format.batch_body import BatchEntry, encode_batch_body
from rocketflow_store.model.errors import StoreClosedError, StoreFencedError
from rocketflow_store.model.message import MessageBatch
from rocketflow_store.testing import Probe

if TYPE_CHECKING:
    from rocketflow_store.model.results import PutMessageResult

SMALL = StoreConfig(mapped_file_size_commit_log=256 << 10, max_hash_slot_num=1000, max_index_num=10_000)
MODES = pytest.mark.parametrize("mode", list(FlushDiskType))
DEADLINE_S = 60


def small(mode: FlushDiskType = FlushDiskType.ASYNC_FLUSH, **more: object) -> StoreConfig:
    return replace(SMALL, flush_disk_type=mode, **more)  # type: ignore[arg-type]


def done(futures: list[Future[PutMessageResult]]) -> list[PutMessageResult]:
    assert not wait(futures, DEADLINE_S).not_done
    return [future.result() for future in futures]


@MODES
def test_async_puts_of_each_caller_keep_their_order(mode: FlushDiskType, tmp_path: Path) -> None:
    callers, each = 6, 300
    results: dict[int, list[PutMessageResult]] = {}
    with MessageStore.open(tmp_path / "s", small(mode)) as store:

        def call(caller: int) -> None:
            futures = [
                store.put_message_async(Message(f"t{caller % 2}", f"{caller}-{number}".encode() * 20, queue_id=0))
                for number in range(each)
            ]
            results[caller] = done(futures)

        threads = [threading.Thread(target=call, args=(caller,)) for caller in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for caller, mine in results.items():
            assert all(result.status is PutMessageStatus.PUT_OK for result in mine)
            places = [result.physical_offset for result in mine]
            assert places == sorted(places), "B2: in the order of the calls"
            for number, result in enumerate(mine):
                message = store.look_message_by_offset(result.physical_offset)
                assert message is not None
                assert message.body == f"{caller}-{number}".encode() * 20
                assert (message.queue_offset, message.msg_id) == (result.queue_offset, result.msg_id)
        assert store.max_offset("t0", 0) == store.max_offset("t1", 0) == callers // 2 * each
        assert store.statistics()["putMessageTimesTotal"] == callers * each
    with StoreReader(tmp_path / "s") as reader:
        batches = list(reader.read("t0", 0, 0, callers // 2 * each, ["queueOffset"]))
        offsets = [one for batch in batches for one in batch["queueOffset"].to_pylist()]
        assert offsets == list(range(callers // 2 * each))


def test_future_completes_after_its_sync(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", small(FlushDiskType.SYNC_FLUSH)) as store:
        seen: list[tuple[int, int]] = []
        for number in range(200):
            future = store.put_message_async(Message("t", b"x" * 100 + str(number).encode()))
            future.add_done_callback(
                lambda done: seen.append((done.result().physical_offset, Probe(store).flushed_offset))
            )
        wait([future], DEADLINE_S)
    assert len(seen) == 200
    assert all(phy_offset < flushed for phy_offset, flushed in seen)


def test_one_sync_completes_all_puts_queued_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first sync is slow; the second one completes all puts queued meanwhile."""
    with MessageStore.open(tmp_path / "s", small(FlushDiskType.SYNC_FLUSH)) as store:
        Probe(store).stop_flushing()
        assert store.put_message(Message("t", b"makes the file")).stored
        syncing, go_on = threading.Event(), threading.Event()
        syncs: list[str] = []
        real = os_files.sync_file

        def slow(fd: int, path: Path) -> None:
            if "commitlog" in str(path):
                syncs.append(str(path))
                if len(syncs) == 1:
                    syncing.set()
                    assert go_on.wait(DEADLINE_S)
            real(fd, path)

        monkeypatch.setattr(os_files, "sync_file", slow)
        first = store.put_message_async(Message("t", b"first"))
        assert syncing.wait(DEADLINE_S)
        others = [store.put_message_async(Message("t", b"x")) for _ in range(64)]
        probe = store.put_messages_async([Message("t", b"y")] * 3)
        while not Probe(store).has_put_to_sync:
            threading.Event().wait(0.001)
        assert not first.done()
        go_on.set()
        results = done([first, *others])
        assert [result.stored for result in probe.result(DEADLINE_S)] == [True] * 3
        assert all(result.status is PutMessageStatus.PUT_OK for result in results)
        assert len(syncs) == 2
        monkeypatch.undo()


def test_full_queue_refuses_put_after_timeout_and_stores_nothing(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", small(max_async_put_message_requests=10, sync_flush_timeout=50)) as store:
        with Probe(store).put_lock:  # the encoder is blocked
            futures = [store.put_message_async(Message("t", b"x")) for _ in range(10)]
            refused = store.put_message_async(Message("t", b"too many")).result(DEADLINE_S)
            assert refused.status is PutMessageStatus.OS_PAGE_CACHE_BUSY
            assert not refused.stored
        assert all(result.stored for result in done(futures))
        assert store.put_message_async(Message("t", b"room again")).result(DEADLINE_S).stored
        queues = store.queues("t")
        assert sum(store.max_offset("t", queue) for queue in queues) == 11


def test_caller_waits_while_queue_is_full(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", small(max_async_put_message_requests=4)) as store:
        futures = [store.put_message_async(Message("t", b"x" * 100)) for _ in range(500)]
        assert all(result.stored for result in done(futures))
        assert Probe(store).waiting_puts == (0, 0)


def test_cancelled_put_stores_nothing(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", small()) as store:
        store.put_message(Message("t", b"0", queue_id=0))
        with Probe(store).put_lock:
            running = store.put_message_async(Message("t", b"1", queue_id=0))
            while not running.running():
                threading.Event().wait(0.001)
            waiting = [store.put_message_async(Message("t", b"2", queue_id=0)) for _ in range(3)]
            assert waiting[1].cancel()
            assert not running.cancel()
        assert [one.result(DEADLINE_S).queue_offset for one in (running, waiting[0], waiting[2])] == [1, 2, 3]
        assert store.max_offset("t", 0) == 4
        assert Probe(store).waiting_puts[0] == 0


@MODES
def test_close_completes_every_future(mode: FlushDiskType, tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", small(mode)) as store:
        futures = [store.put_message_async(Message("t", b"x" * 200, queue_id=0)) for _ in range(700)]
    assert all(future.done() for future in futures)
    assert [future.result().queue_offset for future in futures] == list(range(700))
    with pytest.raises(StoreClosedError):
        store.put_message_async(Message("t", b"x"))
    with StoreReader(tmp_path / "s") as reader:
        assert reader.bounds("t", 0) == (0, 700)


def test_failed_sync_fails_every_future_with_fenced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with MessageStore.open(tmp_path / "s", small(FlushDiskType.SYNC_FLUSH)) as store:
        assert store.put_message_async(Message("t", b"good", queue_id=0)).result(DEADLINE_S).stored
        Probe(store).stop_flushing()

        def broken(fd: int, path: Path) -> None:
            raise StoreFencedError(path, "no disk")

        monkeypatch.setattr(os_files, "sync_file", broken)
        futures = [store.put_message_async(Message("t", b"x" * 100, queue_id=0)) for _ in range(100)]
        assert not wait(futures, DEADLINE_S).not_done
        for future in futures:
            with pytest.raises(StoreFencedError):
                future.result()
        monkeypatch.undo()
        with pytest.raises(StoreFencedError):
            store.put_message_async(Message("t", b"later")).result(DEADLINE_S)
        assert store.max_offset("t", 0) == 1, "readers see no unsynced record"


def test_invalid_request_does_not_fail_other_requests_of_the_run(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", small()) as store:
        with Probe(store).put_lock:
            first = store.put_message_async(Message("t", b"1", queue_id=0))
            no_bytes = store.put_message_async(Message("t", "text", queue_id=0))  # type: ignore[arg-type]
            wide = store.put_message_async(Message("t", b"w", queue_id=0, born_timestamp=1 << 70))
            refused = store.put_message_async(Message("t", b"r", queue_id=0, flag=1 << 40))
            last = store.put_message_async(Message("t", b"2", queue_id=0))
        assert [one.result(DEADLINE_S).queue_offset for one in (first, last)] == [0, 1]
        for future in (refused, wide, no_bytes):
            assert future.result(DEADLINE_S).status is PutMessageStatus.MESSAGE_ILLEGAL
        assert [one.body for one in store.get_message("t", 0, 0).messages] == [b"1", b"2"]


def test_callback_puts_without_waiting_for_full_queue(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", small(max_async_put_message_requests=1)) as store:
        chained: list[Future[PutMessageResult]] = []
        both = threading.Event()

        def again(_: Future[PutMessageResult]) -> None:
            chained.append(store.put_message_async(Message("t", b"2", queue_id=0)))
            chained.append(store.put_message_async(Message("t", b"3", queue_id=0)))
            both.set()

        store.put_message_async(Message("t", b"1", queue_id=0)).add_done_callback(again)
        assert both.wait(DEADLINE_S)
        assert [result.queue_offset for result in done(chained)] == [1, 2]


@MODES
def test_run_of_batches_and_messages_keeps_their_order(mode: FlushDiskType, tmp_path: Path) -> None:
    body = encode_batch_body([BatchEntry(number, b"b%d" % number, b"KEYS\x01k%d\x02" % number) for number in range(40)])
    with MessageStore.open(tmp_path / "s", small(mode)) as store:
        with Probe(store).put_lock:
            futures = []
            for number in range(30):
                futures.append(store.put_message_async(Message("t", b"m%d" % number, queue_id=0)))
                futures.append(store.put_message_async(MessageBatch("t", body, queue_id=0)))
        results = done(futures)
        assert [result.queue_offset for result in results] == [one for k in range(30) for one in (41 * k, 41 * k + 1)]
        assert [result.message_count for result in results] == [1, 40] * 30
        assert store.max_offset("t", 0) == 30 * 41
        assert len(store.query_message("t", "k7", 64)) == 30
