"""Senders' properties that end as a record's CRC does, or in zeros: the record is one, for every later walk."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from rocketflow_store import Message, MessageRejectedError, MessageStore, PutMessageStatus, StoreConfig, StoreReader
from rocketflow_store.format.batch_body import BatchEntry, encode_batch_body
from rocketflow_store.format.properties import decode_properties
from rocketflow_store.format.record import unlike_crc
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.broker_requests import RawMessage
from rocketflow_store.spi.broker import open_store

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 20,
    mapped_file_size_consume_queue=20_000,
    max_hash_slot_num=500,
    max_index_num=2_000,
    enable_lmq=True,
    enable_multi_dispatch=True,
)
HOST_NAME = "127.0.0.1:10911"
HOST = b"\x7f\0\0\1\0\0\0\1"
KEY = b"UNIQ_KEY\x01u\x02"
TAILS = {
    "the CRC itself": b"__CRC32#\x010123456789\x02",
    "almost its name": b"__CRC3-#\x010123456789\x02",
    "within a value": b"v\x01__CRC32#x0123456789\x02",
    "letters and digits": b"v\x01..xxCRC32xx0123456789\x02",
    "not closed": b"v\x01__CRC32#x0123456789a",
    "zeros": bytes(30),
    "an offset in an LMQ": b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x017\x02",
}


def single(store: MessageStore, tail: bytes) -> PutMessageStatus:
    return raw(store, RawMessage("t", 0, b"odd", KEY + tail, 0, 0, 1, HOST))


def batch(store: MessageStore, tail: bytes) -> PutMessageStatus:
    body = encode_batch_body([BatchEntry(0, b"odd", KEY + tail)])
    return raw(store, RawMessage("t", 0, body, b"", 0, 0, 1, HOST, is_batch=True))


def raw(store: MessageStore, message: RawMessage) -> PutMessageStatus:
    run = store.append([message])  # type: ignore[attr-defined]
    store.publish(run.end)  # type: ignore[attr-defined]
    return run.results[0].status  # type: ignore[no-any-return]


def put(store: MessageStore, tail: bytes) -> PutMessageStatus:
    return store.put_message(Message("t", b"odd", properties=decode_properties(KEY + tail), queue_id=0)).status


def columns(store: MessageStore, tail: bytes) -> PutMessageStatus:
    pairs = pa.array([list(decode_properties(KEY + tail).items())], pa.map_(pa.string(), pa.string()))
    ids = pa.array([0], pa.int32())
    store.append_batch(pa.RecordBatch.from_pydict({"body": [b"odd"], "properties": pairs, "queueId": ids}), "t")
    return PutMessageStatus.PUT_OK


@pytest.mark.parametrize("crc", [False, True])
@pytest.mark.parametrize("way", [single, batch, put, columns], ids=lambda one: one.__name__)
def test_odd_ends_of_properties_leave_records_that_every_walk_accepts(
    tmp_path: Path, way: Callable[[MessageStore, bytes], PutMessageStatus], crc: bool
) -> None:
    config = replace(CONFIG, enabled_append_prop_crc=crc)
    with open_store(tmp_path / "s", config, store_host=HOST_NAME) as store:
        for tail in TAILS.values():
            assert way(store, tail) is PutMessageStatus.PUT_OK
            assert store.put_message(Message("t", b"later", queue_id=0)).status is PutMessageStatus.PUT_OK
        shutil.copytree(tmp_path / "s", tmp_path / "killed")
    assert verify_store(tmp_path / "s").findings == []
    shutil.rmtree(tmp_path / "killed" / "consumequeue")
    with MessageStore.open(tmp_path / "killed", CONFIG) as again:
        found = again.get_message("t", 0, 0, 100).messages
        assert [one.body for one in found] == [b"odd", b"later"] * len(TAILS)
        assert crc or all("__CRC32#" not in one.properties for one in found)
    with StoreReader(tmp_path / "s") as reader:
        assert reader.bounds("%LMQ%a", 0) == ((0, 0) if way is batch else (0, 1))


def test_properties_that_end_as_a_crc_in_both_spellings_are_refused(tmp_path: Path) -> None:
    tail = b"v\x01w\x02___CR32#\x01\x010123456789\x02"
    with pytest.raises(MessageRejectedError, match="as the CRC of a record does"):
        unlike_crc(tail)
    config = replace(CONFIG, enabled_append_prop_crc=False)
    with open_store(tmp_path / "s", config, store_host=HOST_NAME) as store:
        assert batch(store, tail) is single(store, tail) is PutMessageStatus.MESSAGE_ILLEGAL
        assert store.max_phy_offset == 0
