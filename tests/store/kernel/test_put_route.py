"""Single puts by the kernel's route leave the same bytes, results and figures as those of Python's write path."""

from __future__ import annotations

import dataclasses
import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.append import put_route
from rocketflow_store.append.put_path import PutPath
from rocketflow_store.append.put_route import PutRoute
from rocketflow_store.files import disk
from rocketflow_store.files.mapped.mapped_file import PAGE_BYTES
from rocketflow_store.format.batch_body import BatchEntry, encode_batch_body
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.errors import StoreClosedError, StoreFencedError
from rocketflow_store.model.message import MessageBatch
from rocketflow_store.model.message_id import UNIQ_KEYS
from rocketflow_store.testing import Probe
from rocketflow_store.views.dispatch.run_rows import RunRows
from tests.store.kernel.test_puts import NOW, ODD, PLAIN, USUAL
from tests.support.put_windows import windows_at_once
from tests.support.simulated_disk import SimulatedDisk
from tests.support.trials import some

pytestmark = pytest.mark.skipif(COMPILED is None, reason="this machine has no compiled kernel")

BATCH: Final = MessageBatch("t", encode_batch_body([BatchEntry(0, b"b", b"KEYS\x01k"), BatchEntry(0, b"c", b"")]))
LARGE: Final = Message("t", b"z" * 5_000, keys="large")

Action = Callable[[MessageStore, ManualClock], Any]
"""Does something with a store; returns what a caller sees."""


def put(message: Any) -> Action:
    return lambda store, _: store.put_message(message)


def put_many(messages: list[Any]) -> Action:
    return lambda store, _: store.put_messages(messages)


def later(ms: int) -> Action:
    return lambda _, clock: clock.set(clock.now_ms() + ms)


def append(bodies: list[bytes]) -> Action:
    return lambda store, _: dataclasses.astuple(store.append_batch(pa.table({"body": bodies}), "t"))


def deleted(topic: str) -> Action:
    return lambda store, _: store.delete_topic(topic)


def created(queues: int, kind: str | None) -> Action:
    def act(store: MessageStore, _: ManualClock) -> str:
        try:
            store.create_topic("t", queues, queue_type=kind)
        except Exception as error:
            return str(error)
        return ""

    return act


def read(queue_id: int) -> Action:
    def act(store: MessageStore, _: ManualClock) -> Any:
        found = store.get_message("t", queue_id, store.min_offset("t", queue_id), 100)
        return found.status, found.next_begin_offset, found.message_count

    return act


def searched(key: str) -> Action:
    return lambda store, _: [one.physical_offset for one in store.query_message("t", key, 100)]


def flushed(store: MessageStore, _: ManualClock) -> None:
    store.flush()


ACTIONS: Final = st.one_of(
    *[USUAL.map(put)] * 6,
    ODD.map(put),
    st.lists(USUAL, max_size=3).map(put_many),
    st.sampled_from([put(BATCH), put(LARGE), deleted("t"), flushed, created(6, None), created(2, "BatchCQ")]),
    st.integers(-2_000, 5_000).map(later),
    st.lists(st.binary(max_size=300), min_size=1, max_size=9).map(append),
    st.integers(0, 3).map(read),
    PLAIN.map(searched),
)


def done(path: Path, actions: list[Action], **more: Any) -> tuple[list[Any], dict[str, Any], dict[str, bytes]]:
    """Return what the actions return in a new store, its figures, and the bytes of its files."""
    numbers, clock = count(77), ManualClock(NOW)
    ids = patch.object(UNIQ_KEYS, "reserve", lambda _: ("7F0000011234ABCDEF01", 1000 * next(numbers)))
    config = StoreConfig(clock=clock, **more)
    with ids, MessageStore.open(path, config) as store:
        results = [act(store, clock) for act in actions]
        figures = store.statistics()
    kept = {"commitlog", "consumequeue", "batchconsumequeue", "index"}
    files = {
        str(one.relative_to(path)): one.read_bytes()
        for one in sorted(path.rglob("*"))
        if one.is_file() and one.relative_to(path).parts[0] in kept
    }
    same = "putMessageTimesTotal", "putMessageSizeTotal", "putMessageFailedTimes", "dispatchBehindBytes"
    return results, {name: figures[name] for name in same}, files


SAME: Final = put(Message("t", b"b", "tag", ["k l"], queue_id=1))


@settings(max_examples=some(150))
@given(st.lists(ACTIONS, min_size=1, max_size=25), st.booleans(), st.sampled_from(["", "5.3"]), st.booleans())
@example([SAME] * 70, True, "", True)  # files of the log, of the queue and of the index roll
@example([SAME, SAME, deleted("t"), SAME, SAME, SAME, read(1)], False, "", True)
@example([SAME, SAME, created(6, None), put(Message("t", b"b", queue_id=5)), SAME, SAME], True, "", True)
@example([SAME, SAME, SAME, later(-5_000), SAME, later(9_000), SAME, SAME], True, "", True)
@example([put(Message("t", b"b", sharding_key=one)) for one in "aabbccabc"], True, "", True)
@example([put(Message("t", b"b")) for _ in range(30)] + [put(BATCH)] + [put(Message("t", b"b"))] * 9, True, "", False)
@example(
    [SAME, SAME, put_many([Message("t", b"b", queue_id=1)] * 3), SAME, append([b"x"] * 9), SAME, SAME], True, "", True
)
def test_puts_have_the_same_results_and_files_by_route_and_python(
    tmp_path_factory: pytest.TempPathFactory, actions: list[Action], with_crc: bool, profile: str, with_index: bool
) -> None:
    path = tmp_path_factory.mktemp("route")
    more = {
        "mapped_file_size_commit_log": 1 << 14,
        "mapped_file_size_consume_queue": 400,
        "max_hash_slot_num": 50,
        "max_index_num": 90,
        "max_message_size": 8_000,
        "enabled_append_prop_crc": with_crc,
        "message_index_enable": with_index,
        "profile": profile,
    }
    with windows_at_once():
        by_route = done(path / "route", actions, **more)
    with patch.object(PutPath, "route_single_puts", lambda *_: None):
        by_python = done(path / "python", actions, **more)
    assert by_route == by_python


class Opened(NamedTuple):
    """An open store with windows on its log and on queue 0 of topic t, and the route of its single puts."""

    store: MessageStore
    route: PutRoute


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    with windows_at_once() as routes, MessageStore.open(tmp_path / "s", StoreConfig()) as store:
        for _ in range(4):
            store.put_message(Message("t", b"b", keys="k", queue_id=0))
        assert routes[0].taken >= 1
        yield Opened(store, routes[0])


def test_usual_messages_are_taken_and_readers_see_each_at_once(opened: Opened) -> None:
    store, route = opened
    before, first = route.taken, store.max_offset("t", 0)
    for number in range(300):
        result = store.put_message(Message("t", b"%d" % number, keys=f"key{number}", queue_id=0))
        assert (result.queue_offset, store.max_offset("t", 0)) == (first + number, first + number + 1)
        assert store.confirm_offset == store.max_phy_offset == result.physical_offset + result.stored_size
    assert route.taken - before == 300
    with StoreReader(store.path) as reader:
        assert reader.max_offset("t", 0) == first + 300
        store.put_message(Message("t", b"another", queue_id=0))
        reader.refresh()
        assert reader.max_offset("t", 0) == first + 301
    found = store.query_message("t", "key299", 8)
    assert [one.body for one in found] == [b"299"]


@contextmanager
def waiting_rows(opened: Opened) -> Iterator[None]:
    opened.route.dispatch.pending.append((1 << 60, RunRows(0)))
    yield
    opened.route.dispatch.pending.clear()


@contextmanager
def full_disk(opened: Opened) -> Iterator[None]:
    probe = Probe(opened.store)
    probe.use_disk_figures(lambda _: 99)
    probe.look_at_disk()
    assert probe.disk_full
    yield
    probe.use_disk_figures(lambda _: 1)
    probe.look_at_disk()


GATES: Final[dict[str, Callable[[Opened], AbstractContextManager[Any]]]] = {
    "a fence": lambda it: patch.object(it.route.fence, "error", StoreFencedError("s", "a sync failed")),
    "a failed dispatch": lambda it: patch.object(it.route.dispatch, "failure", OSError("full")),
    "a listener of arrivals": lambda it: patch.object(it.route.dispatch, "on_dispatched", lambda _: None),
    "records that wait for dispatch": waiting_rows,
    "a full disk": full_disk,
    "a put that holds the lock": lambda it: Probe(it.store).put_lock,
}


@pytest.mark.parametrize("gate", GATES)
def test_message_is_left_over_for(gate: str, opened: Opened) -> None:
    store, route = opened
    before, end = route.taken, store.max_phy_offset
    with GATES[gate](opened):
        assert route.take(Message("t", b"b", queue_id=0)) is None
    assert (route.taken, store.max_phy_offset) == (before, end)
    assert store.put_message(Message("t", b"b", queue_id=0)).stored
    assert route.taken == before + 1


def test_message_is_left_over_while_another_thread_dispatches(opened: Opened) -> None:
    store, route = opened
    before = route.taken
    held, ends = threading.Event(), threading.Event()

    def hold() -> None:
        with route.dispatch.lock:
            held.set()
            ends.wait()

    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    found = route.take(Message("t", b"b", queue_id=0))
    ends.set()
    other.join()
    assert found is None
    assert route.taken == before
    assert store.put_message(Message("t", b"b", queue_id=0)).stored
    assert route.taken == before + 1


def test_closed_store_refuses_what_the_route_would_take(opened: Opened) -> None:
    store, route = opened
    store.close()
    assert route.take(Message("t", b"b", queue_id=0)) is None
    with pytest.raises(StoreClosedError):
        store.put_message(Message("t", b"b", queue_id=0))


def test_forked_process_leaves_the_store_of_its_parent_alone(opened: Opened) -> None:
    store, route = opened
    end, child = store.max_phy_offset, os.fork()
    if child == 0:
        refused = route.take(Message("t", b"b", queue_id=0)) is None
        os._exit(0 if refused else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert store.put_message(Message("t", b"b", queue_id=0)).physical_offset == end


@pytest.mark.parametrize("rest", [0, 7, 8, 9])
def test_message_that_leaves_no_space_for_a_blank_begins_the_next_file(rest: int, tmp_path: Path) -> None:
    size = 1 << 15
    with (
        windows_at_once() as routes,
        MessageStore.open(tmp_path / "s", StoreConfig(mapped_file_size_commit_log=size)) as store,
    ):
        route = routes[0]
        first = store.put_message(Message("t", b"", queue_id=0))
        while store.max_phy_offset < size - 4_000:
            store.put_message(Message("t", b"x" * 1_000, queue_id=0))
        before = route.taken
        end = store.max_phy_offset
        result = store.put_message(Message("t", b"x" * (size - rest - end - first.stored_size), queue_id=0))
        assert result.physical_offset == (end if rest >= 8 else size)
        assert route.taken - before == (rest >= 8)


def test_flush_makes_durable_what_was_stored_through_windows(tmp_path: Path) -> None:
    never = {"flush_interval_commit_log": 3_600_000, "flush_interval_consume_queue": 3_600_000}
    sizes = {"mapped_file_size_commit_log": 1 << 20, "max_hash_slot_num": 50, "max_index_num": 900}
    config = StoreConfig(**never, **sizes)
    with (
        SimulatedDisk(tmp_path) as simulated,
        windows_at_once() as routes,
        MessageStore.open(tmp_path / "s", config) as store,
    ):
        route = routes[0]
        for _ in range(2):
            for number in range(40):
                store.put_message(Message("t", b"%d" % number, keys=f"k{number}", queue_id=number % 2))
            assert route.taken > 20
            store.flush()
            state = simulated.freeze()
            kept = [
                name for name in state.names if name.split("/")[1:2] in (["commitlog"], ["consumequeue"], ["index"])
            ]
            files = [name for name in kept if (tmp_path / name).is_file()]
            assert len(files) >= 4
            for name in files:
                assert state.durable_bytes(name) == (tmp_path / name).read_bytes(), name


FAULTS: Final = {
    "no space for the blocks": ("posix_fallocate", errno.ENOSPC),
    "no preallocation on this file system": ("posix_fallocate", errno.EOPNOTSUPP),
    "no map": ("map_file", errno.ENOMEM),
    "a page that cannot be read": ("populate_write", errno.EFAULT),
    "a kernel without populate": ("populate_write", errno.EINVAL),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_messages_are_stored_without_a_window_after(fault: str, tmp_path: Path) -> None:
    name, number = FAULTS[fault]
    real = getattr(disk, name)

    def failing(*given: Any, **more: Any) -> Any:
        starts = {"posix_fallocate": 1, "map_file": 3}  # arguments: only a window begins within a file
        if name not in starts or (given[starts[name] :] and given[starts[name]] > 0):
            raise OSError(number, os.strerror(number))
        return real(*given, **more)

    with windows_at_once() as routes, MessageStore.open(tmp_path / "s", StoreConfig()) as store:
        route = routes[0]
        assert store.put_messages([Message("t", b"z" * 2 * PAGE_BYTES, queue_id=0)])[0].stored
        with patch.object(disk, name, failing):
            for number in range(9):
                assert store.put_message(Message("t", b"%d" % number, queue_id=0)).queue_offset == number + 1
            assert route.taken == 0
        for number in range(9):
            assert store.put_message(Message("t", b"%d" % number, queue_id=0)).stored
        assert route.taken > 0


def test_window_is_not_opened_for_a_few_puts(tmp_path: Path) -> None:
    few = put_route.WINDOW_PUTS // 2
    more = patch.object(put_route, "WINDOW_PUTS", 2 * few)
    with windows_at_once() as routes, more, MessageStore.open(tmp_path / "s", StoreConfig()) as store:
        for _ in range(few):
            store.put_message(Message("t", b"b"))
        assert routes[0].taken == 0


def test_queues_beyond_the_most_take_the_windows_of_others(tmp_path: Path) -> None:
    fewer = patch.object(put_route, "MOST_QUEUES", 3)
    with fewer, windows_at_once() as routes, MessageStore.open(tmp_path / "s", StoreConfig()) as store:
        route = routes[0]
        for number in range(400):
            result = store.put_message(Message("t", b"%d" % number, queue_id=number // 5 % 8))
            assert store.get_message("t", result.queue_id, result.queue_offset).messages[0].body == b"%d" % number
        assert 0 < route.taken < 400
        assert len(route.with_window) == 3
