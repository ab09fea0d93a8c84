"""A Kafka topic that was deleted and made anew under its name: how far a bridge was says nothing of it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa
import pytest
from kafka.errors import TopicAlreadyExistsError

from rocketflow.kafka.errors import TopicReplacedError
from rocketflow.kafka.into_kafka import range_sender
from rocketflow.kafka.into_kafka.copy_out import StoreToKafka
from rocketflow.kafka.into_kafka.to_records import ProducerRows
from rocketflow.kafka.into_store.copy_in import KafkaToStore
from rocketflow.kafka.shared.run_state import BridgeSummary, StopRequest
from rocketflow.kafka.shared.topic_record import TopicNote, check_note, id_text, note_topic, offsets_alone
from tests.rocketflow.kafka.bridging import Sent, Topics, bridge, options, stored

pytestmark = pytest.mark.kafka
Name = Callable[[str], str]
WHY = r"Kafka topic {} was deleted and made anew \(its id was .*, it is .*another --id"


def some(count: int, first: int = 0) -> list[Sent]:
    return [Sent(b"k", b"%d" % number) for number in range(first, first + count)]


def make_anew(topics: Topics, topic: str, partitions: int = 2) -> None:
    """A broker tells of a deletion, and answers a creation, some time behind doing it: the id says what is there."""

    def id_now() -> object:
        return topics.admin.describe_topics([topic])[0]["topic_id"]

    before = id_now()
    topics.admin.delete_topics([topic])
    deadline = time.monotonic() + 60
    while topic in topics.admin.list_topics() and time.monotonic() < deadline:
        time.sleep(0.05)
    while True:
        try:
            topics.create(topic, partitions=partitions)
            return
        except TopicAlreadyExistsError:
            if topic in topics.admin.list_topics() and id_now() != before:
                return
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


@pytest.mark.parametrize("behind", [4, 40], ids=["shorter", "longer"])
def test_into_the_store(topics: Topics, store: str, name: Name, behind: int) -> None:
    """Shorter than what was copied, or longer: offsets alone would tell only of the first."""
    source, other = name("t"), name("u")
    topics.create(source, other)
    topics.send(source, some(10))
    topics.send(other, some(10))
    asked = ["--topics", f"{source},{other}", "--id", source]
    done = bridge("kafka-to-store", topics.address, store, *asked)
    assert done.progress == {source: {"0": 5, "1": 5}, other: {"0": 5, "1": 5}}
    make_anew(topics, source)
    topics.send(source, some(behind, 100))
    for more in ([], ["--on-data-loss", "continue"], ["--share"]):
        with pytest.raises(TopicReplacedError, match=WHY.format(source)):
            bridge("kafka-to-store", topics.address, store, *asked, *more)
    assert sum(map(len, stored(store, source).values())) == 10
    assert bridge("kafka-to-store", topics.address, store, "--topics", other, "--id", source).rows == 0
    assert bridge("kafka-to-store", topics.address, store, "--topics", source, "--id", "anew").rows == behind
    bodies = [int(body) for rows in stored(store, source).values() for body, _ in rows]
    assert sorted(bodies) == [*range(10), *range(100, 100 + behind)]


def test_into_the_store_while_it_runs(topics: Topics, store: str, name: Name, monkeypatch: pytest.MonkeyPatch) -> None:
    source = name("t")
    topics.create(source)
    topics.send(source, some(10))
    asked = options("kafka-to-store", topics.address, store, "--topics", source, "--id", source, "--discover-ms", "200")

    tell_due, done = BridgeSummary.tell_due, []

    def watched(summary: BridgeSummary) -> bool:
        if summary.rows == 10 and not done:
            done.append(summary)
            make_anew(topics, source)
            topics.send(source, some(40, 100))
        return tell_due(summary)

    monkeypatch.setattr(BridgeSummary, "tell_due", watched)
    with pytest.raises(TopicReplacedError, match=WHY.format(source)):
        KafkaToStore(asked, StopRequest()).run()
    assert done
    assert sum(map(len, stored(store, source).values())) == 10


def test_out_of_the_store(topics: Topics, store: str, name: Name) -> None:
    source, target = name("t"), name("copy")
    topics.create(source, target)
    topics.send(source, some(10))
    bridge("kafka-to-store", topics.address, store, "--topics", source, "--id", source)
    asked = ["--topics", source, "--id", source, "--map", f"{target}={source}"]
    assert bridge("store-to-kafka", topics.address, store, *asked).rows == 10
    topics.send(source, some(10, 10))
    bridge("kafka-to-store", topics.address, store, "--topics", source, "--id", source)
    make_anew(topics, target)
    with pytest.raises(TopicReplacedError, match=WHY.format(target)):
        bridge("store-to-kafka", topics.address, store, *asked)
    assert topics.read(target) == {0: [], 1: []}
    asked[3] = "anew"
    assert bridge("store-to-kafka", topics.address, store, *asked).rows == 20


def test_out_of_the_store_while_it_runs(
    topics: Topics, store: str, name: Name, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = name("t"), name("copy")
    topics.create(source, target)
    topics.send(source, some(10))
    bridge("kafka-to-store", topics.address, store, "--topics", source, "--id", source)
    asked = options(
        "store-to-kafka", topics.address, store, "--topics", source, "--id", source, "--map", f"{target}={source}",
        "--max-batch-rows", "4", "--kafka-option", "metadata_max_age_ms=100",
    )  # fmt: skip

    kafka_rows = range_sender.kafka_rows
    copying = StoreToKafka(asked, StopRequest())

    def watched(batch: pa.RecordBatch) -> ProducerRows:
        if copying.summary.batches == 1 and topics.end(target):
            make_anew(topics, target)
            time.sleep(0.5)
        return kafka_rows(batch)

    monkeypatch.setattr(range_sender, "kafka_rows", watched)
    with pytest.raises(TopicReplacedError, match=WHY.format(target)):
        copying.run()
    assert topics.read(target) == {0: [], 1: []}


def test_what_is_not_noted_is_noted_with_the_next_commit(topics: Topics, name: Name) -> None:
    source = name("t")
    topics.create(source)
    assert id_text(topics.admin.describe_topics([source])[0]["topic_id"])
    assert id_text(None) is None
    progress: dict[str, object] = {"t": {"0": 3}}
    check_note(progress, "t", TopicNote("a", 4), "b")
    note_topic(progress, "t", TopicNote("a", 4), "b")
    note_topic(progress, "t", TopicNote(None, 4), "b")  # of a broker without ids
    assert offsets_alone(progress) == {"t": {"0": 3}}
    with pytest.raises(TopicReplacedError):
        check_note(progress, "t", TopicNote("c", 4), "b")
