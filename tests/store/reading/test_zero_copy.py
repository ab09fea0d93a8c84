"""A get returns the log itself: slices of mapped files that stay valid until they are released."""

from __future__ import annotations

import gc
import os
import random
import shutil
import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from rocketflow_store import GetMessageResult, GetMessageStatus, Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.format.record import decode_record
from rocketflow_store.metadata.layout.file_sizes import config_for_store
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.errors import ResultReleasedError
from rocketflow_store.testing import Probe

MIB = 1 << 20
NOON_MS = 1_760_000_000_000
SMALL = {
    "mapped_file_size_commit_log": 64 << 10,
    "mapped_file_size_consume_queue": 20_000,
    "max_hash_slot_num": 64,
    "max_index_num": 512,
}
WIDE = {
    "max_transfer_bytes_on_message_in_memory": 256 * MIB,
    "max_transfer_count_on_message_in_memory": 1000,
    "access_message_in_memory_max_ratio": 100,
}


def body(number: int) -> bytes:
    return random.Random(number).randbytes(500 + number * 7 % 900)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    """Store 300 messages in queue 0 and as many in another in between, over a dozen files."""
    config = StoreConfig(**SMALL, **WIDE, clock=ManualClock(NOON_MS), destroy_maped_file_interval_forcibly=0)  # type: ignore[arg-type]
    with MessageStore.open(tmp_path / "s", config) as opened:
        for number in range(300):
            opened.put_message(Message("t", body(number), tags="a" if number % 3 else "b", queue_id=0))
            if number % 5 == 0:
                opened.put_message(Message("other", b"x" * number, queue_id=0))
        yield opened


def test_slices_are_the_records_of_the_files(store: MessageStore) -> None:
    with store.get_message("t", 0, 10, 100) as got:
        assert got.status is GetMessageStatus.FOUND
        assert (got.message_count, got.next_begin_offset) == (100, 110)
        assert got.buffer_total_size == sum(one.size for one in got.message_mapped_list)
        for number, one in enumerate(got.message_mapped_list, 10):
            assert bytes(one.body) == body(number)
            assert (one.frame.queue_offset, one.size) == (number, len(one.byte_buffer))
            message = decode_record(bytes(one.byte_buffer))
            assert message == one.message() == got.messages[number - 10]
            assert message.phy_offset == one.start_offset
            assert one.byte_buffer.readonly
            file = store.path / "commitlog" / f"{one.start_offset // SMALL['mapped_file_size_commit_log'] * 65536:020d}"
            assert file.read_bytes()[one.start_offset % 65536 :][: one.size] == one.byte_buffer


def is_mapped_from(view: memoryview, path: Path) -> bool:
    """Return True if the first byte of `view` is in a mapping of `path` (no other mapping can have that address)."""
    address = pa.py_buffer(view).address
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        start, end = (int(one, 16) for one in fields[0].split("-"))
        if start <= address < end:
            return len(fields) == 6 and fields[5] == str(path)
    return False


def test_get_copies_no_body(tmp_path: Path) -> None:
    config = StoreConfig(mapped_file_size_commit_log=48 * MIB, max_hash_slot_num=64, max_index_num=512, **WIDE)  # type: ignore[arg-type]
    with MessageStore.open(tmp_path / "s", config) as store:
        for number in range(32):
            store.put_message(Message("t", bytes([number]) * MIB, queue_id=0))
    with MessageStore.open(tmp_path / "s", config) as store, StoreReader(tmp_path / "s", config) as reader:
        for subject in (store, reader):
            tracemalloc.start()
            got = subject.get_message("t", 0, 0, 32)
            bodies = [one.body for one in got.message_mapped_list]
            buffers, segments = got.buffers(), got.segments()
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < MIB // 4, f"{peak} bytes were taken to get 32 MiB"
            assert [(one[0], len(one)) for one in bodies] == [(number, MIB) for number in range(32)]
            assert len(buffers) == len(segments) == 1, "adjacent records are one run"
            file = tmp_path / "s" / "commitlog" / f"{0:020d}"
            assert all(is_mapped_from(one, file) for one in [*bodies, *buffers])
            assert not is_mapped_from(memoryview(bytes(bodies[0])), file)
            assert os.fstat(segments[0].fd).st_ino == file.stat().st_ino


def receive_all(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = sock.recv(1 << 16)
        assert part, "the other side has closed"
        data += part
    return bytes(data)


def by_sendfile(sock: socket.socket, got: GetMessageResult) -> None:
    for fd, position, length in got.segments():
        while length:
            sent = os.sendfile(sock.fileno(), fd, position, length)
            position, length = position + sent, length - sent


def by_sendmsg(sock: socket.socket, got: GetMessageResult) -> None:
    waiting = got.buffers()
    while waiting:
        sent = sock.sendmsg(waiting)
        while waiting and sent >= len(waiting[0]):
            sent -= len(waiting.pop(0))
        if sent:
            waiting[0] = waiting[0][sent:]


@pytest.mark.parametrize("send", [by_sendfile, by_sendmsg])
@pytest.mark.parametrize("tags", [None, "b"])
def test_records_are_sent_over_a_socket(
    store: MessageStore, send: Callable[[socket.socket, GetMessageResult], None], tags: str | None
) -> None:
    with store.get_message("t", 0, 0, 300, tags) as got:
        expected = b"".join(bytes(one.byte_buffer) for one in got.message_mapped_list)
        assert len(expected) == got.buffer_total_size
        assert sum(one.length for one in got.segments()) == got.buffer_total_size
        assert len({one.fd for one in got.segments()}) > 3, "several files"
        assert len(got.segments()) == len(got.buffers()) <= got.message_count
        assert tags or len(got.segments()) < got.message_count / 3, "adjacent records are one run"
        sender, receiver = socket.socketpair()
        with sender, receiver:
            received: list[bytes] = []
            thread = threading.Thread(target=lambda: received.append(receive_all(receiver, len(expected))))
            thread.start()
            send(sender, got)
            thread.join()
        assert received == [expected]
    offset, position = 0, 0
    while position < len(received[0]):
        message = decode_record(received[0], position)
        assert message.body == body(message.queue_offset)
        assert message.queue_offset >= offset
        offset, position = message.queue_offset + 1, position + message.store_size


def age_all(store: MessageStore) -> None:
    """Make every file but the newest expire."""
    for mapped in Probe(store).log_files[:-1]:
        os.utime(mapped.path, (NOON_MS / 1000 - 400 * 3600,) * 2)


def expected_runs(got: GetMessageResult) -> bytes:
    return b"".join(got.buffers())


def test_slices_outlive_the_deletion_of_their_files(store: MessageStore) -> None:
    got = store.get_message("t", 0, 0, 20)
    before = expected_runs(got)
    path = Probe(store).log_files[0].path
    age_all(store)
    store.clean()
    store.clean()
    assert not path.exists(), "destroyMapedFileIntervalForcibly is over"
    assert expected_runs(got) == before
    assert b"".join(os.pread(fd, length, position) for fd, position, length in got.segments()) == before
    assert got.messages[3].body == body(3)
    assert store.get_message("t", 0, 0).status is GetMessageStatus.OFFSET_TOO_SMALL


def test_slices_outlive_the_close_of_the_store(store: MessageStore, tmp_path: Path) -> None:
    with StoreReader(tmp_path / "s", store.config) as reader:
        results = [store.get_message("t", 0, 50, 20), reader.get_message("t", 0, 50, 20)]
    before = [expected_runs(got) for got in results]
    store.close()
    gc.collect()
    for got, runs in zip(results, before, strict=True):
        assert expected_runs(got) == runs
        assert b"".join(os.pread(*(fd, length, position)) for fd, position, length in got.segments()) == runs
        assert [one.body for one in got.messages] == [body(number) for number in range(50, 70)]


def test_slices_outlive_a_recovery_that_cuts_the_log(store: MessageStore, tmp_path: Path) -> None:
    """A reader holds messages up to the end; a recovery cuts the last ones, and a file that begins after them."""
    end = store.max_offset("t", 0)
    last = Probe(store).log_files[-1]
    assert last is not None
    with StoreReader(tmp_path / "s", store.config) as reader:
        got = reader.get_message("t", 0, end - 60, 60)
        before = expected_runs(got)
        assert len({one.held for one in got.message_mapped_list}) > 1
        cut = next(one for one in got.message_mapped_list if one.start_offset >= last.file_from_offset)
        kept = [bytes(one.byte_buffer) for one in got.message_mapped_list if one.start_offset < cut.start_offset]
        store.close()
        shutil.rmtree(store.path / "rocketflow")  # as another writer leaves it: the synced end is unknown
        (store.path / "abort").touch()
        with last.path.open("r+b") as file:
            file.write(b"#" * 100 + bytes(SMALL["mapped_file_size_commit_log"] - 100))
        with MessageStore.open(store.path, store.config) as again:
            assert again.recovery.truncated_to <= last.file_from_offset
            size = sum(map(len, kept))
            assert b"".join(kept) == expected_runs(got)[:size] == before[:size]
            assert len(expected_runs(got)) == len(before), "what was cut may change, and is there"
            assert b"".join(os.pread(fd, length, at) for fd, at, length in got.segments())[:size] == before[:size]


@pytest.mark.parametrize("how", ["release", "with", "drop", "cycle"])
def test_file_is_kept_until_its_slices_are_released(store: MessageStore, how: str) -> None:
    """Retention waits for the holder of a file, for a while; a result that was dropped holds nothing."""
    Probe(store).set_retention(
        StoreConfig(**SMALL, clock=store.config.clock, destroy_maped_file_interval_forcibly=120_000)
    )
    got: GetMessageResult | None = store.get_message("t", 0, 0, 5)
    assert got is not None
    first = Probe(store).log_files[0].path
    age_all(store)
    assert store.clean().log_files == []
    assert first.exists()
    match how:
        case "release":
            got.release()
        case "with":
            with got:
                pass
        case "drop":
            got = None
        case _:
            ring: list[object] = [got]
            ring.append(ring)
            got = None
            del ring
            gc.collect()
    assert first in store.clean().log_files
    assert not first.exists()


def test_descriptors_are_closed_with_the_last_slice(store: MessageStore, tmp_path: Path) -> None:
    with StoreReader(tmp_path / "s", store.config) as reader:
        got = reader.get_message("t", 0, 0, 100)
        fds = {one.fd for one in got.segments()}
        inodes = {os.fstat(fd).st_ino for fd in fds}
    got.release()
    del got
    gc.collect()
    still = set()
    for fd in fds:
        try:
            still.add(os.fstat(fd).st_ino)
        except OSError:
            continue
    assert not inodes & still


def test_result_after_release_raises(store: MessageStore) -> None:
    got = store.get_message("t", 0, 0, 5)
    one = got.message_mapped_list[2]
    kept, messages = one.body, got.messages
    got.release()
    got.release()
    assert got.message_count == 5
    for ask in (lambda: got.message_mapped_list, got.segments, got.buffers):
        with pytest.raises(ResultReleasedError):
            ask()
    assert got.messages is messages
    store.close()
    assert bytes(kept) == bytes(one.body) == body(2), "who kept a view keeps the pages"
    empty = GetMessageResult(GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
    assert (empty.segments(), empty.buffers(), empty.messages) == ([], [], [])


def test_damaged_record_is_skipped_and_the_rest_of_its_file_served(store: MessageStore) -> None:
    """RocketMQ takes an unreadable record for a removed file and continues in the next one."""
    place = store.get_message("t", 0, 7, 1).messages[0]
    with open(store.path / "commitlog" / f"{0:020d}", "r+b") as file:
        file.seek(place.phy_offset + 100)
        file.write(b"####")
    got = store.get_message("t", 0, 5, 10)
    assert [one.frame.queue_offset for one in got.message_mapped_list] == [5, 6, *range(8, 16)]
    assert got.next_begin_offset == 16
    got = store.get_message("t", 0, 7, 1)
    assert [one.frame.queue_offset for one in got.message_mapped_list] == [8]


def test_transfer_limits_end_an_answer(tmp_path: Path) -> None:
    """By count and by bytes, in memory and on disk; one message is returned however large it is."""
    path = tmp_path / "s"
    with MessageStore.open(path, StoreConfig(**SMALL)) as store:
        for number in range(100):
            store.put_message(Message("t", b"%03d" % number * 100, queue_id=0))
        size = store.get_message("t", 0, 0, 1).buffer_total_size

    def got(**limits: int) -> GetMessageResult:
        with StoreReader(path, config_for_store(path, **limits)) as reader:
            return reader.get_message("t", 0, 0, 64)

    memory, disk = {"access_message_in_memory_max_ratio": 100}, {"access_message_in_memory_max_ratio": 0}
    assert got(**memory).message_count == 32
    assert got(**memory, max_transfer_count_on_message_in_memory=50).message_count == 50
    assert got(**memory, max_transfer_bytes_on_message_in_memory=size * 9 + 1).message_count == 9
    assert got(**memory, max_transfer_bytes_on_message_in_memory=1).message_count == 1
    assert got(**disk).message_count == 8
    assert got(**disk, max_transfer_count_on_message_in_disk=20).message_count == 20
    assert got(**disk, max_transfer_bytes_on_message_in_disk=size * 3).message_count == 3
    assert got(**disk, max_transfer_bytes_on_message_in_disk=1).message_count == 1
    assert got(**disk).suggest_pulling_from_slave
    assert not got(**memory).suggest_pulling_from_slave
    assert got(**memory, max_transfer_count_on_message_in_memory=1000).message_count == 64
