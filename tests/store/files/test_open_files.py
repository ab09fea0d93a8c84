"""Files whose descriptors are closed while they are not used: what they keep, and what is closed first."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rocketflow_store.files import disk, open_files, os_files
from rocketflow_store.files.mapped.mapped_file import MappedFile, file_name
from rocketflow_store.files.open_files import OPEN_FILES
from rocketflow_store.model.errors import DescriptorLimitError, StoreAccessError, StoreFencedError
from tests.support.descriptors import open_paths

SIZE = 8192
OF_FILES = 64
"""Descriptors that files on demand may have in these tests, beside those of the test process."""


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let the process have so few descriptors that half of them are for `OF_FILES` files."""
    others = max(len(OPEN_FILES), disk.open_descriptors())  # the next one may be a gap below many of other tests
    found = 2 * (others + OF_FILES)
    monkeypatch.setattr(open_files, "LIMIT", lambda: (found, found))
    return found


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Close what a test opened."""
    with ExitStack() as found:
        yield found


def made(directory: Path, stack: ExitStack, count: int, *, write: bool = True) -> list[MappedFile]:
    """Return new files, each of which begins with its number."""
    found = []
    for number in range(count):
        mapped = MappedFile.create(directory / file_name(number * SIZE), number * SIZE, SIZE)
        mapped.write(0, b"%08d" % number)
        if not write:
            mapped.close()
            mapped = MappedFile(mapped.path, number * SIZE, write=False)
        stack.callback(mapped.close)
        found.append(mapped)
    return found


def is_open(mapped: MappedFile) -> bool:
    """Return True if a descriptor of this process belongs to the file."""
    return str(mapped.path) in open_paths()


def open_count(files: list[MappedFile]) -> int:
    """Return how many of the files have a descriptor."""
    names = {str(mapped.path) for mapped in files}
    return len([one for one in open_paths() if one in names])


@pytest.mark.parametrize("write", [True, False])
def test_files_beyond_the_limit_are_written_and_read(
    tmp_path: Path, stack: ExitStack, limit: int, *, write: bool
) -> None:
    files = made(tmp_path, stack, 4 * limit, write=write)
    assert open_count(files) <= limit // 2
    for turn in range(2):
        for number, mapped in enumerate(files):
            assert mapped.read(0, 8) == b"%08d" % number
            assert mapped.bytes_of(0, 8).to_pybytes() == b"%08d" % number
            assert not mapped.is_replaced()
            if write:
                mapped.write(8, b"turn %d" % turn)
                assert mapped.read(8, 6) == b"turn %d" % turn
    assert open_count(files) <= limit


def test_file_that_was_read_lately_stays_open(tmp_path: Path, stack: ExitStack, limit: int) -> None:
    files = made(tmp_path, stack, limit, write=False)
    for mapped in files[1:]:
        assert files[0].read(0, 8)
        assert mapped.read(0, 8)
        assert is_open(files[0])


def test_written_file_is_synced_before_its_descriptor_is_closed(
    tmp_path: Path, stack: ExitStack, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[str] = set()
    real = disk.fdatasync

    def fdatasync(fd: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{fd}"))
        real(fd)

    monkeypatch.setattr(disk, "fdatasync", fdatasync)
    files = made(tmp_path, stack, limit)
    closed = [mapped for mapped in files if not is_open(mapped)]
    assert len(closed) > limit // 4
    assert {str(mapped.path) for mapped in closed} <= synced
    before = len(synced)
    synced.clear()
    for mapped in closed:
        mapped.sync()
    assert not synced, "they were synced before"
    assert before < len(files), "those that stay open wait for a sync of the writer"


def test_error_of_a_sync_before_the_close_reaches_the_writers_next_sync(
    tmp_path: Path, stack: ExitStack, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    [victim] = made(tmp_path, stack, 1)
    real = disk.fdatasync

    def fdatasync(fd: int) -> None:
        if os.readlink(f"/proc/self/fd/{fd}") == str(victim.path):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(fd)

    monkeypatch.setattr(disk, "fdatasync", fdatasync)
    more = tmp_path / "more"
    more.mkdir()
    made(more, stack, 2 * limit)
    assert is_open(victim), "a file whose sync failed keeps its descriptor"
    monkeypatch.setattr(disk, "fdatasync", real)
    for _ in range(2):
        with pytest.raises(StoreFencedError, match=str(victim.path)):
            victim.sync()


def test_held_file_keeps_its_descriptor(tmp_path: Path, stack: ExitStack, limit: int) -> None:
    [mapped] = made(tmp_path, stack, 1, write=False)
    held = mapped.hold()
    assert held is not None
    more = tmp_path / "more"
    more.mkdir()
    made(more, stack, 2 * limit, write=False)
    assert os.pread(held.fd, 8, 0) == b"00000000"
    held.release()
    assert bytes(held.view[:8]) == b"00000000"


def test_file_that_never_was_synced_here_is_opened_for_its_sync(
    tmp_path: Path, stack: ExitStack, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for mapped in made(tmp_path, stack, limit):
        mapped.close()
    files = [MappedFile(mapped, int(mapped.name), write=True) for mapped in sorted(tmp_path.iterdir())]
    for mapped in files:
        stack.callback(mapped.close)
    [last] = [mapped for mapped in files if not is_open(mapped)][-1:]
    synced = []
    monkeypatch.setattr(disk, "fdatasync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    last.sync()
    assert synced == [str(last.path)], "a writer that was killed may have left pages"


def test_closed_file_whose_name_belongs_to_another_file_counts_as_removed(
    tmp_path: Path, stack: ExitStack, limit: int
) -> None:
    files = made(tmp_path, stack, limit, write=False)
    first, second, third = [mapped for mapped in files if not is_open(mapped)][:3]
    other = tmp_path / "other"
    other.write_bytes(b"other".ljust(SIZE, b"\0"))
    other.rename(first.path)
    second.path.unlink()
    for mapped in (first, second):
        assert mapped.is_replaced()
        assert mapped.read(0, 8) == b""
        assert mapped.hold() is None
        with pytest.raises(StoreAccessError, match="was removed, or another file took its place"):
            mapped.bytes_of(0, 8)
    assert not third.is_replaced()
    os.truncate(third.path, SIZE // 2)
    assert third.is_replaced()


def test_files_are_closed_for_one_that_finds_no_free_descriptor(
    tmp_path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path, stack, 20)
    before, real = len(OPEN_FILES), disk.open_file

    def open_file(path: str, flags: int, mode: int = 0o777) -> int:
        if len(OPEN_FILES) == before:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(path, flags, mode)

    monkeypatch.setattr(disk, "open_file", open_file)
    os.close(os_files.open_file(tmp_path / "new", write=True, create=True))
    assert len(OPEN_FILES) < before
    monkeypatch.setattr(
        disk, "open_file", lambda *_: (_ for _ in ()).throw(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
    )
    with pytest.raises(StoreAccessError, match="Too many open files"):
        os_files.open_file(tmp_path / "new", write=True)


def test_new_names_are_refused_only_while_others_have_the_descriptors(
    tmp_path: Path, stack: ExitStack, limit: int
) -> None:
    files = made(tmp_path, stack, 3)
    OPEN_FILES.check_new("topic t")
    with ExitStack() as others:
        while open_files.next_descriptor() < limit - 4:
            others.callback(os.close, os.open("/dev/null", os.O_RDONLY))
        with pytest.raises(DescriptorLimitError, match=rf"topic t cannot be created: .* {limit:,} file descriptors"):
            OPEN_FILES.check_new("topic t")
        for number, mapped in enumerate(files):
            mapped.write(0, b"%08d" % (number + 1))
            assert mapped.read(0, 8) == b"%08d" % (number + 1)
    OPEN_FILES.check_new("topic t")


ALL_USED = """
import os, resource
from rocketflow_store import DescriptorLimitError
from rocketflow_store.files.open_files import OPEN_FILES
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
OPEN_FILES.check_new("topic t")
used = []
while len(used) < 64:
    try:
        used.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        break
try:
    OPEN_FILES.check_new("topic t")
except DescriptorLimitError as error:
    print(error)
"""


def test_new_name_is_refused_if_no_descriptor_is_left_to_count_them() -> None:
    done = subprocess.run([sys.executable, "-c", ALL_USED], capture_output=True, text=True, check=False, timeout=60)
    assert "topic t cannot be created" in done.stdout, done.stderr[-1000:]
