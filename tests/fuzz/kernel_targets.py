"""The functions of the compiled kernel, fed with any bytes: what they take fits together, and decodes."""

from __future__ import annotations

import struct
from contextlib import suppress
from functools import cache
from itertools import pairwise, product
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rocketflow_store.format.batch_body import batch_body
from rocketflow_store.format.record import PROPERTY_CRC_SIZE, RecordFields, decode_record, encode_record
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.message import Message
from rocketflow_store.records.arrow.columns import SOURCE_COLUMNS
from rocketflow_store.records.decoding.checked_columns import EVERY_CRC, PLACE, RECORD_CRC, checked_columns
from rocketflow_store.records.decoding.decode import QueueIdentity
from rocketflow_store.records.decoding.dispatch_rows import sound_rows
from rocketflow_store.records.decoding.scan import scan_records
from rocketflow_store.records.encoding.compiled_rows import RowContents, RowTexts, compiled_rows
from tests.support.sender import USUAL, frame, send, text_of
from tests.support.sender import end as end_frame
from tests.support.signed import WRITER, signed_frame

COLUMNS: Final = [name for name in SOURCE_COLUMNS if name != "properties"]
HOST: Final = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
HOST_V6: Final = bytes(15) + b"\x01" + HOST[4:]
MOST: Final = 1 << 20
HALF: Final = {"UNIQ_KEY": "A" * 20, "TRAN_MSG": "true", "PGROUP": "producers"}


def _numbers(data: bytes, kind: str) -> npt.NDArray[Any]:
    """Return the numbers in some bytes, without a last one that is not whole."""
    size = np.dtype(kind).itemsize
    return np.frombuffer(data[: len(data) // size * size], kind)


# -- sends.pxi


_ANSWER: Final = b"{a", b",b", b",c", b",d", b",e", b"}"


@cache
def _takers() -> list[Any]:
    found = []
    for with_crc, store_host, born_host in ((0, HOST, HOST), (1, HOST, HOST), (1, HOST, HOST_V6), (0, HOST_V6, HOST)):
        assert COMPILED is not None
        maker = COMPILED.SendFrames(
            *(b"TRACE_ON\x01true\x02CLUSTER\x01c\x02", store_host, (_ANSWER, _ANSWER)),
            max_frame=MOST,
            max_body=1 << 12,
            max_record=1 << 13,
            max_properties=600,
            max_run=16,
            max_run_bytes=1 << 13,
            max_endings=8,
            max_commit_bytes=1 << 12,
            property_crc=bool(with_crc),
            tag_entries=bool(with_crc),
            half_topic="HALF",
            delay_topic="LATER",
            levels_ms=(1_000, 5_000, (1 << 63) - 1),
        )
        for queue in (0, 1, 63, 64):
            assert maker.teach("orders", queue)
            assert maker.teach("t|1", queue)
        found.append(maker.of(born_host))
    return found


def sends(data: bytes) -> None:
    """Take frames, place their records in files of several sizes, and answer."""
    if not data:
        return
    taken = _takers()[data[0] & 3].take(data, 1)
    if taken is None:
        return
    assert data[1 : taken.end] == taken.frames()
    assert sum(count for _, _, count in taken.queues) == taken.count == sum(one[1] for one in taken.topics)
    assert sum(one[3] for one in taken.topics) == taken.request_count
    taken.begin([7] * len(taken.queues), 1_700_000_000_000)
    number, at, size = 0, 100, 0
    while number < taken.request_count:
        assert number == 0 or taken.size_of(number) > 0
        room = at + max(taken.size_of(number), data[0] << 4)
        number, octets = taken.place(number, at, room)
        assert at + len(octets) <= room
        begin = 0
        while begin < len(octets):
            record = decode_record(octets, begin)
            assert record.topic in ("orders", "t|1", "HALF", "LATER")
            assert record.physical_offset == at + begin
            begin += record.store_size
        at, size = at + len(octets) + (data[0] & 4), size + len(octets)
    assert size == taken.size == sum(one[2] for one in taken.topics)
    units, hashes, places = taken.rows()
    assert [len(one) // 20 for one in units] == [count for _, _, count in taken.queues]
    assert len(hashes) == len(places)
    assert len(taken.signed()) == taken.request_count
    assert taken.answers().count(b",d") >= taken.request_count - taken.one_way_count
    assert sum(one[2] for one in taken.kinds((10, 100))) == taken.count
    for one in range(taken.request_count):
        taken.stored(one)


def ends(data: bytes) -> None:
    """End transactions of any records, and store what their commits store: the record, its size (two bytes), frames."""
    if len(data) < 3:
        return
    begin = 3 + int.from_bytes(data[1:3], "big")
    half, frames = data[3:begin], data[begin:]
    taken = _takers()[data[0] & 3].take(frames, 0)
    if taken is None or not taken.ending_count:
        return
    offsets = taken.ending_offsets
    halves = [half if number & 3 != 3 else None for number in range(len(offsets))]
    commits, committed, rolled_back, births, asking, left_over = taken.end_halves(halves)
    assert sum(map(len, births.values())) == len(committed) + len(rolled_back)
    assert sum(map(len, asking)) + len(left_over) + len(taken.sends()) <= len(taken.frames())
    if commits is None:
        assert not committed
        return
    assert commits.count == commits.request_count == len(committed)
    commits.begin([7] * len(commits.queues), 1_700_000_000_000)
    number, octets = commits.place(0, 100, 100 + commits.size)
    assert (number, len(octets)) == (commits.count, commits.size)
    begin = 0
    while begin < len(octets):
        record = decode_record(octets, begin, check_crc=False)
        assert (record.topic in ("orders", "t|1"), record.physical_offset) == (True, 100 + begin)
        begin += record.store_size
    units, hashes, places = commits.rows()
    assert sum(map(len, units)) == 20 * commits.count
    assert len(hashes) == len(places) >= commits.count


def ends_seeds() -> list[bytes]:
    found = []
    texts = text_of(HALF), text_of({**HALF, "KEYS": "a b", "TAGS": "t", "CHECK_IMMUNITY_TIME_IN_SECONDS": "9"})
    for kind, properties in product(range(4), texts):
        sent = send(1, b"body", properties, f="4") + send(
            2, b"", text_of({**HALF, "KEYS": "k"}), f="4", b="t|1", e="63"
        )
        taken = _takers()[kind].take(sent, 0)
        taken.begin([5], 1_700_000_000_000)
        taken.place(0, 1000, 1 << 20)
        for offset, half in taken.halves()[0].items():
            place = offset, int.from_bytes(half[28:36], "big")
            frames = end_frame(place) + end_frame(place, commits=False, topic=None) + send(3)
            frames += end_frame(place, binary=True) + end_frame(place, _flag=0)
            found.append(bytes([kind]) + len(half).to_bytes(2, "big") + half + frames)
    return found


def sends_seeds() -> list[bytes]:
    pair = text_of({"UNIQ_KEY": "A" * 20, "TAGS": "t"}).encode()
    batch = _entry(b"one", pair) + _entry(b"two", pair + b"KEYS\x01a b\x02")
    rich = text_of({**USUAL, "KEYS": "a b", "TAGS": "x", "__SHARDINGKEY": "s", "own": 'ä"\\'})
    frames = [
        send(1) + send(2, b"x" * 200, rich, e="64", b="t|1"),
        send(-3, b"", rich, _code=10, f="1", j="3", k="true"),
        send(4, batch, text_of({"UNIQ_KEY": "k", "WAIT": "true"}), _code=320, m="true"),
        send(7, b"half", text_of({**USUAL, "TRAN_MSG": "true", "PGROUP": "p"}), f="4")
        + send(8, b"later", text_of({**USUAL, "DELAY": "3"}), _flag=2),
        send(5, ascii=False, separators=(", ", ": ")),
        frame(b'{"code":310,"flag":0}', b"") + send(6)[:-3],
        signed_frame(send(9, b"x", rich, l="16"), WRITER) + signed_frame(send(10, _code=10, binary=True), WRITER),
        send(7, b"x" * 20, rich, binary=True) + send(8, batch, text_of(USUAL), _code=320, m="true", binary=True),
    ]
    return [bytes([kind]) + one for kind in range(8) for one in frames]


def _entry(body: bytes, properties: bytes) -> bytes:
    size = 20 + len(body) + 2 + len(properties)
    return struct.pack(">iiiii", size, 0, 0, 0, len(body)) + body + struct.pack(">h", len(properties)) + properties


# -- puts.pxi


@cache
def _writers() -> list[Any]:
    assert COMPILED is not None
    kinds = (False, True)
    return [COMPILED.MessageWriter(HOST, one, one, 1 << 12, 1 << 13, len, lambda: "7F" * 16) for one in kinds]


def client_batch(data: bytes) -> None:
    """Write the records of a client's batch, and decode them."""
    if not data:
        return
    suffix = b"TRACE_ON\x01true\x02" if data[0] & 2 else b""
    made = _writers()[data[0] & 1].batch("t", data[1:], suffix, 1, 0, 5, HOST, 0, 9, 600, 1 << 13)
    _check_records(made)


def message(data: bytes) -> None:
    """Write the record of a message whose texts are any, and decode it; put it into a batch."""
    assert COMPILED is not None
    texts = data[1:].decode("utf-8", "replace")
    tags, keys, name, value = (texts + "\n" * 3).split("\n")[:4]
    given = Message("t", data[:200], tags=tags or None, keys=keys, properties={name: value} if name else {})
    with suppress(ValueError):
        _check_records(_writers()[len(data) & 1].message(given, 3, 9))
    both = [given, Message("t", b"x")]
    batch = COMPILED.batch_of(both, Message, "t", 1 << 12, "7F" * 10, len(data))
    if batch is not None:
        assert batch == (batch_body(both), ",".join(one.uniq_key for one in both))


def _check_records(made: Any) -> None:
    if made is None:
        return
    units, hashes, places = made.place(7, 100)
    assert (len(units), len(hashes), len(made.data)) == (20 * made.count, len(places), made.size)
    assert made.ids("AB", 100).count(",") == made.count - 1
    for row in range(made.count):
        phy_offset, size, _ = struct.unpack_from(">qiq", units, 20 * row)
        record = decode_record(bytes(made.data), phy_offset - 100)
        assert (record.store_size, record.queue_offset) == (size, 7 + row)


def client_batch_seeds() -> list[bytes]:
    pair = b"UNIQ_KEY\x01A\x02KEYS\x01a b\x02TAGS\x01x\x02"
    bodies = [_entry(b"one", pair) + _entry(b"", b""), _entry(b"x" * 100, pair[:-1]), b""]
    return [bytes([kind]) + one for kind in range(4) for one in bodies]


# -- pulls.pxi


def pulled_records(data: bytes) -> None:
    """Find the records that one call reads of units that place them anywhere, and check them."""
    assert COMPILED is not None
    if not data:
        return
    count = data[0] % 12
    places = _numbers(data[1 : 1 + 4 * count].ljust(4 * count, b"\0"), ">i2").astype(np.int64).reshape(count, 2)
    raw = data[1 + 4 * count :]
    records = [(start, start + size) for start, size in places.tolist()]
    first = records[0][0] if records else 0
    heads = [raw[max(start - first, 0) :][:36].ljust(36, b"\0") for start, _ in records]
    offsets = np.array([int.from_bytes(one[20:28], "big", signed=True) for one in heads], np.int64)
    base = int.from_bytes(heads[0][28:36], "big", signed=True) - first if records else 0
    own = [max(min(base + start, (1 << 63) - 1), -(1 << 63)) for start, _ in records]
    units = b"".join(struct.pack(">qiq", place, size, 0) for place, size in zip(own, places[:, 1].tolist()))
    taken, size = COMPILED.first_span(units, len(raw), len(raw), 50)
    assert taken <= count
    assert size <= len(raw)
    assert not taken or own[taken - 1] - own[0] + places[taken - 1, 1] == size
    for most in (count, taken):
        found = bytearray(raw)
        is_sound = COMPILED.sound_records(found, units[: 20 * most], 1, b"\x01t", 0, offsets[:most])
        if len(offsets) and (offsets[:most] == np.arange(offsets[0], offsets[0] + most)).all():
            again = bytearray(raw)
            assert COMPILED.sound_records(again, units[: 20 * most], 1, b"\x01t", int(offsets[0])) == is_sound
            assert again == found
        if not is_sound:
            assert found == raw
            continue
        assert found == b"".join(raw[start - first : end - first] for start, end in records[:most])
        for one, (start, end) in enumerate(records[:most]):
            record = decode_record(raw[start - first : end - first])
            assert (record.topic, record.queue_id, record.queue_offset) == ("t", 1, offsets[one])


def _record(**changes: Any) -> bytes:
    given: dict[str, Any] = {"topic": b"t", "queue_id": 1, "body": b"body", "properties": b"KEYS\x01k\x02TAGS\x01x\x02"}
    given |= {"flag": 0, "sys_flag": 0, "born_timestamp": 1, "born_host": HOST, "store_host": HOST, **changes}
    place, with_crc = given.pop("place", 0), given.pop("with_crc", False)
    return encode_record(RecordFields(**given), place, 3, 1_700_000_000_000, with_crc)


def _logs() -> list[list[bytes]]:
    found = []
    for with_crc in (False, True):
        records, at = [], 0
        for more in (
            {},
            {"body": b""},
            {"topic": b"other", "queue_id": 0},
            {"properties": b""},
            {"born_host": HOST_V6},
        ):
            records.append(_record(place=at, with_crc=with_crc, **more))
            at += len(records[-1])
        found.append(records)
    return found


def pulled_records_seeds() -> list[bytes]:
    found = []
    for records in _logs():
        ends = np.cumsum([0, *map(len, records)])
        places = [(int(begin), int(end - begin)) for begin, end in pairwise(ends)]
        for chosen in (places[:2], [places[0], places[3]], places):
            head = bytes([len(chosen)]) + b"".join(struct.pack(">hh", *one) for one in chosen)
            found.append(head + b"".join(records))
    return found


# -- walk.pxi, columns.pxi, record.pxi


def log_walk(data: bytes) -> None:
    """Find, judge and dispatch the records of a log."""
    if not data:
        return
    assert COMPILED is not None
    with suppress(UnicodeDecodeError):
        COMPILED.stored_parts(data[1:])
    octets = pa.py_buffer(data[1:])
    scan = scan_records(octets, 0, octets.size)
    if not len(scan.positions):
        return
    levels, with_crc = ((1, 5, 10), (0, 0))[: 1 + (data[0] & 1)], (0, octets.size if data[0] & 2 else 0)
    found = sound_rows((octets, scan.positions, scan.sizes), 0, levels[0], with_crc)
    if found is None:
        return
    rows = found.rows
    assert len(rows.sizes) == len(scan.positions)
    assert rows.queue_of.max(initial=-1) < len(rows.queues)
    entries = rows.entries
    assert len(entries.hashes) == len(entries.of_row)
    assert entries.of_row.max(initial=0) < max(len(rows.sizes), 1)


def log_walk_seeds() -> list[bytes]:
    delayed = _record(topic=b"SCHEDULE_TOPIC_XXXX", properties=b"DELAY\x013\x02REAL_TOPIC\x01t\x02")
    return [bytes([kind]) + one for kind in range(4) for one in (*map(b"".join, _logs()), delayed, _record(sys_flag=8))]


def log_columns(data: bytes) -> None:
    """Make columns of records that units place anywhere in a log."""
    if len(data) < 2:
        return
    count = data[0] % 8
    places = _numbers(data[2 : 2 + 4 * count].ljust(4 * count, b"\0"), ">i2").astype(np.int64).reshape(count, 2)
    positions, sizes = np.ascontiguousarray(places[:, 0]), np.ascontiguousarray(places[:, 1])
    records = pa.py_buffer(data[2 + 4 * count :]), positions, sizes
    offsets = np.full(count, 3, np.int64)
    contents = (PLACE, RECORD_CRC, EVERY_CRC)[data[1] % 3]
    found = checked_columns(records, (offsets, positions), QueueIdentity("t", 1, "b"), COLUMNS, contents)
    if found is None:
        return
    batch = found.batch(COLUMNS)
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        raise AssertionError(str(error)) from error
    assert batch.num_rows == count


def log_columns_seeds() -> list[bytes]:
    found = []
    for records in _logs():
        ends = np.cumsum([0, *map(len, records)])
        for kind in range(3):
            chosen = [(int(ends[row]), len(records[row])) for row in (0, 1, 3)]
            head = bytes([len(chosen), kind]) + b"".join(struct.pack(">hh", *one) for one in chosen)
            found.append(head + b"".join(records))
    return found


# -- encode.pxi, prepared.pxi


def encoded_rows(data: bytes) -> None:
    """Encode rows of any texts, and prove that they are records."""
    if len(data) < 4:
        return
    kind, rows = data[0], data[1:].split(b"\xfe")[:12]
    texts = [one.decode("utf-8", "replace") for one in rows]
    count = len(rows)
    bodies = pa.array(rows, pa.binary())
    column = pa.array([None if kind & 1 and not row % 3 else one for row, one in enumerate(texts)], pa.string())
    written = [(b"TAGS\x01", column)] if kind & 2 else [(b"KEYS\x01", column), (b"a\x01", column)]
    ids = (None, column, column if kind & 4 else None)
    queue_ids = np.full(count, kind, np.int32)
    head = _record()[: struct.calcsize(">iiiiiqqiq8sq8siq")] + bytes(4)
    codes = np.arange(count, dtype=np.int32) % 2
    contents = RowContents(None, queue_ids) if kind & 8 else None
    new_ids = (b"7F0000011234ABCDEF01", kind << 56) if kind & 16 else None
    made = compiled_rows(
        *(head, bodies, ["t", "other"], codes, queue_ids, None, None),
        *(RowTexts(written, ids, new_ids), contents),
        reserved=PROPERTY_CRC_SIZE if kind & 64 else 0,
        indexed=bool(kind & 32),
    )
    assert made is None or (np.diff(made.starts) == made.sizes[:-1]).all()


def encoded_rows_seeds() -> list[bytes]:
    return [bytes([kind]) + b"one\xfeb c\xfe\xfe\xc3\xa4\xff" + b"x" * kind for kind in range(0, 128, 5)]


# -- dispatch.pxi, verify.pxi


def units_and_entries(data: bytes) -> None:
    """Write units and index entries of any numbers into files of any content."""
    assert COMPILED is not None
    if len(data) < 8:
        return
    slots, first, count = 1 + data[0] % 9, 1 + data[1] % 5, data[2] % 9
    numbers = np.resize(_numbers(data[4:].ljust(8, b"\1"), ">i8").astype(np.int64), 5 * max(count, 1))
    columns = [np.ascontiguousarray(one[:count]) for one in numbers.reshape(5, -1)]
    hashes = columns[0].astype(np.int32)
    size = 40 + 4 * slots + 20 * (first + count) - data[3] % 2
    for one_by_one in (False, True):
        mapped = bytearray(np.resize(np.frombuffer(data, np.uint8), size).tobytes())
        if one_by_one:
            given = hashes.tolist(), columns[1].tolist(), count, int(numbers[0])
            put = COMPILED.put_index_run
        else:
            given = hashes, columns[1], columns[2]  # type: ignore[assignment]
            put = COMPILED.put_index_entries
        try:
            started = put(mapped, slots, first, int(numbers[1]), *given)
        except ValueError:
            assert data[3] % 2
            continue
        assert 0 <= started <= count
    queue_of, queues = columns[0] % 5 - 1, int(data[3] % 6)
    runs, units = np.empty((count, 3), np.int64), np.empty(20 * count, np.uint8)
    try:
        found = COMPILED.units_by_queue(queue_of, *columns[1:], np.empty((queues, 3), np.int64), runs, units)
    except ValueError:
        assert (queue_of >= queues).any()
        return
    assert 0 <= found <= count


def units_and_entries_seeds() -> list[bytes]:
    return [bytes([kind, kind % 5, kind % 9, kind % 6]) + bytes(range(kind, kind + 80)) for kind in range(0, 60, 7)]


def verified(data: bytes) -> None:
    """Compare units and entries of any bytes with those of a log."""
    assert COMPILED is not None
    if len(data) < 60:
        return
    rows, table = _numbers(data[:40], ">i8").astype(np.int64), np.frombuffer(data[40:], np.uint8)
    count = len(table) // 20
    table = table[: 20 * count]
    columns = tuple(np.resize(_numbers(data[at:], ">i8").astype(np.int64), count) for at in (40, 48, 44, 52))
    COMPILED.same_units(table, int(rows[0]), rows, columns, bool(data[0] & 1))
    COMPILED.same_units(table, 0, np.arange(count, dtype=np.int64), columns, False)
    wrong, heads = np.zeros(count, np.uint8), np.zeros(1 + data[1] % 7, np.int32)
    low, high = COMPILED.follow_chain(table, data[2], heads, wrong)
    assert low <= high
    pairs = np.sort(columns[0])
    seen = np.zeros(count, np.uint8)
    COMPILED.match_entries(table, bool(data[0] & 2), (int(rows[1]), int(rows[2])), (pairs, columns[1]), 1, seen, wrong)
    assert set(wrong.tolist()) <= {0, 1}


def verified_seeds() -> list[bytes]:
    entry = struct.pack(">iqii", 5, 1000, 1, 0)
    unit = struct.pack(">qiq", 1000, 90, 7)
    head = struct.pack(">qqqqq", 0, 900, 2000, 1, 2)
    return [head + one * times for one in (entry, unit) for times in (1, 3, 9)]
