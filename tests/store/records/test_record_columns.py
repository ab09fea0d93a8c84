"""Fields of many records at once (`decoding.decode.RecordColumns`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rocketflow_store import Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.format.record import RecordFields, encode_record
from rocketflow_store.model.message_id import encode_host
from rocketflow_store.records.decoding.decode import RecordColumns

_HOST = encode_host("10.0.0.5:10911")


@pytest.mark.parametrize("topics", [["a", "bbb"], ["%RETRY%" + "g" * 140], ["%RETRY%" + "g" * 140, "a"]])
def test_records_without_properties_are_valid(topics: list[str]) -> None:
    """4.9 stores a message without properties as it is, next to records of any topic."""
    records = [
        encode_record(RecordFields(topic.encode(), 0, b"body", b"", 0, 0, 1, _HOST, _HOST), 0, 0, 1) for topic in topics
    ]
    sizes = np.array([len(one) for one in records], np.int64)
    columns = RecordColumns(pa.py_buffer(b"".join(records)), np.cumsum(sizes) - sizes, sizes)
    assert not columns.faults
    assert columns.topics().to_pylist() == topics


def test_ids_with_ipv4_and_ipv6_hosts_are_those_of_single_messages(tmp_path: Path) -> None:
    for host in ("127.0.0.1:10911", "[2001:db8::1]:10911"):
        with MessageStore.open(
            tmp_path / "s", StoreConfig(store_host=host, mapped_file_size_commit_log=1 << 16)
        ) as store:
            store.put_messages([Message("t", b"x", queue_id=0, born_host=born) for born in ("[::1]:7", "10.0.0.1:9")])
    with StoreReader(tmp_path / "s") as reader:
        rows = pa.Table.from_batches(reader.read("t", 0, 0, 4, ["msgId", "bornHost", "storeHost"])).to_pylist()
        messages = reader.get_message("t", 0, 0, 4).messages
    assert [len(row["msgId"]) for row in rows] == [32, 32, 56, 56]
    assert [(row["msgId"], row["bornHost"], row["storeHost"]) for row in rows] == [
        (one.msg_id, one.born_host, one.store_host) for one in messages
    ]
