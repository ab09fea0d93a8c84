"""What the kernel makes of records for verify, rebuild and dispatch is what Python's code makes of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.format.record import MAGIC_V1, RecordFields, encode_record
from rocketflow_store.fsck.verify import VerifyResult, verify_store
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.system_flags import INNER_BATCH_FLAG
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC
from rocketflow_store.rebuild.rebuild import rebuild_store
from rocketflow_store.records.decoding.decode import RecordColumns
from rocketflow_store.records.decoding.dispatch_rows import DispatchRows, rows_of_records, sound_rows
from rocketflow_store.records.decoding.record_crc import judge_contents, judge_run
from rocketflow_store.records.decoding.scan import follow_sizes, scan_records
from tests.store.kernel.log_records import Log, logs
from tests.support.bulk_rows import rows
from tests.support.kernel_switch import pure_python

pytestmark = pytest.mark.skipif(COMPILED is None, reason="this machine has no compiled kernel")
LEVELS: Final = st.sampled_from([(1000, 5000, 10_000), (1000,) * 18, ()])
CRC_RANGES: Final = st.sampled_from([(0, 0), (0, 1 << 62), (1 << 30, (1 << 30) + 300)])


def same_rows(made: DispatchRows, expected: DispatchRows) -> None:
    for name in ("phy_offsets", "sizes", "tags_codes", "store_timestamps", "queue_offsets", "queue_of"):
        one, other = getattr(made, name), getattr(expected, name)
        assert one.dtype == other.dtype, name
        assert one.tolist() == other.tolist(), name
    assert list(made.queues) == list(expected.queues)
    assert made.batch_nums is None is expected.batch_nums
    assert list(made.lmq) == list(expected.lmq) == []
    for name in ("hashes", "of_row", "of_tag"):
        one, other = getattr(made.entries, name), getattr(expected.entries, name)
        assert one.dtype == other.dtype, name
        assert one.tolist() == other.tolist(), name


@given(logs(), LEVELS, CRC_RANGES)
def test_rows_of_sound_records_are_those_of_dispatch(
    log: Log, levels: tuple[int, ...], with_crc: tuple[int, int]
) -> None:
    records = log.buffer, log.positions, log.sizes
    made = sound_rows(records, log.base, levels, with_crc)
    with pure_python():
        run = judge_run(RecordColumns(*records), log.base, with_crc)
        if made is None:
            assert run.stop < len(log.positions) or run.damaged or not log.is_usual
            return
        assert (run.stop, run.damaged) == (len(log.positions), {})
        same_rows(made.rows, rows_of_records(run.sound, log.base, levels))
    assert made.without_crc == run.without_crc
    assert made.sys_flags.tolist() == run.sound.sys_flag.tolist()


@given(logs(), LEVELS)
def test_rows_of_records_that_were_checked_are_those_of_python(log: Log, levels: tuple[int, ...]) -> None:
    records = RecordColumns(log.buffer, log.positions, log.sizes)
    kept = records.keep(np.array([row for row in range(records.count) if row not in records.faults], np.intp))
    if not levels or (kept.sys_flag & INNER_BATCH_FLAG).any() or not kept.count or (kept.field(">i4", 12) < 0).any():
        return
    made = rows_of_records(kept, log.base, levels)
    with pure_python():
        expected = rows_of_records(kept, log.base, levels)
    assert list(made.lmq) == list(expected.lmq)
    made.lmq = expected.lmq = ()
    same_rows(made, expected)


def test_many_keys_and_queues_are_all_there() -> None:
    topics = [f"topic-{number % 90}".encode() for number in range(600)]
    data, positions = _records(
        [(topic, number % 7, b"KEYS\x01" + b" k" * (number % 60)) for number, topic in enumerate(topics)]
    )
    records = pa.py_buffer(data), positions, np.diff([*positions, len(data)]).astype(np.int64)
    made = sound_rows(records, 0, (1000,), (0, 0))
    with pure_python():
        expected = rows_of_records(RecordColumns(*records), 0, (1000,))
    assert made is not None
    assert len(made.rows.queues) == 600
    same_rows(made.rows, expected)


def _records(fields: list[tuple[bytes, int, bytes]]) -> tuple[bytes, npt.NDArray[np.int64]]:
    data, positions = b"", []
    for topic, queue_id, properties in fields:
        positions.append(len(data))
        one = RecordFields(topic, queue_id, b"x", properties, 0, 0, 1, bytes(8), bytes(8))
        data += encode_record(one, len(data), len(positions), 2)
    return data, np.array(positions, np.int64)


def test_delayed_records_have_the_time_of_their_level() -> None:
    texts = [b"", *(b"DELAY\x01%d\x02" % level for level in (0, 1, 2, 3, 19)), b"TAGS\x01a\x02DELAY\x0102\x02"]
    data, positions = _records([(topic, 0, text) for topic in (SCHEDULE_TOPIC.encode(), b"t") for text in texts])
    records = pa.py_buffer(data), positions, np.diff([*positions, len(data)]).astype(np.int64)
    made = sound_rows(records, 0, (1000, 5000, 10_000), (0, 0))
    assert made is not None
    assert made.rows.tags_codes.tolist() == [0, 0, 1002, 5002, 10_002, 10_002, 5002, *[0] * 6, 97]


PARTS: Final = st.sampled_from(
    [b"\0\0\0\x08abcd"] * 8 + [b"\0\0\0\x04", b"\0\0\0\x20", b"\xff\xff\xff\xf0", b"\x7f" * 4, b"x"]
)
_LMQS: Final = b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x013\x02"
UNUSUAL: Final[dict[str, dict[str, Any]]] = {
    "another place": {"base": 1},
    "LMQs": {"properties": _LMQS},
    "TAGS are half of a pair": {"properties": b"TAGS\x01\xed\xa0\x80\x02"},
    "KEYS are no text": {"properties": b"KEYS\x01a \xc3\x02"},
    "a longer form": {"properties": b"UNIQ_KEY\x01\xe0\x80\xaf\x02"},
    "beyond Unicode": {"properties": b"TAGS\x01\xf4\x90\x80\x80\x02"},
    "topic is no text": {"topic": b"t\xff"},
    "prepared": {"sys_flag": 4},
    "rolled back": {"sys_flag": 12},
    "inner batch": {"sys_flag": 0x80},
    "no queue": {"queue_id": -1},
    "DELAY is no number": {"topic": b"SCHEDULE_TOPIC_XXXX", "properties": b"DELAY\x01 3\x02"},
    "zeros": {"properties": bytes(30)},
}


@pytest.mark.parametrize("case", UNUSUAL)
def test_unusual_record_is_left_over(case: str) -> None:
    changes: dict[str, Any] = {
        "topic": b"t",
        "queue_id": 0,
        "properties": b"",
        "sys_flag": 0,
        "base": 0,
        **UNUSUAL[case],
    }
    base = changes.pop("base")
    fields = RecordFields(body=b"x", flag=0, born_timestamp=1, born_host=bytes(8), store_host=bytes(8), **changes)
    data = encode_record(fields, 0, 0, 2)
    records = pa.py_buffer(data), np.zeros(1, np.int64), np.array([len(data)])
    assert sound_rows(records, base, (1000,), (0, 0)) is None


def test_topic_of_a_negative_size_is_left_over() -> None:
    fields = RecordFields(b"t" * 128, 0, b"x", b"", 0, 0, 1, bytes(8), bytes(8))
    data = bytearray(encode_record(fields, 0, 0, 2))
    data[4:8], data[8:12] = MAGIC_V1.to_bytes(4, "big", signed=True), (crc32(b"x\0") & 0x7FFFFFFF).to_bytes(4, "big")
    data[84:88] = (2).to_bytes(4, "big")  # the first byte of the topic's size is now one of the body
    records = pa.py_buffer(bytes(data)), np.zeros(1, np.int64), np.array([len(data)])
    assert sound_rows(records, 0, (1000,), (0, 0)) is None
    assert RecordColumns(*records).faults


@given(logs(), st.booleans())
def test_contents_are_judged_as_without_the_kernel(log: Log, bodies: bool) -> None:
    records = RecordColumns(log.buffer, log.positions, log.sizes).before_faults()
    if records.count:
        faults, protected = judge_contents(records, bodies=bodies)
        with pure_python():
            expected, expected_protected = judge_contents(records, bodies=bodies)
        assert faults == expected
        assert protected.tolist() == expected_protected.tolist()


@given(
    st.lists(PARTS, max_size=40).map(b"".join),
    st.integers(0, 40),
    st.integers(0, 400),
    st.integers(4, 20),
    st.integers(1, 60),
)
def test_sizes_are_followed_as_without_the_kernel(
    data: bytes, position: int, limit: int, least: int, most: int
) -> None:
    limit, position = min(limit, len(data)), min(position, len(data))
    positions, end = follow_sizes(pa.py_buffer(data), position, limit, least, most)
    with pure_python():
        expected, expected_end = follow_sizes(pa.py_buffer(data), position, limit, least, most)
    assert positions.tolist() == expected.tolist()
    assert end == expected_end


@given(logs(), st.integers(0, 40), st.integers(1, 10), st.sampled_from([-1, -1, 0, 3, 4, 7]))
def test_scan_is_that_of_python(log: Log, cut: int, most: int, changed: int) -> None:
    data = bytearray(log.data)
    if 0 <= changed < len(data):  # of the first record's size or magic code
        data[changed] ^= 1
    made = scan_records(pa.py_buffer(data), 0, max(len(data) - cut, 0), most)
    with pure_python():
        expected = scan_records(pa.py_buffer(data), 0, max(len(data) - cut, 0), most)
    assert (made.positions.tolist(), made.sizes.tolist()) == (expected.positions.tolist(), expected.sizes.tolist())
    assert (made.end, made.stop) == (expected.end, expected.stop)


# -- whole stores


@pytest.fixture(scope="module")
def damaged_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of usual records with delayed messages and one of many keys, and damage in three places."""
    path = tmp_path_factory.mktemp("kernel") / "s"
    with MessageStore.open(path, StoreConfig(mapped_file_size_commit_log=1 << 20)) as store:
        store.append_batch(rows(2000, 200), topic="t")
        store.put_message(Message("delayed", b"x", tags="ä", keys=["é 中"], delay_time_level=3))
        store.append_batch(rows(2000, 200), topic="other")
    log = sorted((path / "commitlog").iterdir())[0]
    raw = bytearray(log.read_bytes())
    raw[100_000] ^= 1
    raw[200_000:200_300] = bytes(300)
    log.write_bytes(raw)
    return path


def test_verify_finds_the_same_as_without_the_kernel(damaged_store: Path) -> None:
    def found() -> VerifyResult:
        result = verify_store(damaged_store, workers=1)
        result.seconds = 0
        return result

    made = found()
    with pure_python():
        assert made == found()
    assert len(made.findings) > 1


def test_rebuild_writes_the_same_bytes_as_without_the_kernel(damaged_store: Path, tmp_path: Path) -> None:
    made = _rebuilt(damaged_store, tmp_path / "with")
    with pure_python():
        assert made == _rebuilt(damaged_store, tmp_path / "without")
    assert len(made) > 10
    assert "index" in made


def _rebuilt(store: Path, path: Path) -> dict[str, bytes]:
    """Rebuild a copy; return the bytes of its queues and of its index file, whose name is a time."""
    shutil.copytree(store, path)
    for name in ("consumequeue", "index"):
        shutil.rmtree(path / name)
    rebuild_store(path)
    files = [one for name in ("consumequeue", "index") for one in (path / name).rglob("*") if one.is_file()]
    names = {one: one.relative_to(path) for one in files}
    return {"index" if "index" in names[one].parts else str(names[one]): one.read_bytes() for one in files}
