"""Decoders of bytes that another program may have written, one function each.

A target takes any bytes. It may return, or raise a StoreError or a RemotingError; every other exception is a finding.
"""

from __future__ import annotations

import atexit
import codecs
import faulthandler
import json
import os
import shutil
import struct
import tempfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.ma
import pyarrow as pa

from rocketflow.remoting.errors import RemotingError
from rocketflow_store import Message, MessageStore, SkipFaults, StoreConfig, StoreReader
from rocketflow_store.commits.proven_parts import proven_chunks
from rocketflow_store.commits.remembered_commits import remembered_commit
from rocketflow_store.commits.staged_part import load, stage
from rocketflow_store.delivery.delay.redelivery import redelivery
from rocketflow_store.delivery.timer import timer_log as chains
from rocketflow_store.delivery.timer.placement import TimerProgress, decode_progress
from rocketflow_store.delivery.timer.timer_log import TimerLog, decode_units
from rocketflow_store.delivery.timer.timer_wheel import TimerWheel
from rocketflow_store.files.fastjson import parse_json_object
from rocketflow_store.filters.sql92 import compile_filter
from rocketflow_store.filters.tags import TagFilter
from rocketflow_store.format.batch_body import BatchEntry, decode_batch_body, encode_batch_body, entry_positions
from rocketflow_store.format.checkpoint_layout import CheckpointFields, decode_checkpoint
from rocketflow_store.format.consume_queue_unit import UNIT_STRUCT
from rocketflow_store.format.inner_batch import inner_messages
from rocketflow_store.format.properties import decode_properties, encode_properties
from rocketflow_store.format.record import RecordFields, decode_record, encode_blank, encode_record
from rocketflow_store.format.timer_checkpoint_layout import TimerCheckpoint, decode_timer_checkpoint
from rocketflow_store.format.timer_layout import SLOT_SIZE, TIMER_BLANK, WHEEL_SLOTS
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.kernel import COMPILED
from rocketflow_store.metadata.config_files import ConfigFiles
from rocketflow_store.metadata.layout.file_sizes import fitted_to
from rocketflow_store.metadata.layout.store_layout import recorded_layout
from rocketflow_store.metadata.layout.store_meta import StoreMeta
from rocketflow_store.metadata.layout.store_paths import StorePaths
from rocketflow_store.metadata.native.commit_envelope import COMMIT_TOPIC, CommitEnvelope, decode_envelope
from rocketflow_store.metadata.native.confirm import read_confirm
from rocketflow_store.metadata.native.stop_record import StopRecord
from rocketflow_store.metadata.native.timer_stop import TimerStop, decode_timer_stop
from rocketflow_store.model.compression import compress_body, decompress_body
from rocketflow_store.model.errors import CorruptRecordError, StoreError
from rocketflow_store.model.java_compat import index_hashes_one_by_one
from rocketflow_store.model.message import MessageBatch
from rocketflow_store.model.message_id import decode_offset_msg_id, offset_msg_id
from rocketflow_store.model.property_names import PROPERTY_CRC32, PROPERTY_INNER_MULTI_QUEUE_OFFSET
from rocketflow_store.model.system_flags import INNER_BATCH_FLAG, NEED_UNWRAP_FLAG
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC, validate_group, validate_topic
from rocketflow_store.reading.queue_records import QueueRecords
from rocketflow_store.records.arrow.columns import SOURCE_COLUMNS
from rocketflow_store.records.arrow.unit_types import SLOT_DTYPE, TIMER_UNIT_DTYPE
from rocketflow_store.records.decoding.batch_entries import entry_positions_of
from rocketflow_store.records.decoding.decode import ColumnBuilder, QueueIdentity, RecordColumns
from rocketflow_store.records.decoding.dispatch_rows import rows_of_records
from rocketflow_store.records.decoding.inner_batches import NoBatchBodyError, unwrap
from rocketflow_store.records.decoding.properties import split_properties
from rocketflow_store.records.decoding.record_crc import content_faults
from rocketflow_store.records.decoding.scan import scan_records
from rocketflow_store.records.encoding.compiled_messages import CompiledMessages
from rocketflow_store.records.encoding.encode import BatchEncoder
from rocketflow_store.records.encoding.message_encoder import MessageEncoder
from rocketflow_store.records.encoding.relocate import relocate
from rocketflow_store.views.index.index_file import IndexFile
from rocketflow_store.views.queues.batch_consume_queue import BatchConsumeQueue
from rocketflow_store.views.queues.consume_queue import ConsumeQueue
from rocketflow_store.views.queues.consume_queue_ext import ConsumeQueueExt
from tests.fuzz import kernel_targets, wire_targets
from tests.support.confinement import confined_to, unconfined

CONFIG = StoreConfig(
    mapped_file_size_commit_log=4096,
    mapped_file_size_consume_queue=400,
    max_hash_slot_num=10,
    max_index_num=40,
    default_topic_queue_nums=2,
)
MOST_INFLATED = 1 << 16
HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
HOST_V6 = bytes(15) + b"\x01" + HOST[4:]


@dataclass(frozen=True)
class Target:
    """A decoder: `decode` takes any bytes, `seeds` are valid ones; a `slow` target gets fewer inputs.

    A target that opens a `whole_store` runs much more than decoders, so its lines do not count for the coverage. One of
    the `kernel` runs its compiled functions alone.
    """

    name: str
    decode: Callable[[bytes], object]
    seeds: Callable[[], list[bytes]]
    slow: bool = False
    whole_store: bool = False
    kernel: bool = False

    def run(self, data: bytes) -> None:
        """Decode once; an exception is a finding."""
        if self.name not in _WARM:
            _WARM.add(self.name)
            for seed in self.seeds():  # lazy imports happen now, before they are findings
                self._decoded(seed)
        with confined_to(room()):
            self._decoded(data)

    def _decoded(self, data: bytes) -> None:
        with suppress(StoreError, RemotingError):
            self.decode(data)


_WARM: set[str] = set()
for codec in ("utf-16", "utf-16-be", "utf-16-le", "utf-32", "utf-32-be", "utf-32-le"):
    codecs.lookup(codec)  # Python loads codecs when they are first used
_ = (faulthandler, numpy.ma)  # other libraries load them at their first use


def in_memory() -> str | None:
    """Return a directory in memory, or None if there is none."""
    return "/dev/shm" if os.path.isdir("/dev/shm") else None


@cache
def room() -> Path:
    """Create the only directory that targets may touch, in memory if possible."""
    path = Path(tempfile.mkdtemp(prefix="rocketflow-fuzz-", dir=os.environ.get("RF_FUZZ_ROOM", in_memory())))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def placed(name: str, data: bytes) -> Path:
    """Write a file of these bytes into the room."""
    path = room() / name
    try:
        path.write_bytes(data)
    except FileNotFoundError:
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
    return path


# -- records


def record_bytes(**changes: object) -> bytes:
    """Encode one record at physical offset 0."""
    fields = {
        "topic": b"t",
        "queue_id": 1,
        "body": b"hello",
        "properties": encode_properties({"KEYS": "a b", "TAGS": "x", "UNIQ_KEY": "7F" * 16}),
        "flag": 0,
        "sys_flag": 0,
        "born_timestamp": 1,
        "born_host": HOST,
        "store_host": HOST,
        "phy_offset": 0,
        "property_crc": False,
        **changes,
    }
    phy_offset, property_crc = fields.pop("phy_offset"), fields.pop("property_crc")
    return encode_record(RecordFields(**fields), phy_offset, 3, 1_700_000_000_000, property_crc)  # type: ignore[arg-type]


def batch_seeds() -> list[bytes]:
    properties = b"KEYS\x01k\x02TAGS\x01x\x02"
    return [
        encode_batch_body([BatchEntry(number, b"body", properties) for number in range(3)]),
        encode_batch_body([BatchEntry(0, b"x", b"a\x01b\x02")] * 2),
        b"",
    ]


def record_seeds() -> list[bytes]:
    kinds: list[dict[str, object]] = [
        {},
        {"property_crc": True},
        {"body": b""},
        {"properties": b""},
        {"topic": b"t" * 200},
        {"born_host": HOST_V6},
        {"born_host": HOST_V6, "store_host": HOST_V6},
        {"body": compress_body(b"abc" * 20, 0), "sys_flag": 1},
        {"topic": b"SCHEDULE_TOPIC_XXXX", "properties": encode_properties({"DELAY": "3", "REAL_TOPIC": "t"})},
        {"properties": b"a\x01b\x02a\x01c\x02no pair\x02\x01\x02x\x01y"},
        {"sys_flag": 8},
        {"topic": b"../../evil"},
        {"sys_flag": 0x180, "body": batch_seeds()[0], "properties": b"INNER_NUM\x013\x02INNER_BASE\x010\x02"},
        {"properties": b"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02INNER_MULTI_QUEUE_OFFSET\x013,4\x02"},
    ]
    return [record_bytes(**kind) for kind in kinds]


def log_seeds() -> list[bytes]:
    """Return log files of several records."""
    found = []
    for property_crc in (False, True):
        parts, at = [], 0
        for seed in ({}, {"body": b"x" * 90}, {"topic": b"other", "queue_id": 0}, {"born_host": HOST_V6}):
            parts.append(record_bytes(phy_offset=at, property_crc=property_crc, **seed))
            at += len(parts[-1])
        found.append(b"".join([*parts, encode_blank(40)]).ljust(at + 40, b"\0"))
    small = len(record_bytes(body=b"", properties=b""))
    alike = b"".join(record_bytes(phy_offset=at * small, body=b"", properties=b"") for at in range(40))
    return [*found, alike, *record_seeds()]


def a_record(data: bytes) -> None:
    message = decode_record(data)
    assert message.store_size <= len(data)
    assert len(message.stored_body) < len(data)
    assert message.body_crc >= 0


def a_record_without_crc(data: bytes) -> None:
    message = decode_record(data, check_crc=False)
    assert message.store_size <= len(data)


def records_in_columns(data: bytes) -> None:
    """Scan, check and decode every column, and prepare dispatch; valid rows equal those of the single decoder."""
    buffer = pa.py_buffer(data)
    scan = scan_records(buffer, 0, len(data))
    if len(scan.positions) == 0:
        return
    records = RecordColumns(buffer, scan.positions, scan.sizes)
    records.check_own_offset(0)
    records = without(records, records.faults)
    records = without(records, content_faults(records))
    for row in range(records.count):
        try:
            one = decode_record(data, int(records.positions[row]))
        except StoreError as error:
            assert "UTF-8" in str(error), error  # noqa: PT017
            continue
        assert one.store_size == records.sizes[row]
        assert one.stored_body == records.bodies()[row].as_py()
    if records.count:
        every_column(records)
        rows_of_records(records, 0, CONFIG.delay_levels_ms)


def without(records: RecordColumns, faults: dict[int, str]) -> RecordColumns:
    return records.keep(np.array([row for row in range(records.count) if row not in faults], np.intp))


def every_column(records: RecordColumns) -> None:
    identity = QueueIdentity("t", 1, "broker-a")
    offsets = np.arange(records.count, dtype=np.int64)
    batch = ColumnBuilder(records, identity, offsets, records.positions).batch(SOURCE_COLUMNS)
    batch.validate(full=True)


def inner_batches(data: bytes) -> None:
    """Unwrap a record whose body is a batch, by rows and by columns."""
    raw = record_bytes(sys_flag=INNER_BATCH_FLAG | NEED_UNWRAP_FLAG, body=data)
    records = RecordColumns(pa.py_buffer(raw), np.zeros(1, np.int64), np.array([len(raw)], np.int64))
    rows = ColumnBuilder(records, QueueIdentity("t", 1, ""), np.array([7]), records.positions).batch(SOURCE_COLUMNS)
    try:
        one_by_one = inner_messages(decode_record(raw))
    except CorruptRecordError:
        one_by_one = None
    try:
        unwrapped = unwrap(rows, SOURCE_COLUMNS)
    except NoBatchBodyError:
        assert one_by_one is None
        return
    assert one_by_one is not None
    unwrapped.validate(full=True)
    assert unwrapped.column(SOURCE_COLUMNS.index("body")).to_pylist() == [one.body for one in one_by_one]


def delayed_record(data: bytes) -> None:
    """Redeliver a delayed record with any properties: to a legal topic with its properties, or skip it."""
    raw = record_bytes(topic=SCHEDULE_TOPIC.encode(), properties=data[:4000], property_crc=len(data) % 2 == 1)
    records = RecordColumns(pa.py_buffer(raw), np.zeros(1, np.int64), np.array([len(raw)], np.int64))
    if records.faults or content_faults(records):
        return
    found = QueueRecords(np.array([3]), np.array([5]), records, [], 4)
    config = replace(CONFIG, enabled_append_prop_crc=len(data) % 2 == 1, enable_lmq=len(data) % 3 == 1)
    early = len(data) % 7 == 6
    one = redelivery(found, config, 1, -(1 << 62) if early else 1 << 60, encode=True)
    if early:
        assert (one.rows, one.next_due_ms is None) == (0, False)
        return
    assert (one.rows, len(one.skipped)) in ((1, 0), (0, 1))
    if one.chunk is None:
        return
    (topic,) = one.chunk.topics
    assert validate_topic(topic) not in (SCHEDULE_TOPIC, COMMIT_TOPIC)
    octets, zeros = one.chunk.writable(), np.zeros(1, np.int64)
    relocate(octets, one.chunk.starts, one.chunk.sizes, zeros, zeros, 9, property_crc=one.chunk.property_crc)
    before, after = decode_record(raw), decode_record(octets.tobytes())
    assert (after.topic, after.stored_body) == (topic, before.stored_body)
    for name, value in before.properties.items():
        assert name in (PROPERTY_CRC32, PROPERTY_INNER_MULTI_QUEUE_OFFSET) or after.properties[name] == value


def delayed_seeds() -> list[bytes]:
    given = {"DELAY": "3", "REAL_TOPIC": "orders", "REAL_QID": "1", "TAGS": "a", "KEYS": "k l", "UNIQ_KEY": "7F" * 16}
    return [
        encode_properties(given),
        encode_properties({**given, "INNER_MULTI_QUEUE_OFFSET": "1", "REAL_TOPIC": "%RETRY%g"})[:-1],
        encode_properties({**given, "REAL_TOPIC": "../x"}),
        *(encode_properties({**given, "INNER_MULTI_DISPATCH": "%LMQ%a", "p": "x" * more}) for more in range(1, 8)),
    ]


def records_by_units(data: bytes) -> None:
    """Read a log file through units that point anywhere into it."""
    count = data[0] % 8 if data else 0
    units = np.frombuffer(data[1 : 1 + 6 * count].ljust(6 * count, b"\0"), np.dtype([("at", ">i4"), ("size", ">i2")]))
    buffer = pa.py_buffer(data[1 + 6 * count :])
    records = RecordColumns(buffer, units["at"].astype(np.int64), units["size"].astype(np.int64))
    records.check_place(units["at"].astype(np.int64), np.arange(count, dtype=np.int64), QueueIdentity("t", 1, ""))
    records = without(records, records.faults)
    records = without(records, content_faults(records)) if records.count else records
    if records.count:
        every_column(records)
        lmq = QueueIdentity("%LMQ%a", 0, "", exact=False)
        records.check_place(records.positions, np.full(records.count, 3), lmq)


def by_units_seeds() -> list[bytes]:
    log = log_seeds()[0]
    size = struct.unpack_from(">i", log)[0]
    return [bytes([1]) + struct.pack(">ih", 0, size) + log, bytes([2]) + struct.pack(">ihih", 0, size, 5, -1) + log]


def properties(data: bytes) -> None:
    """Decode property strings by rows and by columns, with equal results."""
    rows = data.split(b"\xff\xfe")
    segments = split_properties(pa.array(rows, pa.binary()))
    maps = segments.maps()
    maps.validate(full=True)
    for row, pairs in zip(rows, maps.to_pylist(), strict=True):
        assert dict(pairs) == decode_properties(row)
    assert segments.column("TAGS").to_pylist() == [decode_properties(row).get("TAGS") for row in rows]


def property_seeds() -> list[bytes]:
    one = encode_properties({"KEYS": "a b", "TAGS": "x", "\u00e9": "\u6771"})
    return [
        one,
        one[:-1],
        b"a\x01b\x02a\x01c\x02",
        b"\x01\x02\x02\x01",
        b"\xff\xfe".join([one, b"", one + b"TAGS\x01z"]),
    ]


# -- derived files


def consume_queue(data: bytes) -> None:
    size = CONFIG.mapped_file_size_consume_queue
    placed("queue/00000000000000000000", data[:size].ljust(size, b"\0"))
    queue = ConsumeQueue(room() / "queue", "t", 0, size, write=False)
    end = queue.scan_end()
    assert 0 <= end <= size // 20
    units = queue.units(0, end)
    assert (units["msg_size"] > 0).all()
    queue.close()


def batch_queue(data: bytes) -> None:
    """Read units of records of several messages from every offset."""
    size = 46 * 8
    placed("batch-queue/00000000000000000000", data[:size].ljust(size, b"\0"))
    queue = BatchConsumeQueue(room() / "batch-queue", "t", 0, size, write=False)
    try:
        low, high = queue.bounds(0)
        queue.bounds(1 << 40, 1 << 41)
        for offset in (low, high, 0, 3):
            assert len(list(queue.steps(offset, high, 32))) <= 8
    finally:
        queue.close()


def queue_ext(data: bytes) -> None:
    """Decode an address and the file that it points into."""
    at = int.from_bytes(data[:1], "big")
    placed("ext/t/0/00000000000000000000", data[1:400].ljust(400, b"\0"))
    ext = ConsumeQueueExt(room() / "ext", 400)
    try:
        unit = ext.unit("t", 0, at - (1 << 63))
        assert unit is None or len(unit.bitmap) <= 400
    finally:
        ext.close()


def stop_record(data: bytes) -> None:
    """Decode a stop record with a correct CRC."""
    paths = StorePaths(room() / "s")
    placed("s/rocketflow/stop", b"%08x\n" % zlib.crc32(data) + data)
    StopRecord.load(paths)


def stop_seeds() -> list[bytes]:
    return [(small_store().with_name("whole") / "rocketflow" / "stop").read_bytes().partition(b"\n")[2]]


def layout(data: bytes) -> None:
    placed("s/rocketflow/store.meta", data)
    recorded_layout(room() / "s")


class OneId(MessageEncoder):
    """Gives all messages one UNIQ_KEY."""

    def next_uniq_key(self) -> str:
        return "id"


def stored_batch(data: bytes) -> None:
    """Make the records of a client's batch; those of the compiled kernel, if it takes the batch, are the same."""
    encoder, batch = OneId(CONFIG), MessageBatch("t", data)
    compiled = CompiledMessages(CONFIG, encoder).batch(batch, 0, 1)
    records = encoder.batch_records(encoder.check_batch(batch, 0, 1), 1)
    if compiled is None:
        return
    units, hashes, places = compiled.place(5, 7)
    assert compiled.data == b"".join(records.place(5, 7, property_crc=False))
    _, sizes, tags_codes = map(list, zip(*UNIT_STRUCT.iter_unpack(units)))
    assert (sizes, tags_codes) == (records.sizes, records.tags_codes)
    assert hashes == index_hashes_one_by_one([key for keys in records.keys for key in keys])
    assert len(places) == len(hashes)


def batch_body(data: bytes) -> None:
    """Decode a client's batch body; a ValueError is a refusal by the put path."""
    with suppress(ValueError):
        entries = decode_batch_body(data)
        assert encode_batch_body(entries) == unmarked(data, entries)
    half = len(data) // 2
    bodies = [data, data[:half], data[half:]]
    together = entry_positions_of(bodies)
    if together is not None:
        assert [found.tolist() for found in together] == [entry_positions(body) for body in bodies]


def unmarked(data: bytes, entries: list[BatchEntry]) -> bytes:
    """Return the body with magic and CRC of every entry as RocketFlow writes them; readers ignore both."""
    out, at = bytearray(data), 0
    for one in entries:
        out[at + 4 : at + 12] = bytes(8)
        at += 22 + len(one.body) + len(one.properties)
    return bytes(out)


def index_file(data: bytes) -> None:
    """Query keys through chains that lead anywhere, or form cycles."""
    path = placed("index-file", data.ljust(CONFIG.index_file_size, b"\0")[: CONFIG.index_file_size])
    file = IndexFile(path, CONFIG.max_hash_slot_num, CONFIG.max_index_num, write=False)
    try:
        for key_hash in (0, 7, 123456):
            found = file.offsets(key_hash, 0, (1 << 63) - 1, 64)
            assert len(found) <= CONFIG.max_index_num
    finally:
        file.close()


def checkpoint(data: bytes) -> None:
    decode_checkpoint(data)


# -- the timer's files


def timer_check(data: bytes) -> None:
    assert decode_timer_checkpoint(decode_timer_checkpoint(data).encode()) == decode_timer_checkpoint(data)


@cache
def a_wheel() -> TimerWheel:
    return TimerWheel(1000)


def timer_wheel(data: bytes) -> None:
    """Find ticks in slots of any bytes; every found slot holds its tick. A file of another length is refused."""
    wheel, count = a_wheel(), len(data) // SLOT_SIZE
    wheel.slots[:count] = np.frombuffer(data, SLOT_DTYPE, count)
    wheel.count_at(1_800_000_000_000)
    try:
        for start in (0, 1_800_000_000_000):
            ticks, slots = wheel.find(start, start + 1_000_000)
            assert (slots["tick"] * 1000 == ticks).all()
        assert len(wheel.find(5, 5)[0]) == 0
        ticks, slots = wheel.find(0, 1 << 62)
        assert (slots["tick"] * 1000 == ticks).all()
        wheel.add(ticks, np.arange(len(ticks)) * 52, np.zeros(len(ticks), bool))
    finally:
        wheel.clear()
    TimerWheel.decode(data, 1000)


def timer_wheel_seeds() -> list[bytes]:
    """Return slots that hold another slot's tick, and slots that hold their own."""
    own = [struct.pack(">qqqii", 1488 * WHEEL_SLOTS + row, 52 * row, 52 * row + 104, 2, 0) for row in range(3)]
    return [struct.pack(">qqqii", 1_800_000_000, 0, 52, 2, 0) * 3, b"".join(own)]


def timer_log(data: bytes) -> None:
    """Read a file of a timer log: its records, and the chain between any two of its positions.

    A chain is read as a range, or walked if it is long: with input of odd length, more than two records are long.
    """
    before, chains.SHORT_CHAIN = chains.SHORT_CHAIN, 2 if len(data) % 2 else 4096  # type: ignore[misc]
    path = placed("timerlog/00000000000000000000", data.ljust(4096, b"\0"))
    try:
        _read_timer_log(TimerLog(path.parent, 4096, room() / "tmp"), data)
    finally:
        chains.SHORT_CHAIN = before  # type: ignore[misc]


def _read_timer_log(log: TimerLog, data: bytes) -> None:
    try:
        positions, units = log.read(0, log.end)
        assert len(positions) == len(units) == len(decode_units(data.ljust(4096, b"\0")))
        log.crc(0)
        for unit in units[:4]:
            with suppress(StoreError):
                log.chain(int(unit["phy_offset"]), int(unit["previous"]), 1000, int(unit["write_ms"]))
        if len(units):
            log.chain(0, log.end - 52, 1000, int(units["write_ms"][0]) + int(units["delay_ms"][0]))
    finally:
        log.close()


def timer_log_seeds() -> list[bytes]:
    units = np.zeros(3, TIMER_UNIT_DTYPE)
    units["size"], units["magic"], units["msg_size"], units["previous"] = 52, 1, 300, [-1, 0, 52]
    units["write_ms"], units["delay_ms"], units["phy_offset"] = 1_800_000_000_000, 5_000, [0, 300, 600]
    chain = np.zeros(9, TIMER_UNIT_DTYPE)
    chain[:] = units[0]
    chain["previous"] = np.arange(-1, 8) * 52
    chain["previous"][0] = -1
    found = [chain.tobytes(), chain[:6].tobytes() + b"odd"]
    return [*found, units.tobytes(), units.tobytes() + TIMER_BLANK.pack(40, 0, -0x342BCE6C), units[:1].tobytes() + b"x"]


def timer_stop(data: bytes) -> None:
    stop = decode_timer_stop(data)
    assert stop is None or decode_timer_stop(stop.encode()) == stop
    body = b"%08x\n" % zlib.crc32(data) + data
    decode_timer_stop(body)


def timer_progress(data: bytes) -> None:
    try:
        found = parse_json_object(data.decode("utf-8", "replace"))
    except ValueError:
        return
    progress = decode_progress(found)
    assert decode_progress(progress.encode()) == progress


def confirm(data: bytes) -> None:
    paths = StorePaths(room() / "s")
    if not paths.abort.exists():
        placed("s/abort", b"1")
    placed("s/rocketflow/confirm", data)
    read_confirm(paths)


def store_meta(data: bytes) -> None:
    paths = StorePaths(room() / "s")
    placed("s/rocketflow/store.meta", data)
    if not data:
        paths.meta.unlink()
    StoreMeta.load_or_create(paths, fitted_to(CONFIG, paths), lambda _: "5.5")


def store_meta_seeds() -> list[bytes]:
    return [b"", b'{"storeId":"a","formatVersion":1,"mappedFileSizeCommitLog":4096}']


def config_files(data: bytes) -> None:
    """Read one of the JSON files: the first byte selects it, the rest is its content."""
    directory = room() / "config"
    files = ConfigFiles(directory)
    one = files.every[data[0] % len(files.every) if data else 0]
    placed(f"config/{one.NAME}", data[1:])
    _ = one.data_version
    one.members()


def config_seeds() -> list[bytes]:
    directory = Path(tempfile.mkdtemp(dir=room()))
    files = ConfigFiles(directory)
    files.topics.set_queue_nums("orders", 4)
    files.consumer_offsets.commit("readers", "orders", {0: 10})
    found = [
        b"\0" + (directory / files.topics.NAME).read_bytes(),
        b"\2" + (directory / "consumerOffset.json").read_bytes(),
        b"\3" + b'{"lmqOffsetTable":{"%LMQ%a@%LMQ%g":5},"offsetTable":{"t@g":{0:3}}}',
    ]
    shutil.rmtree(directory)
    return [
        *found,
        b'\2{"offsetTable":{"t@g":{0:10,1:"12"}}}',
        b'\1{"subscriptionGroupTable":{"g":{"groupName":"g","retryMaxTimes":3}},"forbiddenTable":{}}',
        b'\4{"offsetTable":{1:10},"dataVersion":{"counter":1}}',
        b"\1 ",
        b"",
    ]


def sinks(data: bytes) -> None:
    paths = StorePaths(room() / "s")
    placed("s/rocketflow/sinks.json", data)
    envelope = remembered_commit(paths, "sink")
    if envelope is not None:
        check_types(envelope)


def an_envelope(data: bytes) -> None:
    envelope = decode_envelope(data)
    if envelope is not None:
        check_types(envelope)


def check_types(envelope: CommitEnvelope) -> None:
    for text in (envelope.sink_id, envelope.run_id, envelope.digest, envelope.query_id):
        assert isinstance(text, str), envelope
    for number in (envelope.batch_id, envelope.rows, envelope.begin_offset, envelope.end_offset, envelope.run_seq):
        assert type(number) is int, envelope
        assert -(1 << 63) <= number < 1 << 63, envelope


def envelope_seeds() -> list[bytes]:
    plain = CommitEnvelope("sink", 3, "run", 1, 10, "ff", 0, 512, "query")
    return [plain.encode(), replace(plain, progress={"orders": {"0": 7}}).encode()]


def broker_conf(data: bytes) -> None:
    StoreConfig.from_broker_conf(placed("broker.conf", data))


def proven_part(data: bytes) -> None:
    """Prove a part; rows that are accepted are whole records once they have their place."""
    part = replace(a_part(), inline=data, size=len(data), crc=pa_crc(data))
    for chunk in proven_chunks([part], CONFIG, redelivered=bool(len(data) % 2)):
        octets = chunk.writable()
        places = np.arange(len(chunk.sizes), dtype=np.int64)
        relocate(octets, chunk.starts, chunk.sizes, places, places, 1, property_crc=chunk.property_crc)
        for start, size in zip(chunk.starts.tolist(), chunk.sizes.tolist(), strict=True):
            assert decode_record(octets[start : start + size].tobytes()).topic in part.topics


def staged_part(data: bytes) -> None:
    """Load a part with a correct CRC, as a task of another version, or with a bug, may have staged it."""
    part = replace(a_part(), inline=data, size=len(data), crc=pa_crc(data))
    if len(data) % 2:
        part = replace(part, inline=None, path=str(placed("a-part", data)))
    for chunk in load(part, CONFIG.delay_levels_ms):
        assert len(chunk.sizes) == len(chunk.topic_codes)
        if chunk.lmqs is not None:
            chunk.lmqs.fill_in(chunk.writable(), chunk.starts, np.zeros(len(chunk.lmqs.names), np.int64))


@cache
def a_part(*, light: bool = False):  # type: ignore[no-untyped-def]
    encoder = BatchEncoder(replace(CONFIG, enable_lmq=light), lambda _: 2, default_topic="t", row_hashes=True)
    rows = pa.RecordBatch.from_pydict({"body": [b"one", b"two"], "keys": ["a", "b"], "tags": ["x", None]})
    if light:
        named = pa.array([[("INNER_MULTI_DISPATCH", "%LMQ%a,%LMQ%b")], []], pa.map_(pa.string(), pa.string()))
        rows = rows.append_column("properties", named)
    return stage(encoder.encode(rows, 1_700_000_000_000), room(), "part")


def pa_crc(data: bytes) -> int:
    from isal.isal_zlib import crc32

    return int(crc32(data))


# -- texts


def message_id(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    host, offset = decode_offset_msg_id(text)
    assert decode_offset_msg_id(offset_msg_id(host, offset)) == (host, offset)


def sql92(data: bytes) -> None:
    """Compile a filter, and match the property value that follows a zero byte."""
    text, _, value = data.partition(b"\0")
    compiled = compile_filter(text.decode("utf-8", "replace"))
    value_text = value.decode("utf-8", "replace")
    one = compiled.matches(dict.fromkeys(compiled.properties, value_text))
    columns = {name: pa.array([value_text, None], pa.string()) for name in compiled.properties}
    both = compiled.mask(columns, 2).tolist()
    assert both == [one, compiled.matches({})]


def sql_seeds() -> list[bytes]:
    texts = [
        "a > 5 AND b = 'x' OR NOT c IS NULL",
        "a BETWEEN 1 AND 5.5e3",
        "a NOT IN ('x', 'it''s') AND b CONTAINS 'y'",
        "(a = TRUE) <> (b < -7L) /* c */ -- d",
        "a STARTSWITH 'x' OR a NOT ENDSWITH 'y'",
        "a NOT BETWEEN 1 AND 9 OR a BETWEEN NULL AND 3",
        "a < 99999999999999999999 AND a = NULL",
    ]
    values = (b"5", b"NaN", b"-Infinity", b"0x1.8p3", b"0x1p99999", b"1e400")
    return [one.encode() + b"\0" + value for one in texts for value in (values if one is texts[0] else values[:1])]


def tags(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    found = TagFilter.parse(text)
    found.mask_codes(np.arange(-3, 3))
    assert not found.tags or found.matches_tag(found.tags[0])


def names(data: bytes) -> None:
    text = data.decode("utf-8", "surrogatepass") if is_surrogates(data) else data.decode("latin-1")
    for check in (validate_topic, validate_group):
        try:
            name = check(text)
        except StoreError:
            continue
        place = (room() / "names" / name).resolve()
        assert place.parent == room() / "names"
        assert place.name == name


def is_surrogates(raw: bytes) -> bool:
    try:
        raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def inflate(data: bytes) -> None:
    """Decompress a body; the first byte is the compression type."""
    kind = data[0] % 8 if data else 0
    body = decompress_body(data[1:], kind << 8 | 1, MOST_INFLATED)
    assert len(body) <= MOST_INFLATED


def inflate_seeds() -> list[bytes]:
    bodies = [b"", b"abc" * 30, bytes(MOST_INFLATED + 1)]
    return [bytes([kind]) + compress_body(body, kind) for kind in range(4) for body in bodies]


# -- whole stores


@cache
def small_store() -> Path:
    """Write a store with several files of every kind and return a copy of it without a clean stop."""
    path = room() / "whole"
    with MessageStore.open(path, CONFIG) as store:
        for number in range(60):
            store.put_message(Message(f"t{number % 2}", b"%d " % number * 9, tags="x", keys=[f"k{number}"]))
        store.config_files.consumer_offsets.commit("g", "t0", {0: 3})
        store.flush()
        crashed = room() / "crashed"
        shutil.copytree(path, crashed)
    return crashed


def damaged_store(data: bytes) -> Path:
    """Copy the small store and overwrite bytes of its files: the input is (file, position, count) and the bytes."""
    path = room() / "image"
    with unconfined():
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(small_store(), path)
    files = sorted(one for one in path.rglob("*") if one.is_file() and one.stat().st_size)
    while len(data) >= 6:
        which, at, count = struct.unpack_from(">BHB", data)
        file = files[which % len(files)]
        size = file.stat().st_size
        part = data[4 : 4 + min(count % 32 + 1, len(data) - 4)]
        with file.open("r+b") as opened:
            if count >= 250:
                opened.truncate(at % size)
            else:
                opened.seek(at % size)
                opened.write(part[: size - at % size])
        data = data[4 + len(part) :]
    return path


def read_damaged(data: bytes) -> None:
    """Verify a damaged store and call every method of a reader."""
    path = damaged_store(data)
    verify_store(path)
    with StoreReader(path, CONFIG) as reader:
        for (topic, queue_id), (low, high) in reader.snapshot().queues.items():
            for _ in reader.read(topic, queue_id, low, high, faults=SkipFaults()):
                pass
            reader.get_message(topic, queue_id, low)
            reader.get_offset_in_queue_by_time(topic, queue_id, 1_700_000_000_000)
        for key in ("k1", "k59"):
            reader.query_message("t1", key)


def recover_damaged(data: bytes) -> None:
    with MessageStore.open(damaged_store(data), CONFIG) as store:
        store.put_message(Message("t0", b"next"))


def image_seeds() -> list[bytes]:
    return [struct.pack(">BHB", which, at, 3) + b"\xff\0\x80\7" for which in range(0, 40, 3) for at in (0, 28, 300)]


KERNEL_TARGETS = (
    Target("kernel-sends", kernel_targets.sends, kernel_targets.sends_seeds, kernel=True),
    Target("kernel-ends", kernel_targets.ends, kernel_targets.ends_seeds, kernel=True),
    Target("kernel-batch", kernel_targets.client_batch, kernel_targets.client_batch_seeds, kernel=True),
    Target("kernel-message", kernel_targets.message, lambda: [b"s\nk\nname\nvalue", b"a\nb c\n"], kernel=True),
    Target("kernel-pulls", kernel_targets.pulled_records, kernel_targets.pulled_records_seeds, kernel=True),
    Target("kernel-walk", kernel_targets.log_walk, kernel_targets.log_walk_seeds, kernel=True),
    Target("kernel-columns", kernel_targets.log_columns, kernel_targets.log_columns_seeds, kernel=True),
    Target("kernel-encode", kernel_targets.encoded_rows, kernel_targets.encoded_rows_seeds, kernel=True),
    Target("kernel-prepared", proven_part, lambda: [a_part().inline], kernel=True),
    Target("kernel-entries", kernel_targets.units_and_entries, kernel_targets.units_and_entries_seeds, kernel=True),
    Target("kernel-verify", kernel_targets.verified, kernel_targets.verified_seeds, kernel=True),
)

TARGETS = {
    target.name: target
    for target in (
        Target("record", a_record, record_seeds),
        Target("record-without-crc", a_record_without_crc, record_seeds),
        Target("records-in-columns", records_in_columns, log_seeds),
        Target("delayed-record", delayed_record, delayed_seeds),
        Target("records-by-units", records_by_units, by_units_seeds),
        Target("properties", properties, property_seeds),
        Target("consume-queue", consume_queue, lambda: [struct.pack(">qiq", 0, 100, 7) * 3]),
        Target("index-file", index_file, lambda: [struct.pack(">qqqqii", 1, 2, 0, 300, 1, 3) + bytes(100)]),
        Target("batch-queue", batch_queue, lambda: [struct.pack(">qiqqqhii", 0, 9, 0, 1, 0, 3, -1, 0) * 2]),
        Target("queue-ext", queue_ext, lambda: [b"\0" + struct.pack(">hqqh", 24, 7, 8, 4) + b"bits"]),
        Target("batch-body", batch_body, batch_seeds),
        Target("stored-batch", stored_batch, batch_seeds),
        Target("stop-record", stop_record, stop_seeds),
        Target("layout", layout, lambda: [b'{"storeId":"a","storePathCommitLog":["/x"]}']),
        Target("checkpoint", checkpoint, lambda: [CheckpointFields(1, 2, 3, 4, 5).encode()[:64]]),
        Target("timer-check", timer_check, lambda: [TimerCheckpoint(1, 2, 3, 3, 0, 9, 8).encode()[:64]]),
        Target("timer-wheel", timer_wheel, timer_wheel_seeds, slow=True),
        Target("timer-log", timer_log, timer_log_seeds),
        Target("timer-stop", timer_stop, lambda: [TimerStop(9, 1, 1000, 7, 1, 5, 0, 52, 1, 2, 3).encode()]),
        Target("timer-progress", timer_progress, lambda: [json.dumps(TimerProgress(5, held=(1,)).encode()).encode()]),
        Target("confirm", confirm, lambda: [struct.pack("<8sqqqqq", b"RFCONF01", 9, 9, 1, 0, 1).ljust(64, b"\0")]),
        Target("store-meta", store_meta, store_meta_seeds),
        Target("config-files", config_files, config_seeds),
        Target("sinks", sinks, lambda: [b'{"sink":"{\\"version\\":1}"}']),
        Target("commit-envelope", an_envelope, envelope_seeds),
        Target(
            "broker-conf",
            broker_conf,
            lambda: [
                b"flushDiskType=SYNC_FLUSH\\\n\nbrokerIP1: 1.2.3.4\nbrokerName=\\u0041\n",
                b"enableLmq=true\nfileReservedTime=48\nmaxMessageSize=99999999999\n",
                b"enableLmq=maybe\n",
                b"diskMaxUsedSpaceRatio=x\n",
                b"brokerName=\xe4\n",
            ],
        ),
        Target("inner-batches", inner_batches, batch_seeds),
        Target("staged-part", staged_part, lambda: [a_part().inline, a_part(light=True).inline]),
        Target("proven-part", proven_part, lambda: [a_part().inline, a_part(light=True).inline]),
        Target("message-id", message_id, lambda: [offset_msg_id("1.2.3.4:1", 7).encode(), b"[::1]:1", b"0" * 56]),
        Target("sql92", sql92, sql_seeds),
        Target("tags", tags, lambda: [b"*", b"a || b||"]),
        Target("names", names, lambda: [b"orders", b"..", b"%RETRY%g", b"a/b"]),
        Target("inflate", inflate, inflate_seeds),
        Target("frames", wire_targets.frames, wire_targets.frame_seeds),
        Target("fast-json", wire_targets.fast_json, wire_targets.fast_json_seeds),
        Target("accounts", wire_targets.accounts, wire_targets.accounts_seeds),
        Target("recall-handle", wire_targets.recall_handle, wire_targets.recall_handle_seeds),
        Target("read-damaged", read_damaged, image_seeds, slow=True, whole_store=True),
        Target("recover-damaged", recover_damaged, image_seeds, slow=True, whole_store=True),
        *(KERNEL_TARGETS if COMPILED is not None else ()),
    )
}
