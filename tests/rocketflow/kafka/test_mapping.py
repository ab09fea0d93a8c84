"""The mapping without a broker: every Kafka message is restored exactly from a stored message's properties."""

from __future__ import annotations

import base64
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rocketflow.kafka.client.partition_rows import HeaderRows, KafkaRows
from rocketflow.kafka.client.record_batches import BrokenBatchError, RawBatch, decode_batches
from rocketflow.kafka.into_kafka.to_records import kafka_rows
from rocketflow.kafka.into_store.to_rows import QueueRule, sink_rows
from rocketflow.kafka.shared import property_names as names
from rocketflow_store.format.properties import decode_properties, encode_properties
from rocketflow_store.model.message import Message
from rocketflow_store.records.encoding.message_encoder import MessageEncoder
from tests.support.trials import FULL

EXAMPLES = settings(max_examples=1000 if FULL else 40)
HEADER_NAMES = st.one_of(
    st.sampled_from(
        [
            "city",
            "rocketmq.properties",
            "TAGS",
            "KEYS",
            "rocketmq.TAGS",
            "rocketmq.KEYS",
            "KAFKA_OFFSET",
            "DELAY",
            "a.b",
            "",
        ]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
)
BYTES = st.one_of(
    st.binary(max_size=12),
    st.sampled_from([b"", b"\x01", b"\x02", b"x", "grüß".encode(), b"a b", b"=="]),
    st.sampled_from(
        [b'{"city": "x"}', b'{"DELAY": "3", "\xc3\xbc": "a\\nb", "KEYS": "k"}', b'{"a": 1, "__x": "\\u0001"}']
    ),
)
MESSAGES = st.lists(
    st.tuples(
        st.none() | BYTES,
        st.none() | BYTES,
        st.lists(st.tuples(HEADER_NAMES, st.none() | BYTES), max_size=4),
        st.one_of(st.just(-1), st.integers(-(1 << 62), 1 << 62)),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)
Given = list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int, bool]]


def as_rows(messages: Given) -> KafkaRows:
    flat = [(row, name.encode(), value) for row, one in enumerate(messages) for name, value in one[2]]
    headers = HeaderRows(
        np.array([one[0] for one in flat], np.int64),
        pa.array([one[1] for one in flat], pa.binary()),
        pa.array([one[2] for one in flat], pa.binary()),
    )
    return KafkaRows(
        "orders.eu",
        3,
        np.arange(len(messages)) + 17,
        np.array([one[3] for one in messages], np.int64),
        np.array([one[4] for one in messages], bool),
        pa.array([one[0] for one in messages], pa.binary()),
        pa.array([one[1] for one in messages], pa.binary()),
        headers if flat else None,
    )


def through_records(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows as a reader reads them after they were stored, with properties encoded into a record's string."""
    rows = []
    for row in batch.drop_columns(["bornTimestamp"]).to_pylist():
        message = Message(
            topic="t",
            body=row["body"],
            tags=row.get("tags"),
            keys=row["keys"] or "",
            sharding_key=row["shardingKey"],
            properties=dict(row["properties"]),
        )
        stored = decode_properties(encode_properties({**MessageEncoder.own_properties(message), "UNIQ_KEY": "AC11"}))
        rows.append((row["body"], row.get("flag") or 0, stored))
    born = batch.column("bornTimestamp").fill_null(0).cast(pa.int64())
    return pa.RecordBatch.from_arrays(
        [
            pa.array(range(len(rows)), pa.int64()),
            pa.array([one[0] for one in rows], pa.binary()),
            pa.array([one[1] for one in rows], pa.int32()),
            pa.array([one.as_py() * 1000 for one in born], pa.int64()).cast(pa.timestamp("us", tz="UTC")),
            pa.array([list(one[2].items()) for one in rows], pa.map_(pa.string(), pa.string())),
        ],
        names=["queueOffset", "body", "flag", "bornTimestamp", "properties"],
    )


@EXAMPLES
@given(MESSAGES)
@example([(b"", None, [("", None), ("", b""), ("x", b"\xff")], -1, True), (None, None, [], 5, False)])
@example([(b"k", b"v", [("TAGS", b"t"), ("b", b"2"), ("a", b"1"), ("b", b"2")], 1, False)])
@example([(b"k", b"v", [("b", b"1"), ("a", b"1"), ("b", b"2")], 1, False)])
@example([(b"k", b"v", [("b", b"1"), ("b", b"2")], 1, False)])
@example([(b"k", b"v", [("rocketmq.properties", b'{"city": "a\\nb"}'), ("city", b"a\nb")], 1, False)])
@example(
    [(b"k", b"v", [("rocketmq.properties", b'{"city": "a"}'), ("city", b"b")], 1, False), (None, b"", [], 1, False)]
)
@example([(b"\xff\x00", b"", [("rocketmq.FLAG", b"7"), ("rocketmq.TAGS", b"paid")], 1 << 61, False)])
def test_kafka_message_is_restored_exactly(messages: Given) -> None:
    back = kafka_rows(through_records(sink_rows(as_rows(messages), QueueRule())))
    assert back.keys == [one[0] for one in messages]
    assert back.values == [one[1] for one in messages]
    assert back.headers == [one[2] for one in messages]
    assert back.timestamps == [one[3] for one in messages]


def test_plain_key_and_headers_map_to_keys_tags_and_properties() -> None:
    message = (b"o-1", b"body", [("city", "Köln".encode()), ("rocketmq.TAGS", b"paid")], 1_700_000_000_000, False)
    row = sink_rows(as_rows([message]), QueueRule()).to_pylist()[0]
    properties = dict(row["properties"])
    assert (row["keys"], row["shardingKey"], row["tags"], row["queueId"]) == ("o-1", "o-1", "paid", 3)
    assert row["bornTimestamp"].timestamp() == 1_700_000_000
    assert properties["city"] == "Köln"
    assert [properties[one] for one in (names.ORIGIN_TOPIC, names.ORIGIN_PARTITION, names.ORIGIN_OFFSET)] == [
        "orders.eu",
        "3",
        "17",
    ]


@EXAMPLES
@given(st.lists(st.tuples(st.none() | BYTES, st.integers(0, 7)), min_size=1, max_size=30), st.integers(1, 6))
def test_equal_keys_go_to_one_queue_from_any_partition(keyed: list[tuple[bytes | None, int]], queues: int) -> None:
    rule, seen = QueueRule(queues), {}
    for key, partition in keyed:
        rows = as_rows([(key, b"v", [], 0, False)])
        rows = KafkaRows("t", partition, *(getattr(rows, one) for one in ("offsets", "timestamps", "log_append")),
                         rows.keys, rows.values)  # fmt: skip
        queue = int(rule.queue_ids(rows)[0])
        assert 0 <= queue < queues
        assert seen.setdefault((key, None if key is not None else partition), queue) == queue


def native(message: Message) -> pa.RecordBatch:
    stored = {**MessageEncoder.own_properties(message), "UNIQ_KEY": "AC11"}
    return pa.RecordBatch.from_arrays(
        [
            pa.array([0], pa.int64()),
            pa.array([message.body], pa.binary()),
            pa.array([message.flag], pa.int32()),
            pa.array([(message.born_timestamp or 0) * 1000], pa.timestamp("us", tz="UTC")),
            pa.array([list(stored.items())], pa.map_(pa.string(), pa.string())),
        ],
        names=["queueOffset", "body", "flag", "bornTimestamp", "properties"],
    )


ODD_PARTS = [
    ("KAFKA_TIMESTAMP", "soon"),
    ("KAFKA_TIMESTAMP", str(1 << 70)),
    ("KAFKA_HEADERS", "[1]"),
    ("KAFKA_HEADERS", "{}"),
    ("KAFKA_HEADERS", '[["a", 5]]'),
    ("KAFKA_HEADERS", "[" * 100_000),
    ("KAFKA_KEY_ENCODING", "base64"),
]


@pytest.mark.parametrize(("name", "text"), ODD_PARTS)
def test_malformed_kafka_properties_are_ignored_or_reported_by_row(name: str, text: str) -> None:
    """They are ignored in a message without an origin in Kafka, and reported as a fault of the row in one with it."""
    message = Message(topic="orders", body=b"b", sharding_key="no base64!", properties={name: text}, born_timestamp=12)
    out = kafka_rows(native(message))
    assert (out.keys, out.values, out.timestamps, out.faults) == ([b"no base64!"], [b"b"], [12], {})
    message.properties["KAFKA_OFFSET"] = "3"
    assert name in kafka_rows(native(message)).faults[0]


def test_rocketmq_message_is_mapped_to_kafka_and_back() -> None:
    message = Message(
        topic="orders", body=b"b", tags="paid", keys=["o-1", "o-2"], sharding_key="s", flag=-7, born_timestamp=12,
        properties={"city": "Köln", "WAIT": "true", "DELAY": "3", "TRAN_MSG": "true", "rocketmq.TAGS": "mine"},
    )  # fmt: skip
    out = kafka_rows(native(message))
    headers = dict(out.headers[0])
    assert out.keys == [b"s"]
    assert headers == {
        "city": "Köln".encode(), "rocketmq.TAGS": b"paid", "rocketmq.KEYS": b"o-1 o-2", "rocketmq.UNIQ_KEY": b"AC11",
        "rocketmq.FLAG": b"-7", "rocketmq.properties": b'{"TRAN_MSG":"true","rocketmq.TAGS":"mine"}',
    }  # fmt: skip
    back = sink_rows(
        as_rows([(out.keys[0], out.values[0], out.headers[0], out.timestamps[0] or 0, False)]), QueueRule()
    )
    row = back.to_pylist()[0]
    got = (row["body"], row["tags"], row["keys"], row["shardingKey"], row["flag"])
    assert got == (b"b", "paid", "o-1 o-2", "s", -7)
    properties = dict(row["properties"])
    assert [properties[one] for one in ("city", "TRAN_MSG")] == ["Köln", "true"]


# -- record batches


def varint(value: int) -> bytes:
    coded, out = (value << 1) ^ (value >> 63), bytearray()
    while coded >= 0x80:
        out.append(coded & 0x7F | 0x80)
        coded >>= 7
    return bytes([*out, coded])


def nullable(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


def batch_of(messages: Given, base: int, first: int) -> RawBatch:
    records = b""
    for delta, (key, value, headers, stamp, _) in enumerate(messages):
        body = b"\0" + varint(stamp - messages[0][3]) + varint(delta) + nullable(key) + nullable(value)
        body += varint(len(headers)) + b"".join(nullable(name.encode()) + nullable(item) for name, item in headers)
        records += varint(len(body)) + body
    newest = max(one[3] for one in messages)
    last = base + len(messages) - 1
    return RawBatch(base, last, messages[0][3], newest, False, len(messages), records, first)


@EXAMPLES
@given(st.lists(MESSAGES, min_size=1, max_size=3), st.integers(0, 9))
def test_decoded_record_batches_equal_the_encoded_messages(batches: list[Given], skipped: int) -> None:
    raw, base = [], 1000
    for messages in batches:
        raw.append(batch_of(messages, base, 1000 + skipped))
        base += len(messages) + 5
    wanted = [
        (one.base_offset + at, message)
        for one, messages in zip(raw, batches, strict=True)
        for at, message in enumerate(messages)
        if one.base_offset + at >= 1000 + skipped
    ]
    rows = decode_batches("t", 0, raw)
    assert rows.offsets.tolist() == [offset for offset, _ in wanted]
    assert rows.keys.to_pylist() == [one[0] for _, one in wanted]
    assert rows.values.to_pylist() == [one[1] for _, one in wanted]
    assert rows.timestamps.tolist() == [one[3] for _, one in wanted]
    headers: list[list[tuple[str, bytes | None]]] = [[] for _ in wanted]
    if rows.headers is not None:
        for row, name, value in zip(rows.headers.rows, rows.headers.names, rows.headers.values, strict=True):
            headers[row].append((name.as_py().decode(), value.as_py()))
    assert headers == [one[2] for _, one in wanted]


def test_damaged_batch_is_decoded_or_refused() -> None:
    messages: Given = [(b"key", b"v" * 80, [("h", b"1"), ("i", None)], 5, False)] * 3
    intact = batch_of(messages, 0, 0)
    rng, refused = random.Random(7), 0
    for _ in range(400):
        records = bytearray(intact.records)
        records[rng.randrange(len(records))] ^= 1 << rng.randrange(8)
        damaged = RawBatch(0, 2, 5, 5, False, 3, bytes(records[: rng.randrange(len(records) + 1)]), 0)
        try:
            decode_batches("t", 0, [damaged])
        except BrokenBatchError:
            refused += 1
    assert refused > 300
    with pytest.raises(BrokenBatchError, match=r"cut off|extends past|do not match|records end|longer"):
        decode_batches("t", 0, [RawBatch(0, 2, 5, 5, False, 3, base64.b64decode("////////"), 0)])
