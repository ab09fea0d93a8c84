"""A bridge stops if a Kafka topic was deleted and recreated: its progress does not apply to the new topic."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.errors import TopicAlreadyExistsError

from rocketflow.kafka.errors import TopicReplacedError
from rocketflow.kafka.into_kafka.copy_out import StoreToKafka
from rocketflow.kafka.into_kafka.range_sender import QueueRange, RangeSender
from rocketflow.kafka.into_kafka.range_sender import Sent as SentRange
from rocketflow.kafka.into_store.copy_in import KafkaToStore
from rocketflow.kafka.options.bridge_options import BridgeOptions
from rocketflow.kafka.shared.run_state import BridgeSummary, StopRequest
from rocketflow.kafka.shared.topic_record import TopicNote, check_note, id_text, note_topic, offsets_alone
from tests.rocketflow.kafka.bridging import Sent, Topics, bridge, options, stored

pytestmark = pytest.mark.kafka
Name = Callable[[str], str]
WHY = r"Kafka topic {} was deleted and recreated \(its id was .*, now it is .*another --id"


@pytest.fixture
def stop() -> Iterator[StopRequest]:
    """Return a stop request for a run that would wait for more messages for ever if it did not fail."""
    request = StopRequest()
    limit = threading.Timer(60, request.asked.set)
    limit.start()
    yield request
    limit.cancel()


def some(count: int, first: int = 0) -> list[Sent]:
    return [Sent(b"k", b"%d" % number) for number in range(first, first + count)]


def recreate(topics: Topics, topic: str, partitions: int = 2) -> None:
    """Delete a topic and create it again.

    A broker lists a deletion, and answers a creation, some time after doing it: only the id shows which topic exists.
    """

    def id_now() -> object:
        return topics.admin.describe_topics([topic])[0]["topic_id"]

    before = id_now()
    topics.admin.delete_topics([topic])
    deadline = time.monotonic() + 60
    while topic in topics.admin.list_topics() and id_now() == before and time.monotonic() < deadline:
        time.sleep(0.05)  # a client that asks for the topic meanwhile creates it again
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


@pytest.mark.parametrize("count", [4, 40], ids=["shorter", "longer"])
def test_recreated_source_topic_stops_a_bridge_at_its_start(topics: Topics, store: str, name: Name, count: int) -> None:
    """The new topic is shorter or longer than the old one: offsets alone would reveal only a shorter one."""
    source, other = name("t"), name("u")
    topics.create(source, other)
    topics.send(source, some(10))
    topics.send(other, some(10))
    asked = ["--topics", f"{source},{other}", "--id", source]
    done = bridge("kafka-to-store", topics.address, store, *asked)
    assert done.progress == {source: {"0": 5, "1": 5}, other: {"0": 5, "1": 5}}
    recreate(topics, source)
    topics.send(source, some(count, 100))
    for more in ([], ["--on-data-loss", "continue"], ["--share"]):
        with pytest.raises(TopicReplacedError, match=WHY.format(source)):
            bridge("kafka-to-store", topics.address, store, *asked, *more)
    assert sum(map(len, stored(store, source).values())) == 10
    assert bridge("kafka-to-store", topics.address, store, "--topics", other, "--id", source).rows == 0
    assert bridge("kafka-to-store", topics.address, store, "--topics", source, "--id", "new").rows == count
    bodies = [int(body) for rows in stored(store, source).values() for body, _ in rows]
    assert sorted(bodies) == [*range(10), *range(100, 100 + count)]


def test_source_topic_recreated_during_a_run_stops_it_before_its_next_commit(
    topics: Topics, store: str, name: Name, monkeypatch: pytest.MonkeyPatch, stop: StopRequest
) -> None:
    """The client's own list of topics is older than the recreation: `--discover-ms` is 30 s."""
    source = name("t")
    topics.create(source)
    topics.send(source, some(10))
    asked = options("kafka-to-store", topics.address, store, "--topics", source, "--id", source)

    is_report_due, done = BridgeSummary.is_report_due, []

    def watched(summary: BridgeSummary) -> bool:
        if summary.rows == 10 and not done:
            done.append(summary)
            recreate(topics, source)
            topics.send(source, some(40, 100))
        return is_report_due(summary)

    monkeypatch.setattr(BridgeSummary, "is_report_due", watched)
    with pytest.raises(TopicReplacedError, match=WHY.format(source)):
        KafkaToStore(asked, stop).run()
    assert done
    assert sum(map(len, stored(store, source).values())) == 10


def test_recreated_target_topic_stops_a_bridge_at_its_start(topics: Topics, store: str, name: Name) -> None:
    source, target = name("t"), name("copy")
    topics.create(source, target)
    topics.send(source, some(10))
    bridge("kafka-to-store", topics.address, store, "--topics", source, "--id", source)
    asked = ["--topics", source, "--id", source, "--map", f"{target}={source}"]
    assert bridge("store-to-kafka", topics.address, store, *asked).rows == 10
    topics.send(source, some(10, 10))
    bridge("kafka-to-store", topics.address, store, "--topics", source, "--id", source)
    recreate(topics, target)
    with pytest.raises(TopicReplacedError, match=WHY.format(target)):
        bridge("store-to-kafka", topics.address, store, *asked)
    assert topics.read(target) == {0: [], 1: []}
    asked[3] = "new"
    assert bridge("store-to-kafka", topics.address, store, *asked).rows == 20


@pytest.mark.parametrize("moment", ["before", "after"])
def test_target_topic_recreated_during_a_transaction_stops_the_bridge_before_its_commit(
    topics: Topics, store: str, name: Name, monkeypatch: pytest.MonkeyPatch, stop: StopRequest, moment: str
) -> None:
    """The topic is recreated before or after the messages of the last transaction are sent.

    The producer's own list of topics is five minutes old at most: it does not show it.
    """
    source, target = name("t"), name("copy")
    asked = out_of_store(topics, store, source, target, "--max-batch-rows", "4")
    send, recreated = RangeSender.send, []
    copying = StoreToKafka(asked, stop)

    def watched(sender: RangeSender, one: QueueRange, *more: Any) -> SentRange:
        is_due = copying.summary.rows == 8 and not recreated
        sent = None if is_due and moment == "before" else send(sender, one, *more)
        if is_due:
            recreated.append(one)
            recreate(topics, target)
        return sent or send(sender, one, *more)

    monkeypatch.setattr(RangeSender, "send", watched)
    with pytest.raises(TopicReplacedError, match=WHY.format(target)):
        copying.run()
    assert recreated
    assert topics.read(target) == {0: [], 1: []}


def test_target_topic_recreated_while_a_bridge_has_nothing_to_copy_stops_it(
    topics: Topics, store: str, name: Name, monkeypatch: pytest.MonkeyPatch, stop: StopRequest
) -> None:
    source, target = name("t"), name("copy")
    asked = out_of_store(topics, store, source, target, "--discover-ms", "100")
    is_report_due, recreated = BridgeSummary.is_report_due, []

    def watched(summary: BridgeSummary) -> bool:
        if summary.rows == 10 and not recreated:
            recreated.append(summary)
            recreate(topics, target)
        return is_report_due(summary)

    monkeypatch.setattr(BridgeSummary, "is_report_due", watched)
    with pytest.raises(TopicReplacedError, match=WHY.format(target)):
        StoreToKafka(asked, stop).run()
    assert recreated


def out_of_store(topics: Topics, store: str, source: str, target: str, *more: str) -> BridgeOptions:
    """Store ten messages; return the options of a bridge that copies them to `target` and then waits for others."""
    topics.create(source, target)
    topics.send(source, some(10))
    bridge("kafka-to-store", topics.address, store, "--topics", source, "--id", source)
    asked = ["--topics", source, "--id", source, "--map", f"{target}={source}"]
    return options("store-to-kafka", topics.address, store, *asked, *more)


def test_missing_note_is_added_and_then_checked(topics: Topics, name: Name) -> None:
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
