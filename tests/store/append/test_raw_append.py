"""Appends of a broker: the bytes equal those of puts, append, sync and publish are separate, arrivals are reported."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketflow_store import (
    FlushDiskType,
    Message,
    MessageStore,
    PutMessageStatus,
    StoreClosedError,
    StoreConfig,
    StoreConfigError,
    StoreFencedError,
    StoreFullError,
)
from rocketflow_store.delivery.requeue.send_back import consumer_send_msg_back
from rocketflow_store.files import disk, os_files
from rocketflow_store.format.batch_body import BatchEntry, encode_batch_body
from rocketflow_store.format.properties import decode_properties, encode_properties
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.message import MessageBatch
from rocketflow_store.model.message_id import UNIQ_KEYS, decode_host
from rocketflow_store.spi.broker import Arrival, RawMessage, WritingStore, decode_stored, encode_stored, open_store
from rocketflow_store.spi.maintenance import verify_store
from rocketflow_store.spi.names import HALF_TOPIC
from rocketflow_store.testing import Probe
from rocketflow_store.views.dispatch.dispatcher import Dispatcher
from tests.support.record_bytes import unplaced_record
from tests.support.trials import some

NOW_MS = 1_700_000_000_000
HOST = "10.1.2.3:10911"
PEER = bytes([192, 168, 0, 7, 0, 0, 0x9C, 0x40])
PEER_V6 = bytes([0x20, 1, 0xD, 0xB8, *[0] * 11, 9, 0, 0, 0x9C, 0x40])
SMALL = StoreConfig(mapped_file_size_commit_log=1 << 16, max_hash_slot_num=100, max_index_num=400)
CONFIGS = {
    "plain": SMALL,
    "crc": replace(SMALL, enabled_append_prop_crc=True),
    "lmq": replace(SMALL, enable_lmq=True, enable_multi_dispatch=True),
    "profile-5.5": replace(SMALL, profile="5.5"),
}
NAMES = st.sampled_from(
    ["a", "TAGS", "KEYS", "UNIQ_KEY", "WAIT", "CLUSTER", "INNER_MULTI_DISPATCH", "__RMQ.TRANSIENT.x"]
)
LATER = st.sampled_from(["DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
VALUES = st.one_of(
    st.text(st.characters(blacklist_characters="\x01\x02", blacklist_categories=["Cs"]), min_size=1, max_size=12),
    st.sampled_from(["k1 k2", "%LMQ%a,%LMQ%b", "true", "3", "0", "é"]),
)
PROPERTIES = st.dictionaries(st.one_of(NAMES, NAMES, LATER), VALUES, max_size=6)
SINGLES = st.builds(
    RawMessage,
    topic=st.sampled_from(["orders", "t|1", "%RETRY%g", "SCHEDULE_TOPIC_XXXX", "bad name", "batches"]),
    queue_id=st.integers(-1, 3),
    body=st.binary(max_size=300),
    properties=PROPERTIES.map(encode_properties),
    flag=st.integers(-5, 5),
    sys_flag=st.sampled_from([0, 0, 0, 1, 0x10, 0x4, 0x8, 0xC]),
    born_ms=st.integers(0, 1 << 41),
    born_host=st.sampled_from([PEER, PEER_V6]),
    reconsume_times=st.integers(0, 20),
    prepared_offset=st.integers(0, 9),
    is_batch=st.just(False),
    is_internal=st.just(False),
    needs=st.just(0),
)
ENTRIES = st.builds(
    BatchEntry,
    flag=st.integers(0, 9),
    body=st.binary(max_size=60),
    properties=st.dictionaries(st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "a"]), VALUES, max_size=3).map(
        encode_properties
    ),
)
BATCHES = st.builds(
    RawMessage,
    topic=st.sampled_from(["orders", "batches"]),
    queue_id=st.integers(0, 3),
    body=st.lists(ENTRIES, max_size=40).map(encode_batch_body),
    properties=st.dictionaries(st.sampled_from(["WAIT", "p"]), VALUES, max_size=2).map(encode_properties),
    flag=st.just(0),
    sys_flag=st.just(0),
    born_ms=st.integers(0, 1 << 41),
    born_host=st.sampled_from([PEER, PEER_V6]),
    reconsume_times=st.just(0),
    prepared_offset=st.just(0),
    is_batch=st.just(True),
    is_internal=st.just(False),
    needs=st.just(0),
)
RUNS = st.lists(st.one_of(SINGLES, SINGLES, BATCHES), min_size=1, max_size=20)


def raw(topic: str, body: bytes, queue_id: int = 0, tags: str = "", **more: Any) -> RawMessage:
    properties = encode_properties({"TAGS": tags} if tags else {})
    return RawMessage(topic, queue_id, body, properties, 0, 0, NOW_MS, PEER, **more)


def as_put(one: RawMessage) -> Message | MessageBatch:
    """Return the message whose put stores the same bytes."""
    shared: dict[str, Any] = {
        "topic": one.topic,
        "body": one.body,
        "properties": decode_properties(one.properties),
        "queue_id": one.queue_id,
        "sys_flag": one.sys_flag,
        "born_timestamp": one.born_ms,
        "born_host": decode_host(one.born_host),
        "reconsume_times": one.reconsume_times,
    }
    if one.is_batch:
        return MessageBatch(**shared)
    return Message(**shared, flag=one.flag, prepared_transaction_offset=one.prepared_offset)


def log_bytes(path: Path, start: int, stop: int) -> bytes:
    return next((path / "commitlog").iterdir()).read_bytes()[start:stop]


def content(path: Path) -> dict[str, bytes]:
    """Return the files of log, queues and index, the index files by their order."""
    found = {
        str(one.relative_to(path)): one.read_bytes()
        for folder in ("commitlog", "consumequeue", "batchconsumequeue")
        for one in sorted((path / folder).rglob("*"))
        if one.is_file()
    }
    index = sorted((path / "index").iterdir()) if (path / "index").is_dir() else []
    return found | {f"index {number}": one.read_bytes() for number, one in enumerate(index)}


@pytest.fixture(autouse=True)
def uniq_keys(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have UNIQ_KEYs that begin at 0 whenever the first element is set to 0."""
    tick = [0]

    def reserve(count: int) -> tuple[str, int]:
        tick[0] += count
        return "AB" * 10, tick[0] - count

    monkeypatch.setattr(UNIQ_KEYS, "reserve", reserve)
    return tick


class Pair:
    """Two stores that have to hold the same bytes: one with puts, one with appends."""

    def __init__(self, path: Path, config: StoreConfig, uniq_keys: list[int]) -> None:
        self.path, self.clock, self.uniq_keys = path, ManualClock(NOW_MS), uniq_keys
        config = replace(config, clock=self.clock, store_host=HOST)
        self.put = MessageStore.open(path / "put", config)
        self.appended = open_store(path / "appended", config, store_host=HOST)
        for store in (self.put, self.appended):
            store.create_topic("batches", 4, queue_type="BatchCQ")

    def run(self, requests: list[RawMessage]) -> None:
        tick, begin = self.uniq_keys[0], self.put.max_phy_offset
        expected = self.put.put_messages([as_put(one) for one in requests])
        self.uniq_keys[0] = tick
        appended = self.appended.append(requests)
        assert appended.results == expected
        assert appended.end == self.appended.max_phy_offset == self.put.max_phy_offset
        self.appended.publish(appended.end)
        assert self.appended.confirm_offset == appended.end
        files = [sorted((self.path / name / "commitlog").iterdir()) for name in ("put", "appended")]
        assert [one.name for one in files[0]] == [one.name for one in files[1]]
        for one, other in zip(*files, strict=True):
            if int(one.name) + SMALL.mapped_file_size_commit_log > begin:
                assert one.read_bytes() == other.read_bytes()
        self.clock.set(self.clock.now_ms() + 700)

    def close(self) -> None:
        self.put.close()
        self.appended.close()
        assert content(self.path / "appended") == content(self.path / "put")


@pytest.mark.parametrize("kind", CONFIGS)
def test_appended_bytes_equal_those_of_puts(kind: str, tmp_path: Path, uniq_keys: list[int]) -> None:
    pair = Pair(tmp_path, CONFIGS[kind], uniq_keys)
    pair.run([raw("orders", b"x" * 40) for _ in range(300)])
    body = encode_batch_body([BatchEntry(0, b"b", b"")] * 300)
    pair.run([raw("orders", body, is_batch=True), raw("orders", b"", tags="a", queue_id=2)])

    @given(requests=RUNS)
    @settings(max_examples=some(50), deadline=None, database=None)
    def check(requests: list[RawMessage]) -> None:
        pair.run(requests)

    check()
    pair.close()


def test_any_property_bytes_are_stored_with_their_meaning_or_refused(tmp_path: Path) -> None:
    pieces = st.sampled_from(
        [b"TAGS", b"KEYS", b"DELAY", b"UNIQ_KEY", b"\x01", b"\x01", b"\x02", b"\x02", b"a b", b"\xff"]
    )

    with open_store(tmp_path / "s", SMALL, store_host=HOST) as store:

        @given(properties=st.lists(st.one_of(pieces, st.binary(max_size=3)), max_size=12).map(b"".join))
        @settings(max_examples=some(300), deadline=None, database=None)
        def check(properties: bytes) -> None:
            [result] = store.append([RawMessage("t", 0, b"b", properties, 0, 0, 1, PEER)]).results
            if not result.stored:
                assert result.status is PutMessageStatus.MESSAGE_ILLEGAL
                return
            store.publish(store.max_phy_offset)
            found = store.look_message_by_offset(result.physical_offset)
            assert found is not None
            wanted = decode_properties(properties)
            assert {name: found.properties.get(name) for name in wanted} == wanted
            assert found.uniq_key

        check()


def test_append_is_invisible_before_publish(tmp_path: Path) -> None:
    with open_store(tmp_path / "s", SMALL, store_host=HOST) as store:
        appended = store.append([raw("t", b"1"), raw("t", b"2")])
        assert [one.queue_offset for one in appended.results] == [0, 1]
        assert (store.confirm_offset, store.max_offset("t", 0)) == (0, 0)
        store.publish(appended.end)
        assert (store.confirm_offset, store.max_offset("t", 0)) == (appended.end, 2)


def test_publish_under_sync_flush_follows_the_sync(tmp_path: Path) -> None:
    config = replace(SMALL, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    with open_store(tmp_path / "s", config, store_host=HOST) as store:
        appended = store.append([raw("t", b"1")])
        store.publish(appended.end)
        assert store.max_offset("t", 0) == 0
        assert store.flush_to(appended.end, 60)
        assert store.max_offset("t", 0) == 1
        store.publish(appended.end)
        assert store.confirm_offset == appended.end


def test_try_append_returns_none_while_the_put_lock_is_taken(tmp_path: Path) -> None:
    with open_store(tmp_path / "s", SMALL, store_host=HOST) as store:
        with Probe(store).put_lock:
            assert store.try_append([raw("t", b"1")]) is None
        appended = store.try_append([raw("t", b"1")])
        assert appended is not None
        assert appended.results[0].stored


def test_append_waits_for_the_put_lock(tmp_path: Path) -> None:
    with open_store(tmp_path / "s", SMALL, store_host=HOST) as store:
        done = threading.Event()
        with Probe(store).put_lock:
            thread = threading.Thread(target=lambda: (store.append([raw("t", b"1")]), done.set()))
            thread.start()
            assert not done.wait(0.05)
        assert done.wait(60)
        thread.join()


def test_internal_message_goes_to_a_system_topic(tmp_path: Path) -> None:
    topic = "RMQ_SYS_TRANS_HALF_TOPIC"
    with open_store(tmp_path / "s", SMALL, store_host=HOST) as store:
        appended = store.append(
            [raw(topic, b"no"), raw(topic, b"yes", is_internal=True), raw("a/b", b"", is_internal=True)]
        )
        refused, stored, strange = appended.results
        assert (refused.status, strange.status) == (PutMessageStatus.MESSAGE_ILLEGAL,) * 2
        assert (stored.status, stored.queue_offset) == (PutMessageStatus.PUT_OK, 0)
        store.publish(appended.end)
        assert store.max_offset(topic, 0) == 1
        assert topic not in store.config_files.topics.topics()


def test_message_that_needs_others_is_stored_only_with_them_in_one_run(tmp_path: Path) -> None:
    ok, refused = raw("t", b"1"), raw("t", b"2" * (SMALL.max_message_size + 1))
    with open_store(tmp_path / "s", SMALL, store_host=HOST) as store:

        def stored(*requests: RawMessage) -> list[bool]:
            return [one.stored for one in store.append(requests).results]

        assert stored(ok, ok, raw("u", b"3", needs=2)) == [True, True, True]
        assert stored(refused, ok, raw("u", b"3", needs=2)) == [False, True, False]
        assert stored(refused, ok, raw("u", b"3", needs=1)) == [False, True, True]
        assert stored(ok, raw("u", b"3", needs=2)) == [True, False]
        assert stored(raw("u", b"3", needs=1)) == [False]
        split = stored(*[ok] * 1_024, raw("u", b"3", needs=1))
        assert split == [*[True] * 1_024, False]  # a run has at most 1,024 messages
        result = store.append([raw("u", b"3", needs=1)]).results[0]
        assert "same run" in result.why


@pytest.mark.parametrize("crc", [False, True])
@pytest.mark.parametrize("peer", [PEER, PEER_V6])
def test_stored_message_is_what_was_put_and_becomes_the_same_record(tmp_path: Path, crc: bool, peer: bytes) -> None:
    message = RawMessage("t", 2, b"body", b"a\x01b\x02UNIQ_KEY\x01u\x02", 5, 0x108, NOW_MS, peer, 3, 77)
    config = replace(SMALL, enabled_append_prop_crc=crc)
    with open_store(tmp_path / "s", config, store_host=HOST) as store:
        appended = store.append([message])
        store.publish(appended.end)
        (result,) = appended.results
        record = store.read_messages("t", 2, 0, 1, 1).data
    found = decode_stored(record)
    flags = message.sys_flag | (0x10 if peer == PEER_V6 else 0)
    assert found.message == message._replace(sys_flag=flags)
    assert (found.queue_offset, found.phy_offset, found.store_ms) == (0, 0, result.store_timestamp)
    assert decode_host(found.store_host) == HOST
    again = encode_stored(found)
    assert decode_stored(again) == found
    if not crc:
        assert again == record


def test_malformed_requests_are_refused_alone(tmp_path: Path) -> None:
    requests = [
        raw("t", b"1"),
        raw("t", b"2")._replace(born_host=b"123"),
        raw("t", b"3", is_batch=True)._replace(born_host=b"123"),
        raw("t", b"not a batch", is_batch=True),
        raw("t", b"4")._replace(flag=1 << 40),
        raw("t", b"5")._replace(queue_id=-1),
        raw("t", b"6" * (SMALL.max_message_size + 1)),
        raw("t", b"7")._replace(properties=b"a\x01" + b"x" * 40_000 + b"\x02"),
        raw("t", b"8"),
    ]
    with open_store(tmp_path / "s", SMALL, store_host=HOST) as store:
        results = store.append(requests).results
        assert [one.stored for one in results] == [True, *[False] * 7, True]
        assert results[7].status is PutMessageStatus.PROPERTIES_SIZE_EXCEEDED
        assert {one.status for one in results[1:7]} == {PutMessageStatus.MESSAGE_ILLEGAL}
        assert "flag" in results[4].why


def test_store_with_mixed_runs_verifies(tmp_path: Path) -> None:
    body = encode_batch_body([BatchEntry(0, b"%d" % number, b"") for number in range(32)])
    with open_store(tmp_path / "s", SMALL, store_host=HOST) as store:
        for number in range(60):
            store.publish(
                store.append([raw("t", b"x" * number, tags="a"), raw("t", body, 1, is_batch=True), raw("u", b"y")]).end
            )
    assert verify_store(tmp_path / "s").findings == []


def test_put_state_names_the_reason(tmp_path: Path) -> None:
    store = open_store(tmp_path / "s", SMALL, store_host=HOST)
    state = store.put_state()
    assert not state.refuses
    assert (state.fenced, state.full, state.closed, state.busy_ms) == (False, False, False, 0)
    Probe(store).use_disk_figures(lambda _: 99)
    Probe(store).look_at_disk()
    assert (store.put_state().full, store.put_state().refuses) == (True, True)
    Probe(store).fence(StoreFencedError(tmp_path, "sync failed"))
    assert store.put_state().fenced
    assert "sync failed" in store.put_state().why
    assert store.append([raw("t", b"")]).results[0].status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    store.close()
    assert store.put_state().closed
    with pytest.raises(StoreClosedError):
        store.try_append([raw("t", b"")])


def test_appends_are_refused_while_a_put_holds_the_lock_for_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(NOW_MS)
    config = replace(SMALL, clock=clock, os_page_cache_busy_time_out_mills=300)
    with open_store(tmp_path / "s", config, store_host=HOST) as store:
        end = store.append([raw("t", b"1")]).end
        entered, leave = threading.Event(), threading.Event()
        real = os_files.write_at

        def hangs(fd: int, path: object, position: int, data: bytes) -> None:
            if "commitlog" in str(path):
                entered.set()
                assert leave.wait(20)
            real(fd, path, position, data)

        monkeypatch.setattr(os_files, "write_at", hangs)
        thread = threading.Thread(target=store.append, args=([raw("t", b"2")],))
        thread.start()
        assert entered.wait(60)
        clock.set(NOW_MS + 300)
        state = store.put_state()
        assert (state.busy_ms, state.page_cache_busy, state.refuses) == (300, False, False)
        assert store.try_append([raw("t", b"3")]) is None
        clock.set(NOW_MS + 301)
        assert store.put_state().page_cache_busy
        refused = store.append([raw("t", b"3"), raw("t", b"4")])
        assert [one.status for one in refused.results] == [PutMessageStatus.OS_PAGE_CACHE_BUSY] * 2
        assert refused.end == 0
        store.publish(refused.end)
        assert store.flush_to(refused.end, 60)
        leave.set()
        thread.join(60)
        assert not store.put_state().page_cache_busy
        again = store.append([raw("t", b"3")])
        assert (again.results[0].queue_offset, again.end > end) == (2, True)


def test_failed_sync_fences_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(SMALL, flush_disk_type=FlushDiskType.SYNC_FLUSH)

    def fdatasync(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with open_store(tmp_path / "s", config, store_host=HOST) as store:
        appended = store.append([raw("t", b"1")])
        monkeypatch.setattr(disk, "fdatasync", fdatasync)
        with pytest.raises(StoreFencedError):
            store.flush_to(appended.end, 60)
        monkeypatch.undo()
        assert store.put_state().fenced
        assert store.max_offset("t", 0) == 0


def test_records_are_visible_after_a_sync_during_which_the_store_was_fenced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sync succeeded, and its caller will acknowledge the records; a moved store is such a case."""
    config = replace(SMALL, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    real = os.fdatasync

    def fdatasync(fd: int) -> None:
        real(fd)
        Probe(store).fence(StoreFencedError("s", "it was moved"))

    with open_store(tmp_path / "s", config, store_host=HOST) as store:
        appended = store.append([raw("t", b"1")])
        monkeypatch.setattr(disk, "fdatasync", fdatasync)
        assert store.flush_to(appended.end, 60)
        assert (store.put_state().fenced, store.max_offset("t", 0)) == (True, 1)


def test_synced_records_whose_dispatch_fails_raise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(SMALL, flush_disk_type=FlushDiskType.SYNC_FLUSH)

    def dispatch_run(*_: object) -> None:
        raise StoreFullError("s", "no space")

    with open_store(tmp_path / "s", config, store_host=HOST) as store:
        appended = store.append([raw("t", b"1")])
        with monkeypatch.context() as broken:
            broken.setattr(Dispatcher, "dispatch_run", dispatch_run)
            with pytest.raises(StoreFullError):
                store.flush_to(appended.end, 60)
        assert store.max_offset("t", 0) == 0
        assert store.flush_to(appended.end, 60)
        assert store.max_offset("t", 0) == 1


def test_malformed_store_host_is_refused(tmp_path: Path) -> None:
    for host in ("broker:10911", "10.0.0.1", ""):
        with pytest.raises(StoreConfigError) as caught:
            open_store(tmp_path / "s", SMALL, store_host=host)
        assert caught.value.key == "storeHost"
    assert not (tmp_path / "s").exists()


# -- arrivals


def arriving(path: Path, config: StoreConfig = SMALL) -> tuple[WritingStore, list[list[Arrival]]]:
    found: list[list[Arrival]] = []
    return open_store(path, config, store_host=HOST, on_arrival=lambda arrivals: found.append(list(arrivals()))), found


def test_arrival_lists_the_queues_of_a_run(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    store, found = arriving(tmp_path / "s", replace(SMALL, clock=clock))
    with store:
        store.publish(store.append([raw("t", b"1", tags="TagA"), raw("t", b"2"), raw("u", b"3", 2)]).end)
        assert found == [
            [
                Arrival("t", 0, 2, frozenset({2598919, 0}), NOW_MS),
                Arrival("u", 2, 1, frozenset({0}), NOW_MS),
            ]
        ]


def test_arrivals_come_from_every_writer(tmp_path: Path) -> None:
    import pyarrow as pa

    store, found = arriving(tmp_path / "s", CONFIGS["lmq"])
    body = encode_batch_body([BatchEntry(0, b"e", b"")] * 3)
    with store:
        store.create_topic("batches", 1, queue_type="BatchCQ")
        store.put_message(Message("t", b"1", queue_id=0, tags="TagA"))
        store.put_message_async(Message("t", b"2", queue_id=0)).result(60)
        store.put_message(MessageBatch("batches", body, queue_id=0))
        store.put_message(Message("t", b"3", queue_id=1, properties={"INNER_MULTI_DISPATCH": "%LMQ%q"}))
        rows = {"topic": ["t", "t", "v"], "body": [b"4", b"5", b"6"], "tags": ["TagA", "TagB", None]}
        store.append_batch(pa.table({**rows, "queueId": pa.array([0, 0, 0], pa.int32())}))
    ends: dict[tuple[str, int], list[int]] = {}
    for one in (arrival for run in found for arrival in run):
        ends.setdefault((one.topic, one.queue_id), []).append(one.next_offset)
    assert ends == {("t", 0): [1, 2, 4], ("batches", 0): [3], ("t", 1): [1], ("%LMQ%q", 0): [1], ("v", 0): [1]}
    assert found[-1][0].tags_codes == frozenset({2598919, 2598920})


def test_arrival_with_many_tags_lists_none(tmp_path: Path) -> None:
    store, found = arriving(tmp_path / "s")
    with store:
        store.publish(store.append([raw("t", b"", tags=f"tag{number}") for number in range(300)]).end)
    assert [one.tags_codes for one in found[0]] == [None]


def test_failing_arrival_callback_fails_no_put(tmp_path: Path) -> None:
    def fail(arrivals: Callable[[], Sequence[Arrival]]) -> None:
        raise RuntimeError("no loop")

    with open_store(tmp_path / "s", SMALL, store_host=HOST, on_arrival=fail) as store:
        for _ in range(3):
            assert store.put_message(Message("t", b"1", queue_id=0)).stored
        assert store.max_offset("t", 0) == 3
        assert store.statistics()["events"] == {"RF-SERVICE-HELD": 3}
        store.notify_arrivals(None)


def test_fast_path_stores_what_the_wire_gave(tmp_path: Path) -> None:
    """The property string is stored byte for byte."""
    given_properties = b"b\x01x\x02UNIQ_KEY\x01K\x02WAIT\x01true\x02a\x01\xc3\xa9\x02"
    with open_store(tmp_path / "s", SMALL, store_host=HOST) as store:
        [result] = store.append([RawMessage("t", 0, b"b", given_properties, 0, 0, 1, PEER)]).results
        store.publish(store.max_phy_offset)
        found = log_bytes(tmp_path / "s", result.physical_offset, store.max_phy_offset)
        assert found[: -len("__CRC32#_1234567890_")].endswith(given_properties)


@pytest.mark.parametrize("sys_flag", [4, 12, 4 | 0x10 | 1, 12 - (1 << 31)])
def test_message_that_no_reader_would_see_is_refused_on_every_path(sys_flag: int, tmp_path: Path) -> None:
    """RocketMQ stores it outside of all queues, and acknowledges it."""
    with open_store(tmp_path / "s", SMALL, store_host=HOST) as store:
        one = Message("t", b"x", queue_id=0, sys_flag=sys_flag)
        delayed = Message("t", b"x", properties={"DELAY": "1"}, sys_flag=sys_flag)
        batch = MessageBatch("t", encode_batch_body([BatchEntry(0, b"x", b"")]), queue_id=0, sys_flag=sys_flag)
        results = [store.put_message(one), *store.put_messages([one, delayed, batch])]
        wire = raw("t", b"x")._replace(sys_flag=sys_flag)
        results += store.append([wire, wire._replace(topic=HALF_TOPIC, is_internal=True)]).results
        assert {one.status for one in results} == {PutMessageStatus.MESSAGE_ILLEGAL}
        copied = store.put_record(unplaced_record("t", b"x", sys_flag=sys_flag & 0xC))
        back = consumer_send_msg_back(store, "g", copied.physical_offset)
        assert back is not None
        assert back.status is PutMessageStatus.MESSAGE_ILLEGAL
