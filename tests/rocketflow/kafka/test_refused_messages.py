"""Messages that the other side refuses: only those are quarantined, with the parts that fit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka.errors import KafkaError
from kafka.record.default_records import DefaultRecordBatchBuilder

from rocketflow.kafka.errors import MessageRefusedError
from rocketflow.kafka.into_kafka.refused_record import RefusedMessage, refused_record
from rocketflow.kafka.into_kafka.to_records import kafka_rows
from rocketflow.kafka.into_store.refused_messages import refused_rows
from rocketflow.kafka.shared.record_sizes import Header, batch_size, client_size
from rocketflow.kafka.shared.refusal_limits import MAX_BODY
from rocketflow_store import DamagedBodyError, Message, MessageStore
from rocketflow_store.model.compression import compress_body
from rocketflow_store.records.encoding.encode import BatchEncoder
from tests.rocketflow.kafka.bridging import Sent, Topics, bridge, small_store, stored
from tests.rocketflow.kafka.test_mapping import as_rows, through_records

pytestmark = pytest.mark.kafka
Name = Callable[[str], str]
MOST = 3000
PARTS: list[tuple[bytes | None, bytes | None, list[Header]]] = [
    (None, None, []),
    (b"", b"", [("", b"")]),
    (b"k" * 63, b"v" * 64, [("h" * 70, None), ("ü", b"x" * 9000)]),
    (b"k" * 8191, b"v" * 1_048_575, [("h", b"1")] * 70),
]


@pytest.mark.parametrize("parts", PARTS, ids=range(len(PARTS)))
def test_computed_sizes_equal_kafka_python_sizes(parts: tuple[bytes | None, bytes | None, list[Header]]) -> None:
    builder = DefaultRecordBatchBuilder(2, 0, 1, 7, 0, 0, 1 << 24)
    assert builder.append(0, 1_700_000_000_000, *parts) is not None
    assert batch_size(*parts) == len(builder.build())
    assert client_size(*parts) == DefaultRecordBatchBuilder.estimate_size_in_bytes(*parts)


HEADERS = (("city", b"x"), ("rocketmq.UNIQ_KEY", b"A" * 32))


def just(size: int) -> bytes:
    """Return a value whose message, with the key `key` and `HEADERS`, is a record batch of `size` bytes."""
    value = bytes(size)
    while batch_size(b"key", value, HEADERS) > size:
        value = value[:-1]
    assert batch_size(b"key", value, HEADERS) == size
    return value


def test_only_messages_above_max_message_bytes_are_refused(topics: Topics, store: str, name: Name) -> None:
    """There are many small messages too: a batch of them exceeds the topic's limit, and the client splits it."""
    source, refused = name("t"), name("refused")
    topics.create(source, partitions=1, **{"max.message.bytes": str(MOST)})
    producer: Any = topics.producer()
    topics.give(producer, source, Sent(b"key", just(MOST), HEADERS), 0).get(10)
    too_large = topics.give(producer, source, Sent(b"key", just(MOST) + b"x", HEADERS), 0)
    with pytest.raises(KafkaError):
        too_large.get(10)
    producer.close()
    bodies = [b"%d" % number for number in range(500)] + [just(MOST), just(MOST) + b"x"] + [b"last"] * 100
    properties = {"city": "x", "UNIQ_KEY": "A" * 32}
    with MessageStore.open(store, small_store(Path(store))) as opened:
        opened.create_topic(source, 1)
        opened.put_messages(
            [Message(source, body, queue_id=0, sharding_key="key", properties=properties) for body in bodies]
        )
    asked = ["--topics", source, "--id", source, "--quarantine-topic", refused]
    why = f"queue offset 501: {MOST + 1} bytes as a record batch before compression, .*max.message.bytes is {MOST};"
    with pytest.raises(MessageRefusedError, match=why):
        bridge("store-to-kafka", topics.address, store, *asked)
    done = bridge("store-to-kafka", topics.address, store, *asked, "--on-refused", "quarantine")
    assert (done.rows, done.quarantined, done.exit_code) == (601, 1, 3)
    assert [one.value for one in topics.read(source, 1)[0]][1:] == [*bodies[:501], *bodies[502:]]
    kept = topics.read(refused, 1)[0][0]
    assert (kept.key, kept.value, kept.headers[-2:]) == (b"key", just(MOST) + b"x", HEADERS)


def test_batch_that_is_divided_while_the_producer_is_flushed_is_copied(topics: Topics, store: str, name: Name) -> None:
    source = name("t")
    topics.create(source, partitions=1, **{"max.message.bytes": str(MOST)})
    bodies = [b"%d" % number for number in range(600)]
    with MessageStore.open(store, small_store(Path(store))) as opened:
        opened.create_topic(source, 1)
        opened.put_messages([Message(source, body, queue_id=0) for body in bodies])
    asked = ["--topics", source, "--kafka-option", "linger_ms=60000"]  # the flush sends it
    done = bridge("store-to-kafka", topics.address, store, *asked)
    assert (done.rows, done.exit_code) == (600, 0)
    assert [one.value for one in topics.read(source, 1)[0]] == bodies


def test_message_above_max_request_size_is_refused(topics: Topics, store: str, name: Name) -> None:
    source = name("t")
    topics.create(source, partitions=1)
    with MessageStore.open(store, small_store(Path(store))) as opened:
        opened.create_topic(source, 1)
        opened.put_message(Message(source, bytes(20_000), queue_id=0))
    asked = ["--topics", source, "--kafka-option", "max_request_size=20000"]
    with pytest.raises(MessageRefusedError, match="before compression, the client's max_request_size is 20000"):
        bridge("store-to-kafka", topics.address, store, *asked)


def test_quarantined_message_keeps_key_headers_and_origin(topics: Topics, store: str, name: Name) -> None:
    source, refused = name("t"), name("refused")
    topics.create(source, partitions=1)
    sent = [
        Sent(b"o-1", b"B" * 90_000, (("city", "Köln".encode()), ("bin", b"\x00"), ("none", None), ("DELAY", b"3"))),
        Sent(b"\xff" * 5000, b"B" * 80_000, tuple((f"h{number}", b"x" * 1000) for number in range(40))),
        Sent(b"k" * 40_000, None, (("rocketmq.TAGS", b"paid"), ("rocketmq.FLAG", b"7"))),
        Sent(None, b"fine"),
    ]
    topics.send(source, sent, 0)
    conf = Path(store).parent / "limit.conf"
    conf.write_text("maxMessageSize=70000\nmappedFileSizeCommitLog=16777216\n")
    asked = ["--topics", source, "--config", str(conf), "--on-refused", "quarantine", "--quarantine-topic", refused]
    done = bridge("kafka-to-store", topics.address, store, *asked)
    assert (done.rows, done.quarantined, done.exit_code) == (1, 3, 3)
    first, second, third = stored(store, refused)[0]
    assert first[0] == b"B" * MAX_BODY
    assert first[1]["KEYS"] == first[1]["__SHARDINGKEY"] == "o-1"
    assert (first[1]["city"], first[1]["KAFKA_VALUE_SIZE"]) == ("Köln", "90000")
    assert first[1]["KAFKA_VALUE_SHA256"] == hashlib.sha256(sent[0].value or b"").hexdigest()
    assert (second[1]["KAFKA_KEY_SIZE"], second[1]["KAFKA_HEADERS_LEFT_OUT"]) == ("5000", "31")
    assert [one for one in second[1] if one.startswith("h")] == [f"h{number}" for number in range(9)]
    assert (third[0], third[1]["KAFKA_TOMBSTONE"], third[1]["TAGS"]) == (b"", "true", "paid")
    for number, (_, properties) in enumerate((first, second, third)):
        where = [properties[one] for one in ("KAFKA_TOPIC", "KAFKA_PARTITION", "KAFKA_OFFSET")]
        assert where == [source, "0", str(number)]
    back = bridge("store-to-kafka", topics.address, store, "--topics", refused, "--create-topics")
    assert back.rows == 3
    again = topics.read(refused, 1)[0]
    assert (again[0].key, again[0].headers) == (sent[0].key, sent[0].headers)
    assert again[1].key == b"\xff" * 4096


def test_body_that_cannot_be_decoded_stops_the_copy_is_sent_as_stored_or_quarantined(
    topics: Topics, store: str, name: Name
) -> None:
    source, refused = name("t"), name("refused")
    topics.create(source, partitions=1)
    packed = compress_body(b"packed", 3)
    sent = [(b"first", 0), (packed, 0x301), (b"not packed", 0x301), (b"no type", 0x701), (b"last", 0)]
    with MessageStore.open(store, small_store(Path(store))) as opened:
        opened.create_topic(source, 1)
        for body, sys_flag in sent:
            assert opened.put_message(Message(source, body, queue_id=0, sys_flag=sys_flag)).stored
    asked = ["--topics", source, "--quarantine-topic", refused, "--progress-topic", name("marks")]
    with pytest.raises(DamagedBodyError, match=f"topic {source}, queue 0, queue offset 2.*--on-bad-body"):
        bridge("store-to-kafka", topics.address, store, *asked, "--id", name("fails"))
    done = bridge("store-to-kafka", topics.address, store, *asked, "--id", name("raw"), "--on-bad-body", "raw")
    assert (done.rows, done.quarantined, done.exit_code) == (5, 0, 0)
    copied = topics.read(source, 1)[0]
    assert [one.value for one in copied] == [b"first", b"packed", b"not packed", b"no type", b"last"]
    errors = [dict(one.headers).get("rocketmq.bodyError") or b"" for one in copied]
    assert [b"zlib" in errors[2], b"type 7" in errors[3], errors[0] + errors[1] + errors[4]] == [True, True, b""]
    more = ["--id", name("quarantine"), "--on-bad-body", "quarantine", "--restart"]
    done = bridge("store-to-kafka", topics.address, store, *asked, *more)
    assert (done.rows, done.quarantined, done.exit_code) == (3, 2, 3)
    assert [one.value for one in topics.read(source, 1)[0]][5:] == [b"first", b"packed", b"last"]
    kept = topics.read(refused, 1)[0]
    assert [one.value for one in kept] == [b"not packed", b"no type"]
    first = dict(kept[0].headers)
    assert first["rocketmq.origin"] == f"{source}:0:2".encode()
    assert (first["refused"] or b"").startswith(b"its body cannot be decoded: does not decompress as zlib")


def test_store_accepts_the_quarantine_row_of_any_message(tmp_path: Path) -> None:
    """Keys and headers of all kinds and sizes: the quarantine row is never refused itself."""
    import random

    rng = random.Random(5)
    encoder = BatchEncoder(small_store(tmp_path / "store"), lambda _: 1, "refused")
    kinds = [b"x", b"\xff", "ü".encode(), b"\x01", b'"']
    titles = ["rocketmq.TAGS", "rocketmq.KEYS", "rocketmq.properties", "h", "\x01", "ü" * 300, "__x", '"' * 900, "%"]
    messages = []
    for _ in range(300):
        headers = [
            (
                rng.choice(titles) * rng.choice([1, 1, 1, 40]),
                rng.choice([None, rng.choice(kinds) * rng.randrange(9000)]),
            )
            for _ in range(rng.randrange(60))
        ]
        key = rng.choice([None, rng.choice(kinds) * rng.randrange(60_000)])
        messages.append((key, rng.choice([None, b"v" * rng.randrange(200_000)]), headers, rng.choice([5, -1]), False))
    rows = as_rows(messages)  # type: ignore[arg-type]
    batch = refused_rows(rows, dict.fromkeys(range(0, 300, 2), "w" * 5000))
    encoder.validate(batch)
    assert sum(one.starts.size for one in encoder.encode(batch, 0)) == 150
    assert kafka_rows(through_records(batch)).faults == {}


@pytest.mark.parametrize("most", [1500, 5000, 1 << 20])
def test_quarantine_record_fits_the_topic_limit(most: int) -> None:
    key, headers = b"k" * 20_000, [(f"h{number}", b"x" * 300) for number in range(80)]
    kept = refused_record(RefusedMessage("t:0:1", key, b"v" * 200_000, headers, 5), "w" * 50, most)
    assert batch_size(kept.key, kept.value, kept.headers) <= most
    fields = dict(kept.headers)
    assert (fields["refused.key-size"], fields["refused.value-size"]) == (b"20000", b"200000")
    own = [one for one in kept.headers if one[0].startswith("h")]
    assert own == headers[: len(own)]
    assert fields["refused.headers-left-out"] == str(80 - len(own)).encode()
    small = refused_record(RefusedMessage("t:0:1", None, None, headers[:2], None), "why", most)
    assert (small.key, small.value, small.headers[-2:]) == (None, b"", headers[:2])
