"""BatchCQ topics read as rows: every message of an inner batch is one, wherever a range begins or ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rocketflow.cli import app
from rocketflow_store import Message, MessageStore, SkipFaults, StoreConfig, StoreReader
from rocketflow_store.format.batch_body import BatchEntry, encode_batch_body
from rocketflow_store.format.batch_unit import BATCH_UNIT_SIZE
from rocketflow_store.model.errors import CorruptRecordError, OffsetOutOfRangeError
from rocketflow_store.model.message import MessageBatch
from rocketflow_store.records.arrow.columns import SOURCE_COLUMNS

SMALL = StoreConfig(
    mapped_file_size_commit_log=64 << 10,
    mapped_file_size_consume_queue=20 * 50,
    mapper_file_size_batch_consume_queue=10 * BATCH_UNIT_SIZE,
    max_hash_slot_num=1000,
    max_index_num=10_000,
)
BATCHES = (1, 5, 0, 40, 2, 7, 0, 3) * 5
"""Number of messages of each record; 0 is a message outside of a batch."""


def entry(number: int) -> BatchEntry:
    properties = f"KEYS\x01k{number}\x02TAGS\x01{'ab'[number % 2]}\x02n\x01{number}\x02UNIQ_KEY\x01U{number:031d}\x02"
    return BatchEntry(number, b"body %d" % number, properties.encode())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("batches") / "s"
    number = 0
    with MessageStore.open(path, SMALL) as opened:
        opened.create_topic("b", 1, queue_type="BatchCQ")
        opened.put_message(Message("plain", b"x"))
        for count in BATCHES:
            if count:
                body = encode_batch_body(entry(one) for one in range(number, number + count))
                message: Any = MessageBatch("b", body, queue_id=0, born_host="1.2.3.4:5")
            else:
                own = {"n": str(number), "UNIQ_KEY": f"U{number:031d}"}
                tag = "ab"[number % 2]
                message = Message(
                    "b", b"body %d" % number, queue_id=0, tags=tag, keys=[f"k{number}"], properties=own, flag=number
                )
            assert opened.put_message(message).stored
            number += count or 1
    return path


TOTAL = sum(count or 1 for count in BATCHES)


def numbers(reader: StoreReader, start: int, end: int, **more: Any) -> list[int]:
    found = []
    for batch in reader.read("b", 0, start, end, columns=["queueOffset", "body", "keys"], **more):
        for offset, body, keys in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            assert body == b"body %d" % offset
            assert keys == f"k{offset}"
            found.append(offset)
    return found


def test_read_of_any_range_returns_its_messages(store: Path) -> None:
    with StoreReader(store) as reader:
        assert reader.topics() == ["b", "plain"]
        assert reader.queues("b") == [0]
        assert reader.bounds("b", 0) == reader.snapshot().queues["b", 0] == (0, TOTAL)
        for start in range(0, TOTAL + 1, 3):
            for end in {start, min(start + 1, TOTAL), min(start + 50, TOTAL), TOTAL}:
                assert numbers(reader, start, end, max_batch_bytes=3000) == list(range(start, end))
                assert len(reader.read_units("b", 0, start, end)) == end - start
        with pytest.raises(OffsetOutOfRangeError):
            numbers(reader, 3, TOTAL + 1)


def test_columns_come_from_the_message_or_its_record(store: Path) -> None:
    with StoreReader(store) as reader:
        rows = [
            row
            for batch in reader.read("b", 0, 0, TOTAL, columns=[*SOURCE_COLUMNS, "properties"])
            for row in batch.to_pylist()
        ]
        assert [row["flag"] for row in rows] == list(range(TOTAL))
        assert [row["tags"] for row in rows] == ["ab"[number % 2] for number in range(TOTAL)]
        assert [row["uniqKey"] for row in rows] == [f"U{number:031d}" for number in range(TOTAL)]
        assert [dict(row["properties"])["n"] for row in rows] == [str(number) for number in range(TOTAL)]
        at = 0
        for count in BATCHES:
            record = reader.look_message_by_offset(rows[at]["physicalOffset"])
            assert record is not None
            assert record.queue_offset == at
            for row in rows[at : at + (count or 1)]:
                assert row["physicalOffset"] == record.phy_offset
                assert (row["storeSize"], row["msgId"]) == (record.store_size, record.msg_id)
                assert (row["bornHost"], row["sysFlag"]) == (record.born_host, record.sys_flag)
            at += count or 1


def test_tags_filter_inner_messages(store: Path) -> None:
    with StoreReader(store) as reader:
        assert numbers(reader, 2, 77, tags="b") == [number for number in range(2, 77) if number % 2]


def test_offsets_by_time_of_batches(store: Path) -> None:
    with StoreReader(store) as reader:
        times = [
            time.timestamp() * 1000
            for batch in reader.read("b", 0, 0, TOTAL, columns=["storeTimestamp"])
            for time in batch.column(0).to_pylist()
        ]
        for at in range(0, TOTAL, 7):
            found = reader.get_offset_in_queue_by_time("b", 0, round(times[at]), "lower")
            assert found <= at
            assert times[found] == times[at] or found == 0


def test_damaged_record_loses_only_its_messages(store: Path, tmp_path: Path) -> None:
    import shutil

    broken = tmp_path / "s"
    shutil.copytree(store, broken)
    with StoreReader(broken) as reader:
        unit = reader.read_units("b", 0, 20, 21)
        at, size = int(unit["phy_offset"][0]), int(unit["msg_size"][0])
    log = broken / "commitlog" / f"{at // (64 << 10) * (64 << 10):020d}"
    raw = bytearray(log.read_bytes())
    raw[at % (64 << 10) + size // 2] ^= 1
    log.write_bytes(raw)
    with StoreReader(broken) as reader:
        with pytest.raises(CorruptRecordError):
            numbers(reader, 0, TOTAL)
        assert numbers(reader, 0, TOTAL, faults=SkipFaults()) == [*range(7), *range(47, TOTAL)]


def test_store_cat_shows_inner_messages(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["store", "cat", str(store), "--topic", "b", "--from", "5", "--max", "4", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["queueOffset"], row["body"]) for row in rows] == [(n, f"body {n}") for n in range(5, 9)]
    assert app.run(["store", "info", str(store), "--json"]) == 0
    topics = json.loads(capsys.readouterr().out)["topics"]
    assert {"topic": "b", "queues": [{"queueId": 0, "minOffset": 0, "maxOffset": TOTAL}]} in topics
