"""A bridge that fails its checks at the start creates nothing; one with incompatible options does not resume."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow.errors import UsageError
from rocketflow.kafka.errors import KafkaUnreachableError, QueuesChangedError, TopicMissingError
from rocketflow_store import Message, MessageStore
from tests.rocketflow.kafka.bridging import Sent, Topics, bridge, bridge_process, finished, small_store, stored

pytestmark = pytest.mark.kafka
Name = Callable[[str], str]


def some(count: int, first: int = 0) -> list[Sent]:
    return [Sent(b"k%d" % (number % 5), b"%d" % number) for number in range(first, first + count)]


@pytest.mark.parametrize("share", [[], ["--share"]])
def test_no_store_is_created_if_kafka_or_a_topic_is_missing(topics: Topics, store: str, share: list[str]) -> None:
    with pytest.raises(TopicMissingError):
        bridge("kafka-to-store", topics.address, store, "--topics", "nowhere", *share)
    unreachable = ["--kafka-option", "bootstrap_timeout_ms=300", *share]
    with pytest.raises(KafkaUnreachableError):
        bridge("kafka-to-store", "127.0.0.1:1", store, "--topics", "t", *unreachable)
    assert not Path(store).exists()


def test_no_topic_is_created_in_kafka_if_one_is_missing(topics: Topics, store: str, name: Name) -> None:
    first, second, marks = name("t"), name("u"), name("marks")
    with MessageStore.open(store, small_store(Path(store))) as opened:
        for topic in (first, second):
            opened.put_message(Message(topic, b"x", queue_id=0))
    asked = ["--topics", f"{first},{second}", "--progress-topic", marks]
    with pytest.raises(TopicMissingError, match=f"has no topic {first}, {second}; create it, or give --create-topics"):
        bridge("store-to-kafka", topics.address, store, *asked)
    assert not {first, second, marks} & set(topics.admin.list_topics())


def test_store_topic_without_messages_is_copied_as_empty(topics: Topics, store: str, name: Name) -> None:
    empty = name("t")
    with MessageStore.open(store, small_store(Path(store))) as opened:
        opened.create_topic(empty, 3)
    asked = ["--topics", empty, "--id", empty, "--create-topics"]
    done = bridge("store-to-kafka", topics.address, store, *asked)
    assert (done.rows, done.caught_up, done.exit_code) == (0, True, 0)
    assert topics.read(empty, 3) == {0: [], 1: [], 2: []}
    with MessageStore.open(store, small_store(Path(store))) as opened:
        opened.put_message(Message(empty, b"first", queue_id=2))
    assert bridge("store-to-kafka", topics.address, store, *asked).rows == 1
    assert [one.value for one in topics.read(empty, 3)[2]] == [b"first"]
    with pytest.raises(TopicMissingError, match="has no topic nowhere"):
        bridge("store-to-kafka", topics.address, store, "--topics", f"{empty},nowhere")


def test_quarantine_and_progress_topics_must_not_be_copy_targets(topics: Topics, store: str, name: Name) -> None:
    source, target = name("t"), name("copy")
    topics.create(source, target)
    topics.send(source, some(4))
    into = ["--topics", source, "--on-refused", "quarantine", "--quarantine-topic"]
    for more in ([source], [target, "--map", f"{source}={target}"], [source, "--share"]):
        with pytest.raises(UsageError, match=rf"--quarantine-topic .*{source} is copied to it.*--map {source}=NAME"):
            bridge("kafka-to-store", topics.address, store, *into, *more)
    assert not Path(store).exists()
    bridge("kafka-to-store", topics.address, store, "--topics", source)
    out = ["--topics", source, "--map", f"{target}={source}"]
    for more in (["--on-refused", "quarantine", "--quarantine-topic", target], ["--progress-topic", target]):
        with pytest.raises(UsageError, match=rf"{target}: the store's topic {source} is copied to it"):
            bridge("store-to-kafka", topics.address, store, *out, *more)
    same = ["--quarantine-topic", "m", "--progress-topic", "m", "--on-refused", "quarantine"]
    with pytest.raises(UsageError, match="m is also the --progress-topic"):
        bridge("store-to-kafka", topics.address, store, *out, *same)
    assert topics.read(target) == {0: [], 1: []}


def test_changed_number_of_queues_is_refused(topics: Topics, store: str, name: Name) -> None:
    """With another `--queues`, keys would change their queues."""
    source = name("t")
    topics.create(source)
    asked = ["--topics", source, "--id", source]
    topics.send(source, some(20))
    bridge("kafka-to-store", topics.address, store, *asked, "--queues", "3")
    topics.send(source, some(20, 20))
    for other in (["--queues", "4"], [], ["--queues", "2", "--share"]):
        with pytest.raises(QueuesChangedError, match=r"was copied with --queues 3, but .* keep --queues 3, or give"):
            bridge("kafka-to-store", topics.address, store, *asked, *other)
    assert sum(map(len, stored(store, source).values())) == 20
    code, _, error = finished(bridge_process("kafka-to-store", topics.address, store, *asked, "--until-caught-up"))
    assert (code, "out of order" in error) == (2, True)
    topics.grow(source, 4)
    topics.send(source, some(12, 40), 3)
    assert bridge("kafka-to-store", topics.address, store, *asked, "--queues", "3").rows == 32
    queues = stored(store, source)
    assert set(queues) <= {0, 1, 2}
    where: dict[str, set[int]] = {}
    for queue, rows in queues.items():
        for _, properties in rows:
            where.setdefault(properties["KEYS"], set()).add(queue)
    assert all(len(one) == 1 for one in where.values())
