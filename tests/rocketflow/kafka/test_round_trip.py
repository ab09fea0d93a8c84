"""Kafka -> store -> Kafka with a real broker: keys, values, headers, timestamps and order are restored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, StoreReader
from tests.rocketflow.kafka.bridging import Sent, Topics, bridge, small_store, stored
from tests.support.trials import SEED

pytestmark = pytest.mark.kafka
Name = Callable[[str], str]

ODD = [
    Sent(None, None),
    Sent(b"", b""),
    Sent(b"\x00\xff\x01\x02", b"\x01\x02", (("bin", b"\x00\xff"), ("bin", b"2"), ("none", None), ("", b""))),
    Sent("schlüssel 1".encode(), b"wert", (("city", "Köln".encode()), ("TAGS", b"t"), ("DELAY", b"3"))),
    Sent(b"k", None, (("rocketmq.TAGS", b"paid"), ("a", b"1"), ("b", b"2")), 1),
    Sent(b"k", b"x" * 5000, (("long", b"y" * 4000),), 1_600_000_000_123),
]


def messages(count: int, seed: int = SEED) -> list[Sent]:
    return [Sent(b"key-%d" % ((seed + number) % 17), b"%d" % number, stamp=1_700_000_000_000 + number)
            for number in range(count)]  # fmt: skip


def test_messages_are_restored_after_a_round_trip(topics: Topics, store: str, name: Name) -> None:
    source, back = name("orders.eu.v-"), name("back.")
    topics.create(source, back)
    sent = ODD + messages(1000)
    for codec, part in ((None, sent[:500]), ("lz4", sent[500:800]), ("gzip", sent[800:])):
        topics.send(source, part, compression_type=codec)
    into = bridge("kafka-to-store", topics.address, store, "--topics", source, "--id", "in")
    assert (into.rows, into.exit_code, into.caught_up) == (len(sent), 0, True)
    assert into.progress == {source: {"0": len(sent) // 2, "1": len(sent) // 2}}
    out = bridge("store-to-kafka", topics.address, store, "--topics", source, "--map",
                 f"{back}={source.replace('.', '|')}", "--id", source)  # fmt: skip
    assert out.rows == len(sent)
    assert topics.read(back) == topics.read(source) == {0: sent[::2], 1: sent[1::2]}
    again = bridge("store-to-kafka", topics.address, store, "--topics", source, "--map",
                   f"{back}={source.replace('.', '|')}", "--id", source)  # fmt: skip
    assert again.rows == 0
    assert bridge("kafka-to-store", topics.address, store, "--topics", source, "--id", "in").rows == 0


def test_reading_by_record_stores_the_same_rows_as_by_batch(
    topics: Topics, store: str, name: Name, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = name("t")
    topics.create(source)
    topics.send(source, ODD + messages(200))
    bridge("kafka-to-store", topics.address, store, "--topics", source)
    monkeypatch.setenv("ROCKETFLOW_KAFKA_RECORDS", "1")
    bridge("kafka-to-store", topics.address, store + "2", "--topics", source)

    def rows(path: str) -> dict[int, list[tuple[bytes, dict[str, str]]]]:
        found = stored(path, source)
        for row in (row for queue in found.values() for row in queue):
            del row[1]["UNIQ_KEY"], row[1]["__CRC32#"]
        return found

    assert rows(store) == rows(store + "2")


def test_queues_by_key_keep_order_and_log_append_time(topics: Topics, store: str, name: Name) -> None:
    source = name("t")
    topics.create(source, partitions=3, **{"message.timestamp.type": "LogAppendTime"})
    sent = messages(900)
    for partition in range(3):  # a key is in one partition
        topics.send(source, [one for one in sent if int((one.key or b"0")[4:]) % 3 == partition], partition)
    bridge("kafka-to-store", topics.address, store, "--topics", source, "--queues", "5")
    queues = stored(store, source)
    assert sum(map(len, queues.values())) == 900
    by_key: dict[str, list[int]] = {}
    where: dict[str, set[int]] = {}
    for queue, rows in queues.items():
        for body, properties in rows:
            by_key.setdefault(properties["KEYS"], []).append(int(body))
            where.setdefault(properties["KEYS"], set()).add(queue)
            assert properties["KAFKA_TIMESTAMP_TYPE"] == "LogAppendTime"
    assert all(numbers == sorted(numbers) for numbers in by_key.values())
    assert all(len(queue) == 1 for queue in where.values())
    assert len(queues) > 1


def test_aborted_transactions_and_gaps_are_skipped(topics: Topics, store: str, name: Name) -> None:
    source = name("t")
    topics.create(source, partitions=1)
    producer = topics.producer(transactional_id=source)
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        for body in range(5):
            topics.give(producer, source, Sent(b"k", b"%d-%d" % (number, body)), 0)
        if number % 2:
            producer.flush()
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()
    done = bridge("kafka-to-store", topics.address, store, "--topics", source)
    assert [body for body, _ in stored(store, source)[0]] == [
        b"%d-%d" % (number, body) for number in (0, 2, 4) for body in range(5)
    ]
    assert done.progress == {source: {"0": 36}}  # includes the markers of all six transactions


def test_rocketmq_messages_are_copied_to_kafka(topics: Topics, store: str, name: Name, tmp_path: object) -> None:
    topic, started = name("native"), []

    with MessageStore.open(store, small_store(Path(store))) as opened:
        opened.create_topic(topic, 2)
        for number in range(20):
            message = Message(topic, b"%d" % number, tags="paid", keys=[f"o-{number}"], queue_id=number % 2,
                              properties={"city": "Köln"}, born_timestamp=1_700_000_000_000)  # fmt: skip
            started.append(opened.put_message(message).msg_id)
    done = bridge("store-to-kafka", topics.address, store, "--topics", topic, "--id", topic, "--create-topics",
                  "--origin-headers")  # fmt: skip
    assert done.rows == 20
    read = topics.read(topic)
    assert [one.value for one in read[1]] == [b"%d" % number for number in range(1, 20, 2)]
    headers = dict(read[1][0].headers)
    assert headers.pop("rocketmq.UNIQ_KEY")
    assert headers == {
        "city": "Köln".encode(), "rocketmq.TAGS": b"paid", "rocketmq.KEYS": b"o-1",
        "rocketmq.origin": f"{topic}:1:0".encode(),
    }  # fmt: skip
    assert (read[1][0].key, read[1][0].stamp) == (b"o-1", 1_700_000_000_000)


OWN_NAMES = [
    *("KEYS", "TAGS", "DELAY", "WAIT", "UNIQ_KEY", "TRAN_MSG", "PGROUP", "RETRY_TOPIC", "REAL_TOPIC"),
    *("REAL_QID", "MIN_OFFSET", "TIMER_DELIVER_MS", "TIMER_OUT_MS", "INNER_MULTI_DISPATCH", "__SHARDINGKEY"),
    *("__CRC32#", "__x", "__RMQ.TRANSIENT.a", "%RETRY%g", "%DLQ%g", "KAFKA_OFFSET", "KAFKA_HEADERS"),
    *("TRANSACTION_ID", "POP_CK", "rocketmq.TAGS", "rocketmq.KEYS", "rocketmq.UNIQ_KEY", "rocketmq.origin"),
    *("rocketmq.properties"),
]


def test_headers_named_like_rocketmq_properties_are_restored(topics: Topics, store: str, name: Name) -> None:
    source, back = name("t"), name("back")
    topics.create(source, back, partitions=1)
    sent = [Sent(b"k", b"v", ((own, b"1"),)) for own in OWN_NAMES]
    sent += [Sent(b"k", b"v", ((own, b"\xff"), (own, None))) for own in OWN_NAMES]
    sent += [Sent(None, b"v", tuple((own, b"3") for own in OWN_NAMES))]
    sent += [Sent(b"k", b"v", (("rocketmq.properties", b'{"DELAY":"3","REAL_TOPIC":"x","city":"y"}'), ("city", b"z")))]
    topics.send(source, sent, 0)
    assert bridge("kafka-to-store", topics.address, store, "--topics", source).rows == len(sent)
    bridge("store-to-kafka", topics.address, store, "--topics", source, "--map", f"{back}={source}")
    assert topics.read(back, 1)[0] == sent


def test_properties_named_like_rocketmq_properties_are_restored(topics: Topics, store: str, name: Name) -> None:
    source, other = name("t"), store + "2"
    given = {own: f"value of {own}" for own in OWN_NAMES}
    given |= {"größe": "klein", "a b": "c d", "plain": "text", "lines": "a\nb", "KAFKA_any": "x"}
    asks = ("DELAY", "TIMER_DELIVER_MS", "TIMER_OUT_MS", "INNER_MULTI_DISPATCH", "KAFKA_OFFSET")
    asks += ("rocketmq.UNIQ_KEY", "rocketmq.properties")  # headers of every message, or of this one
    given = {title: value for title, value in given.items() if title not in asks}
    messages = [Message(source, b"all", queue_id=0, tags="a\nb", properties={**given, "TAGS": "", "KEYS": "k\t1 k2"})]
    messages += [Message(source, b"", queue_id=0, properties={title: value}) for title, value in given.items()]
    with MessageStore.open(store, small_store(Path(store))) as opened:
        opened.create_topic(source, 1)
        opened.put_messages(messages)
    bridge("store-to-kafka", topics.address, store, "--topics", source, "--create-topics")
    bridge("kafka-to-store", topics.address, other, "--topics", source)
    before, after = stored(store, source)[0], stored(other, source)[0]
    assert [body for body, _ in after] == [body for body, _ in before]
    not_carried = {"WAIT", "REAL_TOPIC", "REAL_QID", "MIN_OFFSET", "UNIQ_KEY", "__CRC32#", "KAFKA_HEADERS"}
    for (_, was), (_, now) in zip(before, after, strict=True):
        assert {title: value for title, value in was.items() if title not in not_carried} == {
            title: now.get(title) for title in was if title not in not_carried
        }
    assert len(before) == len(given) + 1
    again = name("again")
    topics.create(again, partitions=1)
    bridge("store-to-kafka", topics.address, other, "--topics", source, "--map", f"{again}={source}")
    assert topics.read(again, 1) == topics.read(source, 1)


def test_offset_map_finds_messages_in_both_directions(topics: Topics, store: str, name: Name) -> None:
    from rocketflow.kafka.offset_map import kafka_offset_of, queue_offset_of

    source = name("t")
    topics.create(source)
    for first in range(0, 300, 100):
        topics.send(source, messages(100, first))
        bridge("kafka-to-store", topics.address, store, "--topics", source, "--id", "map", "--queues", "3")
    with StoreReader(store) as reader:
        for offset in (0, 1, 49, 50, 51, 120, 149):
            pair = queue_offset_of(reader, "kafka-bridge:map", source, source, 1, offset)
            assert pair is not None
            assert (pair.kafka_offset, pair.partition) == (offset, 1)
            assert kafka_offset_of(reader, source, pair.queue_id, pair.queue_offset) == pair
            got = reader.get_message(source, pair.queue_id, pair.queue_offset, 1).messages[0]
            assert got.properties["KAFKA_OFFSET"] == str(offset)
        assert queue_offset_of(reader, "kafka-bridge:map", source, source, 1, 150) is None
        assert queue_offset_of(reader, "kafka-bridge:other", source, source, 1, 0) is None


def test_timestamps_before_1970_are_restored(topics: Topics, store: str, name: Name) -> None:
    source, target = name("old"), name("copy")
    topics.create(source, target, partitions=1)
    sent = [Sent(b"k", b"%d" % number, stamp=stamp) for number, stamp in enumerate((-1, -5, 0, 5))]
    topics.send(source, sent, 0)
    bridge("kafka-to-store", topics.address, store, "--topics", source)
    local = source.replace(".", "|")
    bridge("store-to-kafka", topics.address, store, "--topics", local, "--map", f"{target}={local}")
    assert [one.stamp for one in topics.read(target, 1)[0]] == [-1, -5, 0, 5]
