"""The writing store from outside: puts, refusals, batches, reopening, locks, readers beside it."""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketflow_store import (
    FlushDiskType,
    GetMessageStatus,
    Message,
    MessageStore,
    PutMessageResult,
    PutMessageStatus,
    SkipFaults,
    StoreConfig,
    StoreReader,
)
from rocketflow_store.fsck.repair import repair_store
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.compression import compress_body
from rocketflow_store.model.errors import (
    BatchSchemaError,
    CorruptRecordError,
    MessageRejectedError,
    NotAStoreError,
    StoreFullError,
    StoreLockedError,
    StoreVersionError,
    UnknownColumnError,
)
from rocketflow_store.model.system_flags import COMPRESSED_FLAG
from rocketflow_store.rebuild.rebuild import rebuild_store
from rocketflow_store.records.encoding.encode import BatchEncoder
from rocketflow_store.recovery.preview import preview_recovery
from rocketflow_store.testing import Probe
from tests.support.damage import digests
from tests.support.descriptors import open_paths
from tests.support.trials import FULL, LEVEL

SMALL = StoreConfig(
    mapped_file_size_commit_log=1 << 16, mapped_file_size_consume_queue=2000, max_hash_slot_num=100, max_index_num=400
)


def all_bodies(path: Path, topic: str) -> list[bytes]:
    with StoreReader(path) as reader:
        return [
            body
            for queue in reader.queues(topic)
            for batch in reader.read(topic, queue, *reader.bounds(topic, queue), columns=["body"])
            for body in batch.column(0).to_pylist()
        ]


def test_stored_messages_are_found_by_queue_key_place_and_time(tmp_path: Path) -> None:
    clock = ManualClock(1_700_000_000_000)
    with MessageStore.open(tmp_path / "s", replace(SMALL, clock=clock)) as store:
        results = []
        for number in range(500):
            clock.set(1_700_000_000_000 + number * 1000)
            results.append(
                store.put_message(
                    Message("orders", b"b%d" % number, tags=f"t{number % 3}", keys=[f"k{number}"], queue_id=number % 2)
                )
            )
        assert {one.status for one in results} == {PutMessageStatus.PUT_OK}
        assert [one.queue_offset for one in results[:4]] == [0, 0, 1, 1]
        got = store.get_message("orders", 1, 10, 5)
        assert got.status is GetMessageStatus.FOUND
        assert [one.body for one in got.messages] == [b"b%d" % (2 * n + 1) for n in range(10, 15)]
        assert [one.tags for one in store.get_message("orders", 0, 0, 8, tags="t1 || t2").messages] == [
            f"t{n % 3}" for n in range(0, 26, 2) if n % 3
        ][:8]
        assert [one.body for one in store.query_message("orders", "k77")] == [b"b77"]
        place = results[123].physical_offset
        message = store.look_message_by_offset(place)
        assert message is not None
        assert (message.body, message.msg_id) == (b"b123", results[123].msg_id)
        assert store.get_offset_in_queue_by_time("orders", 0, 1_700_000_000_000 + 100_500) == 51
        assert store.get_offset_in_queue_by_time("orders", 0, 1_700_000_000_000 + 100_500, "upper") == 50
    assert verify_store(tmp_path / "s").findings == []


@pytest.mark.parametrize(
    ("message", "status"),
    [
        (Message("../x", b""), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("x" * 128, b""), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("", b""), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("t\n", b""), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("t", b"x" * ((4 << 20) + 1)), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("t", None), PutMessageStatus.MESSAGE_ILLEGAL),  # type: ignore[arg-type]
        (Message("t", b"", properties={"a": "b" * 32767}), PutMessageStatus.PROPERTIES_SIZE_EXCEEDED),
        (Message("t", b"", properties={"a\x01": "b"}), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("t", b"", queue_id=-1), PutMessageStatus.MESSAGE_ILLEGAL),
    ],
)
def test_refused_messages_store_nothing(tmp_path: Path, message: Message, status: PutMessageStatus) -> None:
    with MessageStore.open(tmp_path / "s") as store:
        result = store.put_message(message)
        assert result.status is status
        assert result.why
        assert (store.max_phy_offset, store.topics()) == (0, [])


def test_bodies_and_properties_at_their_limits_are_stored(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s") as store:
        assert store.put_message(Message("t", b"x" * (4 << 20))).status is PutMessageStatus.PUT_OK
        assert store.put_message(Message("x" * 127, b"")).status is PutMessageStatus.PUT_OK
        assert store.put_message(Message("%RETRY%" + "x" * 200, b"v2")).status is PutMessageStatus.PUT_OK
        assert store.get_message("%RETRY%" + "x" * 200, 0, 0).messages[0].body == b"v2"


def test_second_writer_is_refused_with_the_name_of_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "s"
    script = (
        "import sys; sys.path[:0] = sys.argv[2:]; from rocketflow_store import MessageStore\n"
        "store = MessageStore.open(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(path), *sys.path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "open\n"
            with pytest.raises(StoreLockedError, match=str(child.pid)) as caught:
                MessageStore.open(path)
            assert caught.value.exit_code == 75
            with StoreReader(path) as reader:
                assert reader.state == "running"
        finally:
            child.kill()
    with MessageStore.open(path) as store:  # a dead holder blocks no other writer
        assert store.recovery.abort_found
        with pytest.raises(StoreLockedError, match="this process"):
            MessageStore.open(path)


def test_paths_that_are_not_stores_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    other = tmp_path / "other"
    other.mkdir()
    (other / "holiday.jpg").write_text("x")
    for path in (file, other):
        with pytest.raises(NotAStoreError):
            MessageStore.open(path)
        with pytest.raises(NotAStoreError):
            StoreReader(path)
    with pytest.raises(NotAStoreError):
        StoreReader(tmp_path / "missing")
    empty = tmp_path / "empty"
    empty.mkdir()
    with StoreReader(empty) as reader:
        assert reader.topics() == []
    assert sorted(one.name for one in tmp_path.iterdir()) == ["empty", "file", "other"]


def test_store_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, SMALL) as store:
        store.put_message(Message("t", b"x"))
        meta = store.paths.meta
    meta.write_text(meta.read_text().replace('"formatVersion": 1', '"formatVersion": 99'))
    shutil.rmtree(path / "consumequeue")
    before = digests(path)
    for change in (MessageStore.open, repair_store, preview_recovery, rebuild_store):
        with pytest.raises(StoreVersionError, match=r"of format version 99.* write with the version that created it"):
            change(path)
    assert digests(path) == before
    with StoreReader(path) as reader:
        assert reader.look_message_by_offset(0) is not None


def test_failed_open_leaves_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path) as store:
        store.put_message(Message("t", b"x", keys="k"))

    def full(*_: object, **__: object) -> None:
        raise StoreFullError(path, "no space left on device")

    for name in ("engine.writing.ConfirmFile", "recovery.recovery.clamp_positions"):
        monkeypatch.setattr(f"rocketflow_store.{name}", full)
        gc.collect()
        before = len(open_paths(path))
        for _ in range(5):
            with pytest.raises(StoreFullError):
                MessageStore.open(path)
        assert len(open_paths(path)) == before
    monkeypatch.undo()
    with MessageStore.open(path) as store:
        assert [one.body for one in store.query_message("t", "k")] == [b"x"]


NONSENSE: list[Any] = [
    Message("t", 5),
    Message("t", "text"),
    Message(None, b"x"),
    "x",
    None,
    Message("t", b"x", tags=5),
]  # type: ignore[arg-type]


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_invalid_message_is_refused_alone(tmp_path: Path, nonsense: Any) -> None:
    outcomes: list[PutMessageResult] = []
    asked = [Message("t", b"a", queue_id=0), nonsense, Message("t", b"b", queue_id=0)]
    with MessageStore.open(tmp_path / "s") as store:
        threads = [threading.Thread(target=lambda one=one: outcomes.append(store.put_message(one))) for one in asked]
        with Probe(store).put_lock:  # they wait for each other, and are appended together
            for thread in threads:
                thread.start()
                time.sleep(0.05)
        for thread in threads:
            thread.join(30)
        outcomes += store.put_messages(asked)
        outcomes += store.put_messages_async(asked).result(30)
        outcomes.append(store.put_message_async(nonsense).result(30))
    refused = [one for one in outcomes if one.status is PutMessageStatus.MESSAGE_ILLEGAL]
    assert (len(outcomes), len(refused)) == (10, 4)
    assert all(one.stored for one in outcomes if one not in refused)
    assert sorted(all_bodies(tmp_path / "s", "t")) == [b"a"] * 3 + [b"b"] * 3


def test_unclean_stop_is_recovered_with_everything_that_was_written(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, SMALL) as store:
        store.put_messages([Message("t", b"a%d" % n, keys=[f"a{n}"]) for n in range(300)])
    child = os.fork()
    if child == 0:
        store = MessageStore.open(path)
        store.put_messages([Message("t", b"b%d" % n, keys=[f"b{n}"]) for n in range(700)])
        os._exit(9)
    os.waitpid(child, 0)
    with StoreReader(path) as reader:
        assert reader.state == "unclean"
    with MessageStore.open(path) as store:
        assert store.recovery.abort_found
        assert [one.body for one in store.query_message("t", "b699")] == [b"b699"]
        assert [one.body for one in store.query_message("t", "a5")] == [b"a5"]
    wanted = [b"a%d" % n for n in range(300)] + [b"b%d" % n for n in range(700)]
    assert sorted(all_bodies(path, "t")) == sorted(wanted)
    assert verify_store(path).findings == []


def test_store_time_never_falls(tmp_path: Path) -> None:
    clock = ManualClock(5000)
    with MessageStore.open(tmp_path / "s", replace(SMALL, clock=clock)) as store:
        assert store.put_message(Message("t", b"")).store_timestamp == 5000
        clock.set(1000)
        assert store.put_message(Message("t", b"")).store_timestamp == 5000
    with MessageStore.open(tmp_path / "s", replace(SMALL, clock=clock)) as store:
        assert store.put_message(Message("t", b"")).store_timestamp == 5000


def test_concurrent_writers_and_a_reader_beside_them(tmp_path: Path) -> None:
    path = tmp_path / "s"
    config = replace(SMALL, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    seen: list[int] = []
    stop = threading.Event()
    with MessageStore.open(path, config) as store:
        store.create_topic("t", 4)

        def write(writer: int) -> None:
            for number in range(100):
                result = store.put_message(Message("t", b"%d-%d" % (writer, number)))
                assert result.status is PutMessageStatus.PUT_OK

        def watch() -> None:
            with StoreReader(path) as reader:
                while not stop.is_set():
                    bounds = reader.snapshot().queues
                    rows = sum(
                        batch.num_rows
                        for (t, q), (low, high) in bounds.items()
                        for batch in reader.read(t, q, low, high)
                    )
                    seen.append(rows)

        writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        watcher = threading.Thread(target=watch)
        watcher.start()
        for one in writers:
            one.start()
        for one in writers:
            one.join()
        stop.set()
        watcher.join()
    assert seen == sorted(seen)
    assert sorted(all_bodies(path, "t")) == sorted(b"%d-%d" % (w, n) for w in range(4) for n in range(100))


def test_delay_and_timer_are_stored_under_their_topics(tmp_path: Path) -> None:
    clock = ManualClock(1_700_000_000_000)
    with MessageStore.open(tmp_path / "s", replace(SMALL, clock=clock)) as store:
        delayed = store.put_message(Message("t", b"d", delay_time_level=3, queue_id=2))
        timed = store.put_message(Message("t", b"w", deliver_timestamp=1_700_000_005_500, queue_id=1))
        far = store.put_message(Message("t", b"f", deliver_timestamp=1_800_000_000_000))
        assert (delayed.topic, delayed.queue_id) == ("SCHEDULE_TOPIC_XXXX", 2)
        assert store.find("SCHEDULE_TOPIC_XXXX", 2) is not None
        assert int(store.read_units("SCHEDULE_TOPIC_XXXX", 2, 0, 1)["tags_code"][0]) == 1_700_000_010_000
        properties = store.get_message("rmq_sys_wheel_timer", 0, 0).messages[0].properties
        assert timed.topic == "rmq_sys_wheel_timer"
        assert (properties["REAL_TOPIC"], properties["REAL_QID"], properties["TIMER_OUT_MS"]) == (
            *("t", "1", "1700000005000"),
        )
        assert far.status is PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL


texts = st.text(st.characters(blacklist_characters="\x00\x01\x02", blacklist_categories=("Cs",)), max_size=12)
names = st.text("abcdefXYZ_é", min_size=1, max_size=6)
STORE_S_OWN = [
    *("KEYS", "TAGS", "__SHARDINGKEY", "UNIQ_KEY", "REAL_TOPIC", "REAL_QID", "TIMER_OUT_MS", "WAIT"),
    *("__CRC32#", "INNER_BASE", "INNER_MULTI_QUEUE_OFFSET", "__RMQ.TRANSIENT.x"),
]
pairs = (
    st.tuples(names | st.sampled_from(STORE_S_OWN), texts.filter(bool))
    | st.tuples(st.sampled_from(["DELAY", "REAL_QID"]), st.sampled_from(["0", "1", "3"]))
    | st.tuples(st.sampled_from(["TIMER_DELAY_SEC", "TIMER_DELAY_MS"]), st.sampled_from(["1", "5"]))
)
rows = st.fixed_dictionaries(
    {
        "body": st.binary(max_size=60),
        "topic": st.sampled_from(["a", "b-topic", "%RETRY%g", "x" * 127]),
        "tags": st.none() | texts,
        "keys": st.none() | st.lists(st.text("abc é", max_size=5), max_size=3),
        "properties": st.none() | st.lists(pairs, max_size=5, unique_by=lambda p: p[0]),
        "queueId": st.none() | st.integers(0, 3),
        "shardingKey": st.none() | texts,
        "flag": st.none() | st.integers(-(2**31), 2**31 - 1),
        "delayTimeLevel": st.none() | st.integers(0, 20),
        "bornTimestamp": st.none() | st.integers(0, 2**40),
    }
)
SCHEMA = pa.schema(
    [
        ("body", pa.binary()),
        ("topic", pa.string()),
        ("tags", pa.string()),
        ("keys", pa.list_(pa.string())),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("queueId", pa.int32()),
        ("shardingKey", pa.string()),
        ("flag", pa.int32()),
        ("delayTimeLevel", pa.int32()),
        ("bornTimestamp", pa.int64()),
    ]
)


def as_message(row: dict[str, Any]) -> Message:
    return Message(
        topic=row["topic"],
        body=row["body"],
        tags=row["tags"],
        keys=row["keys"] or (),
        properties=dict(row["properties"] or []),
        queue_id=row["queueId"],
        sharding_key=row["shardingKey"],
        flag=row["flag"] or 0,
        delay_time_level=row["delayTimeLevel"] or 0,
        born_timestamp=row["bornTimestamp"],
    )


@settings(max_examples=200 if FULL else 40 if LEVEL == "fast" else 12)
@given(st.lists(rows, min_size=1, max_size=12))
def test_batches_store_the_bytes_of_single_puts(given_rows: list[dict[str, Any]]) -> None:
    """Columnar equals scalar: same rows, same CommitLog and queues except for the UNIQ_KEYs, which are new."""
    import tempfile

    clock = ManualClock(1_700_000_000_000)
    with tempfile.TemporaryDirectory() as home:
        ones, batch = Path(home) / "ones", Path(home) / "batch"
        with MessageStore.open(ones, replace(SMALL, clock=clock)) as store:
            for row in given_rows:
                assert store.put_message(as_message(row)).stored
        with MessageStore.open(batch, replace(SMALL, clock=clock)) as store:
            result = store.append_batch(pa.RecordBatch.from_pylist(given_rows, schema=SCHEMA))
            assert result.rows == len(given_rows)
        assert fields_of(ones) == fields_of(batch)
        with StoreReader(ones) as reader, StoreReader(batch) as other:
            for row in given_rows:
                for key in dict(row["properties"] or []).get("KEYS", "").split():
                    asked = row["topic"], key
                    assert len(reader.query_message(*asked)) == len(other.query_message(*asked))


def fields_of(path: Path) -> list[Any]:
    with StoreReader(path) as reader:
        found = []
        offset = 0
        while (message := reader.look_message_by_offset(offset)) is not None:
            properties = [
                (k, "new" if k == "UNIQ_KEY" and re.fullmatch(r"[0-9A-F]{32,56}", v) else v)
                for k, v in message.properties.items()
                if k != "__CRC32#"
            ]
            unit = reader.read_units(
                message.topic, message.queue_id, message.queue_offset, message.queue_offset + 1
            ).tolist()
            found.append(
                (
                    unit,
                    *(message.phy_offset, message.topic, message.queue_id, message.queue_offset, message.stored_body),
                    *(message.flag, message.sys_flag, message.born_timestamp, message.store_size, message.body_crc),
                    properties,
                )
            )
            offset += message.store_size
        return found


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"body": [b"a", None]}, "row 1: the body is null"),
        ({"body": [b"a", b"x" * (5 << 20)]}, "row 1: body of"),
        ({"body": [b"a", b"b"], "topic": ["t", "../x"]}, "row 1: topic"),
        ({"body": [b"a", b"b"], "tags": ["t", "a\x01"]}, "row 1: "),
        (
            {"body": [b"a"] * 5000, "queueId": pa.array([0] * 4998 + [65_536, -1], pa.int32())},
            "row 4998: queueId 65536",
        ),
        (
            {"body": [b"a", b"b"], "queueId": pa.array([0, -1], pa.int32())},
            "row 1: queueId -1: a topic has queues 0",
        ),
        ({"body": [b"a", b"b"], "keys": ["k", "y" * 40000]}, "row 1: properties of"),
    ],
)
def test_refused_row_refuses_the_batch_and_is_named(tmp_path: Path, columns: dict[str, Any], why: str) -> None:
    with MessageStore.open(tmp_path / "s") as store:
        with pytest.raises(MessageRejectedError, match=why):
            store.append_batch(pa.RecordBatch.from_pydict(columns), topic="t")
        assert store.max_phy_offset == 0


def test_unknown_columns_are_named(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s") as store, pytest.raises(UnknownColumnError, match="colour"):
        store.append_batch(pa.RecordBatch.from_pydict({"body": [b"a"], "colour": ["red"]}), topic="t")


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"tags": ["red"]}, "column body: is missing"),
        ({"body": [1]}, "column body: is int64; it takes binary"),
        ({"body": [b"a"], "queueId": ["one"]}, "column queueId: is string; it takes int32"),
        ({"body": [b"a"] * 40_000, "flag": [0] * 39_999 + [1 << 40]}, "column flag: .*1099511627776"),
        ({"body": [b"a"], "delayTimeLevel": [2.5]}, "column delayTimeLevel: is double"),
        ({"body": [b"a"], "bornTimestamp": ["today"]}, "column bornTimestamp: is string; it takes int64"),
        ({"body": [b"a"], "deliverTimestamp": [2.5]}, "column deliverTimestamp: is double"),
        ({"body": [b"a"], "tags": [b"\xff"]}, "column tags: is binary; it takes string"),
        ({"body": [b"a"], "keys": [[b"\xff"]]}, "column keys: is list"),
        ({"body": [b"a"], "properties": [{"a": 1}]}, "column properties: is struct.*takes map<string, string>"),
    ],
)
def test_invalid_columns_refuse_the_batch(tmp_path: Path, columns: dict[str, Any], why: str) -> None:
    with MessageStore.open(tmp_path / "s") as store:
        with pytest.raises(BatchSchemaError, match=why):
            store.append_batch(pa.RecordBatch.from_pydict(columns), topic="t")
        assert store.max_phy_offset == 0


def test_duplicate_column_refuses_the_batch(tmp_path: Path) -> None:
    body = pa.array([b"a"])
    with MessageStore.open(tmp_path / "s") as store:
        with pytest.raises(BatchSchemaError) as caught:
            store.append_batch(pa.Table.from_arrays([body, body], ["body", "body"]), topic="t")
        assert caught.value.column == "body"
        assert store.max_phy_offset == 0


def test_rows_without_keys_and_tags_are_stored(tmp_path: Path) -> None:
    """Sliced, with empty and missing values side by side, and no other column that is always there."""
    batch = pa.RecordBatch.from_pydict(
        {
            "body": [b"%d" % n for n in range(50)],
            "tags": [None if n % 3 else ("" if n % 2 else f"t{n}") for n in range(50)],
            "keys": [None if n % 2 else ("" if n % 4 else f"k{n}") for n in range(50)],
        }
    )
    with MessageStore.open(tmp_path / "s") as store:
        store.create_topic("t", 1)
        assert store.append_batch(batch.slice(5, 40), topic="t").rows == 40
    with StoreReader(tmp_path / "s") as reader:
        (read,) = reader.read("t", 0, 0, 40, ["body", "tags", "keys"])
    assert read.to_pylist() == [
        {name: value or None for name, value in row.items()} for row in batch.slice(5, 40).to_pylist()
    ]


def test_row_digest_does_not_depend_on_partitioning() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"body": [b"%d" % n for n in range(1000)], "keys": [f"k{n}" for n in range(1000)]}
    )

    def digest(parts: list[pa.RecordBatch]) -> int:
        encoder = BatchEncoder(StoreConfig(), lambda _: 8, default_topic="t", row_hashes=True)
        total = 0
        for part in parts:
            for chunk in encoder.encode(part, 1):
                assert chunk.row_hashes is not None
                total += int(chunk.row_hashes.sum(dtype=np.uint64))
        return total & 0xFFFFFFFFFFFFFFFF

    assert digest([batch]) == digest([batch.slice(500), batch.slice(0, 500)])
    assert digest([batch]) != digest([batch.slice(1)])


# -- record CRCs


def with_crc(path: Path) -> list[bool]:
    with StoreReader(path) as reader:
        messages = []
        while (one := reader.look_message_by_offset(sum(message.store_size for message in messages))) is not None:
            messages.append(one)
    return ["__CRC32#" in one.properties for one in messages]


def put_one_each_way(path: Path, config: StoreConfig) -> None:
    with MessageStore.open(path, config) as store:
        assert store.put_message(Message("t", b"1", queue_id=0)).stored
        rows = pa.RecordBatch.from_pylist(
            [{"body": b"2", "queueId": 0}], schema=pa.schema([("body", pa.binary()), ("queueId", pa.int32())])
        )
        store.append_batch(rows, topic="t")


def test_store_of_rocketflow_has_a_crc_in_every_record(tmp_path: Path) -> None:
    path = tmp_path / "s"
    put_one_each_way(path, SMALL)
    put_one_each_way(path, replace(SMALL, enabled_append_prop_crc=False))
    put_one_each_way(path, SMALL)
    assert with_crc(path) == [True, True, False, False, True, True], "the key that is set wins"
    assert verify_store(path).clean
    data = bytearray((path / "commitlog" / f"{0:020d}").read_bytes())
    data[72] ^= 1  # reconsumeTimes: only this CRC protects it
    (path / "commitlog" / f"{0:020d}").write_bytes(data)
    assert not verify_store(path).clean


def test_store_of_another_writer_keeps_its_record_format(tmp_path: Path) -> None:
    path = tmp_path / "s"
    put_one_each_way(path, replace(SMALL, enabled_append_prop_crc=False))
    put_one_each_way(path, SMALL)
    shutil.rmtree(path / "rocketflow")  # as if a broker had made it
    put_one_each_way(path, SMALL)
    put_one_each_way(path, SMALL)
    assert with_crc(path) == [False] * 8
    put_one_each_way(path, StoreConfig.from_mapping({"enabledAppendPropCRC": True}))
    assert with_crc(path) == [False] * 8 + [True] * 2


def test_growing_bodies_come_in_batches_of_bounded_size(tmp_path: Path) -> None:
    sizes = [20 << 20, 1000, 20 << 20, 30 << 20, 10]
    with MessageStore.open(tmp_path / "s", SMALL) as store:
        for number, size in enumerate(sizes):
            body = compress_body(bytes([number]) * size, 0)
            store.put_message(Message("t", body, tags="ab"[number % 2], queue_id=0, sys_flag=COMPRESSED_FLAG))
        store.put_message(Message("t", b"plain", tags="b", queue_id=0))
        batches = list(store.read("t", 0, 0, 6, ["queueOffset", "body"]))
        lengths = [[len(body.as_py()) for body in batch.column(1)] for batch in batches]
        assert lengths == [sizes[:3], [*sizes[3:], 5]]
        assert [row for batch in batches for row in batch.column(0).to_pylist()] == list(range(6))
        assert [batch.column(1)[0].as_py()[:1] for batch in batches] == [b"\0", b"\3"]
        tagged = store.read("t", 0, 0, 6, ["queueOffset", "body"], tags="b")
        assert [row for batch in tagged for row in batch.column(0).to_pylist()] == [1, 3, 5]


def test_undecodable_body_affects_only_its_message(tmp_path: Path) -> None:
    """Garbage that a client called compressed, an unknown compression; an empty one is empty, as in RocketMQ."""
    bodies = [(b"plain", 0), (b"garbage", 1), (compress_body(b"packed", 0), 1), (b"", 1), (b"x", 0x701), (b"last", 0)]
    with MessageStore.open(tmp_path / "s", SMALL) as store:
        for body, sys_flag in bodies:
            assert store.put_message(Message("t", body, queue_id=0, sys_flag=sys_flag)).stored
        read = store.read("t", 0, 0, 6, ["queueOffset", "body"], faults=SkipFaults())
        rows = [tuple(row.values()) for batch in read for row in batch.to_pylist()]
        assert rows == [(0, b"plain"), (2, b"packed"), (3, b""), (5, b"last")]
        for start, why in ((1, "does not decompress as zlib"), (4, "compression type 7")):
            with pytest.raises(CorruptRecordError, match=f"{why}.*topic t, queue 0, queue offset {start}"):
                list(store.read("t", 0, start, 6, ["body"]))
        assert [batch.num_rows for batch in store.read("t", 0, 0, 6, ["queueOffset"])] == [6]


@pytest.mark.parametrize("base", [1 << 31, 1 << 32, 1 << 41, 1 << 55])
def test_log_that_begins_at_a_large_offset(tmp_path: Path, base: int) -> None:
    """B7: physical offsets are 64 bits wide everywhere."""
    path = tmp_path / "s"
    size = SMALL.mapped_file_size_commit_log
    (path / "commitlog").mkdir(parents=True)
    with (path / "commitlog" / f"{base:020d}").open("wb") as file:
        file.truncate(size)
    with MessageStore.open(path, SMALL) as store:
        first = store.put_message(Message("t", b"first", keys="k0", queue_id=0))
        assert (first.physical_offset, first.queue_offset) == (base, 0)
        for number in range(1, 300):
            store.put_message(Message("t", b"x" * 500, keys=f"k{number}", queue_id=0))
        assert store.max_phy_offset > base + size
    with MessageStore.open(path, SMALL) as store:
        assert store.recovery.healed == ()
        assert [one.phy_offset for one in store.query_message("t", "k0")] == [base]
        message = store.view_message("t", first.msg_id)
        assert message is not None
        assert (message.body, message.phy_offset) == (b"first", base)
    assert verify_store(path).findings == []
    shutil.rmtree(path / "consumequeue")
    shutil.rmtree(path / "index")
    with MessageStore.open(path, SMALL) as store:
        assert store.bounds("t", 0) == (0, 300)
    (path / "abort").write_bytes(b"1")
    with MessageStore.open(path, SMALL) as store:
        assert store.put_message(Message("t", b"last", queue_id=0)).queue_offset == 300
    with StoreReader(path) as reader:
        places = [
            int(offset)
            for batch in reader.read("t", 0, 0, 301, ["physicalOffset"])
            for offset in batch.column(0).to_pylist()
        ]
    assert (places[0], len(places), places == sorted(places)) == (base, 301, True)
    assert verify_store(path).findings == []
