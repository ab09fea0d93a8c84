"""Failures on either side raise the right error, with the place and the exit code."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka.errors import KafkaError, ProducerFencedError

from rocketflow.errors import UsageError
from rocketflow.kafka.client import clients
from rocketflow.kafka.client.clients import as_bridge_error
from rocketflow.kafka.errors import (
    DataLossError,
    FencedBridgeError,
    KafkaRefusedError,
    KafkaUnreachableError,
    MessageRefusedError,
    TopicMissingError,
    TopicNameError,
)
from rocketflow.kafka.into_kafka import copy_out
from rocketflow.kafka.into_kafka.copy_out import StoreToKafka
from rocketflow.kafka.into_store.copy_in import KafkaToStore
from rocketflow.kafka.into_store.store_commit import CommitOutcome, PartsCommit
from rocketflow.kafka.into_store.store_port import StorePort
from rocketflow.kafka.options.bridge_options import parse
from rocketflow.kafka.shared.mark import Mark
from rocketflow.kafka.shared.run_state import StopRequest
from rocketflow_store import CorruptRecordError, Message, MessageStore
from rocketflow_store.model.errors import StoreLockedError
from tests.rocketflow.kafka.bridging import Sent, Topics, bridge, bridge_process, finished, options, small_store, stored
from tests.support.kafka_broker import KafkaBroker
from tests.support.trials import FULL

pytestmark = pytest.mark.kafka
Name = Callable[[str], str]


def some(count: int, size: int = 10) -> list[Sent]:
    return [Sent(b"k", b"%d" % number + b"x" * size) for number in range(count)]


def test_missing_topic_or_illegal_topic_name_raises(topics: Topics, store: str, name: Name) -> None:
    with pytest.raises(TopicMissingError, match="no topic nowhere"):
        bridge("kafka-to-store", topics.address, store, "--topics", "nowhere")
    long = "l" * 200
    topics.create(long, partitions=1)
    with pytest.raises(TopicNameError, match=r"at most 127.*give --map"):
        bridge("kafka-to-store", topics.address, store, "--topics", long)
    assert bridge("kafka-to-store", topics.address, store, "--topics", long, "--map", f"{long}=short").exit_code == 0
    source = name("native")
    with MessageStore.open(store, small_store(Path(store))) as opened:
        opened.put_message(Message(source, b"x", queue_id=0))
    with pytest.raises(TopicMissingError, match="--create-topics"):
        bridge("store-to-kafka", topics.address, store, "--topics", source)
    with pytest.raises(TopicMissingError, match="has no topic nowhere"):
        bridge("store-to-kafka", topics.address, store, "--topics", "nowhere")


def test_messages_that_the_store_refuses_raise_or_are_quarantined(topics: Topics, store: str, name: Name) -> None:
    source = name("big")
    topics.create(source, partitions=1)
    sent = [*some(3), Sent(b"big", b"B" * 200_000), Sent(b"h" * 40_000, b"v"), *some(2)]
    topics.send(source, sent, 0)
    conf = Path(store).parent / "limit.conf"
    conf.write_text("maxMessageSize=100000\nmappedFileSizeCommitLog=16777216\n")
    asked = ["--topics", source, "--id", source]
    with pytest.raises(
        MessageRefusedError, match=f"{source} partition 0 offset 3: body of 200000 bytes.*maxMessageSize"
    ):
        bridge("kafka-to-store", topics.address, store, *asked, "--config", str(conf))
    done = bridge("kafka-to-store", topics.address, store, *asked, "--config", str(conf), "--on-refused", "quarantine")
    assert (done.rows, done.quarantined, done.exit_code) == (5, 2, 3)
    refused = stored(store, "KAFKA_QUARANTINE")[0]
    assert [(row["KAFKA_OFFSET"], row["KAFKA_VALUE_SIZE"]) for _, row in refused] == [("3", "200000"), ("4", "1")]
    assert refused[0][0] == b"B" * 65536
    assert [row["KAFKA_OFFSET"] for _, row in stored(store, source)[0]] == ["0", "1", "2", "5", "6"]


def test_messages_larger_than_kafka_accepts_raise_or_are_quarantined(topics: Topics, store: str, name: Name) -> None:
    source, refused = name("big"), name("refused")
    topics.create(source, partitions=1, **{"max.message.bytes": "50000"})
    with MessageStore.open(store, small_store(Path(store))) as opened:
        opened.create_topic(source, 1)
        opened.put_messages([Message(source, body, queue_id=0) for body in (b"a", b"B" * 60_000, b"c")])
    asked = ["--topics", source, "--id", source, "--quarantine-topic", refused]
    with pytest.raises(
        MessageRefusedError,
        match=f"topic {source} queue 0 queue offset 1: 60123 bytes as a record batch before compression, "
        "the topic's max.message.bytes is 50000",
    ):
        bridge("store-to-kafka", topics.address, store, *asked)
    assert topics.read(source, 1) == {0: []}  # the first message was aborted with the transaction
    done = bridge("store-to-kafka", topics.address, store, *asked, "--on-refused", "quarantine")
    assert (done.rows, done.quarantined, done.exit_code) == (2, 1, 3)
    assert [one.value for one in topics.read(source, 1)[0]] == [b"a", b"c"]
    assert dict(topics.read(refused, 1)[0][0].headers)["rocketmq.origin"] == f"{source}:0:1".encode()


def test_missing_key_and_disallowed_timestamp_raise_or_are_quarantined(topics: Topics, store: str, name: Name) -> None:
    source, refused = name("odd"), name("refused")
    topics.create(source, partitions=1, **{"cleanup.policy": "compact"})
    in_2100 = 4_102_444_800_000
    with MessageStore.open(store, small_store(Path(store))) as opened:
        opened.create_topic(source, 1)
        opened.put_messages(
            [
                Message(source, b"fine", queue_id=0, keys="k"),
                Message(source, b"keyless", queue_id=0),
                Message(source, b"early", queue_id=0, keys="k", born_timestamp=in_2100),
            ]
        )
    asked = ["--topics", source, "--id", source, "--quarantine-topic", refused]
    with pytest.raises(MessageRefusedError, match=f"topic {source} queue 0 queue offset 1: it has no key"):
        bridge("store-to-kafka", topics.address, store, *asked)
    done = bridge("store-to-kafka", topics.address, store, *asked, "--on-refused", "quarantine")
    assert (done.rows, done.quarantined, done.exit_code) == (1, 2, 3)
    why = [dict(one.headers)["refused"] for one in topics.read(refused, 1)[0]]
    reason = b"its timestamp is %d ms, which the topic's message.timestamp.after.max.ms does not allow"
    assert why[1] == reason % in_2100


def test_message_that_kafka_refuses_unforeseen_is_found_and_raises_or_is_quarantined(
    topics: Topics, store: str, name: Name, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, refused = name("odd"), name("refused")
    topics.create(source, partitions=2, **{"message.timestamp.after.max.ms": "3600000"})
    now_ms, ahead_ms = clients.now_ms(), 7_200_000
    with MessageStore.open(store, small_store(Path(store))) as opened:
        opened.create_topic(source, 2)
        opened.put_messages(
            Message(source, b"%d" % one, queue_id=one % 2, born_timestamp=now_ms + ahead_ms * (one == 9))
            for one in range(16)
        )
    monkeypatch.setattr(copy_out, "RETRY_S", 0)
    monkeypatch.setattr(clients, "now_ms", lambda: now_ms + ahead_ms)  # the clock of the bridge's host
    asked = ["--topics", source, "--id", source, "--quarantine-topic", refused]
    with pytest.raises(MessageRefusedError, match=f"topic {source} queue 1 queue offset 4: .*InvalidTimestamp"):
        bridge("store-to-kafka", topics.address, store, *asked)
    done = bridge("store-to-kafka", topics.address, store, *asked, "--on-refused", "quarantine")
    assert (done.quarantined, done.exit_code, done.lag_messages) == (1, 3, 0)
    copied = topics.read(source)
    of_queue = [[int(one.value or b"") for one in copied[queue]] for queue in (0, 1)]
    assert of_queue == [[0, 2, 4, 6, 8, 10, 12, 14], [1, 3, 5, 7, 11, 13, 15]]
    (kept,) = topics.read(refused, 1)[0]
    assert (kept.value, b"InvalidTimestamp" in (dict(kept.headers)["refused"] or b"")) == (b"9", True)


def test_messages_deleted_before_the_copy_raise_or_are_counted_as_lost(topics: Topics, store: str, name: Name) -> None:
    from kafka import TopicPartition

    source = name("t")
    topics.create(source, partitions=1)
    topics.send(source, some(10), 0)
    asked = ["--topics", source, "--id", source]
    bridge("kafka-to-store", topics.address, store, *asked)
    topics.send(source, some(10), 0)
    topics.admin.delete_records({TopicPartition(source, 0): 15})
    with pytest.raises(DataLossError, match=f"{source} partition 0: offsets 10 to 14 were deleted"):
        bridge("kafka-to-store", topics.address, store, *asked)
    done = bridge("kafka-to-store", topics.address, store, *asked, "--on-data-loss", "continue")
    assert (done.rows, done.lost, done.exit_code, done.progress) == (5, 5, 3, {source: {"0": 20}})


def test_corrupt_record_batch_stops_the_bridge(broker: KafkaBroker, topics: Topics, store: str, name: Name) -> None:
    source = name("t")
    topics.create(source, partitions=1)
    topics.send(source, some(3), 0)
    bridge("kafka-to-store", topics.address, store, "--topics", source, "--id", source)
    topics.send(source, some(3), 0)
    log = broker.data / f"{source}-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[-5] ^= 1
    log.write_bytes(data)
    with pytest.raises(KafkaRefusedError, match=r"corrupt.*offset 3"):
        bridge("kafka-to-store", topics.address, store, "--topics", source, "--id", source)
    assert len(stored(store, source)[0]) == 3


def test_second_bridge_of_an_id_fences_the_first(
    topics: Topics, store: str, name: Name, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, back = name("t"), name("back")
    topics.create(source, back)
    topics.send(source, some(40))
    asked = options("kafka-to-store", topics.address, store, "--topics", source, "--id", source, "--until-caught-up")
    first = KafkaToStore(asked, StopRequest())

    commit, commits = StorePort.commit, []

    def slowly(port: StorePort, action: PartsCommit) -> CommitOutcome:
        commits.append(port)
        if len(commits) == 1:
            first.run()  # the other bridge commits first
        return commit(port, action)

    monkeypatch.setattr(StorePort, "commit", slowly)
    with pytest.raises(FencedBridgeError, match=r"another bridge with the same id copied .* meanwhile"):
        KafkaToStore(asked, StopRequest()).run()
    monkeypatch.undo()
    assert sum(map(len, stored(store, source).values())) == 40

    out = options("store-to-kafka", topics.address, store, "--topics", source, "--map", f"{back}={source}",
                  "--id", source, "--until-caught-up")  # fmt: skip

    encode_mark, marks = copy_out.encode_mark, []

    def overtaken(mark: Mark) -> bytes:
        marks.append(mark)
        if len(marks) == 1:  # the messages are sent, but not yet their mark
            assert StoreToKafka(out, StopRequest()).run().rows == 40
        return encode_mark(mark)

    monkeypatch.setattr(copy_out, "encode_mark", overtaken)
    with pytest.raises(FencedBridgeError, match="fenced by another bridge that started with the same id"):
        StoreToKafka(out, StopRequest()).run()
    assert sum(map(len, topics.read(back).values())) == 40


def test_damaged_message_of_the_store_stops_the_copy_or_counts_as_lost(topics: Topics, store: str, name: Name) -> None:
    source, back = name("t"), name("back")
    topics.create(source, back)
    topics.send(source, [*some(5), Sent(b"k", b"<damaged>"), *some(5)])
    bridge("kafka-to-store", topics.address, store, "--topics", source, "--id", source)
    (log,) = (Path(store) / "commitlog").iterdir()
    raw = bytearray(log.read_bytes())
    raw[raw.index(b"<damaged>")] ^= 1
    log.write_bytes(raw)
    asked = ["--topics", source, "--map", f"{back}={source}", "--id", source]
    with pytest.raises(CorruptRecordError, match="queue offset 2"):
        bridge("store-to-kafka", topics.address, store, *asked)
    done = bridge("store-to-kafka", topics.address, store, *asked, "--on-data-loss", "continue")
    assert (done.rows, done.lost, done.exit_code) == (10, 1, 3)
    assert sum(map(len, topics.read(back).values())) == 10


def test_store_locked_by_another_writer_raises_exit_code_75(topics: Topics, store: str, name: Name) -> None:
    source = name("t")
    topics.create(source)
    asked = ["--topics", source, "--lock-timeout-ms", "0"]
    with MessageStore.open(store, small_store(Path(store))), pytest.raises(StoreLockedError) as error:
        bridge("kafka-to-store", topics.address, store, *asked)
    assert error.value.exit_code == 75


@pytest.mark.parametrize("direction", ["kafka-to-store", "store-to-kafka"] if FULL else ["store-to-kafka"])
def test_password_is_not_printed_with_debug(store: str, direction: str) -> None:
    with MessageStore.open(store, small_store(Path(store))) as opened:
        opened.put_message(Message("orders", b"x", queue_id=0))
    with socket.socket() as listening:  # accepts, and never answers
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        secrets = Path(store).parent / "secret.properties"
        secrets.write_text("sasl_mechanism=PLAIN\nsecurity.protocol=SASL_PLAINTEXT\nsasl_plain_username=me\n")
        process = bridge_process(
            direction, f"127.0.0.1:{listening.getsockname()[1]}", store, "--topics", "orders", "--kafka-config",
            str(secrets), "--kafka-option", "sasl_plain_password=h1dden-pass", "--kafka-option",
            "bootstrap_timeout_ms=1000", "--debug",
        )  # fmt: skip
        out, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "KafkaUnreachableError" in error
    assert "h1dden" not in out + error


def test_unreachable_kafka_raises_and_a_stop_ends_the_wait(store: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(KafkaUnreachableError, match=f"Kafka at {address} does not answer"):
            bridge("kafka-to-store", address, store, "--topics", "t", "--kafka-option", "bootstrap_timeout_ms=500")
        if not FULL:
            return
        process = bridge_process("kafka-to-store", address, store, "--topics", "t")
        threading.Timer(2.0, process.terminate).start()
        code, _, error = finished(process, 30)
    assert code in (0, 143), error


def test_invalid_options_raise_usage_errors(store: str) -> None:
    for arguments, why in (
        ([], "no topics"),
        (["--topics", "a*"], "--topics-pattern"),
        (["--topics", "a", "--map", "a"], "kafka.topic=store_topic"),
        (["--topics", "a", "--map", "a=rmq_sys_x"], "a system topic of the store"),
        (["--topics", "a", "--map", "a=../x"], "may hold only"),
        (["--topics", "a", "--kafka-option", "acks=1"], "set by the bridge"),
        (["--topics", "a", "--kafka-option", "sasl_pasword"], "key=value"),
        (["--topics", "a", "--by-key"], "has no meaning"),
        (["--topics", "a", "--queues", "0"], "at least 1"),
        (["--topics", "a", "--id", "a b"], "letters, digits"),
        (["--topics-pattern", "("], "--topics-pattern"),
        (["--topics", "a", "--kafka-option", "security.protocol=SASL_SLL"], "one of PLAINTEXT, SSL"),
        (["--topics", "a", "--kafka-option", "sasl.mechanism=FOO"], "one of PLAIN, SCRAM"),
    ):
        with pytest.raises(UsageError, match=why):
            bridge("kafka-to-store", "127.0.0.1:1", store, *arguments)
    for address in ("localhost:abc", "localhost:0", ":9092", " , "):
        with pytest.raises(UsageError, match="--bootstrap"):
            bridge("kafka-to-store", address, store, "--topics", "a")
    with pytest.raises(UsageError, match=r"fetch_max_bytse.*did you mean fetch_max_bytes"):
        bridge("kafka-to-store", "127.0.0.1:1", store, "--topics", "a", "--kafka-option", "fetch_max_bytse=1")


def test_client_options_hide_secrets(tmp_path: Path) -> None:
    from rocketflow.kafka.options.client_options import parse_options

    authority = tmp_path / "ca.pem"
    authority.touch()
    given = parse_options(
        ["sasl.password=pa55", "ssl_password=w0rd", f"ssl.ca.location={authority}", "fetch_max_bytes=9"], ()
    )
    assert "pa55" not in repr(given) + str(given)
    spelt = parse_options(["security.protocol=sasl_ssl", "sasl.mechanism=scram-sha-256"], ())
    assert spelt.shown() == {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-256"}
    assert spelt.secured
    assert "w0rd" not in str(given.shown())
    assert given.hide("refused pa55 and w0rd") == "refused *** and ***"
    kept = given.for_client(
        {"sasl_plain_password": None, "ssl_cafile": None, "ssl_password": None, "fetch_max_bytes": 1}
    )
    assert kept == {
        "sasl_plain_password": "pa55", "ssl_password": "w0rd", "ssl_cafile": str(authority), "fetch_max_bytes": 9
    }  # fmt: skip
    with pytest.raises(UsageError, match=r"max_poll_interval_ms=.*: must be of type int") as error:
        parse_options(["max_poll_interval_ms=pa55word"], ()).for_client({"max_poll_interval_ms": 5})
    assert error.value.exit_code == 2


def test_error_caused_by_fencing_is_a_fenced_error() -> None:
    asked = options("store-to-kafka", "127.0.0.1:1", "/nowhere", "--topics", "t")
    known = KafkaError("cannot send after a failure", ProducerFencedError())
    assert isinstance(as_bridge_error(asked, known), FencedBridgeError)


def test_default_id_depends_on_the_mapped_names() -> None:
    """Under the progress of the first id, a bridge with another `--map` would copy nothing."""

    def id_of(*more: str) -> str:
        asked = ["--bootstrap", "127.0.0.1:9092", "--store", "s", "--topics", "a,b", *more]
        return parse(asked, program="bridge", direction="kafka-to-store", example="").bridge_id

    assert id_of() == id_of()
    ids = [id_of(), id_of("--map", "a=one"), id_of("--map", "a=two"), id_of("--map", "a=two", "--map", "b=c")]
    assert len(set(ids)) == len(ids)
    assert id_of("--map", "b=c", "--map", "a=two") == ids[-1]


def test_pattern_without_a_matching_topic_is_caught_up(topics: Topics, store: str) -> None:
    done = bridge("kafka-to-store", topics.address, store, "--topics-pattern", "no-such-topic-.*", "--until-caught-up")
    assert (done.rows, done.caught_up, done.exit_code) == (0, True, 0)
