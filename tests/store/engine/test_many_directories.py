"""A store whose CommitLog is spread over several directories, with queues and index in others."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketflow_store import GetMessageStatus, Message, MessageStore, PutMessageStatus, StoreConfig, StoreReader
from rocketflow_store.engine.clean_service import preview_clean
from rocketflow_store.files import disk, os_files
from rocketflow_store.files.mapped.allocate_ahead import AllocateMappedFileService
from rocketflow_store.files.mapped.log_directories import LogDirectories
from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
from rocketflow_store.fsck.repair import repair_store
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.layout.store_layout import StoreLayout, asked_layout, recorded_layout, side_directory
from rocketflow_store.metadata.layout.store_paths import StorePaths
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.errors import (
    MissingStorePathError,
    StoreAccessError,
    StoreConfigError,
    StoreFullError,
    StoreVersionError,
)
from rocketflow_store.testing import Probe
from tests.support.trials import some

SIZE = 8192
NOON_MS = 1_760_000_000_000
SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": SIZE,
    "mapped_file_size_consume_queue": 1000,
    "max_hash_slot_num": 64,
    "max_index_num": 2048,
}


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """Return two directories, which the store takes for two disks."""
    return [tmp_path / "disk-a" / "commitlog", tmp_path / "disk-b" / "commitlog"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def spread(paths: list[Path], **more: Any) -> StoreConfig:
    return StoreConfig(**SMALL, store_path_commit_log=",".join(map(str, paths)), **more)


def body(number: int) -> bytes:
    return b"%05d" % number * 40


def fill(store: MessageStore, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        store.put_message(Message("t", body(number), keys=f"k{number}", queue_id=number % 2))


def check(subject: MessageStore | StoreReader, count: int) -> None:
    """Check that all messages are served, in both queues, and by key."""
    for queue in (0, 1):
        found = []
        for batch in subject.read("t", queue, 0, count // 2, ["body"]):
            found += batch.column(0).to_pylist()
        assert found == [body(2 * at + queue) for at in range(count // 2)]
    for number in (0, count // 2, count - 1):
        assert [one.body for one in subject.query_message("t", f"k{number}")] == [body(number)]


def names(path: Path) -> list[int]:
    return sorted(int(one.name) // SIZE for one in path.iterdir())


# -- directories of new files


def test_files_are_created_in_the_directories_in_turn(root: Path, paths: list[Path]) -> None:
    with MessageStore.open(root, spread(paths)) as store:
        for first in range(0, 200, 10):
            fill(store, 10, first)
            Probe(store).wait_for_preallocation()  # a busy machine would let the puts overtake it
        check(store, 200)
        assert len(Probe(store).log_files) > 6
        assert Probe(store).allocations[0] > 3, "files are preallocated on their disk"
    files = len(names(paths[0])) + len(names(paths[1]))
    assert [names(one) for one in paths] == [list(range(0, files, 2)), list(range(1, files, 2))]
    assert not (root / "commitlog").exists()
    assert [list((side_directory(one) / "tmp").iterdir()) for one in paths] == [[], []]
    with MessageStore.open(root) as store, StoreReader(root) as reader:
        check(store, 200)
        check(reader, 200)
        fill(store, 100, 200)
        check(reader, 300)


def test_turn_skips_read_only_and_full_directories() -> None:
    a, b, c, fixed = (Path(one) for one in ("/x/a", "/x/b", "/x/c", "/x/fixed"))
    places = LogDirectories([c, a, b], [fixed])
    assert [places.home_of(at * 10, 10) for at in range(4)] == [a, b, c, a], "by name, as RocketMQ sorts them"
    assert places.all == (a, b, c, fixed)
    places.full = [b]
    assert places.home_of(10, 10) == b, "it was asked for, and may be half made"
    places.made(10)
    assert [places.home_of(at * 10, 10) for at in range(4, 7)] == [a, c, a]
    places.full = [a, b, c]
    assert [places.home_of(at * 10, 10) for at in range(7, 10)] == [b, c, a], "where all are full they are used"


def test_preallocation_uses_the_disk_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rename from one disk to another is refused by the system: here by the top directory's name."""
    real = disk.rename

    def rename(source: Any, target: Any) -> None:
        if Path(source).relative_to(tmp_path).parts[0] != Path(target).relative_to(tmp_path).parts[0]:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        real(source, target)

    monkeypatch.setattr(disk, "rename", rename)
    homes = [tmp_path / "a" / "log", tmp_path / "b" / "log"]
    for one in homes:
        one.mkdir(parents=True)
    directories = LogDirectories(homes, staging={one: side_directory(one) / "tmp" for one in homes})
    service = AllocateMappedFileService(directories, SIZE)
    files = MappedFileQueue(directories, SIZE, write=True, allocator=service)
    service.want([0, SIZE])
    assert service.wait_until_idle()
    for at in range(4):
        assert files.create(at * SIZE).path.parent == homes[at % 2]
    assert (service.preallocated, service.allocated_on_demand) == (2, 2)
    service.want([4 * SIZE])
    assert service.wait_until_idle()
    left = side_directory(homes[0]) / "tmp" / f"log-{4 * SIZE:020d}"
    assert left.exists()
    AllocateMappedFileService(directories, SIZE).discard_left_overs()
    assert not left.exists()
    service.stop()
    files.close()


def test_read_only_directory_is_read_and_gets_no_new_file(root: Path, paths: list[Path]) -> None:
    with MessageStore.open(root, spread(paths)) as store:
        fill(store, 100)
    before = names(paths[0])
    config = replace(spread(paths), read_only_commit_log_store_paths=str(paths[0]))
    with MessageStore.open(root, config) as store:
        check(store, 100)
        fill(store, 100, 100)
        check(store, 200)
    assert names(paths[0]) == before
    assert set(names(paths[1])) >= set(range(max(before) + 1, max(before) + 3))
    with StoreReader(root) as reader:
        check(reader, 200)
        assert reader.paths.layout.read_only_commit_logs == (str(paths[0]),)


def test_directory_can_be_added(root: Path, paths: list[Path], tmp_path: Path) -> None:
    """Also to a store that had one; an open reader finds it."""
    with MessageStore.open(root, StoreConfig(**SMALL)) as store:
        fill(store, 100)
    more = tmp_path / "more"
    more.mkdir()
    with StoreReader(root) as reader:
        check(reader, 100)
        with MessageStore.open(root, spread([root / "commitlog", more])) as store:
            fill(store, 100, 100)
            check(store, 200)
            reader.refresh()
            check(reader, 200)
    assert names(more)
    layout = recorded_layout(root)
    assert layout is not None
    assert layout.layout.commit_logs == ("commitlog", str(more))


# -- finding the directories


def test_paths_below_the_root_move_with_it(root: Path, tmp_path: Path) -> None:
    config = StoreConfig(**SMALL, store_path_commit_log="one,two", store_path_consume_queue="queues")
    with MessageStore.open(root, config) as store:
        fill(store, 100)
    assert {one.name for one in root.iterdir()} >= {"one", "two", "queues", "index"}
    root.rename(tmp_path / "elsewhere")
    with MessageStore.open(tmp_path / "elsewhere") as store:
        check(store, 100)


def test_queues_and_index_in_other_directories(root: Path, tmp_path: Path, paths: list[Path]) -> None:
    queues, index = tmp_path / "fast" / "queues", tmp_path / "fast" / "index"
    config = replace(spread(paths), store_path_consume_queue=str(queues), store_path_index=str(index))
    with MessageStore.open(root, config) as store:
        fill(store, 200)
        check(store, 200)
        store.flush()
    assert (queues / "t" / "0").is_dir()
    assert not (root / "consumequeue").exists()
    assert list(index.iterdir())
    with MessageStore.open(root) as store, StoreReader(root) as reader:
        check(store, 200)
        check(reader, 200)
        assert store.statistics()["consumeQueueDiskRatio"] >= 0
    shutil.rmtree(index)
    with pytest.raises(MissingStorePathError, match="storePathIndex"):
        StoreReader(root)
    index.mkdir()
    with MessageStore.open(root) as store:
        check(store, 200)
    shutil.rmtree(queues)
    with pytest.raises(MissingStorePathError, match="storePathConsumeQueue"):
        MessageStore.open(root)


def test_directories_are_read_from_the_copy_of_store_meta(root: Path, paths: list[Path]) -> None:
    with MessageStore.open(root, spread(paths)) as store:
        fill(store, 100)
    meta = StorePaths(root).meta
    meta.unlink()
    with StoreReader(root) as reader:
        check(reader, 100)
    with MessageStore.open(root) as store:
        check(store, 100)
    assert json.loads(meta.read_bytes()) == json.loads(StorePaths(root).meta_copy.read_bytes())
    meta.write_bytes(b"\0" * 100)
    with StoreReader(root) as reader:
        check(reader, 100)
    assert repair_store(root).exit_code == 0
    assert verify_store(root).exit_code == 0
    with MessageStore.open(root) as store:
        check(store, 100)


def test_store_of_another_writer_needs_its_settings(root: Path, paths: list[Path], tmp_path: Path) -> None:
    """A broker's directory does not name the others; its broker.conf does."""
    with MessageStore.open(root, spread(paths)) as store:
        fill(store, 100)
    shutil.rmtree(root / "rocketflow")
    for one in paths:
        shutil.rmtree(side_directory(one))
    conf = tmp_path / "broker.conf"
    conf.write_text(
        f"storePathRootDir={root}\nstorePathCommitLog={paths[0]},{paths[1]}\nmaxHashSlotNum=64\nmaxIndexNum=2048\n"
    )
    with StoreReader(root, StoreConfig.from_broker_conf(conf)) as reader:
        check(reader, 100)
    with MessageStore.open(root, StoreConfig.from_broker_conf(conf)) as store:
        check(store, 100)
    with StoreReader(root) as reader:
        check(reader, 100)


@pytest.mark.parametrize("messages", [10, 30, 60])
@pytest.mark.parametrize("which", [0, 1])
def test_empty_directory_of_a_store_of_another_writer(root: Path, paths: list[Path], which: int, messages: int) -> None:
    """It may be on a disk that is not mounted: refused, unless the log needs no more than its first file."""
    with MessageStore.open(root, spread(paths)) as store:
        fill(store, messages)
    shutil.rmtree(root / "rocketflow")
    for one in paths:
        shutil.rmtree(side_directory(one))
    one_file = sum(len(names(one)) for one in paths) == 1
    assert one_file == (messages == 10)
    with StoreReader(root, spread(paths)) as reader:
        assert sum(reader.max_offset("t", queue) for queue in (0, 1)) == messages
    for one in paths[which].iterdir():
        one.unlink()
    for open_it in (StoreReader, MessageStore.open):
        if one_file and which == 1:
            open_it(root, spread(paths)).close()  # type: ignore[operator]
            continue
        with pytest.raises(MissingStorePathError, match="holds no file of the log"):
            open_it(root, spread(paths))  # type: ignore[operator]


def test_log_in_other_directories_without_settings_is_refused(root: Path, paths: list[Path]) -> None:
    with MessageStore.open(root, spread(paths)) as store:
        fill(store, 100)
    shutil.rmtree(root / "rocketflow")
    for open_it in (StoreReader, MessageStore.open, verify_store, repair_store):
        with pytest.raises(MissingStorePathError, match=r"broker\.conf"):
            open_it(root)  # type: ignore[operator]
    assert not (root / "commitlog").exists()


def test_store_is_readable_whose_log_begins_while_a_reader_looks_at_its_queues(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer makes the log before the queues, a reader looks for them in the same order."""
    with MessageStore.open(root, StoreConfig(**SMALL)) as store:
        fill(store, 3)
    (root / "commitlog").rename(root / "later")
    read = os_files.read_file

    def begun_meanwhile(path: Path) -> bytes:
        if path.is_relative_to(root / "consumequeue") and (root / "later").exists():
            (root / "later").rename(root / "commitlog")
        return read(path)

    monkeypatch.setattr(os_files, "read_file", begun_meanwhile)
    with StoreReader(root) as reader:
        assert reader.snapshot().queues


def test_paths_of_broker_settings(tmp_path: Path) -> None:
    """Paths below storePathRootDir are below the root of a copied store, too."""
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "storePathRootDir=/data/store\nstorePathCommitLog=/data/store/commitlog;/disk2/log\nmultiPathSplitter=;\n"
        "readOnlyCommitLogStorePaths=/disk3/log\nstorePathConsumeQueue=/data/store/consumequeue\n"
    )
    config = StoreConfig.from_broker_conf(conf)
    assert asked_layout(tmp_path, config) == StoreLayout(("commitlog", "/disk2/log"), ("/disk3/log",))
    assert asked_layout(tmp_path, StoreConfig()) is None
    conf.write_text("storePathRootDir=/data/store\nstorePathCommitLog=/data/store/commitlog\n")
    layout = asked_layout(tmp_path, StoreConfig.from_broker_conf(conf))
    assert layout is not None
    assert layout.is_default
    with pytest.raises(StoreConfigError) as refused:
        asked_layout(tmp_path, replace(config, read_only_commit_log_store_paths="commitlog;/disk2/log"))
    assert refused.value.key == "readOnlyCommitLogStorePaths"


# -- missing directories are refused


def missing(path: Path) -> None:
    shutil.rmtree(path)


def unmounted(path: Path) -> None:
    """Empty the directory and those beside it, as if its disk was not mounted."""
    shutil.rmtree(path)
    shutil.rmtree(side_directory(path))
    path.mkdir()


def a_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [missing, unmounted, a_file])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("messages", [10, 45, 200])
@pytest.mark.parametrize("clean", [True, False])
def test_missing_directory_is_refused_by_name(
    root: Path, paths: list[Path], damage: Callable[[Path], None], which: int, messages: int, clean: bool
) -> None:
    """Also if the rest of the log looks complete: its first file, or no file at all."""
    with MessageStore.open(root, spread(paths)) as store:
        fill(store, messages)
    if not clean:
        (root / "abort").touch()
    damage(paths[which])
    before = {one: one.stat().st_mtime_ns for one in root.rglob("*")}
    for open_it in (StoreReader, MessageStore.open, verify_store, repair_store):
        for config in (None, spread(paths)):
            with pytest.raises(MissingStorePathError, match="disk-" + "ab"[which]):
                open_it(root, config)  # type: ignore[operator]
    assert {one: one.stat().st_mtime_ns for one in root.rglob("*")} == before
    assert not (root / "commitlog").exists()


def test_directory_of_another_store_is_refused(root: Path, paths: list[Path], tmp_path: Path) -> None:
    with MessageStore.open(root, spread(paths)) as store:
        fill(store, 50)
    mixed = [tmp_path / "other-a" / "commitlog", paths[1]]
    shutil.copytree(paths[0], mixed[0])
    with pytest.raises(MissingStorePathError, match="belongs to another store"):
        MessageStore.open(tmp_path / "other", spread(mixed))


def test_directory_that_was_restored_can_be_confirmed(root: Path, paths: list[Path]) -> None:
    with MessageStore.open(root, spread(paths)) as store:
        fill(store, 100)
    shutil.rmtree(side_directory(paths[1]))
    with pytest.raises(MissingStorePathError, match="into that file") as caught:
        MessageStore.open(root)
    layout = recorded_layout(root)
    assert layout is not None
    assert layout.store_id in str(caught.value)
    side_directory(paths[1]).mkdir()
    (side_directory(paths[1]) / "store.id").write_text(layout.store_id)
    with MessageStore.open(root) as store:
        check(store, 100)


def test_settings_without_a_directory_that_has_files_are_refused(root: Path, paths: list[Path], tmp_path: Path) -> None:
    with MessageStore.open(root, spread(paths)) as store:
        fill(store, 100)
    for config in (spread(paths[:1]), StoreConfig(store_path_commit_log="commitlog")):
        for open_it in (MessageStore.open, StoreReader):
            with pytest.raises(StoreConfigError) as caught:
                open_it(root, config)  # type: ignore[operator]
            assert caught.value.key == "storePathCommitLog"
            assert any(str(path) in caught.value.why for path in paths)
    with pytest.raises(StoreConfigError, match="ConsumeQueues of this store are in"):
        MessageStore.open(
            root,
            StoreConfig(
                store_path_commit_log=spread(paths).store_path_commit_log, store_path_consume_queue=str(tmp_path / "q")
            ),
        )
    with pytest.raises(MissingStorePathError, match="disk-c"):
        MessageStore.open(root, spread([*paths, tmp_path / "disk-c"]))
    assert not (tmp_path / "disk-c").exists(), "a new directory of a store is made by its owner, on the right disk"
    with MessageStore.open(root) as store:
        check(store, 100)


def test_directory_without_files_may_be_omitted(root: Path, paths: list[Path], tmp_path: Path) -> None:
    third = tmp_path / "disk-c"
    with MessageStore.open(root, spread([*paths, third])) as store:
        fill(store, 20)
    assert names(third) == []
    with MessageStore.open(root, spread(paths)) as store:
        fill(store, 100, 20)
        check(store, 120)
    shutil.rmtree(third)
    with MessageStore.open(root) as store:
        check(store, 120)


def test_file_in_two_directories_is_refused(root: Path, paths: list[Path]) -> None:
    with MessageStore.open(root, spread(paths)) as store:
        fill(store, 100)
    shutil.copy(paths[0] / f"{0:020d}", paths[1])
    for open_it in (MessageStore.open, StoreReader):
        with pytest.raises(StoreVersionError, match="put one of them elsewhere"):
            open_it(root)  # type: ignore[operator]


# -- recovery, truncation, verify, repair


def end_of(path: Path) -> int:
    data = path.read_bytes()
    return len(data.rstrip(b"\0"))


def test_recovery_cuts_a_torn_tail_in_any_directory(root: Path, paths: list[Path]) -> None:
    """It also forgets the files after it, of either directory."""
    for count in (30, 60):
        with MessageStore.open(root, spread(paths)) as store:
            first = store.max_offset("t", 0) + store.max_offset("t", 1)
            fill(store, count, first)
            end = store.max_phy_offset
        total = first + count
        (root / "abort").touch()
        home = paths[end // SIZE % 2] / f"{end // SIZE * SIZE:020d}"
        with home.open("r+b") as file:
            file.seek(end % SIZE)
            file.write(b"\0\0\1\0\xda\xa3\x20\xa7torn")
        ahead = paths[(end // SIZE + 1) % 2] / f"{(end // SIZE + 1) * SIZE:020d}"
        ahead.write_bytes(bytes(SIZE))
        with MessageStore.open(root) as store:
            assert store.recovery.abort_found
            assert store.recovery.truncated_to == end
            check(store, total)
        assert not ahead.exists() or not ahead.read_bytes().strip(b"\0")
        assert b"torn" not in home.read_bytes()


def test_newest_file_of_all_directories_gets_its_full_size(root: Path, paths: list[Path]) -> None:
    with MessageStore.open(root, spread(paths)) as store:
        fill(store, 100)
        last = Probe(store).log_files[-1]
        assert last is not None
        path, end = last.path, store.max_phy_offset
    (root / "abort").touch()
    os.truncate(path, end % SIZE + 1)
    with MessageStore.open(root) as store:
        check(store, 100)
    assert path.stat().st_size == SIZE
    other = paths[0] if path.parent == paths[1] else paths[1]
    (root / "abort").touch()
    older = max(other.iterdir())
    os.truncate(older, SIZE // 2)
    with pytest.raises(StoreVersionError, match=older.name):
        MessageStore.open(root)


def test_missing_log_file_is_refused(root: Path, paths: list[Path]) -> None:
    with MessageStore.open(root, spread(paths)) as store:
        fill(store, 100)
    middle = sorted(paths[1].iterdir())[0]
    middle.unlink()
    with pytest.raises(StoreVersionError, match="missing between"):
        MessageStore.open(root)
    found = verify_store(root)
    assert any(one.kind == "missing-file" for one in found.findings)


def test_verify_and_repair_cover_all_directories(root: Path, paths: list[Path], tmp_path: Path) -> None:
    queues, index = tmp_path / "q", tmp_path / "i"
    config = replace(spread(paths), store_path_consume_queue=str(queues), store_path_index=str(index))
    with MessageStore.open(root, config) as store:
        fill(store, 200)
        place = store.get_message("t", 1, 40, 1).messages[0]
    assert verify_store(root).findings == []
    stray = paths[1] / "notes.txt"
    stray.write_text("not a log file")
    shutil.rmtree(queues / "t" / "0")
    next(index.iterdir()).write_bytes(b"#" * 100)
    number = place.phy_offset // SIZE
    with (paths[number % 2] / f"{number * SIZE:020d}").open("r+b") as file:
        file.seek(place.phy_offset % SIZE + 100)
        file.write(b"##")
    kinds = {one.kind for one in verify_store(root).findings}
    assert {"foreign-file", "missing-file", "record"} & kinds
    result = repair_store(root)
    assert result.left.exit_code in (0, 3)
    assert not stray.exists()
    kept = sorted(
        str(one.relative_to(root / "quarantine")) for one in (root / "quarantine").rglob("*") if one.is_file()
    )
    assert "commitlog/notes.txt" in kept
    assert f"commitlog/{place.phy_offset:020d}.record" in kept
    with StoreReader(root) as reader:
        got = [one for batch in reader.read("t", 0, 0, 100, ["body"]) for one in batch.column(0).to_pylist()]
        assert got == [body(2 * at) for at in range(100)]
        assert reader.get_message("t", 1, 40, 1).messages[0].body == body(83), "the damaged one is passed over"
        assert [one.body for one in reader.query_message("t", "k150")] == [body(150)]


# -- retention


def aging(store: MessageStore, files: int) -> None:
    for mapped in Probe(store).log_files[:files]:
        os.utime(mapped.path, (NOON_MS / 1000 - 400 * 3600,) * 2)


def test_retention_deletes_the_oldest_files_of_any_directory(root: Path, paths: list[Path]) -> None:
    config = replace(spread(paths), clock=ManualClock(NOON_MS))
    with MessageStore.open(root, config) as store:
        fill(store, 200)
        aging(store, 3)
        with StoreReader(root, config) as reader:
            expected = preview_clean(reader, config).log_files
        assert store.clean().log_files == expected
        assert [one.parent for one in expected] == [paths[0], paths[1], paths[0]]
        assert store.min_phy_offset == 3 * SIZE
        low, high = store.bounds("t", 0)
        assert 0 < low < high == 100
        assert store.get_message("t", 0, 0).status is GetMessageStatus.OFFSET_TOO_SMALL
    with MessageStore.open(root) as store:
        assert store.bounds("t", 0) == (low, high)


def test_file_that_cannot_be_deleted_stays_and_is_tried_again(
    root: Path, paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory on a disk that is mounted read-only."""
    config = replace(spread(paths), clock=ManualClock(NOON_MS), read_only_commit_log_store_paths=str(paths[0]))
    with MessageStore.open(root, spread(paths)) as store:
        fill(store, 200)
    with MessageStore.open(root, config) as store:
        aging(store, 5)
        real = disk.unlink

        def unlink(path: Any, **more: Any) -> None:
            if Path(path).parent == paths[0]:
                raise OSError(errno.EROFS, os.strerror(errno.EROFS))
            real(path, **more)

        with monkeypatch.context() as patch:
            patch.setattr(disk, "unlink", unlink)
            for _ in range(2):
                with pytest.raises(StoreAccessError, match=f"{0:020d}"):
                    store.clean()
        assert (paths[0] / f"{0:020d}").exists()
        assert store.min_phy_offset == SIZE, "readers do not get files that may be deleted at any time"
        fill(store, 20, 200)
        assert len(store.clean().log_files) == 5
        assert store.min_phy_offset == 5 * SIZE


def test_disk_without_space_is_skipped(root: Path, paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """It may fill up long before its ratio is read again."""
    real, full = os_files.preallocate, {str(paths[0].parent)}

    def preallocate(fd: int, path: object, size: int) -> None:
        if any(str(path).startswith(one) for one in full):
            raise StoreFullError(path, "no space left")
        real(fd, path, size)

    with MessageStore.open(root, spread(paths)) as store:
        fill(store, 30)
        monkeypatch.setattr(os_files, "preallocate", preallocate)
        before = len(names(paths[0]))
        fill(store, 170, 30)
        assert len(names(paths[0])) <= before + 1
        check(store, 200)
        full.add(str(paths[1].parent))
        refused = [store.put_message(Message("t", body(0) * 3, queue_id=0)) for _ in range(50)][-1]
        assert refused.status is PutMessageStatus.SERVICE_NOT_AVAILABLE, refused
        end = store.max_offset("t", 0)
        full.clear()
        assert store.put_message(Message("t", body(1) * 3, queue_id=0)).queue_offset == end
    assert verify_store(root).findings == []


def test_full_disk_gets_no_new_file_and_the_emptiest_decides(root: Path, paths: list[Path]) -> None:
    used = dict.fromkeys(paths, 20)
    with MessageStore.open(root, replace(spread(paths), clock=ManualClock(NOON_MS))) as store:
        Probe(store).use_disk_figures(lambda path: used.get(path, 20))
        fill(store, 30)
        used[paths[0]] = 99
        assert Probe(store).clean().log_files == []
        assert not Probe(store).disk_full, "the other disk has room"
        begin = max(one.file_from_offset for one in Probe(store).log_files) // SIZE + 3
        fill(store, 200, 30)
        assert all(at < begin for at in names(paths[0]))
        used[paths[1]] = 99
        store.flush()
        files = len(Probe(store).log_files)
        assert len(Probe(store).clean().log_files) == min(10, files - 1), "no disk has room: however young they are"
        assert Probe(store).disk_full
        used[paths[0]] = used[paths[1]] = 20
        Probe(store).clean()
        assert not Probe(store).disk_full
        fill(store, 100, 230)
        ratios = store.statistics()
        assert {f"commitLogDiskRatio_{one}" for one in paths} < set(ratios)
    assert max(names(paths[0])) > begin


# -- all of it, against a model


@pytest.mark.parametrize("seed", range(some(9)))
def test_random_operations_lose_no_message(root: Path, tmp_path: Path, seed: int) -> None:
    """Puts, stops of both kinds, full disks, directories added and fixed, retention."""
    chance = random.Random(seed)
    paths = [tmp_path / f"disk-{letter}" / "log" for letter in "cab"[: chance.randrange(1, 4)]]
    fixed: list[Path] = []
    model: dict[tuple[int, int], bytes] = {}
    clock, used, said = ManualClock(NOON_MS), dict.fromkeys(paths, 10), []

    def config() -> StoreConfig:
        more = {"read_only_commit_log_store_paths": ",".join(map(str, fixed))}
        return replace(spread(paths), clock=clock, destroy_maped_file_interval_forcibly=0, **more)

    store = MessageStore.open(root, config())
    try:
        for _ in range(60):
            step = chance.choice(["put", "put", "put", "reopen", "crash", "full", "add", "fix", "clean", "moved"])
            said.append(step)
            if step == "put":
                for _ in range(chance.randrange(30)):
                    data = chance.randbytes(chance.randrange(900))
                    result = store.put_message(Message("t", data, queue_id=chance.randrange(2)))
                    model[result.queue_id, result.queue_offset] = data
            elif step == "full":
                used = {one: chance.choice([10, 99]) for one in paths}
                Probe(store).use_disk_figures(lambda path, used=used: min(used.get(path, 10), 80))
                Probe(store).look_at_disk()
            elif step == "clean" and len(Probe(store).log_files) > 4:
                store.flush()
                aging(store, chance.randrange(4))
                store.clean()
                for queue in (0, 1):
                    low = store.min_offset("t", queue)
                    model = {place: data for place, data in model.items() if place[0] != queue or place[1] >= low}
            else:
                store.close()
                if step == "crash":
                    (root / "abort").touch()
                elif step == "add" and len(paths) < 5:
                    paths.append(tmp_path / f"more-{len(paths)}")
                    paths[-1].mkdir()
                elif step == "fix" and len(paths) - len(fixed) > 1:
                    fixed.append(chance.choice([one for one in paths if one not in fixed]))
                store = MessageStore.open(root, config() if step in ("add", "fix") else None)
                Probe(store).set_retention(config())
            found: dict[tuple[int, int], bytes] = {}
            with StoreReader(root) as reader:
                for subject in (store, reader):
                    for queue in (0, 1):
                        low, high = subject.bounds("t", queue)
                        for batch in subject.read("t", queue, low, high, ["queueOffset", "body"]):
                            rows = zip(*(batch.column(at).to_pylist() for at in (0, 1)), strict=True)
                            found.update({(queue, offset): data for offset, data in rows})
                    assert found == model, (seed, said)
                    found = {}
    finally:
        store.close()
    assert verify_store(root).findings == []
    stray = {one.name for path in paths for one in path.iterdir()} - {f"{at * SIZE:020d}" for at in range(2000)}
    assert not stray
