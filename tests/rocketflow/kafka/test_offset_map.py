"""`rocketflow bridge offset-map`: its answer to every kind of query, without a broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketflow.cli.app import run
from rocketflow.kafka.into_store.store_commit import PartitionPart
from rocketflow_store import Message, MessageStore
from tests.rocketflow.kafka.bridging import small_store
from tests.rocketflow.kafka.test_store_commit import commit, part
from tests.support.output_fields import check_fields

ODD = {"KAFKA_OFFSET": "3"}, {"KAFKA_OFFSET": "x", "KAFKA_TOPIC": "t", "KAFKA_PARTITION": "0"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Create a store with offsets 0 to 4 and 12 to 14 of t, partition 0 (15 and 16 are transaction markers), and with
    a topic `own` that no bridge wrote. The tests only read it."""
    path = str(tmp_path_factory.mktemp("mapped") / "store")
    commit(path, part(0, 5, None))
    with MessageStore.open(path, small_store(Path(path))) as opened:
        opened.put_messages([Message("t", b"not Kafka's", queue_id=0, properties=one) for one in ODD])
        opened.put_message(Message("own", b"x", queue_id=0))
    commit(path, part(12, 15, 5))
    commit(path, PartitionPart("t", 0, "t", 1, 15, 17, ()))
    return path


ANSWERS = [
    ("0 --offset 0", 0, "t partition 0 offset 0 = t queue 0 queue offset 0"),
    ("0 --offset 4", 0, "t partition 0 offset 4 = t queue 0 queue offset 4"),
    ("0 --offset 5", 0, "t partition 0 offset 12 (the first after it) = t queue 0 queue offset 7"),
    ("0 --offset 14", 0, "t partition 0 offset 14 = t queue 0 queue offset 9"),
    ("0 --offset 15", 1, "copied up to offset 16, but t has no message with offset 15 or later: those offsets are"),
    ("0 --offset 17", 1, "no such message in the store: t partition 0 is copied up to offset 16"),
    ("0 --offset 9223372036854775807", 1, "t partition 0 is copied up to offset 16"),
    ("0 --offset 9223372036854775808", 2, "--offset"),
    ("0 --offset=-1", 2, "--offset"),
    ("0 --offset x", 2, "--offset"),
    ("1 --offset 0", 2, "bridge b did not copy partition 1 of t; it has 0"),
    ("-1 --offset 0", 2, "--partition"),
    ("0 --topic u", 2, "bridge b did not copy Kafka topic u; it has t"),
    ("0 --topic u/../v", 2, "not a valid Kafka topic name"),
    ("0 --id other", 2, "bridge 'other' has no commit in the store"),
    (
        "0 --store-topic other",
        2,
        "the store has no topic other: name the topic that t was copied to with --store-topic",
    ),
    ("0 --queue 0", 2, "give --topic, and --partition (with --id) or --queue"),
]


@pytest.mark.parametrize(("question", "code", "answer"), ANSWERS, ids=[one[0] for one in ANSWERS])
def test_query_of_a_kafka_offset(
    store: str, question: str, code: int, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["bridge", "offset-map", store, "--id", "b", "--topic", "t", "--partition", *question.split()]
    assert run(asked) == code
    out, error = capsys.readouterr()
    assert answer in (error if code == 2 else out)
    assert code != 2 or error.startswith("error: ")
    if code != 2:
        assert run([*asked, "--json"]) == code
        printed = json.loads(capsys.readouterr().out)
        assert (printed["found"], printed["exact"]) == (code == 0, code == 0 and "first after" not in answer)
        assert ("why" in printed) == (code == 1)


def test_json_has_the_fields_of_the_reference(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["bridge", "offset-map", store, "--topic", "t", "--json", "--queue", "0", "--offset"]
    assert [run([*asked, offset]) for offset in ("9", "10")] == [0, 1]
    check_fields("bridge offset-map", *map(json.loads, capsys.readouterr().out.splitlines()))


QUEUES = [
    ("t --queue 0 --offset 9", 0, "t partition 0 offset 14 = t queue 0 queue offset 9"),
    ("t --queue 0 --offset 5", 1, "t queue 0 queue offset 5 did not come from Kafka"),
    ("t --queue 0 --offset 6", 1, "t queue 0 queue offset 6 did not come from Kafka"),
    ("t --queue 0 --offset 10", 1, "t queue 0 has queue offsets 0 to 9"),
    ("t --queue 3", 2, "topic t has no queue 3; it has 0"),
    ("t --queue=-1", 2, "--queue"),
    ("own --queue 0", 1, "own queue 0 queue offset 0 did not come from Kafka"),
    ("nowhere --queue 0", 2, "no topic 'nowhere' in this store"),
    ("t", 2, "give --topic, and --partition"),
    ("t --partition 0", 2, "--partition needs --id"),
]


@pytest.mark.parametrize(("question", "code", "answer"), QUEUES, ids=[one[0] for one in QUEUES])
def test_query_of_a_queue_offset(
    store: str, question: str, code: int, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bridge", "offset-map", store, "--topic", *question.split()]) == code
    out, error = capsys.readouterr()
    assert answer in (error if code == 2 else out)


def test_path_without_a_store_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (tmp_path / "nowhere", tmp_path.parent):
        asked = ["bridge", "offset-map", str(path), "--id", "b", "--topic", "t", "--partition", "0"]
        assert run(asked) == 2
        assert capsys.readouterr().err.startswith(f"error: {path}: ")
