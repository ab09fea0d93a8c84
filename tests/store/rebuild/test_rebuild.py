"""`rebuild`: queues and index rebuilt from the log, byte for byte what dispatch writes one record after another."""

from __future__ import annotations

import errno
import random
import re
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rocketflow_store import Message, MessageStore, SkipFaults, StoreConfig, StoreReader
from rocketflow_store.files import disk
from rocketflow_store.format.record import RecordFields
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.config_files import ConfigFiles
from rocketflow_store.metadata.layout.store_paths import StorePaths
from rocketflow_store.metadata.native.stop_record import StopRecord
from rocketflow_store.model.errors import (
    RebuildFailedError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreVersionError,
    UnknownTopicError,
)
from rocketflow_store.model.message_id import encode_host
from rocketflow_store.rebuild import log_ranges, scan_task
from rocketflow_store.rebuild.engine import LocalEngine
from rocketflow_store.rebuild.places import find_places
from rocketflow_store.rebuild.rebuild import rebuild_store
from rocketflow_store.rebuild.result import RebuildRequest
from rocketflow_store.records.decoding.dispatch_rows import DispatchRows
from rocketflow_store.recovery.derived_swap import finish_swap, same_content
from rocketflow_store.views.index import index_build
from tests.support.damage import flip
from tests.support.disk_layer import CHANGES, Call, Failing, Recording
from tests.support.every_kind import SIZES, assert_same, derived, everything, lose, make
from tests.support.golden import CLOSED, config_of
from tests.support.simulated_disk import SimulatedDisk, State
from tests.support.trials import sampled, some


@pytest.fixture(autouse=True)
def short_ranges(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Cut every file of a small log into several ranges."""
    size = 200_000 if "golden_store" in request.fixturenames else 5000
    monkeypatch.setattr(log_ranges, "LEAST_RANGE", size)
    monkeypatch.setattr(log_ranges, "MOST_RANGE", size)


@pytest.mark.parametrize("seed", range(some(6)))
def test_rebuild_equals_incremental_dispatch(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "s"
    make(path, seed)
    wanted = derived(path)
    lose(path)
    result = rebuild_store(path, config=SIZES)
    assert_same(derived(path), wanted, seed)
    assert result.swapped
    assert result.exit_code == 0
    assert result.files == result.changed_files == len(wanted)
    assert not (path / "rocketflow" / "rebuild").exists()
    record = StopRecord.load(StorePaths.of(path))
    assert record is not None
    assert len(record.index or ()) == len([name for name in wanted if name.startswith("index")])
    assert all(one.files for one in record.queues.values())
    with MessageStore.open(path, SIZES) as store:
        assert store.recovery.healed == ()
        assert store.recovery.dispatched == 0
    assert_same(derived(path), wanted, seed)
    assert verify_store(path, SIZES).findings == []


@pytest.mark.parametrize("name", sampled(CLOSED, 2))
def test_rebuild_equals_files_that_apache_wrote(name: str, golden_store: Callable[..., Path], tmp_path: Path) -> None:
    path = tmp_path / "store"
    shutil.copytree(golden_store(name), path)
    result = rebuild_store(path, config=config_of(name))
    if name != "expired-53":  # its index began with entries of records that were removed
        assert not result.swapped, result
    assert [one for one in derived(path) if not one.startswith("index")] == [
        one for one in derived(golden_store(name)) if not one.startswith("index")
    ]
    wanted = derived(path)
    lose(path)
    assert rebuild_store(path, config=config_of(name)).swapped
    healed = tmp_path / "healed"
    shutil.copytree(golden_store(name), healed)
    lose(healed)
    MessageStore.open(healed, config_of(name)).close()
    assert_same(derived(path), derived(healed))
    if name != "expired-53":
        assert_same(derived(path), wanted)


def test_rebuild_equals_files_that_apache_rebuilt(golden_store: Callable[..., Path], tmp_path: Path) -> None:
    path, apache = tmp_path / "store", golden_store("lost-derived-53", "rebuilt")
    shutil.copytree(golden_store("lost-derived-53"), path)
    rebuild_store(path, config=config_of("lost-derived-53"))
    assert_same(derived(path), derived(apache))


def healed(path: Path, tmp_path: Path, config: StoreConfig = SIZES) -> dict[str, bytes]:
    """Return the files that an open for writing makes in a copy whose queues and index are lost."""
    copy = tmp_path / "healed"
    shutil.copytree(path, copy)
    lose(copy)
    MessageStore.open(copy, config).close()
    return derived(copy)


def test_rebuild_in_processes_reports_progress(tmp_path: Path) -> None:
    path = tmp_path / "s"
    make(path, 6)
    wanted = derived(path)
    lose(path)
    progress: list[tuple[int, int]] = []
    with LocalEngine(2) as engine:
        result = rebuild_store(path, config=SIZES, engine=engine, progress=lambda *one: progress.append(one))
    assert_same(derived(path), wanted)
    assert progress[-1][0] == progress[-1][1] > 0
    assert result.units > 400


def test_range_that_begins_in_a_body_is_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes of a body that look like a record: the range before them does not end there."""
    path = tmp_path / "s"
    make(path, 7)
    wanted = derived(path)
    lose(path)
    right = log_ranges.next_sound
    wrong = []

    def mistaken(*asked: int, unreadable: bool) -> int | None:
        found = right(*asked, unreadable=unreadable)  # type: ignore[arg-type]
        if found is not None and len(wrong) < 9:
            wrong.append(found + 17)
            return found + 17
        return found

    monkeypatch.setattr(log_ranges, "next_sound", mistaken)
    result = rebuild_store(path, config=SIZES)
    assert len(wrong) == 9
    assert_same(derived(path), wanted)
    assert result.records == 400
    assert result.damaged == []


@pytest.mark.parametrize("seed", range(some(4)))
def test_damage_loses_only_the_damaged_records(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "s"
    make(path, 20 + seed)
    rng = random.Random(seed)
    for file in rng.sample(sorted((path / "commitlog").iterdir())[:-1], 3):
        flip(file, rng.randrange(200, 20_000))
    wanted = healed(path, tmp_path)
    lose(path)
    result = rebuild_store(path, config=SIZES)
    assert_same(derived(path), wanted, seed)
    assert 1 <= len(result.damaged) <= 3
    assert result.exit_code == 3
    assert result.records == 400 - len(result.damaged)
    with MessageStore.open(path, SIZES) as store:
        assert store.recovery.healed == ()
    assert_same(derived(path), wanted, seed)


@pytest.mark.parametrize("properties", [b"", b"a\x01b\x02" + bytes(20)], ids=["none", "zeros"])
@pytest.mark.parametrize("unclean", [False, True])
def test_last_record_that_ends_with_zeros_is_kept(tmp_path: Path, properties: bytes, unclean: bool) -> None:
    """Without properties it ends with their length; 5.2 leaves 20 bytes after those of a message in LMQs."""
    path, host = tmp_path / "s", encode_host("127.0.0.1:10911")
    with MessageStore.open(path, replace(SIZES, enabled_append_prop_crc=False)) as store:
        for body in (b"first", b"last"):
            fields = RecordFields(b"t", 0, body, properties, 0, 0, 1_700_000_000_000, host, host)
            assert store.put_record(fields).stored
    wanted = derived(path)
    shutil.rmtree(path / "rocketflow")
    lose(path, "consumequeue")
    if unclean:
        (path / "abort").touch()
    assert rebuild_store(path, RebuildRequest(only="consumequeue"), SIZES).records == 2
    assert {name: data for name, data in derived(path).items() if name.startswith("consumequeue")} == {
        name: data for name, data in wanted.items() if name.startswith("consumequeue")
    }


@pytest.mark.parametrize("lost_bytes", [100, 3000, 40_000])
def test_lost_end_of_the_log_leaves_placeholders(tmp_path: Path, lost_bytes: int) -> None:
    """Queue offsets are not assigned a second time: their slots have units that name the lost bytes."""
    path = tmp_path / "s"
    make(path, 30)
    left = lost_bytes
    for file in sorted((path / "commitlog").iterdir(), reverse=True):
        data = file.read_bytes()
        end = len(data.rstrip(b"\0"))
        taken = min(left, end)
        file.write_bytes(data[: end - taken].ljust(len(data), b"\0"))
        left -= taken
        if not left:
            break
    wanted = healed(path, tmp_path)
    lose(path)
    result = rebuild_store(path, config=SIZES)
    assert_same(derived(path), wanted)
    assert result.exit_code == 3


@pytest.mark.parametrize("seed", range(some(3)))
def test_rebuild_after_unclean_stop_omits_what_recovery_cuts(tmp_path: Path, seed: int) -> None:
    """Recovery cuts the torn tail afterwards, and finds the rebuilt files as it needs them."""
    path, image = tmp_path / "s", tmp_path / "image"
    make(path, 40 + seed)
    store = MessageStore.open(path, SIZES)
    for number in range(30):
        store.put_message(Message("t0", b"late %d" % number, keys=[f"late{number}"], queue_id=number % 2))
    shutil.copytree(path, image, copy_function=shutil.copy2)
    store.close()
    last = max(one for one in (image / "commitlog").iterdir() if any(one.read_bytes()[:8]))
    torn = last.read_bytes().rstrip(b"\0")[: -random.Random(seed).randrange(1, 60)]
    last.write_bytes(torn.ljust(SIZES.mapped_file_size_commit_log, b"\0"))
    whole = tmp_path / "whole"
    shutil.copytree(image, whole)
    with MessageStore.open(whole, SIZES) as store:
        end = store.max_phy_offset
    lose(image)
    assert rebuild_store(image, config=SIZES).swapped
    with MessageStore.open(image, SIZES) as store:
        assert store.recovery.healed == ()
        assert store.max_phy_offset == end
    assert_same(derived(image), derived(whole))


def test_only_requested_files_are_rebuilt(tmp_path: Path) -> None:
    path = tmp_path / "s"
    make(path, 50)
    wanted = derived(path)
    lose(path)
    rebuild_store(path, RebuildRequest(topics=frozenset({"t1"}), queue_id=1), SIZES)
    assert derived(path) == {name: data for name, data in wanted.items() if name.startswith("consumequeue/t1/1/")}
    rebuild_store(path, RebuildRequest(topics=frozenset({"%LMQ%b", "batches"})), SIZES)
    assert {name.split("/")[1] for name in derived(path)} == {"t1", "%LMQ%b", "batches"}
    rebuild_store(path, RebuildRequest(only="index"), SIZES)
    assert [name for name in derived(path) if name.startswith("index")] == [n for n in wanted if n.startswith("index")]
    rebuild_store(path, RebuildRequest(only="consumequeue"), SIZES)
    assert_same(derived(path), wanted)


@pytest.mark.parametrize("lost", ["%LMQ%a", "%LMQ%c"])
def test_lost_lmq_of_another_writers_store_is_rebuilt(tmp_path: Path, lost: str) -> None:
    """No stop record names it; that other LMQs exist shows that it existed."""
    path = tmp_path / "s"
    make(path, 52)
    shutil.rmtree(path / "rocketflow")
    wanted = derived(path)
    shutil.rmtree(path / "consumequeue" / lost)
    assert {one.kind for one in verify_store(path, SIZES).findings} == {"missing-unit"}
    assert rebuild_store(path, config=SIZES).swapped
    assert_same(derived(path), wanted)
    assert verify_store(path, SIZES).findings == []


def test_only_files_that_differ_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    make(path, 51)
    wanted, inodes = derived(path), {one: one.stat().st_ino for one in path.rglob("*") if one.is_file()}
    files = sorted((path / "consumequeue" / "t0" / "0").iterdir())
    files[1].write_bytes(files[1].read_bytes()[:100] + bytes(300))
    index = sorted((path / "index").iterdir())[1]
    flip(index, 700)
    stray = files[0].with_name(f"{len(files) * 400:020d}")
    stray.write_bytes(bytes(400))
    result = rebuild_store(path, config=SIZES)
    assert_same(derived(path), wanted)
    assert result.changed_files == 3
    changed = {one for one, inode in inodes.items() if one.exists() and one.stat().st_ino != inode}
    assert {one for one in changed if "rocketflow" not in one.parts} == {files[1], index}
    before = everything(path)
    assert not rebuild_store(path, config=SIZES).swapped
    assert everything(path) == before


def test_rebuild_after_retention_keeps_queue_begins(tmp_path: Path) -> None:
    path = tmp_path / "s"
    make(path, 52, 600)
    rebuild_store(path, config=SIZES)
    for file in sorted((path / "commitlog").iterdir())[:3]:
        file.unlink()
    with MessageStore.open(path, SIZES) as store:
        bounds = {
            (topic, queue): store.bounds(topic, queue) for topic in store.topics() for queue in store.queues(topic)
        }
    before = derived(path)
    rebuild_store(path, RebuildRequest(only="consumequeue"), SIZES)
    assert_same(derived(path), before)
    lost = healed(path, tmp_path)
    lose(path)
    rebuild_store(path, config=SIZES)
    assert_same(derived(path), lost)
    with StoreReader(path, SIZES) as reader:
        for key, (low, high) in bounds.items():
            assert reader.bounds(*key) == (low, high), key


def test_deleted_topics_are_not_rebuilt(tmp_path: Path) -> None:
    path = tmp_path / "s"
    make(path, 53)
    with MessageStore.open(path, SIZES) as store:
        store.delete_topic("t1")
        store.delete_topic("batches")
        store.put_message(Message("t1", b"new", queue_id=0))
    wanted = derived(path)
    lose(path)
    rebuild_store(path, config=SIZES)
    assert_same(derived(path), wanted)
    assert not (path / "batchconsumequeue").exists()


def test_topic_that_another_writer_deleted_is_rebuilt_only_on_request(tmp_path: Path) -> None:
    """The topic is neither listed nor has a queue."""
    path = tmp_path / "s"
    make(path, 63)
    shutil.rmtree(path / "rocketflow")
    shutil.rmtree(path / "consumequeue" / "t1")
    ConfigFiles(path / "config").topics.remove("t1")
    before = derived(path)
    result = rebuild_store(path, config=SIZES)
    assert result.deleted_topics == ["t1"]
    assert [name for name in derived(path) if name.startswith("consumequeue")] == [
        name for name in before if name.startswith("consumequeue")
    ]
    assert not (path / "rocketflow").exists()
    assert rebuild_store(path, RebuildRequest(topics=frozenset({"t1"})), SIZES).deleted_topics == []
    assert (path / "consumequeue" / "t1").is_dir()


def test_queues_and_index_on_other_disks_are_written_there(tmp_path: Path) -> None:
    """The side directories are beside them, on their disks."""
    path, config = (
        tmp_path / "s",
        replace(
            SIZES,
            store_path_consume_queue=str(tmp_path / "a" / "queues"),
            store_path_index=str(tmp_path / "b" / "keys"),
        ),
    )
    make(path, 64, config=config)
    wanted = everything(tmp_path / "a") | everything(tmp_path / "b")
    lose(tmp_path, "a/queues", "b/keys")
    for directory in ("a/queues", "b/keys"):  # a configured directory must exist
        (tmp_path / directory).mkdir()
    with Recording() as seen:
        assert rebuild_store(path, config=SIZES).swapped
    for new, place in [one.args for one in seen.calls if one.kind == "rename"]:
        homes = {Path(one).relative_to(tmp_path).parts[0] for one in (new, place)}
        assert len(homes) == 1, (new, place)
    found = everything(tmp_path / "a") | everything(tmp_path / "b")
    assert sorted(found.values()) == sorted(wanted.values())
    assert sorted(one.name for one in (tmp_path / "a").iterdir()) == ["queues"]
    assert sorted(one.name for one in (tmp_path / "b").iterdir()) == ["keys"]
    with MessageStore.open(path) as store:
        assert store.recovery.healed == ()


def test_dry_run_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s"
    make(path, 54)
    wanted = rebuild_store(path, config=SIZES)
    lose(path)
    before = everything(path)
    preview = rebuild_store(path, RebuildRequest(dry_run=True), SIZES)
    assert everything(path) == before
    for name in ("records", "bytes", "units", "index_entries", "queues", "files", "needed_bytes"):
        assert getattr(preview, name) == getattr(wanted, name), name
    with MessageStore.open(tmp_path / "s", SIZES):
        assert rebuild_store(path, RebuildRequest(dry_run=True), SIZES).records == preview.records


def test_locked_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    make(path, 55, 20)
    before = derived(path)
    with MessageStore.open(path, SIZES), pytest.raises(StoreLockedError) as caught:
        rebuild_store(path, config=SIZES)
    assert caught.value.exit_code == 75
    assert "pid" in str(caught.value)
    assert derived(path) == before


def test_full_disk_is_refused_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s"
    make(path, 56)
    lose(path)
    before = everything(path)

    class Full:
        f_bavail, f_frsize = 10, 4096

    monkeypatch.setattr(disk, "statvfs", lambda _: Full)
    with pytest.raises(StoreFullError, match=r"needs about \d+ bytes beside the store, 40960 are free"):
        rebuild_store(path, config=SIZES)
    assert everything(path) == before


def test_dry_run_reports_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s"
    make(path, 56)
    lose(path)
    preview = rebuild_store(path, RebuildRequest(dry_run=True), SIZES)
    assert (preview.no_room, preview.exit_code) == (None, 0)

    class Full:
        f_bavail, f_frsize = 10, 4096

    monkeypatch.setattr(disk, "statvfs", lambda _: Full)
    short = rebuild_store(path, RebuildRequest(dry_run=True), SIZES)
    assert (short.units, short.exit_code) == (preview.units, 1)
    assert short.no_room is not None
    wanted = rf"needs about {preview.needed_bytes} bytes .* 40960 are free.*, then rebuild again"
    assert re.search(wanted, short.no_room)


@pytest.mark.parametrize(
    ("topics", "queue", "unknown"),
    [({"t0", "t9"}, None, "topic 't9'"), ({"t0"}, 99, "queue 99 of topic 't0'"), ({"t9"}, 0, "topic 't9'")],
    ids=["one-of-two", "queue", "both"],
)
def test_unknown_topic_or_queue_is_refused(tmp_path: Path, topics: set[str], queue: int | None, unknown: str) -> None:
    path = tmp_path / "s"
    make(path, 57)
    lose(path)
    before = everything(path)
    for dry_run in (True, False):
        with pytest.raises(UnknownTopicError, match=f"^no {unknown} in this store$"):
            rebuild_store(path, RebuildRequest(topics=frozenset(topics), queue_id=queue, dry_run=dry_run), SIZES)
    assert everything(path) == before
    assert rebuild_store(path, RebuildRequest(topics=frozenset({"t0"}), queue_id=0), SIZES).queues == 1


def test_gap_in_the_log_is_refused_without_force(tmp_path: Path) -> None:
    path = tmp_path / "s"
    make(path, 57)
    files = sorted((path / "commitlog").iterdir())
    files[2].unlink()
    lose(path)
    with pytest.raises(StoreVersionError, match=f"{files[2].name}: is missing"):
        rebuild_store(path, config=SIZES)
    result = rebuild_store(path, RebuildRequest(force=True), SIZES)
    assert [one["why"] for one in result.damaged] == ["the file is missing"]
    with StoreReader(path, SIZES) as reader:
        found = sum(
            batch.num_rows
            for topic in ("t0", "t1", "t2", "plain")
            for queue in reader.queues(topic)
            for batch in reader.read(topic, queue, *reader.bounds(topic, queue), ["body"], faults=SkipFaults())
        )
    with_lost = rebuild_store(path, RebuildRequest(force=True, dry_run=True), SIZES)
    assert 0 < found <= with_lost.records


def test_leftovers_of_killed_rebuilds_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "s"
    make(path, 58, 50)
    for sweeper in (lambda: rebuild_store(path, config=SIZES), lambda: MessageStore.open(path, SIZES).close()):
        left = path / "rocketflow" / "rebuild" / "123-4" / "consumequeue" / "t0" / "0"
        left.mkdir(parents=True)
        (left / "half").write_bytes(b"x" * 10)
        sweeper()  # type: ignore[no-untyped-call]
        assert not (path / "rocketflow" / "rebuild").exists()


def test_queue_that_contradicts_the_log_is_not_swapped_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s"
    make(path, 59, 100)
    lose(path)
    before = everything(path)
    right = scan_task.drop_impossible

    def wrong(rows: DispatchRows) -> None:
        rows.queue_offsets[rows.queue_offsets == 3] = 4
        right(rows)

    monkeypatch.setattr(scan_task, "drop_impossible", wrong)
    with pytest.raises(RebuildFailedError, match="queue offset is another one"):
        rebuild_store(path, config=SIZES)
    assert everything(path) == before


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda before, first: np.arange(first, first + len(before)), "a chain that leads nowhere"),
        (
            lambda before, first: np.where(np.arange(first, first + len(before)) > 1, 1, 0),
            "a chain that leaves its slot",
        ),
        (lambda before, first: before * 0, "counts other slots than it uses"),
    ],
)
def test_index_with_wrong_chains_is_not_swapped_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: Callable[..., np.ndarray], why: str
) -> None:
    path = tmp_path / "s"
    make(path, 61, 100)
    lose(path)
    before = everything(path)
    right = index_build.SlotTable.follow

    def follow(self: index_build.SlotTable, key_hashes: np.ndarray, first: int) -> np.ndarray:
        return wrong(right(self, key_hashes, first), first)

    monkeypatch.setattr(index_build, "COMPILED", None)
    monkeypatch.setattr(index_build.SlotTable, "follow", follow)
    with pytest.raises(RebuildFailedError, match=why):
        rebuild_store(path, config=SIZES)
    assert everything(path) == before


@pytest.mark.parametrize("written", [0, 1 << 20])
@pytest.mark.parametrize("changed", [-1, 0, 70_000, (1 << 20) - 1])
def test_files_with_different_holes_are_compared_byte_for_byte(tmp_path: Path, changed: int, written: int) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(bytes(written))
    for path in (one, other):
        with path.open("ab") as file:
            file.truncate(1 << 20)
    for path in (one, other):
        with path.open("r+b") as file:
            file.seek(200_000)
            file.write(b"unit")
    if changed >= 0:
        with other.open("r+b") as file:
            file.seek(changed)
            file.write(b"x")
    assert same_content(one, other, 4096) == same_content(other, one) == (changed < 0)


class KilledError(BaseException):
    """Stands for a kill of the process."""


def of_the_rebuild(call: Call) -> bool:
    """Return True for the calls that a rebuild makes in order: a thread of its own removes the parts beside them."""
    return threading.current_thread() is threading.main_thread()


def test_kill_at_any_step_keeps_or_completes(tmp_path: Path) -> None:
    """The store is unchanged, or the next open completes the swap. Some queues were right before, some were not."""
    path = tmp_path / "s"
    make(path, 60, 60)
    wanted = derived(path)
    shutil.rmtree(path / "consumequeue" / "t0")
    files = sorted((path / "consumequeue" / "t1" / "0").iterdir())
    files[0].write_bytes(files[0].read_bytes()[:40] + bytes(360))
    shutil.rmtree(path / "index")
    before = everything(path)
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    with Recording(where=of_the_rebuild) as seen:
        rebuild_store(copy, config=SIZES)
    journal = next(at for at, one in enumerate(seen.calls) if one.kind == "rename" and Path(one.args[1]).name == "swap")
    calls = len(seen.calls)
    rng = random.Random(60)
    late = range(journal + 1, calls)
    steps = sorted(
        {*rng.sample(range(journal), some(8)), journal, *rng.sample(late, min(some(32), len(late))), calls - 1}
    )
    for nth in steps:
        shutil.rmtree(copy)
        shutil.copytree(path, copy)
        with pytest.raises(KilledError), Failing(CHANGES, nth + 1, KilledError(), on=True, where=of_the_rebuild):
            rebuild_store(copy, config=SIZES)
        context = f"killed before call {nth} of {calls}: {seen.calls[nth].kind}"
        begun = (copy / "rocketflow" / "rebuild" / "swap").exists()
        if nth <= journal:
            assert not begun, context
            shutil.rmtree(copy / "rocketflow" / "rebuild", ignore_errors=True)
            assert everything(copy) == before, context
            continue
        if nth % 2:
            finish_swap(StorePaths.of(copy))
        else:
            with MessageStore.open(copy, SIZES) as store:
                assert store.recovery.healed == (), context
        assert_same(derived(copy), wanted, context)
        assert not (copy / "rocketflow" / "rebuild").exists(), context


def test_swap_is_completed_after_stop_or_disk_error(tmp_path: Path) -> None:
    """A stop comes once, and the swap is completed; an error leaves the journal, and the next open completes it."""
    path, copy = tmp_path / "s", tmp_path / "copy"
    make(path, 62, 60)
    wanted = derived(path)
    shutil.rmtree(path / "consumequeue" / "t0")
    shutil.rmtree(path / "index")
    shutil.copytree(path, copy)
    with Recording(where=of_the_rebuild) as seen:
        rebuild_store(copy, config=SIZES)
    journal = next(at for at, one in enumerate(seen.calls) if one.kind == "rename" and Path(one.args[1]).name == "swap")
    late = range(journal + 1, len(seen.calls))
    for nth in sorted(random.Random(62).sample(late, min(some(24), len(late)))):
        shutil.rmtree(copy)
        shutil.copytree(path, copy)
        context = f"call {nth} of {len(seen.calls)}: {seen.calls[nth].kind}"
        stop = nth % 2 == 0
        with (
            suppress(KilledError, StoreError),
            Failing(CHANGES, nth + 1, KilledError() if stop else errno.EIO, where=of_the_rebuild),
        ):
            rebuild_store(copy, config=SIZES)
        if not stop:
            with MessageStore.open(copy, SIZES) as store:
                assert store.recovery.healed == (), context
        assert_same(derived(copy), wanted, context)
        assert not (copy / "rocketflow" / "rebuild").exists(), context


def test_power_loss_at_any_step_is_repaired_by_another_rebuild(tmp_path: Path) -> None:
    path = tmp_path / "s"
    make(path, 61, 60)
    wanted = derived(path)
    shutil.rmtree(path / "consumequeue" / "t0")
    shutil.rmtree(path / "index")
    states: list[State] = []
    with SimulatedDisk(path) as simulated:
        simulated.on_call = lambda call: states.append(simulated.freeze()) if call.kind in CHANGES else None
        rebuild_store(path, config=SIZES)
        states.append(simulated.freeze())
    rng = random.Random(61)
    late = range(len(states) * 3 // 4, len(states))
    for trial, at in enumerate([*rng.sample(late, some(16)), len(states) - 1]):
        image = tmp_path / f"image{trial}"
        states[at].crash(image, trial, rng.choice((0.1, 0.5, 0.9)))
        context = f"power lost before call {at} of {len(states)}"
        if at == len(states) - 1:
            assert_same(derived(image), wanted, context)
        finish_swap(StorePaths.of(image))
        rebuild_store(image, config=SIZES)
        assert_same(derived(image), wanted, context)
        shutil.rmtree(image)


def test_tasks_get_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    MessageStore.open(tmp_path / "s", StoreConfig()).close()
    monkeypatch.chdir(tmp_path)
    with find_places("s", RebuildRequest(target="t"), None) as places:
        assert (places.store.root, places.out.root) == (tmp_path / "s", tmp_path / "t")
