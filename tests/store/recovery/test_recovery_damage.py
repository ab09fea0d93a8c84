"""Opening a store with damage inside its log: records before and after it are served, acknowledged ones are not cut."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rocketflow_store import FlushDiskType, Message, MessageStore, SkipFaults, StoreConfig
from rocketflow_store.format.record import RecordFields, encode_record
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.config_files import ConfigFiles
from rocketflow_store.model.errors import MissingStorePathError, StoreVersionError
from rocketflow_store.model.message_id import encode_host
from rocketflow_store.rebuild.rebuild import rebuild_store
from rocketflow_store.rebuild.result import RebuildRequest
from rocketflow_store.recovery.preview import preview_recovery
from tests.support.damage import CONFIG, Place, Planted, copied, digests, flip, make

COUNT = 120
NEVER = {"flush_interval_commit_log": 3_600_000, "flush_interval_consume_queue": 3_600_000}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return make(tmp_path_factory.mktemp("whole") / "s")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Planted]:
    """Provide `killed(directory, kind, flushed=0)`, which copies the image of a killed store, made once, there."""
    made: dict[tuple[FlushDiskType, int], Planted] = {}

    def copy(directory: Path, kind: FlushDiskType, *, flushed: int = 0) -> Planted:
        if (kind, flushed) not in made:
            made[kind, flushed] = make_killed(tmp_path_factory.mktemp("killed"), kind, flushed)
        return copied(made[kind, flushed], directory / "image")

    return copy


def make_killed(directory: Path, kind: FlushDiskType, flushed: int) -> Planted:
    """Return the image of a store killed with 120 acknowledged messages, the first `flushed` of them durable."""
    config = StoreConfig(
        flush_disk_type=kind,
        flush_interval_commit_log=3_600_000,
        flush_interval_consume_queue=3_600_000,  # else a slow run has it flush what was put
        mapped_file_size_commit_log=CONFIG.mapped_file_size_commit_log,
        mapped_file_size_consume_queue=CONFIG.mapped_file_size_consume_queue,
        max_hash_slot_num=CONFIG.max_hash_slot_num,
        max_index_num=CONFIG.max_index_num,
    )
    places: dict[Place, tuple[int, int]] = {}
    bodies: dict[Place, bytes] = {}
    with MessageStore.open(directory / "live", config) as store:
        for number in range(COUNT):
            place = "orders", number % 2, number // 2
            bodies[place] = f"message {number} ".encode() * (1 + number % 20)
            result = store.put_message(Message("orders", bodies[place], queue_id=place[1], keys=[f"k{number}"]))
            places[place] = result.physical_offset, store.max_phy_offset - result.physical_offset
            if number + 1 == flushed:
                store.flush()
        shutil.copytree(directory / "live", directory / "image")
    return Planted(directory / "image", places, bodies)


def opened(planted: Planted) -> int:
    """Open, put one message, close; return its queue offset. A second open does not change the log."""
    with MessageStore.open(planted.path, CONFIG) as store:
        offset = store.put_message(Message("orders", b"after", queue_id=0)).queue_offset
    log = digests(planted.path / "commitlog")
    MessageStore.open(planted.path, CONFIG).close()
    assert digests(planted.path / "commitlog") == log
    return offset


def report_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (path / "quarantine" / "report.jsonl").read_text().splitlines()]


def test_copy_of_a_record_after_the_log_is_none(tmp_path: Path, killed: Callable[..., Planted]) -> None:
    """It is whole, its CRC is right, and it says that it belongs elsewhere."""
    planted = killed(tmp_path, FlushDiskType.SYNC_FLUSH)
    end = max(phy_offset + size for phy_offset, size in planted.places.values())
    phy_offset, size = planted.places["orders", 0, 0]
    file, start = planted.log_file(phy_offset)
    record = file.read_bytes()[start : start + size]
    last, at = planted.log_file(end)
    assert at + size + 8 <= last.stat().st_size
    with last.open("r+b") as log:
        log.seek(at)
        log.write(record)
    with MessageStore.open(planted.path, CONFIG) as store:
        assert store.max_phy_offset == end
        assert store.get_message("orders", 0, 0, 1).messages[0].phy_offset == phy_offset


@pytest.mark.parametrize("position", [0, 3, 4, 28, 35, 84, 87, 90])
@pytest.mark.parametrize("queues", ["whole", "lost"])
def test_damaged_synced_record_is_skipped_and_quarantined(
    tmp_path: Path, killed: Callable[..., Planted], position: int, queues: str
) -> None:
    planted = killed(tmp_path, FlushDiskType.SYNC_FLUSH)
    place = "orders", 0, 30
    phy_offset, size = planted.places[place]
    file, start = planted.log_file(phy_offset)
    flip(file, start + position, 0x40)
    if queues == "lost":
        shutil.rmtree(planted.path / "consumequeue")
    damaged = file.read_bytes()[start : start + size]
    before = digests(planted.path)
    (found,) = preview_recovery(planted.path, CONFIG).quarantined
    assert digests(planted.path) == before
    assert (found.offset, found.length) == (phy_offset, size)
    assert opened(planted) == COUNT // 2
    assert file.read_bytes()[start : start + size] == damaged
    served = planted.served()
    assert served.pop(("orders", 0, COUNT // 2)) == b"after"
    assert served == {one: body for one, body in planted.bodies.items() if one != place}
    lines = report_of(planted.path)  # queues lost after a flush are rebuilt too
    (line,) = [one for one in lines if one["code"] == "RF-QUAR"]
    assert {one["code"] for one in lines} <= ({"RF-QUAR", "RF-HEAL"} if queues == "lost" else {"RF-QUAR"})
    assert (line["offset"], line["length"]) == (start, size)
    assert (planted.path / "quarantine" / str(line["kept"])).read_bytes() == damaged
    found = verify_store(planted.path)
    assert [(f.kind, f.file, f.offset, f.length) for f in found.findings] == [("record", str(file), start, size)]


def test_damaged_last_synced_record_is_cut_and_kept(tmp_path: Path, killed: Callable[..., Planted]) -> None:
    planted = killed(tmp_path, FlushDiskType.SYNC_FLUSH)
    place, (phy_offset, size) = max(planted.places.items(), key=lambda one: one[1])
    file, start = planted.log_file(phy_offset)
    flip(file, start + 90)
    damaged = file.read_bytes()[start : start + size]
    with MessageStore.open(planted.path, CONFIG) as store:
        assert store.recovery.truncated_to == phy_offset  # no record follows
        assert [one.offset for one in store.recovery.quarantined] == [phy_offset]
    (copy,) = (planted.path / "quarantine").glob("*.cut")
    assert copy.read_bytes() == damaged
    assert planted.served() == {one: body for one, body in planted.bodies.items() if one != place}


def test_zeroed_block_loses_only_its_records(tmp_path: Path, killed: Callable[..., Planted]) -> None:
    planted = killed(tmp_path, FlushDiskType.SYNC_FLUSH)
    with min((planted.path / "commitlog").iterdir()).open("r+b") as file:
        file.seek(8192)
        file.write(bytes(4096))
    touched = {place for place, (at, size) in planted.places.items() if at < 12288 and at + size > 8192}
    assert touched
    assert opened(planted) == COUNT // 2
    served = planted.served()
    del served["orders", 0, COUNT // 2]
    assert served == {place: body for place, body in planted.bodies.items() if place not in touched}


def test_unsynced_tail_after_damage_is_cut_and_kept(tmp_path: Path, killed: Callable[..., Planted]) -> None:
    """Only a suffix is cut, and the copy has its complete records."""
    planted = killed(tmp_path, FlushDiskType.ASYNC_FLUSH, flushed=40)
    place = "orders", 0, 30
    phy_offset, _ = planted.places[place]
    file, start = planted.log_file(phy_offset)
    flip(file, start + 90)
    log = b"".join(one.read_bytes() for one in sorted((planted.path / "commitlog").iterdir()))
    end = max(at + size for at, size in planted.places.values())
    assert opened(planted) == 30
    served = planted.served()
    assert served.pop(place) == b"after"
    assert served == {one: body for one, body in planted.bodies.items() if planted.places[one][0] < phy_offset}
    copies = sorted((planted.path / "quarantine").glob("*.cut"))
    assert int(copies[0].name.split(".")[0]) == phy_offset
    assert b"".join(one.read_bytes() for one in copies) == log[phy_offset:end]
    assert {line["code"] for line in report_of(planted.path)} == {"RF-CUT"}


def test_damage_before_the_frontier_is_not_read(tmp_path: Path, killed: Callable[..., Planted]) -> None:
    planted = killed(tmp_path, FlushDiskType.ASYNC_FLUSH, flushed=80)
    place = "orders", 0, 10
    file, start = planted.log_file(planted.places[place][0])
    flip(file, start + 4)
    assert opened(planted) == COUNT // 2
    served = planted.served()
    del served["orders", 0, COUNT // 2]
    assert served == {one: body for one, body in planted.bodies.items() if one != place}


def test_damage_in_a_closed_store_without_queues_loses_one_message(tmp_path: Path, whole: Planted) -> None:
    planted = copied(whole, tmp_path / "s")
    place = "orders", 1, 40
    file, start = planted.log_file(planted.places[place][0])
    flip(file, start + 4)
    shutil.rmtree(planted.path / "consumequeue")
    assert opened(planted) == 75
    served = planted.served()
    del served["orders", 0, 75]
    assert served == {one: body for one, body in planted.bodies.items() if one != place}


@pytest.mark.parametrize("position", [0, 4, 28, 90])
def test_damaged_last_record_of_a_closed_store_stays(tmp_path: Path, whole: Planted, position: int) -> None:
    """It was acknowledged and synced: it is damaged, not torn."""
    planted = copied(whole, tmp_path / "s")
    place, (phy_offset, size) = max(planted.places.items(), key=lambda one: one[1])
    file, start = planted.log_file(phy_offset)
    flip(file, start + position)
    damaged = file.read_bytes()[start : start + size]
    with MessageStore.open(planted.path, CONFIG) as store:
        assert store.put_message(Message("orders", b"after", queue_id=0)).physical_offset >= phy_offset + size
    assert file.read_bytes()[start : start + size] == damaged
    served = planted.served()
    del served["orders", 0, 75]
    assert served == {one: body for one, body in planted.bodies.items() if one != place}


def test_confirm_file_with_offsets_after_the_log_is_ignored(tmp_path: Path, killed: Callable[..., Planted]) -> None:
    planted = killed(tmp_path, FlushDiskType.SYNC_FLUSH)
    with (planted.path / "rocketflow" / "confirm").open("r+b") as file:
        file.seek(8)
        file.write((1 << 60).to_bytes(8, "little") * 2)
    assert opened(planted) == COUNT // 2
    served = planted.served()
    del served["orders", 0, COUNT // 2]
    assert served == planted.bodies


@pytest.mark.parametrize("own_offset", [-2692272248847124483, -1, 1, 5000])
def test_torn_first_record_is_not_taken_for_another_store(tmp_path: Path, own_offset: int) -> None:
    """It claims a place where no file begins: noise, and so the torn tail of a log without other records."""
    planted = make(tmp_path / "s")
    shutil.rmtree(planted.path / "rocketflow")
    (planted.path / "abort").touch()
    first, *others = sorted((planted.path / "commitlog").iterdir())
    for one in others:
        one.unlink()
    data = bytearray(first.read_bytes())
    size = int.from_bytes(data[:4], "big")
    data[28:36] = own_offset.to_bytes(8, "big", signed=True)
    first.write_bytes(bytes(data[:size]).ljust(len(data), b"\0"))
    with MessageStore.open(planted.path, CONFIG) as store:
        assert store.max_phy_offset == 0
        assert store.put_message(Message("orders", b"on", queue_id=0)).physical_offset == 0


def lost(planted: Planted, name: str) -> None:
    path = planted.path / name
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


LOST = {
    "a queue": ["consumequeue/orders/1"],
    "a topic": ["consumequeue/orders"],
    "every queue": ["consumequeue"],
    "a queue's last file": [f"consumequeue/orders/1/{1200:020d}"],
    "a queue's first file": [f"consumequeue/orders/1/{0:020d}"],
    "a queue and the record of the stop": ["consumequeue/orders/1", "rocketflow/stop"],
    "a topic and the record of the stop": ["consumequeue/bills", "rocketflow/stop"],
    "a last file and the record of the stop": [f"consumequeue/orders/1/{1200:020d}", "rocketflow/stop"],
    "a queue and the checkpoint": ["consumequeue/orders/0", "checkpoint"],
    "the index": ["index"],
    "a queue and the index": ["consumequeue/orders/0", "index"],
}


@pytest.mark.parametrize("names", LOST.values(), ids=LOST)
def test_derived_files_missing_after_an_orderly_stop_are_rebuilt(
    tmp_path: Path, whole: Planted, names: list[str]
) -> None:
    """The queue continues at its end (B1), its messages are served, keys find them, consumers keep their positions."""
    planted = copied(whole, tmp_path / "s")
    for name in names:
        lost(planted, name)
    assert opened(planted) == 75
    served = planted.served()
    assert served.pop(("orders", 0, 75)) == b"after"
    assert served == planted.bodies
    if "rocketflow/stop" not in names or "index" not in names:
        assert planted.keys_missing() == set()
    offsets = ConfigFiles(planted.path / "config").consumer_offsets
    assert offsets.offsets("readers", "orders") == {0: 10, 1: 20}
    codes = {line["code"] for line in report_of(planted.path)}
    assert codes == {"RF-HEAL"}
    assert verify_store(planted.path).findings == []


@pytest.mark.parametrize("what", ["commitlog", "every file"])
def test_missing_log_is_refused(tmp_path: Path, whole: Planted, what: str) -> None:
    planted = copied(whole, tmp_path / "s")
    shutil.rmtree(planted.path / "commitlog")
    if what == "every file":
        (planted.path / "commitlog").mkdir()
    before = digests(planted.path / "consumequeue")
    with pytest.raises((MissingStorePathError, StoreVersionError), match="commitlog"):
        MessageStore.open(planted.path, CONFIG)
    assert digests(planted.path / "consumequeue") == before


def test_open_of_a_clean_store_reads_no_records(tmp_path: Path, whole: Planted) -> None:
    """No record is dispatched again, and log, queues and index are not written."""
    planted = copied(whole, tmp_path / "s")
    before = digests(planted.path)
    with MessageStore.open(planted.path, CONFIG) as store:
        assert (store.recovery.dispatched, store.recovery.healed) == (0, ())
        assert store.recovery.scanned_from == max(at + size for at, size in planted.places.values())
    after = digests(planted.path)
    assert {name for name in after if after[name] != before.get(name)} <= {"checkpoint", "rocketflow/stop"}
    assert not (planted.path / "quarantine").exists()


def test_topic_deleted_by_rocketmq_is_not_rebuilt(tmp_path: Path, whole: Planted) -> None:
    """B6: RocketMQ removed it from topics.json, and its queues."""
    planted = copied(whole, tmp_path / "s")
    topics = planted.path / "config" / "topics.json"
    table = json.loads(topics.read_text())
    del table["topicConfigTable"]["bills"]
    topics.write_text(json.dumps(table))
    shutil.rmtree(planted.path / "consumequeue" / "bills")
    assert opened(planted) == 75
    assert not (planted.path / "consumequeue" / "bills").exists()


@pytest.mark.parametrize("name", ["consumerOffset.json", "delayOffset.json"])
def test_positions_after_the_end_are_moved_back(tmp_path: Path, whole: Planted, name: str) -> None:
    """C2: at every open, before anything is appended."""
    planted = copied(whole, tmp_path / "s")
    files = ConfigFiles(planted.path / "config")
    files.consumer_offsets.commit("readers", "orders", {0: 99999, 1: 30})
    files.delay_offsets.commit({3: 17})
    with MessageStore.open(planted.path, CONFIG) as store:
        assert store.config_files.consumer_offsets.offsets("readers", "orders") == {0: 75, 1: 30}
        assert store.config_files.consumer_offsets.offsets("readers", "bills") == {0: 5}
        assert store.config_files.delay_offsets.offsets() == {3: 0}
    clamped = [line for line in report_of(planted.path) if line["code"] == "RF-CLAMP"]
    assert {Path(str(line["file"])).name for line in clamped} == {"consumerOffset.json", "delayOffset.json"}
    assert all((planted.path / "quarantine" / str(line["kept"])).is_file() for line in clamped)
    assert name in {Path(str(line["file"])).name for line in clamped}


def test_cut_of_read_messages_moves_positions_back(tmp_path: Path, killed: Callable[..., Planted]) -> None:
    """C2: recovery cut messages that a consumer had read; it continues at the new end."""
    planted = killed(tmp_path, FlushDiskType.ASYNC_FLUSH, flushed=40)
    ConfigFiles(planted.path / "config").consumer_offsets.commit("readers", "orders", {0: 58, 1: 12})
    file, start = planted.log_file(planted.places["orders", 0, 30][0])
    with file.open("r+b") as log:
        log.seek(start)
        log.write(bytes(CONFIG.mapped_file_size_commit_log - start))
    for later in (planted.path / "commitlog").iterdir():
        if later.name > file.name:
            later.write_bytes(bytes(CONFIG.mapped_file_size_commit_log))
    with MessageStore.open(planted.path, CONFIG) as store:
        assert store.max_offset("orders", 0) == 30
        assert store.config_files.consumer_offsets.offsets("readers", "orders") == {0: 30, 1: 12}


UNKNOWN = {"a magic code": (4, (0xDAA320AF).to_bytes(4, "big")), "an address form": (36, (0x4000).to_bytes(4, "big"))}


@pytest.mark.parametrize("stop", ["killed", "other writer"])
@pytest.mark.parametrize(("kind", "last"), [("a magic code", True), ("a magic code", False), ("an address form", True)])
def test_record_of_a_later_version_is_kept(
    tmp_path: Path, killed: Callable[..., Planted], kind: str, stop: str, last: bool
) -> None:
    """D7: it is complete, and of an unknown kind: it is not a torn tail, and stays byte for byte."""
    planted = killed(tmp_path, FlushDiskType.ASYNC_FLUSH)
    place = max(planted.places, key=lambda one: planted.places[one]) if last else ("orders", 0, 30)
    phy_offset, size = planted.places[place]
    file, start = planted.log_file(phy_offset)
    raw = file.read_bytes()
    position, value = UNKNOWN[kind]
    record = bytearray(raw[start : start + size])
    record[position : position + len(value)] = value
    if kind == "an address form":
        record[48:56] = bytes(16)
        size = len(record) + CRC_SIZE
        record[0:4] = size.to_bytes(4, "big")
        digits = f"{zlib.crc32(record) & 0x7FFFFFFF:010d}"[::-1]
        record += f"__CRC32#\x01{digits}\x02".encode()
    file.write_bytes(raw[:start] + bytes(record) + raw[start + len(record) :])
    if stop == "other writer":
        (planted.path / "rocketflow" / "confirm").unlink()
    with MessageStore.open(planted.path, CONFIG) as store:
        assert store.recovery.truncated_to >= phy_offset + size
        store.put_message(Message("orders", b"after", queue_id=0))
    assert file.read_bytes()[start : start + size] == bytes(record)
    served = planted.served()
    assert {one: body for one, body in served.items() if body != b"after"} == {
        one: body for one, body in planted.bodies.items() if one != place
    }


CRC_SIZE = 20


@pytest.mark.parametrize("flush", FlushDiskType)
def test_log_without_a_durable_first_file_is_refused_if_acknowledged(tmp_path: Path, flush: FlushDiskType) -> None:
    """The power failed before the first sync: the queues may exist, the log does not."""
    with MessageStore.open(tmp_path / "s", replace(CONFIG, flush_disk_type=flush, **NEVER)) as store:
        assert store.put_message(Message("orders", b"lost", queue_id=0)).stored
        shutil.copytree(store.path, tmp_path / "image")
    for one in (tmp_path / "image" / "commitlog").iterdir():
        one.unlink()
    if flush is FlushDiskType.SYNC_FLUSH:
        with pytest.raises(MissingStorePathError, match="name records up to"):
            MessageStore.open(tmp_path / "image", CONFIG)
        return
    with MessageStore.open(tmp_path / "image", CONFIG) as store:
        assert store.max_phy_offset == store.max_offset("orders", 0) == 0
        assert store.put_message(Message("orders", b"on", queue_id=0)).queue_offset == 0
    assert verify_store(tmp_path / "image").findings == []


@pytest.mark.parametrize("emptied", [(0,), (1,), (0, 1)])
def test_power_loss_of_the_log_and_of_queue_file_sizes(tmp_path: Path, emptied: tuple[int, ...]) -> None:
    """Files that were never synced all keep their names, and some their sizes."""
    path = tmp_path / "s"
    config = StoreConfig(mapped_file_size_commit_log=1 << 14, mapped_file_size_consume_queue=400)
    with MessageStore.open(path, config) as store:
        for number in range(30):
            assert store.put_message(Message("t", b"%d" % number, queue_id=0)).stored
    (path / "abort").write_text("1")
    (path / "rocketflow" / "stop").unlink()
    for one in (path / "commitlog").iterdir():
        one.unlink()
    files = sorted((path / "consumequeue" / "t" / "0").iterdir())
    assert len(files) == 2
    for at, file in enumerate(files):
        file.write_bytes(b"" if at in emptied else bytes(400))
    with MessageStore.open(path, config) as store:
        assert store.bounds("t", 0) == (0, 0)
    assert verify_store(path).findings == []
    with MessageStore.open(path, config) as store:
        assert store.put_message(Message("t", b"new", queue_id=0)).queue_offset == 0
    assert verify_store(path).findings == []


@pytest.mark.parametrize("begin", [0, 1 << 40, 1 << 62, (1 << 63) - (1 << 15)])
def test_log_that_begins_at_a_large_offset_behaves_like_one_at_0(tmp_path: Path, begin: int) -> None:
    host, log, starts = encode_host("127.0.0.1:10911"), b"", []
    for number in range(10):
        starts.append(len(log))
        fields = RecordFields(b"t", 0, b"body %d" % number, b"TAGS\x01a\x02KEYS\x01k", 0, 0, 1, host, host)
        log += encode_record(fields, begin + len(log), number, 1_700_000_000_000, True)
    (tmp_path / "commitlog").mkdir()
    file = tmp_path / "commitlog" / f"{begin:020d}"
    file.write_bytes(log.ljust(CONFIG.mapped_file_size_commit_log, b"\0"))
    MessageStore.open(tmp_path, CONFIG).close()
    flip(file, starts[4] + 90)
    shutil.rmtree(tmp_path / "consumequeue")
    shutil.rmtree(tmp_path / "index")
    with MessageStore.open(tmp_path, CONFIG) as store:
        assert store.bounds("t", 0) == (0, 10)
        assert store.put_message(Message("t", b"body 10", queue_id=0, keys="k")).queue_offset == 10
        sound = [b"body %d" % number for number in range(11) if number != 4]
        batches = store.read("t", 0, 0, 11, ["body"], faults=SkipFaults())
        assert [one for batch in batches for one in batch["body"].to_pylist()] == sound
        assert [one.body for one in store.query_message("t", "k")] == sound
    assert rebuild_store(tmp_path, RebuildRequest(force=True), CONFIG).exit_code == 3
    found = verify_store(tmp_path).findings
    assert {one.offset for one in found} == {starts[4]}, found
